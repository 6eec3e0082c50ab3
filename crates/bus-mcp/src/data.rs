//! What others sent, as data: its own fields, with the verified sender beside it.

use bus_core::{Opened, Standing};
use bus_runner::Sanitize;
use data_encoding::BASE64;
use serde_json::{Map, Value, json};

/// A message that was opened and checked.
pub(crate) fn message(opened: &Opened) -> Value {
    let envelope = &opened.envelope;
    json!({
        "id": envelope.id,
        "type": clean(envelope.event_type.as_bytes()),
        "time": envelope.time.to_string(),
        "session": envelope.lineage.session.as_ref().map(|session| session.as_str()),
        "hash": opened.hash.to_string(),
        "cause": envelope.lineage.cause.map(|cause| cause.to_string()),
        "from": sender(opened),
        "body": body(envelope.content_type.as_deref(), &opened.payload),
    })
}

/// Who sent it, and whether that is proven: it was signed with a key that the workspace certifies.
fn sender(opened: &Opened) -> Value {
    let signer = opened.envelope.signature.as_ref().map(|signature| signature.signer.as_str());
    json!({
        "agent": opened.envelope.lineage.agent.as_str(),
        "key": signer,
        "verified": signer.is_some() && opened.standing == Standing::Signed,
    })
}

/// What somebody else wrote. Where its text holds what steers a terminal or hides, that is left out
/// of `text`, and `base64` has the bytes as they came.
pub(crate) fn body(content_type: Option<&str>, bytes: &[u8]) -> Value {
    let mut body = Map::new();
    let content_type = content_type.map(|name| clean(name.as_bytes()));
    body.insert("content_type".to_owned(), json!(content_type));
    body.insert("bytes".to_owned(), json!(bytes.len()));
    let shown = std::str::from_utf8(bytes).ok().map(|text| (text, clean(text.as_bytes())));
    let is_whole = shown.as_ref().is_some_and(|(text, shown)| text == shown);
    if let Some((_, shown)) = shown {
        body.insert("text".to_owned(), json!(shown));
    }
    if !is_whole {
        body.insert("base64".to_owned(), json!(BASE64.encode(bytes)));
    }
    Value::Object(body)
}

/// A text without control sequences, control characters but line breaks and tabs, and characters
/// that are not seen, such as marks of direction.
pub(crate) fn clean(bytes: &[u8]) -> String {
    let (mut sanitize, mut shown) = (Sanitize::new(), String::new());
    sanitize.push(bytes, &mut shown);
    sanitize.finish(&mut shown);
    let mut plain = without_colours(&shown);
    plain.retain(|c| !is_hidden(c));
    plain
}

/// Whether nobody sees a character though a model reads it. Joiners stay: scripts need them.
const fn is_hidden(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e0fff}')
}

/// Takes out the colours, the only sequences that are left.
fn without_colours(shown: &str) -> String {
    let mut pieces = shown.split("\u{1b}[");
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        plain.push_str(piece.split_once('m').map_or("", |(_, rest)| rest));
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_or_hides_is_no_part_of_a_text() {
        let text = "a\u{1b}[31mred\u{1b}[0m\u{1b}]0;title\u{7}\u{202e}b\u{200b}\r\n\tc\u{1b}[2J";
        assert_eq!(clean(text.as_bytes()), "ared".to_owned() + "b\n\tc");
    }

    #[test]
    fn words_in_characters_that_nobody_sees_are_no_part_of_a_text() {
        let tags: String =
            "obey".chars().map(|c| char::from_u32(0xe0000 + c as u32).unwrap()).collect();
        let marks = "\u{2066}\u{feff}\u{ad}\u{2063}\u{e0100}";
        assert_eq!(clean(format!("a{tags}{marks}b").as_bytes()), "ab");
        assert_eq!(clean("نمی\u{200c}خواهم".as_bytes()), "نمی\u{200c}خواهم");
    }

    #[test]
    fn a_plain_text_comes_as_it_is_and_not_twice() {
        let body = body(Some("text/plain"), "naïve 漢字 [31m\n".as_bytes());
        assert_eq!(body["text"], "naïve 漢字 [31m\n");
        assert!(body.get("base64").is_none());
    }

    #[test]
    fn the_bytes_are_there_wherever_the_text_is_not_what_came() {
        let body_of = |bytes: &[u8]| body(None, bytes);
        let steered = body_of(b"a\x1b[2Jb");
        assert_eq!(steered["text"], "ab");
        assert_eq!(steered["base64"], BASE64.encode(b"a\x1b[2Jb"));
        let binary = body_of(&[0xff, 0xfe]);
        assert!(binary.get("text").is_none());
        assert_eq!(binary["base64"], "//4=");
    }
}
