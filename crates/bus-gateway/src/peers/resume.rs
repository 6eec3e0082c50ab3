//! What an instance was sent since an event: as far as the journal has it.

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
};

use bus_peers::{BusEnvelope, DeliveryState, JournalRecord};
use tokio::sync::Semaphore;

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Missed {
    /// Messages that were delivered to the instance after the event, in their order.
    pub(super) envelopes: VecDeque<BusEnvelope>,
    /// Whether there were no others: the event was found, and everything since fits.
    pub(super) is_whole: bool,
    is_found: bool,
    /// How long the lines of the messages are, each and together.
    sizes: VecDeque<usize>,
    bytes: usize,
}

/// Looks in the journal whose newest file is at `newest` for what `instance` was sent after the
/// message `last`. What cannot be read is nothing, and not whole.
#[expect(clippy::disallowed_methods, reason = "reading files takes a thread that may wait")]
pub(super) async fn since(newest: PathBuf, instance: String, last: String) -> Missed {
    // The semaphore is never closed.
    let _turn = READERS.acquire().await.ok();
    let read = tokio::task::spawn_blocking(move || {
        let mut missed = Missed::default();
        let looked = files(&newest)?;
        for file in &looked {
            missed.read(file, &instance, &last)?;
        }
        Ok::<_, io::Error>(missed)
    });
    match read.await {
        Ok(Ok(missed)) => missed,
        Ok(Err(error)) => {
            tracing::debug!(%error, "the journal was not read for a listener that came again");
            Missed::default()
        }
        Err(_) => Missed::default(),
    }
}

/// The newest files of the journal, the older one first: who comes again right after midnight saw
/// an event of the day before.
fn files(newest: &Path) -> io::Result<Vec<PathBuf>> {
    let Some(folder) = newest.parent() else { return Ok(Vec::new()) };
    let mut files = Vec::new();
    for entry in folder.read_dir()? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "jsonl") {
            files.push(path);
        }
    }
    // Their names are dates.
    files.sort();
    Ok(files.split_off(files.len().saturating_sub(FILES_MAX)))
}

impl Missed {
    fn read(&mut self, file: &Path, instance: &str, last: &str) -> io::Result<()> {
        let mut file = File::open(file)?;
        let long = file.metadata()?.len();
        let skipped = long.saturating_sub(BYTES_MAX);
        file.seek(SeekFrom::Start(skipped))?;
        let mut lines = BufReader::new(file.take(BYTES_MAX)).split(b'\n');
        if skipped > 0 {
            self.is_whole = false;
            // The rest of a line.
            let _rest = lines.next();
        }
        for line in lines {
            let line = line?;
            // Most lines are of others, and to look is much cheaper than to parse.
            if !holds(&line, instance) {
                continue;
            }
            // Damage is the journal's to tell; here it is a message that is not found.
            if let Ok(JournalRecord::Envelope { envelope, .. }) = JournalRecord::parse(&line) {
                self.take(envelope, line.len(), (instance, last));
            }
        }
        Ok(())
    }

    fn take(&mut self, envelope: BusEnvelope, long: usize, (instance, last): (&str, &str)) {
        if envelope.to.instance_id.as_deref() != Some(instance)
            || envelope.delivery_state != DeliveryState::Delivered
        {
            return;
        }
        if envelope.message_id == last {
            *self = Self { is_whole: true, is_found: true, ..Self::default() };
            return;
        }
        // Before the event was found nothing is known to come after it.
        if !self.is_found {
            return;
        }
        self.envelopes.push_back(envelope);
        self.sizes.push_back(long);
        self.bytes += long;
        while self.envelopes.len() > ENVELOPES_MAX || self.bytes > KEPT_BYTES_MAX {
            let Some(long) = self.sizes.pop_front() else { break };
            self.bytes -= long;
            self.envelopes.pop_front();
            self.is_whole = false;
        }
    }
}

/// Whether a line has the id of an instance somewhere, which JSON writes as it is.
fn holds(line: &[u8], instance: &str) -> bool {
    line.windows(instance.len().max(1)).any(|at| at == instance.as_bytes())
}

/// How many look at a time: what one asks for with a short header is much to read.
static READERS: Semaphore = Semaphore::const_new(2);

/// How many files are looked at: that of today and the one before.
const FILES_MAX: usize = 2;

/// How much of the end of each, in bytes (16 MiB).
const BYTES_MAX: u64 = 16 * 1024 * 1024;

/// How many messages are sent again, the newest of them.
const ENVELOPES_MAX: usize = 1_000;

/// How many bytes of lines they have together (4 MiB).
const KEPT_BYTES_MAX: usize = 4 * 1024 * 1024;
