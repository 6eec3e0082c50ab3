//! Where the bytes to emit come from.

use std::io::{self, Read};

use bus_runner::CHUNK_BYTES_MAX;

use crate::error::{CliError, Exit};

/// A text, or standard input as it comes.
pub(super) enum Source {
    /// The text of the command line.
    Text(String),
    /// Standard input to its end.
    Stdin,
}

/// How much is read at a time: as much as an event holds, since each piece becomes one.
const PIECE_BYTES: usize = CHUNK_BYTES_MAX;

impl Source {
    /// What the word of the command line says; `-` or none is standard input.
    pub(super) fn of(text: Option<String>) -> Self {
        match text {
            Some(text) if text != "-" => Self::Text(text),
            _ => Self::Stdin,
        }
    }

    /// Hands on what comes, each time as much as there is, until the end or until `take` fails.
    pub(super) fn each(
        self,
        mut take: impl FnMut(&[u8]) -> Result<(), CliError>,
    ) -> Result<(), CliError> {
        let text = match self {
            Self::Text(text) => text,
            Self::Stdin => {
                let (mut stdin, mut piece) = (io::stdin().lock(), vec![0; PIECE_BYTES]);
                loop {
                    let count = match stdin.read(&mut piece) {
                        Ok(0) => return Ok(()),
                        Ok(count) => count,
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                        Err(error) => {
                            let what = format!("cannot read stdin: {error}");
                            return Err(CliError::new(Exit::Failed, what));
                        }
                    };
                    take(piece.get(..count).unwrap_or_default())?;
                }
            }
        };
        if text.is_empty() { Ok(()) } else { take(text.as_bytes()) }
    }
}
