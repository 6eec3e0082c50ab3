//! Credentials files: a token and the seed it belongs to.

use bus_crypto::creds;

use crate::laws;

/// What is read is written in the one form of the NATS tools and read again as the same; neither
/// token nor seed shows.
pub fn body(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else { return false };
    match laws::bounded(data, || creds::parse(text)) {
        Ok(read) => {
            let written = creds::render(read.jwt(), read.key());
            let again = creds::parse(&written).expect("credentials that were written can be read");
            assert_eq!(again.jwt(), read.jwt(), "the token is another one");
            assert_eq!(again.key().seed_text(), read.key().seed_text(), "the seed is another one");
            assert_eq!(creds::render(again.jwt(), again.key()), written, "not stable");
            let shown = format!("{read:?}");
            assert!(!shown.contains(read.jwt()), "the token shows");
            assert!(!shown.contains(read.key().seed_text().as_str()), "the seed shows");
            true
        }
        Err(error) => {
            laws::error_is_brief(&error);
            false
        }
    }
}
