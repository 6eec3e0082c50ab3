//! Up to where the heads of all sessions are signed: a process that was killed leaves some that are
//! not, and the next one has to find them without reading everything.

use bus_core::Seq;
use serde::{Deserialize, Serialize};

use crate::{error::CliError, home::Home};

/// The note of it beside the files of an audit log.
pub(super) struct Signed {
    dir: Home,
    /// As it is on the disk.
    noted: Option<Seq>,
    /// The last note failed, and that was told.
    is_told: bool,
}

#[derive(Serialize, Deserialize)]
struct Noted {
    /// The first position among the receipts that may not be signed for.
    unsigned_from: u64,
}

impl Signed {
    /// Reads the note in the folder of an audit log. Without one that can be read everything is
    /// looked at: what is signed twice harms nobody.
    pub(super) fn load(dir: &Home) -> Self {
        let noted = match dir.exists() && dir.below(FILE).exists() {
            true => dir.read(FILE).ok().and_then(|text| serde_json::from_str(&text).ok()),
            false => None,
        };
        let noted = noted.map(|Noted { unsigned_from }| Seq(unsigned_from));
        Self { dir: dir.clone(), noted, is_told: false }
    }

    /// The first position that may not be signed for.
    pub(super) fn unsigned_from(&self) -> Seq {
        self.noted.unwrap_or(Seq(1))
    }

    /// The same as [`Signed::note`]; a failure is handed out once, until it went well again.
    pub(super) fn note_or_warn(&mut self, from: Seq) -> Option<CliError> {
        let error = self.note(from).err();
        let was_told = std::mem::replace(&mut self.is_told, error.is_some());
        error.filter(|_| !was_told)
    }

    /// Notes that everything before `from` is signed for.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn note(&mut self, from: Seq) -> Result<(), CliError> {
        if self.noted == Some(from) {
            return Ok(());
        }
        let text = serde_json::json!(Noted { unsigned_from: from.0 }).to_string();
        self.dir.replace(FILE, &text)?;
        self.noted = Some(from);
        Ok(())
    }
}

/// Hidden, as the lock is: it is no part of the log.
const FILE: &str = ".signed";
