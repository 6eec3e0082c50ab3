//! Where words go: data to stdout, talk to stderr; a reader that went away is no failure.

use std::{
    io::{self, Write},
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use anstream::ColorChoice;
use tokio::sync::oneshot;

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
    line(&value.to_string())
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
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
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
    fn what_could_steer_a_terminal_is_not_shown() {
        assert_eq!(harmless("ä\u{1b}[2Jb\nc\u{9b}d"), "ä [2Jb c d");
    }
}
