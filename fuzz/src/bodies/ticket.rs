//! Tickets: one text for one content, and nobody's signature but the account's.

use bus_core::EntryTicket;
use data_encoding::BASE64URL_NOPAD;

use crate::{golden, laws};

/// What is read is what our account would sign, word for word.
///
/// Input that is no ticket's text is also taken as what one says, and signed with the golden key.
pub fn body(data: &[u8]) -> bool {
    let whole = std::str::from_utf8(data).is_ok_and(|text| judge(data, text));
    if data.starts_with(EntryTicket::PREFIX.as_bytes()) {
        return whole;
    }
    judge(data, &signed(data)) || whole
}

/// What a ticket says, as this body takes it; `None` when it is no ticket.
#[must_use]
pub fn said_of(text: &str) -> Option<Vec<u8>> {
    BASE64URL_NOPAD.decode(text.split('.').nth(1)?.as_bytes()).ok()
}

fn judge(data: &[u8], text: &str) -> bool {
    let account = golden::account();
    match laws::bounded(data, || EntryTicket::parse(text, |_| Ok(*account.public()))) {
        Ok(read) => {
            assert!(text.len() <= EntryTicket::TEXT_BYTES_MAX, "a text of {} bytes", text.len());
            let signed = read.sign(account).expect("our account is the issuer");
            assert_eq!(signed.as_str(), text, "what was read is signed as another text");
            true
        }
        Err(error) => {
            laws::error_is_brief(&error);
            false
        }
    }
}

fn signed(said: &[u8]) -> String {
    const TAG: &[u8] = b"\x11\0vak-bus/ticket/v1";
    let signature = golden::account().sign(&[TAG, said].concat());
    let [said, signature] = [said, &signature].map(|part| BASE64URL_NOPAD.encode(part));
    format!("{}{said}.{signature}", EntryTicket::PREFIX)
}
