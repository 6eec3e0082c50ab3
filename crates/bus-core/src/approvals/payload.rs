//! What is asked and what is answered, as it is written.

use serde::{Deserialize, Serialize};

use crate::{Error, ErrorKind, Result};

/// What somebody asks for, as the request's payload (JSON).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalRequest(RequestForm);

/// The answer to a request, as the verdict's payload (JSON).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalVerdict(VerdictForm);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestForm {
    action: String,
    target: String,
    choices: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct VerdictForm {
    request_id: String,
    choice: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

impl ApprovalRequest {
    /// The CloudEvents type of a request.
    pub const EVENT_TYPE: &'static str = "vak.approval.requested";
    /// The longest action, in bytes.
    pub const ACTION_BYTES_MAX: usize = 128;
    /// The longest target, in bytes.
    pub const TARGET_BYTES_MAX: usize = 1024;
    /// The most choices.
    pub const CHOICES_MAX: usize = 16;
    /// The longest choice, in bytes.
    pub const CHOICE_BYTES_MAX: usize = 64;

    /// A request to do `action` to `target`, to be answered with one of `choices`.
    ///
    /// # Errors
    /// `Invalid` when the action or a choice is empty, something is too long or holds a control
    /// character, there are fewer than two choices or too many, or one stands twice.
    pub fn new(action: &str, target: &str, choices: &[&str]) -> Result<Self> {
        let choices = choices.iter().map(|choice| (*choice).to_owned()).collect();
        Self::check(RequestForm { action: action.to_owned(), target: target.to_owned(), choices })
    }

    /// What is to be done.
    #[must_use]
    pub fn action(&self) -> &str {
        &self.0.action
    }

    /// What it is to be done to; may be empty.
    #[must_use]
    pub fn target(&self) -> &str {
        &self.0.target
    }

    /// The answers that may be given.
    #[must_use]
    pub fn choices(&self) -> &[String] {
        &self.0.choices
    }

    /// Reads a request.
    ///
    /// # Errors
    /// `Corrupt` when it is not a request's JSON or breaks one of its limits.
    pub fn from_json(json: &[u8]) -> Result<Self> {
        Self::check(read(json, "is not an approval request's JSON")?).map_err(corrupt)
    }

    /// Writes it in its one canonical form.
    ///
    /// # Errors
    /// None in practice: its texts can all be written as JSON.
    pub fn to_json(&self) -> Result<Vec<u8>> {
        write(&self.0)
    }

    fn check(form: RequestForm) -> Result<Self> {
        text("action", &form.action, 1, Self::ACTION_BYTES_MAX)?;
        text("target", &form.target, 0, Self::TARGET_BYTES_MAX)?;
        let count = form.choices.len();
        if !(2..=Self::CHOICES_MAX).contains(&count) {
            let detail = format!("{count} choices: expected 2 to {}", Self::CHOICES_MAX);
            return Err(invalid(detail));
        }
        for (at, choice) in form.choices.iter().enumerate() {
            text("choice", choice, 1, Self::CHOICE_BYTES_MAX)?;
            if form.choices.iter().take(at).any(|earlier| earlier == choice) {
                return Err(invalid(format!("choice {} stands twice", at + 1)));
            }
        }
        Ok(Self(form))
    }
}

impl ApprovalVerdict {
    /// The CloudEvents type of a verdict.
    pub const EVENT_TYPE: &'static str = "vak.approval.resolved";
    /// The longest note, in bytes.
    pub const NOTE_BYTES_MAX: usize = 4096;

    /// The verdict `choice` on the request `request` with the id `request_id`.
    ///
    /// # Errors
    /// `Invalid` when the choice was not offered, or the note is empty or too long.
    pub fn new(
        request_id: &str,
        request: &ApprovalRequest,
        choice: &str,
        note: Option<&str>,
    ) -> Result<Self> {
        if !request.choices().iter().any(|offered| offered == choice) {
            return Err(invalid("the choice is none of those that were offered"));
        }
        Self::check(VerdictForm {
            request_id: request_id.to_owned(),
            choice: choice.to_owned(),
            note: note.map(str::to_owned),
        })
    }

    /// The id of the request that is answered.
    #[must_use]
    pub fn request_id(&self) -> &str {
        &self.0.request_id
    }

    /// The choice.
    #[must_use]
    pub fn choice(&self) -> &str {
        &self.0.choice
    }

    /// What was added to it.
    #[must_use]
    pub fn note(&self) -> Option<&str> {
        self.0.note.as_deref()
    }

    /// Reads a verdict.
    ///
    /// # Errors
    /// `Corrupt` when it is not a verdict's JSON or breaks one of its limits.
    pub fn from_json(json: &[u8]) -> Result<Self> {
        Self::check(read(json, "is not an approval verdict's JSON")?).map_err(corrupt)
    }

    /// Writes it in its one canonical form.
    ///
    /// # Errors
    /// None in practice: its texts can all be written as JSON.
    pub fn to_json(&self) -> Result<Vec<u8>> {
        write(&self.0)
    }

    fn check(form: VerdictForm) -> Result<Self> {
        text("request id", &form.request_id, 1, REQUEST_ID_BYTES_MAX)?;
        text("choice", &form.choice, 1, ApprovalRequest::CHOICE_BYTES_MAX)?;
        let note = form.note.as_ref().map_or(1, String::len);
        if !(1..=Self::NOTE_BYTES_MAX).contains(&note) {
            let detail = format!("note has {note} bytes: expected 1 to {}", Self::NOTE_BYTES_MAX);
            return Err(invalid(detail));
        }
        Ok(Self(form))
    }
}

/// The longest id of an envelope.
const REQUEST_ID_BYTES_MAX: usize = 128;

/// More than any request or verdict needs, escapes included.
const JSON_BYTES_MAX: usize = 32 * 1024;

fn text(field: &str, text: &str, bytes_min: usize, bytes_max: usize) -> Result<()> {
    let bytes = text.len();
    if !(bytes_min..=bytes_max).contains(&bytes) {
        let detail = format!("{field} has {bytes} bytes: expected {bytes_min} to {bytes_max}");
        return Err(invalid(detail));
    }
    if text.chars().any(char::is_control) {
        return Err(invalid(format!("{field} holds a control character")));
    }
    Ok(())
}

fn read<'a, T: Deserialize<'a>>(json: &'a [u8], what: &'static str) -> Result<T> {
    if json.len() > JSON_BYTES_MAX {
        let detail = format!("has {} bytes: at most {JSON_BYTES_MAX} are read", json.len());
        return Err(Error::new(ErrorKind::Corrupt, "approval", detail));
    }
    serde_json::from_slice(json)
        .map_err(|error| Error::new(ErrorKind::Corrupt, "approval", what).because(error))
}

fn write(form: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(form).map_err(|error| invalid("cannot be written as JSON").because(error))
}

fn invalid(detail: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::Invalid, "approval", detail)
}

/// The same limit broken by what was received.
fn corrupt(error: Error) -> Error {
    Error::new(ErrorKind::Corrupt, "approval", error.to_string()).because(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> ApprovalRequest {
        ApprovalRequest::new("deploy.production", "web", &["yes", "no"]).unwrap()
    }

    #[test]
    fn a_request_is_written_without_white_space_and_read_back() {
        let json = request().to_json().unwrap();
        let text = r#"{"action":"deploy.production","target":"web","choices":["yes","no"]}"#;
        assert_eq!(std::str::from_utf8(&json).unwrap(), text);
        assert_eq!(ApprovalRequest::from_json(&json).unwrap(), request());
    }

    #[test]
    fn a_verdict_is_written_without_white_space_and_read_back() {
        for (note, written) in [(None, ""), (Some("go"), r#","note":"go""#)] {
            let verdict = ApprovalVerdict::new("ask-1", &request(), "yes", note).unwrap();
            let json = verdict.to_json().unwrap();
            let text = format!(r#"{{"request_id":"ask-1","choice":"yes"{written}}}"#);
            assert_eq!(std::str::from_utf8(&json).unwrap(), text);
            assert_eq!(ApprovalVerdict::from_json(&json).unwrap(), verdict);
        }
    }

    #[test]
    fn a_request_keeps_its_limits() {
        let long = "x".repeat(1025);
        let many: Vec<String> = (0..17).map(|n| n.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let cases: [(&str, &str, &[&str]); 9] = [
            ("", "t", &["y", "n"]),
            (&long[..129], "t", &["y", "n"]),
            ("a", &long, &["y", "n"]),
            ("a", "t", &["y"]),
            ("a", "t", &many),
            ("a", "t", &["y", "y"]),
            ("a", "t", &["y", ""]),
            ("a", "t", &["y", &long[..65]]),
            ("a\u{1b}[2J", "t", &["y", "n"]),
        ];
        for (action, target, choices) in cases {
            let refused = ApprovalRequest::new(action, target, choices).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Invalid, "{choices:?}");
        }
    }

    #[test]
    fn the_largest_request_is_read_back() {
        let choices: Vec<String> = (0..16).map(|n| format!("{n:\"<64}")).collect();
        let choices: Vec<&str> = choices.iter().map(String::as_str).collect();
        let (action, target) = ("\"".repeat(128), "\"".repeat(1024));
        let request = ApprovalRequest::new(&action, &target, &choices).unwrap();
        assert_eq!(ApprovalRequest::from_json(&request.to_json().unwrap()).unwrap(), request);
    }

    #[test]
    fn the_largest_verdict_is_read_back() {
        let note = "\u{1}".repeat(ApprovalVerdict::NOTE_BYTES_MAX);
        let id = "\"".repeat(128);
        let verdict = ApprovalVerdict::new(&id, &request(), "yes", Some(&note)).unwrap();
        assert_eq!(ApprovalVerdict::from_json(&verdict.to_json().unwrap()).unwrap(), verdict);
    }

    #[test]
    fn a_choice_that_was_not_offered_is_refused() {
        let refused = ApprovalVerdict::new("ask-1", &request(), "maybe", None).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid);
    }

    #[test]
    fn what_breaks_a_limit_or_adds_a_member_is_not_read() {
        let bad = [
            r#"{"action":"","target":"t","choices":["y","n"]}"#,
            r#"{"action":"a","target":"t","choices":["y"]}"#,
            r#"{"action":"a","target":"t","choices":["y","n"],"more":1}"#,
            r#"{"action":"a","action":"a","target":"t","choices":["y","n"]}"#,
            r#"{"action":"a","choices":["y","n"]}"#,
        ];
        for json in bad {
            let refused = ApprovalRequest::from_json(json.as_bytes()).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Corrupt, "{json}");
        }
        let padded = format!("{}{}", " ".repeat(JSON_BYTES_MAX), bad[0]);
        assert_eq!(
            ApprovalRequest::from_json(padded.as_bytes()).unwrap_err().kind(),
            ErrorKind::Corrupt
        );
        for json in [
            r#"{"request_id":"","choice":"y"}"#,
            r#"{"request_id":"a","choice":"y","note":""}"#,
            r#"{"request_id":"a","choice":"y","by":"ann"}"#,
        ] {
            let refused = ApprovalVerdict::from_json(json.as_bytes()).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Corrupt, "{json}");
        }
    }
}
