//! Sizes in bytes, as people write them.

/// The bytes that `text` says: a whole number, alone or with B, KiB, MiB or GiB (kB, MB and GB for
/// thousands).
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim_start();
    let known = UNITS.iter().find(|(name, _)| unit.eq_ignore_ascii_case(name));
    let bytes = match (number.parse::<u64>(), known) {
        (Ok(number), Some((_, factor))) => number.checked_mul(*factor),
        _ => return Err("expected a size in bytes (examples: 4096, 64KiB, 100MB, 1GiB)".to_owned()),
    };
    bytes.ok_or_else(|| "that is more than any machine holds".to_owned())
}

const UNITS: [(&str, u64); 8] = [
    ("", 1),
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
];

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn a_size_is_read_as_people_write_it() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("64KiB", 65_536),
            ("64 mib", 64 << 20),
            ("1GiB", 1 << 30),
            ("100MB", 100_000_000),
            ("5b", 5),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused_with_an_example() {
        for text in ["", "MiB", "-1", "1.5MiB", "1XB", "1 2", "99999999999999999999"] {
            assert!(size(text).unwrap_err().contains("64KiB"), "{text}");
        }
        assert!(size("99999999999GiB").is_err());
    }
}
