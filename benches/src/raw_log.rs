//! A file and one thread that writes and syncs whatever waits: the raw side of the durable rows.

use std::{
    fs::File,
    io::{self, Write},
    path::Path,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use anyhow::{Context, Result};
use tokio::sync::oneshot;

/// Records that wait to be written, and who waits for each.
pub(crate) struct RawLog {
    waiting: Mutex<Waiting>,
    came: Condvar,
}

#[derive(Default)]
struct Waiting {
    bytes: Vec<u8>,
    writers: Vec<oneshot::Sender<io::Result<()>>>,
    is_closed: bool,
}

impl RawLog {
    /// A new file and its thread.
    ///
    /// # Errors
    /// When either cannot be made.
    pub(crate) fn create(path: &Path) -> Result<Arc<Self>> {
        let mut file = File::create_new(path).context("create the raw log")?;
        let log = Arc::new(Self { waiting: Mutex::default(), came: Condvar::new() });
        let writing = Arc::clone(&log);
        let run = move || while writing.commit(&mut file) {};
        std::thread::Builder::new().spawn(run).context("start the committer")?;
        Ok(log)
    }

    /// Returns when `record` survives a power cut.
    ///
    /// # Errors
    /// When it could not be written.
    pub(crate) async fn append(&self, record: &[u8]) -> Result<()> {
        let (sender, answer) = oneshot::channel();
        {
            let mut waiting = self.lock();
            waiting.bytes.extend_from_slice(record);
            waiting.writers.push(sender);
        }
        self.came.notify_one();
        answer.await.context("the committer is there")??;
        Ok(())
    }

    /// Ends the thread.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.came.notify_one();
    }

    /// Writes and syncs what waits; false when the log was closed.
    fn commit(&self, file: &mut File) -> bool {
        let taken = {
            let mut waiting = self.lock();
            while waiting.writers.is_empty() && !waiting.is_closed {
                waiting = self.came.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            }
            std::mem::take(&mut *waiting)
        };
        let written = file.write_all(&taken.bytes).and_then(|()| file.sync_data());
        for writer in taken.writers {
            let answer =
                written.as_ref().copied().map_err(|error| io::Error::other(error.to_string()));
            // A writer that is gone needs no answer.
            let _ignored = writer.send(answer);
        }
        !taken.is_closed
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
