//! The server's language: lines, blocks, and values that cannot be read otherwise than meant.
//!
//! Every string stands in double quotes. What could end the quotes early or be read as an escape is
//! refused rather than escaped: no path or token needs it, and a mistake would be a hole.

use std::{
    fmt::{Display, Write},
    net::SocketAddr,
    path::Path,
    time::Duration,
};

use super::ServerError;

/// The text as it grows.
#[derive(Default)]
pub(super) struct Page {
    pub(super) text: String,
    depth: usize,
}

impl Page {
    pub(super) fn line(&mut self, name: &str, value: impl Display) {
        let indent = self.depth * 2;
        // Writing to a string cannot fail.
        let _ignored = writeln!(self.text, "{:indent$}{name}: {value}", "");
    }

    pub(super) fn begin(&mut self, head: &str) {
        let indent = self.depth * 2;
        let _ignored = writeln!(self.text, "{:indent$}{head}", "");
        self.depth += 1;
    }

    pub(super) fn end(&mut self, foot: &str) {
        self.depth = self.depth.saturating_sub(1);
        let indent = self.depth * 2;
        let _ignored = writeln!(self.text, "{:indent$}{foot}", "");
    }

    pub(super) fn open(&mut self, name: &str) {
        self.begin(&format!("{name} {{"));
    }

    /// An address to listen on, as two lines.
    pub(super) fn listen(&mut self, address: SocketAddr) {
        // The server writes -1 for "choose one".
        let port = if address.port() == 0 { -1 } else { i32::from(address.port()) };
        self.line("host", format!("\"{}\"", address.ip()));
        self.line("port", port);
    }

    pub(super) fn close(&mut self) {
        self.end("}");
    }
}

pub(super) fn quoted(field: &'static str, text: &str) -> Result<String, ServerError> {
    if let Some(bad) = text.chars().find(|c| c.is_control() || ['"', '\\'].contains(c)) {
        let reason =
            format!("expected no quotes, backslashes and control characters, found {bad:?}");
        return Err(ServerError::config(field, reason));
    }
    if text.is_empty() {
        return Err(ServerError::config(field, "expected a text that is not empty"));
    }
    Ok(format!("\"{text}\""))
}

pub(super) fn path(field: &'static str, path: &Path) -> Result<String, ServerError> {
    let text = path.to_str().ok_or_else(|| ServerError::config(field, "expected UTF-8"))?;
    // The server reads a relative path from its own folder, which nobody here thinks of.
    if !path.is_absolute() {
        return Err(ServerError::config(field, format!("expected an absolute path, not {text}")));
    }
    quoted(field, text)
}

pub(super) fn span(field: &'static str, span: Duration) -> Result<String, ServerError> {
    if span < Duration::from_millis(1) || span > SPAN_MOST {
        return Err(ServerError::config(field, format!("expected 1 ms to {SPAN_MOST:?}")));
    }
    let is_whole = span.subsec_millis() == 0;
    Ok(if is_whole {
        format!("\"{}s\"", span.as_secs())
    } else {
        format!("\"{}ms\"", span.as_millis())
    })
}

pub(super) fn bytes_max(field: &'static str, bytes: u64) -> Result<i64, ServerError> {
    // The server takes 0 for "no limit of mine" and counts in signed numbers.
    let fits = i64::try_from(bytes).ok().filter(|bytes| *bytes > 0);
    fits.ok_or_else(|| ServerError::config(field, "expected 1 to 2^63-1 bytes"))
}

/// A list of strings on one line.
pub(super) fn list<'a>(
    field: &'static str,
    texts: impl IntoIterator<Item = &'a str>,
) -> Result<String, ServerError> {
    let texts: Result<Vec<_>, _> = texts.into_iter().map(|text| quoted(field, text)).collect();
    Ok(format!("[{}]", texts?.join(", ")))
}

/// Ten years: what the server's own clock arithmetic holds easily.
const SPAN_MOST: Duration = Duration::from_secs(10 * 365 * 86_400);
