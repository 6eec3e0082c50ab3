//! Reads a log of envelopes line by line and checks all that a line shows on its own.

use std::io::BufRead;

use bus_envelope::{ChainScope, EnvelopeError, EventHash, Timestamp, tree::MerkleTree};

use crate::{
    LINE_BYTES_MAX,
    entry::{NoEntry, envelope_of},
    lines::{LineError, LineReader},
    log::{Log, Place, entries_file},
    verify::{
        Finding, FindingKind, certificates::Authority, chains::Chains, files::Files,
        files::unreadable, receipts,
    },
};

/// A log in which nothing is wrong by itself.
pub(super) struct Contents {
    pub(super) tree: MerkleTree,
    pub(super) entries: Vec<Entry>,
    pub(super) chains: u64,
}

/// What the checks across logs need of an entry.
pub(super) struct Entry {
    pub(super) id: String,
    pub(super) time: Timestamp,
    pub(super) leaf: EventHash,
    pub(super) cause: Option<EventHash>,
    /// What it says when it is a receipt.
    pub(super) receipt: receipts::Said,
}

impl Contents {
    /// Reads `log`: every line by itself first, then the chains they form.
    pub(super) fn read(
        files: &Files<'_>,
        log: Log,
        place: &Place,
        authority: &mut Authority,
    ) -> Result<Self, Finding> {
        let file = entries_file(log.name());
        let mut contents = Self { tree: MerkleTree::new(), entries: Vec::new(), chains: 0 };
        let mut chains = Chains::default();
        let mut lines = Lines::open(files, &file)?;
        while let Some((number, line)) = lines.next_line()? {
            let fault = |kind, detail: String| Finding::new(&file, kind, detail).at(number);
            let envelope =
                envelope_of(&line).map_err(|error| fault(kind_of(&error), error.to_string()))?;
            if let Some(detail) = log.misplaced(place, &envelope) {
                return Err(fault(FindingKind::WrongPlace, detail));
            }
            let leaf = envelope.compute_hash();
            authority.check(&envelope, &leaf).map_err(|(kind, detail)| fault(kind, detail))?;
            let receipt = match log {
                Log::Receipts => receipts::read(&envelope),
                Log::Tasks | Log::DeadLetters => Ok(receipts::Said::Nothing),
            };
            let receipt = receipt.map_err(|(kind, detail)| fault(kind, detail))?;
            let scope = match log {
                Log::Receipts => ChainScope::subject_of(&envelope),
                Log::Tasks | Log::DeadLetters => ChainScope::incarnation_of(&envelope),
            };
            chains.add(scope, &envelope, leaf);
            contents.tree.append(&line);
            let (time, cause) = (envelope.time, envelope.lineage.cause);
            contents.entries.push(Entry { id: envelope.id, time, leaf, cause, receipt });
        }
        chains.check(&file)?;
        contents.chains = chains.count();
        Ok(contents)
    }
}

/// What is wrong with a line that is no envelope as an exporter writes it.
pub(super) const fn kind_of(error: &NoEntry) -> FindingKind {
    match error {
        NoEntry::NotCanonical | NoEntry::Envelope(EnvelopeError::NotCanonical { .. }) => {
            FindingKind::NotCanonical
        }
        NoEntry::Envelope(_) => FindingKind::UnreadableLine,
    }
}

/// The time of the newest of these entries.
pub(super) fn newest<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Option<Timestamp> {
    entries.into_iter().map(|entry| entry.time).max()
}

/// The lines of a file, each ended by a line feed.
pub(super) struct Lines<'a> {
    file: &'a str,
    reader: LineReader<Box<dyn BufRead + 'a>>,
}

impl<'a> Lines<'a> {
    pub(super) fn open(files: &'a Files<'_>, file: &'a str) -> Result<Self, Finding> {
        Ok(Self { file, reader: LineReader::new(files.open(file)?) })
    }

    /// The next line with its number.
    pub(super) fn next_line(&mut self) -> Result<Option<(u64, Vec<u8>)>, Finding> {
        match self.reader.next_line() {
            Ok(None) => Ok(None),
            Ok(Some(line)) if line.ended => Ok(Some((line.number, line.bytes))),
            Ok(Some(line)) => {
                let detail = "the file ends in the middle of this line";
                Err(Finding::new(self.file, FindingKind::Unterminated, detail).at(line.number))
            }
            Err(LineError::Io(error)) => Err(unreadable(self.file, &error)),
            Err(LineError::TooLong(number)) => {
                let detail = format!("it is longer than {LINE_BYTES_MAX} bytes");
                Err(Finding::new(self.file, FindingKind::UnreadableLine, detail).at(number))
            }
        }
    }
}
