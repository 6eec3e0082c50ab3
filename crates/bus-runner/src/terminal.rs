//! The terminal that a command is given, and its size, which may change while the command runs.

use std::fmt;
use std::num::NonZeroU16;
use std::str::FromStr;
use std::sync::Arc;

use tokio::sync::watch;

/// Says that a command gets a terminal of its own, and how large it is.
///
/// Clones share the size: [`Terminal::resize`] changes the terminal of every run that holds one of
/// them, and each foreground group hears `SIGWINCH`. Two are equal when they share their size.
#[derive(Clone, Debug)]
pub struct Terminal {
    size: Arc<watch::Sender<TerminalSize>>,
}

impl Terminal {
    /// Creates a terminal of this size.
    #[must_use]
    pub fn new(size: TerminalSize) -> Self {
        Self { size: Arc::new(watch::Sender::new(size)) }
    }

    /// Returns the size of this moment.
    #[must_use]
    pub fn size(&self) -> TerminalSize {
        *self.size.borrow()
    }

    /// Gives the terminals of all runs that hold this one another size. The same size again is
    /// told to nobody.
    pub fn resize(&self, size: TerminalSize) {
        self.size.send_if_modified(|now| std::mem::replace(now, size) != size);
    }

    pub(crate) fn sizes(&self) -> watch::Receiver<TerminalSize> {
        self.size.subscribe()
    }
}

impl PartialEq for Terminal {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.size, &other.size)
    }
}

impl Eq for Terminal {}

/// How large a terminal is. Default 24 rows of 80 columns.
///
/// # Examples
/// ```
/// let size: bus_runner::TerminalSize = "40x120".parse()?;
/// assert_eq!((size.rows.get(), size.columns.get()), (40, 120));
/// # Ok::<(), bus_runner::TerminalSizeError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalSize {
    /// Its rows.
    pub rows: NonZeroU16,
    /// The cells of each row.
    pub columns: NonZeroU16,
}

impl Default for TerminalSize {
    fn default() -> Self {
        Self { rows: ROWS_DEFAULT, columns: COLUMNS_DEFAULT }
    }
}

impl fmt::Display for TerminalSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.rows, self.columns)
    }
}

impl FromStr for TerminalSize {
    type Err = TerminalSizeError;

    fn from_str(text: &str) -> Result<Self, TerminalSizeError> {
        let number = |part: &str| {
            let is_plain = part.bytes().all(|byte| byte.is_ascii_digit());
            is_plain.then(|| part.parse().ok()).flatten().ok_or(TerminalSizeError)
        };
        let (rows, columns) = text.split_once('x').ok_or(TerminalSizeError)?;
        Ok(Self { rows: number(rows)?, columns: number(columns)? })
    }
}

/// Says that a text is no size of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a size is ROWSxCOLUMNS, like 40x120: two numbers from 1 to 65535")]
pub struct TerminalSizeError;

const ROWS_DEFAULT: NonZeroU16 = NonZeroU16::new(24).unwrap();
const COLUMNS_DEFAULT: NonZeroU16 = NonZeroU16::new(80).unwrap();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_read_as_it_is_shown() {
        for text in ["24x80", "1x1", "65535x65535"] {
            assert_eq!(text.parse::<TerminalSize>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in ["", "80", "0x80", "24x0", "24x", "x80", "24X80", "-1x80", "+24x80", "65536x1"]
        {
            assert_eq!(text.parse::<TerminalSize>(), Err(TerminalSizeError), "{text:?}");
        }
    }

    #[test]
    fn the_same_size_again_is_told_to_nobody() {
        let terminal = Terminal::new(TerminalSize::default());
        let sizes = terminal.sizes();
        terminal.clone().resize(TerminalSize::default());
        assert!(!sizes.has_changed().unwrap());
        terminal.clone().resize("2x2".parse().unwrap());
        assert_eq!((sizes.has_changed().unwrap(), terminal.size().rows.get()), (true, 2));
    }
}
