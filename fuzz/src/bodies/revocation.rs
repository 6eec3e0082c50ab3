//! Revocations: one text for one content, and nobody's signature but the account's.

use bus_core::Revocation;

use crate::{golden, laws};

/// What is read is what our account would sign, word for word, and something that it did sign.
pub fn body(data: &[u8]) -> bool {
    let Ok(line) = std::str::from_utf8(data) else { return false };
    let account = golden::account();
    match laws::bounded(data, || Revocation::parse(line, account.public())) {
        Ok(read) => {
            assert!(line.len() <= Revocation::LINE_BYTES_MAX, "a line of {} bytes", line.len());
            let signed = read.sign(account).expect("our account is the issuer");
            assert_eq!(signed, line, "what was read is signed as another line");
            assert!(golden::revocations().contains(&read), "a signature fits what nobody signed");
            true
        }
        Err(error) => {
            laws::error_is_brief(&error);
            false
        }
    }
}
