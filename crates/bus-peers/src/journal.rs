//! The durable stream: one thread writes the lines of all publishers, many with one write.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use bus_core::{Clock, Outcome};
use bus_evidence::{DayLog, TailReport};
use bytes::Bytes;
use tokio::sync::oneshot;

use crate::BusError;

/// When a line counts as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JournalSync {
    /// When the operating system has it: it survives the end of the process, not a power cut.
    /// Files are synced when the day turns and when the journal is closed.
    #[default]
    OnClose,
    /// When the disk has it.
    EachBatch,
}

/// The journal of a bus.
///
/// Files are blocking, so they are left to a thread: a disk that hangs holds up those who wait for
/// their lines, and nothing else that runs beside them. The thread begins with the first line.
pub(crate) struct Journal {
    dir: PathBuf,
    clock: Arc<dyn Clock>,
    sync: JournalSync,
    shared: Arc<Shared>,
}

/// Lines that belong together: losses first, the message they made room for last.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    pub(crate) misses: Vec<Bytes>,
    pub(crate) envelope: Bytes,
    /// Whether the line of the envelope says that losses are not recorded.
    pub(crate) says_losses: bool,
    /// Where it is noted that losses of the receiver are not recorded.
    pub(crate) losses_unrecorded: Arc<AtomicBool>,
}

/// Why lines are not in the journal, in words.
#[derive(Debug, Clone)]
pub(crate) struct Unwritten(pub(crate) String);

impl Unwritten {
    /// Of a message that reached nobody, and has no record.
    pub(crate) fn refused(self, message_id: Option<String>) -> BusError {
        BusError::Journal { reason: self.0, message_id, outcome: Outcome::NotDone }
    }
}

/// The answer of the writer, when it has written.
pub(crate) type Written = oneshot::Receiver<Result<(), Unwritten>>;

impl Journal {
    pub(crate) fn new(dir: PathBuf, clock: Arc<dyn Clock>, sync: JournalSync) -> Self {
        Self { dir, clock, sync, shared: Arc::default() }
    }

    /// The file that a line of now stands in.
    pub(crate) fn path(&self) -> PathBuf {
        DayLog::path_at(&self.dir, self.clock.now())
    }

    /// Whether the last write failed.
    pub(crate) fn is_broken(&self) -> bool {
        self.shared.is_broken.load(Ordering::Acquire)
    }

    /// Waits until the file of the day is open and whole, which it is mended for if need be.
    pub(crate) async fn ready(&self) -> Result<(), Unwritten> {
        self.begin()?;
        wait(self.shared.push(Job::Look)).await
    }

    /// Has the thread run.
    pub(crate) fn begin(&self) -> Result<(), Unwritten> {
        let mut queue = self.shared.lock();
        if queue.is_closed {
            return Err(Unwritten(CLOSED.into()));
        }
        if queue.is_running {
            return Ok(());
        }
        let (shared, clock) = (Arc::clone(&self.shared), Arc::clone(&self.clock));
        let (dir, sync) = (self.dir.clone(), self.sync);
        let writer = Writer { dir, clock, sync, log: None };
        let started = thread::Builder::new()
            .name("peers-journal".into())
            .spawn(move || writer.run(&shared))
            .map_err(|error| Unwritten(format!("its thread did not start: {error}")))?;
        // It ends by itself once the journal is dropped; nobody has to wait for it.
        drop(started);
        queue.is_running = true;
        Ok(())
    }

    /// Looks whether more lines are taken now.
    ///
    /// Under the lock of the core, under which [`seal`](Self::seal) is called too: so what had room
    /// here is handed in before the writer ends.
    pub(crate) fn check_room(&self) -> Result<(), BusError> {
        let queue = self.shared.lock();
        if queue.is_closed {
            return Err(Unwritten(CLOSED.into()).refused(None));
        }
        if queue.jobs.len() >= JOBS_MAX {
            let what = "publishes that wait for the journal";
            return Err(BusError::Full { what, max: JOBS_MAX });
        }
        if queue.bytes >= BYTES_MAX {
            let what = "bytes of publishes that wait for the journal";
            return Err(BusError::Full { what, max: BYTES_MAX });
        }
        Ok(())
    }

    /// Hands lines to the writer, in the order in which this is called.
    pub(crate) fn write(&self, lines: Lines) -> Written {
        self.shared.push(Job::Write(lines))
    }

    /// Takes no more; the writer ends when it has written what it was handed.
    pub(crate) fn seal(&self) {
        self.shared.lock().is_closed = true;
        self.shared.filled.notify_one();
    }

    /// Ends the journal: what was handed in is written and synced, and another one may be opened.
    /// Whoever asks again is told what the first one was.
    pub(crate) async fn close(&self) -> Result<(), Unwritten> {
        let (told, closed) = oneshot::channel();
        {
            let mut queue = self.shared.lock();
            queue.is_closed = true;
            if !queue.is_running {
                queue.is_over = true;
                return queue.synced.clone().unwrap_or(Ok(()));
            }
            queue.closing.push(told);
        }
        self.shared.filled.notify_one();
        wait(closed).await
    }

    /// What was mended at the ends of files since the last call.
    pub(crate) fn take_mended(&self) -> Vec<(PathBuf, TailReport)> {
        std::mem::take(&mut self.shared.lock().mended)
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.seal();
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal").field("dir", &self.dir).finish_non_exhaustive()
    }
}

/// The answer of the writer, or that there is none any more.
pub(crate) async fn wait(written: Written) -> Result<(), Unwritten> {
    written.await.unwrap_or_else(|_| Err(Unwritten("its writer has ended".into())))
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    filled: Condvar,
    is_broken: AtomicBool,
}

#[derive(Debug, Default)]
struct Queue {
    jobs: Vec<Waiting>,
    mended: Vec<(PathBuf, TailReport)>,
    closing: Vec<oneshot::Sender<Result<(), Unwritten>>>,
    /// How many bytes of lines wait, those that are being written with them.
    bytes: usize,
    is_running: bool,
    is_closed: bool,
    /// Whether the writer reads no more: what is pushed now would wait for ever.
    is_over: bool,
    /// What the sync at the end came to, once there was one.
    synced: Option<Result<(), Unwritten>>,
}

#[derive(Debug)]
enum Job {
    /// Open and mend the file of the day.
    Look,
    Write(Lines),
}

impl Shared {
    fn push(&self, job: Job) -> Written {
        let (told, written) = oneshot::channel();
        let mut queue = self.lock();
        // Who waits for one that is not taken is told so, by the end of `told`.
        if !queue.is_over {
            queue.bytes += job.bytes();
            queue.jobs.push((job, told));
        }
        drop(queue);
        self.filled.notify_one();
        written
    }

    /// Everything that was handed in since the last time; none when there will be nothing more.
    fn take(&self) -> Option<Vec<Waiting>> {
        let mut queue = self.lock();
        while queue.jobs.is_empty() {
            if queue.is_closed {
                queue.is_over = true;
                return None;
            }
            queue = self.filled.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        Some(std::mem::take(&mut queue.jobs))
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the thread has.
struct Writer {
    dir: PathBuf,
    clock: Arc<dyn Clock>,
    sync: JournalSync,
    log: Option<DayLog>,
}

impl Writer {
    fn run(mut self, shared: &Shared) {
        let _ends = Ends(shared);
        while let Some(jobs) = shared.take() {
            let (written, outcome) = self.write(&jobs);
            shared.lock().bytes -= jobs.iter().map(|(job, _)| job.bytes()).sum::<usize>();
            shared.is_broken.store(outcome.is_err(), Ordering::Release);
            if let Some(log) = &mut self.log {
                let mended = log.take_mended();
                let mut queue = shared.lock();
                let room = MENDED_MAX.saturating_sub(queue.mended.len());
                queue.mended.extend(mended.into_iter().take(room));
            }
            let mut rest = written;
            for (job, told) in jobs {
                let is_in = job.lines() <= rest;
                let answer = if is_in { Ok(()) } else { outcome.clone() };
                if let (Job::Write(lines), false) = (&job, is_in)
                    && (lines.says_losses || rest < lines.misses.len())
                {
                    lines.losses_unrecorded.store(true, Ordering::Release);
                }
                rest = if is_in { rest - job.lines() } else { 0 };
                // A look is answered by what the file was found to be, like a line.
                let answer = if matches!(job, Job::Look) { outcome.clone() } else { answer };
                let _ignored = told.send(answer); // a publisher that was cancelled waits no more
            }
        }
        let synced = self.log.as_mut().map_or(Ok(()), |log| log.sync().map_err(unwritten));
        self.log = None;
        let mut queue = shared.lock();
        queue.is_running = false;
        queue.synced = Some(synced.clone());
        for told in queue.closing.drain(..) {
            let _ignored = told.send(synced.clone()); // nobody has to wait for the end
        }
    }

    /// Writes all lines at once; how many of the first are in the log for certain.
    fn write(&mut self, jobs: &[Waiting]) -> Attempt {
        let now = self.clock.now();
        let mut log = match self.log.take() {
            Some(log) => log,
            None => match DayLog::open(&self.dir) {
                Ok(log) => log,
                Err(error) => return (0, Err(unwritten(error))),
            },
        };
        let writes = jobs.iter().filter_map(|(job, _)| match job {
            Job::Write(lines) => Some(lines),
            Job::Look => None,
        });
        let lines: Vec<&[u8]> = writes
            .flat_map(|lines| lines.misses.iter().chain([&lines.envelope]))
            .map(AsRef::as_ref)
            .collect();
        let attempt = match log.ready(now).map_err(unwritten) {
            Err(error) => (0, Err(error)),
            Ok(()) => match log.append_all(&lines, now) {
                Err(failed) => (failed.written, Err(unwritten(failed.source))),
                Ok(()) if self.sync == JournalSync::EachBatch => match log.sync() {
                    Err(error) => (0, Err(unwritten(error))),
                    Ok(()) => (lines.len(), Ok(())),
                },
                Ok(()) => (lines.len(), Ok(())),
            },
        };
        self.log = Some(log);
        attempt
    }
}

/// Tells who waits that the writer has ended, however it did.
struct Ends<'a>(&'a Shared);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        let mut queue = self.0.lock();
        (queue.is_running, queue.is_closed, queue.is_over) = (false, true, true);
        let ended = || Err(Unwritten("its writer has ended".into()));
        queue.synced.get_or_insert_with(ended);
        queue.jobs.clear();
        queue.closing.clear();
    }
}

impl Job {
    const fn lines(&self) -> usize {
        match self {
            Self::Look => 0,
            Self::Write(lines) => lines.misses.len() + 1,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Look => 0,
            Self::Write(Lines { misses, envelope, .. }) => {
                misses.iter().map(Bytes::len).sum::<usize>() + envelope.len()
            }
        }
    }
}

/// A job, and who waits for it.
type Waiting = (Job, oneshot::Sender<Result<(), Unwritten>>);

/// How many lines are in the log, and why not all.
type Attempt = (usize, Result<(), Unwritten>);

/// An error with its causes in one line.
fn unwritten(error: impl std::error::Error) -> Unwritten {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    Unwritten(text)
}

/// Where the stream is under the folder of the logs.
pub(crate) fn dir_of(logs_dir: &Path) -> PathBuf {
    logs_dir.join(STREAM)
}

const STREAM: &str = "bus";

/// The most publishes that wait for the writer.
const JOBS_MAX: usize = 16_384;

/// The most bytes of lines that wait for it (64 MiB); one more publish may go over it.
const BYTES_MAX: usize = 64 * 1024 * 1024;

const CLOSED: &str = "it is closed";

/// How many reports of mended files are kept for who asks.
const MENDED_MAX: usize = 64;
