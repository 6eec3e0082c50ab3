//! Where words go: data to stdout, talk to stderr; a reader that went away is no failure.

use std::io::{self, Write};

use anstream::ColorChoice;

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
pub(crate) fn json(value: &serde_json::Value) {
    // There is nobody to tell when stdout is gone.
    let _gone = data(&value.to_string());
}

/// Writes `line` to stdout; a reader that went away is fine.
pub(crate) fn line(line: &str) {
    // There is nobody to tell when stdout is gone.
    let _gone = data(line);
}

/// Writes `text` and a line break to stderr.
pub(crate) fn talk(text: &str) {
    // There is nobody to tell when stderr is gone.
    let _gone = writeln!(anstream::stderr().lock(), "{text}");
}

/// Fixes when colours are used.
pub(crate) fn set_color(choice: ColorChoice) {
    choice.write_global();
}
