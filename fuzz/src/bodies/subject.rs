//! Subjects, tokens, names and registered addresses: one text each.

use bus_subjects::{
    Address, AgentId, BucketKey, BucketName, ConsumerName, Filter, StreamName, Subject,
    SubjectError, Token, WorkspaceId,
};

use crate::laws;

/// What is read is written as it was; a subject is a filter without wildcards; escaping is undone.
pub fn body(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else { return false };
    tokens(text);
    names(text);
    let subject = laws::bounded(data, || Subject::parse(text));
    let literal = Filter::parse(text).is_ok_and(|filter| filter.is_literal());
    assert_eq!(subject.is_ok(), literal, "subjects and literal filters are not the same texts");
    match subject {
        Ok(subject) => {
            assert_eq!(subject.as_str(), text, "the subject is another text");
            assert!(text.len() <= Subject::BYTES_MAX, "too long");
            assert!(subject.levels().all(|level| !level.is_empty()), "an empty level");
            assert!(Filter::from(&subject).matches(&subject), "a subject does not match itself");
            address(&subject);
            true
        }
        Err(error) => {
            laws::error_is_brief(&error);
            false
        }
    }
}

fn address(subject: &Subject) {
    match Address::parse(subject) {
        Ok(address) => {
            assert_eq!(address.subject(), *subject, "an address is written otherwise");
            let all = Address::filter_workspace(address.workspace());
            assert!(all.matches(subject), "an address outside its workspace");
        }
        Err(error) => brief(&error),
    }
}

fn tokens(text: &str) {
    match Token::escape("name", text) {
        Ok(token) => {
            assert_eq!(token.unescape("name").as_deref(), Ok(text), "escaping is not undone");
            assert_eq!(Token::parse("name", token.as_str()), Ok(token), "an escape is no token");
        }
        Err(error) => laws::error_is_brief(&error),
    }
    if let Ok(token) = Token::parse("name", text) {
        assert_eq!(token.as_str(), text, "the token is another text");
        assert!(Subject::parse(text).is_ok(), "a token is no level");
        if let Ok(name) = token.unescape("name") {
            assert_eq!(Token::escape("name", &name), Ok(token), "two escapes of one name");
        }
    }
}

fn names(text: &str) {
    let same = |written: String| assert_eq!(written, text, "the name is another text");
    if let Ok(name) = WorkspaceId::parse(text) {
        same(name.to_string());
        assert!(BucketName::of_workspace("VAK_CLAIMS", &name).is_ok(), "no bucket for it");
    }
    AgentId::parse(text).map_or_else(|error| brief(&error), |id| same(id.to_string()));
    StreamName::parse(text).map_or_else(|error| brief(&error), |name| same(name.to_string()));
    ConsumerName::parse(text).map_or_else(|error| brief(&error), |name| same(name.to_string()));
    BucketName::parse(text).map_or_else(|error| brief(&error), |name| same(name.to_string()));
    if let Ok(key) = BucketKey::parse(text) {
        same(key.to_string());
        let bucket = BucketName::parse("b").expect("a bucket");
        let subject = bucket.key_subject(&key);
        assert!(bucket.all_keys().matches(&subject), "a key outside its bucket");
    }
}

/// An error may quote the whole subject, which is bounded by itself.
fn brief(error: &SubjectError) {
    let most = Subject::BYTES_MAX * 8 + 128;
    assert!(error.to_string().len() <= most, "an error without a bound");
}
