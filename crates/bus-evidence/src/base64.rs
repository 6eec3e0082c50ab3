//! Canonical base64: one text for one content.

use data_encoding::BASE64;

/// Reads padded base64 in its one canonical form; none otherwise.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let bytes = BASE64.decode(text.as_bytes()).ok()?;
    // The decoder takes padded parts one after the other.
    (BASE64.encode(&bytes) == text).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padded_parts_one_after_the_other_are_refused() {
        assert_eq!(decode("e30="), Some(b"{}".to_vec()));
        assert!(BASE64.decode(b"e30=e30=").is_ok());
        assert_eq!(decode("e30=e30="), None);
    }

    #[test]
    fn bits_that_are_dropped_are_refused() {
        assert_eq!(decode("e31="), None);
        assert_eq!(decode("e30"), None);
    }
}
