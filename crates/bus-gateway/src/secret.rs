//! The secret of a door: who has it may change something through it.

use std::fmt;

use bus_crypto::Entropy;
use data_encoding::BASE64URL_NOPAD;
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use crate::GatewayError;

/// What clients send as `Authorization: Bearer SECRET`: 43 letters, digits, `-` and `_`.
///
/// Wiped on drop, compared in constant time, shown by nobody. It has no `Clone`.
pub struct DoorSecret(Zeroizing<String>);

impl DoorSecret {
    /// How many characters one has: 32 random bytes in base64url.
    pub const CHARS: usize = 43;

    /// Draws a new one.
    ///
    /// # Errors
    /// [`GatewayError::Entropy`] when the source fails.
    pub fn generate(entropy: &dyn Entropy) -> Result<Self, GatewayError> {
        let mut bytes = Zeroizing::new([0; 32]);
        entropy.fill(bytes.as_mut_slice()).map_err(|_| GatewayError::Entropy)?;
        // The capacity is exact: a growing string would leave unwiped copies behind.
        let mut text = Zeroizing::new(String::with_capacity(Self::CHARS));
        BASE64URL_NOPAD.encode_append(bytes.as_slice(), &mut text);
        Ok(Self(text))
    }

    /// Reads one as it stands in a file; one final line feed is dropped.
    ///
    /// # Errors
    /// [`GatewayError::BadSecret`] for another text, which is not quoted.
    pub fn parse(text: &str) -> Result<Self, GatewayError> {
        let text = text.strip_suffix('\n').unwrap_or(text);
        let is_one = |c: u8| c.is_ascii_alphanumeric() || c == b'-' || c == b'_';
        if text.len() != Self::CHARS || !text.bytes().all(is_one) {
            return Err(GatewayError::BadSecret);
        }
        let mut kept = Zeroizing::new(String::with_capacity(Self::CHARS));
        kept.push_str(text);
        Ok(Self(kept))
    }

    /// Its text, for a file that only its owner can read.
    #[must_use]
    pub fn to_text(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(Self::CHARS + 1));
        text.push_str(&self.0);
        text.push('\n');
        text
    }

    /// Tells in constant time whether this is what somebody sent (the length is not hidden).
    pub(crate) fn is(&self, sent: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(sent).into()
    }
}

impl fmt::Debug for DoorSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DoorSecret(..)")
    }
}

#[cfg(test)]
mod tests {
    use bus_crypto::SystemEntropy;

    use super::*;

    #[test]
    fn what_was_written_is_read_again_and_is_the_same() {
        let made = DoorSecret::generate(&SystemEntropy::new()).unwrap();
        let read = DoorSecret::parse(&made.to_text()).unwrap();
        assert!(read.is(made.0.as_bytes()));
        assert_eq!(made.0.len(), DoorSecret::CHARS);
    }

    #[test]
    fn two_are_not_the_same_and_a_part_is_not_the_whole() {
        let [a, b] = [(); 2].map(|()| DoorSecret::generate(&SystemEntropy::new()).unwrap());
        assert!(!a.is(b.0.as_bytes()));
        assert!(!a.is(&a.0.as_bytes()[..42]));
        assert!(!a.is(b""));
    }

    #[test]
    fn another_text_is_refused_and_not_quoted() {
        let long = "x".repeat(44);
        for text in ["", "canary", &long, &format!("{} {}", &long[..21], &long[..21])] {
            let error = DoorSecret::parse(text).unwrap_err().to_string();
            assert!(!error.contains("canary") && !error.contains("xx"), "{error}");
        }
    }

    #[test]
    fn nobody_shows_it() {
        let secret = DoorSecret::parse(&"s".repeat(43)).unwrap();
        assert_eq!(format!("{secret:?}"), "DoorSecret(..)");
    }
}
