//! Where words go: data to stdout, talk to stderr; a reader that went away is no failure.

mod others;

use std::{
    io::{self, Write},
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use anstream::ColorChoice;
use tokio::sync::oneshot;

pub(crate) use self::others::Others;
use crate::error::{CliError, Exit};

/// Writes `line` and a line break to stdout.
///
/// # Errors
/// When it cannot be written; [`io::ErrorKind::BrokenPipe`] when the reader went away.
pub(crate) fn data(line: &str) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

/// Writes one JSON object as a line to stdout; a reader that went away is fine.
///
/// # Errors
/// When it cannot be written for another reason: a full disk must not look like an empty listing.
pub(crate) fn json(value: &serde_json::Value) -> Result<(), CliError> {
    line(&json_text(value))
}

/// One JSON object on one line. The controls that JSON leaves as they are (U+007F to U+009F) are
/// escaped: a terminal obeys them, and the value is the same.
pub(crate) fn json_text(value: &serde_json::Value) -> String {
    let text = value.to_string();
    if !text.contains(char::is_control) {
        return text;
    }
    let escaped = |c: char| match c.is_control() {
        true => format!("\\u{:04x}", u32::from(c)),
        false => c.to_string(),
    };
    text.chars().map(escaped).collect()
}

/// Writes `line` to stdout; a reader that went away is fine.
///
/// # Errors
/// As [`json`].
pub(crate) fn line(line: &str) -> Result<(), CliError> {
    match data(line) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(unwritten(&error)),
        _ => Ok(()),
    }
}

/// Writes `text`, which ends in a line break, to stdout; a reader that went away is fine.
///
/// # Errors
/// As [`json`].
pub(crate) fn text(text: &str) -> Result<(), CliError> {
    line(text.strip_suffix('\n').unwrap_or(text))
}

/// The members of two JSON objects in one; of a name in both the second counts.
pub(crate) fn with(mut object: serde_json::Value, more: serde_json::Value) -> serde_json::Value {
    if let (Some(object), serde_json::Value::Object(more)) = (object.as_object_mut(), more) {
        object.extend(more);
    }
    object
}

/// The failure to tell when stdout does not take its data.
pub(crate) fn unwritten(error: &io::Error) -> CliError {
    CliError::new(Exit::Failed, format!("cannot write to stdout: {error}"))
}

/// Prints what the parser says when there is nothing to run: help, the version, a wrong call.
pub(crate) fn instead_of_a_run(said: &clap::Error) -> ExitCode {
    let printed = said.print();
    match printed {
        _ if said.use_stderr() => Exit::Usage.into(),
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let error = unwritten(&error);
            talk(&error.to_string());
            error.code().into()
        }
        _ => Exit::Done.into(),
    }
}

/// Writes `text` and a line break to stderr.
pub(crate) fn talk(text: &str) {
    // There is nobody to tell when stderr is gone.
    let _gone = writeln!(anstream::stderr().lock(), "{text}");
}

/// Tells something that is no error, unless the user asked for quiet.
pub(crate) fn remark(text: &str) {
    if !QUIET.load(Ordering::Relaxed) {
        talk(text);
    }
}

/// Fixes whether remarks are left out.
pub(crate) fn set_quiet(is_quiet: bool) {
    QUIET.store(is_quiet, Ordering::Relaxed);
}

/// Writes on a thread of its own and waits for it no longer than until `given_up`; none when it was
/// not done by then.
///
/// A pipe that nobody reads holds its writer for ever. That thread is left behind and ends with the
/// process.
pub(crate) async fn until<T: Send + 'static>(
    given_up: impl Future<Output = ()>,
    write: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (done, written) = oneshot::channel();
    let writing = thread::Builder::new().name("print".into()).spawn(move || done.send(write()));
    if writing.is_err() {
        return None;
    }
    tokio::select! {
        biased;
        written = written => written.ok(),
        () = given_up => None,
    }
}

/// Fixes when colours are used.
pub(crate) fn set_color(choice: ColorChoice) {
    choice.write_global();
}

/// A stranger's text on one line, without what could steer a terminal.
pub(crate) fn harmless(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || turns(c) { ' ' } else { c }).collect()
}

/// Whether a character turns the direction of the text around it: left open, that would go on in
/// what stands behind.
fn turns(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A count with its noun.
pub(crate) fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

static QUIET: AtomicBool = AtomicBool::new(false);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_holds_no_control_and_means_the_same() {
        let value = serde_json::json!({ "ä": "\u{9b}2J\u{7f}\u{1b}\n" });
        let text = json_text(&value);
        assert!(!text.contains(char::is_control), "{text:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }

    #[test]
    fn what_could_steer_a_terminal_is_not_shown() {
        assert_eq!(harmless("ä\u{1b}[2Jb\nc\u{9b}d"), "ä [2Jb c d");
        assert_eq!(harmless("a\u{202e}b\u{2066}c"), "a b c");
    }
}
