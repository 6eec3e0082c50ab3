//! Lists of `name=value` as the variables of OpenTelemetry hold them.

use std::fmt;

use percent_encoding::percent_decode_str;

/// A name and its value. `Debug` shows the name alone: the value of a header is mostly a login.
#[derive(Clone, PartialEq, Eq)]
pub struct Pair {
    /// The name.
    pub name: String,
    /// The value, decoded.
    pub value: String,
}

/// Why a list of pairs is refused. Holds nothing of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PairsError {
    /// Which of its members is meant, the first being 1.
    pub member: usize,
}

/// Reads `name=value,name=value`, where values are percent-encoded, as in W3C baggage. White space
/// round names and values is ignored, and so are empty members. A `;` is part of its value: headers
/// have such, and no metadata as baggage has.
///
/// # Errors
/// [`PairsError`] for a member without `=`, without a name, or whose value is no UTF-8.
pub fn pairs(text: &str) -> Result<Vec<Pair>, PairsError> {
    let mut pairs = Vec::new();
    for (at, member) in text.split(',').enumerate() {
        let refused = PairsError { member: at + 1 };
        let member = member.trim();
        if member.is_empty() {
            continue;
        }
        let (name, value) = member.split_once('=').ok_or(refused)?;
        let (name, value) = (name.trim(), value.trim());
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(refused);
        }
        let value = percent_decode_str(value).decode_utf8().map_err(|_| refused)?;
        pairs.push(Pair { name: name.to_owned(), value: value.into_owned() });
    }
    Ok(pairs)
}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pair").field("name", &self.name).finish_non_exhaustive()
    }
}

impl fmt::Display for PairsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let member = self.member;
        write!(f, "expected name=value with commas between them; number {member} is none")
    }
}

impl std::error::Error for PairsError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(String, String)> {
        let pairs = pairs(text).unwrap();
        pairs.into_iter().map(|pair| (pair.name, pair.value)).collect()
    }

    #[test]
    fn values_are_percent_decoded_and_white_space_is_ignored() {
        let read = read(" authorization = Basic%20abc== ,, x-y=%C3%A9 ,");
        let expected = [("authorization", "Basic abc=="), ("x-y", "é")];
        assert_eq!(read, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn a_semicolon_is_part_of_a_value() {
        let expected = [("cookie".to_owned(), "a=1; b=2".to_owned())];
        assert_eq!(read("cookie=a=1; b=2"), expected);
    }

    #[test]
    fn a_member_that_is_no_pair_is_told_by_its_number_and_never_shown() {
        for text in ["a=1,canary", "a=1,=canary", "a=1,can ary=2", "a=1,b=%FFcanary"] {
            let error = pairs(text).unwrap_err();
            assert_eq!(error.member, 2, "{text}");
            assert!(!format!("{error} {error:?}").contains("canary"), "{error}");
        }
    }

    #[test]
    fn the_value_of_a_pair_is_not_in_its_debug() {
        let shown = format!("{:?}", pairs("authorization=canary").unwrap());
        assert!(shown.contains("authorization") && !shown.contains("canary"), "{shown}");
    }
}
