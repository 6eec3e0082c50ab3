//! Shows what the tasks write: whole lines, each with the task it is from.

use std::{collections::HashMap, io};

use bytes::Bytes;
use tokio::{sync::mpsc, task::JoinHandle};

use crate::print;

/// Prints on a thread of its own, so that a slow reader of stdout holds up nothing but the showing.
///
/// A reader that goes away ends the showing, not the run.
pub(super) struct Show {
    items: mpsc::Sender<Item>,
    printing: JoinHandle<()>,
}

/// What there is to show.
enum Item {
    /// The next chunk of a stream of a task.
    Chunk { task: String, stream: String, bytes: Bytes },
    /// So many live messages are missing here.
    Gap(u64),
}

/// How many items may wait for the reader; the bus itself holds and counts what is more.
const WAITING_MAX: usize = 64;

impl Show {
    /// Begins to show.
    pub(super) fn start() -> Self {
        let (items, mut waiting) = mpsc::channel(WAITING_MAX);
        let printing = spawn_blocking(move || {
            let mut screen = Screen::default();
            while let Some(item) = waiting.blocking_recv() {
                match item {
                    Item::Chunk { task, stream, bytes } => screen.chunk(task, stream, &bytes),
                    Item::Gap(missed) => {
                        print::talk(&format!("{missed} live messages are missing"));
                    }
                }
            }
            screen.finish();
        });
        Self { items, printing }
    }

    /// Takes the next chunk of `stream` of `task`; waits while the reader is slow.
    pub(super) async fn chunk(&self, task: &str, stream: &str, bytes: Bytes) {
        let (task, stream) = (task.to_owned(), stream.to_owned());
        // The thread ends after its last item only.
        let _shown = self.items.send(Item::Chunk { task, stream, bytes }).await;
    }

    /// Says that live messages are missing.
    pub(super) async fn gap(&self, missed: u64) {
        let _shown = self.items.send(Item::Gap(missed)).await;
    }

    /// Shows what is left, unfinished lines too.
    pub(super) async fn finish(self) {
        drop(self.items);
        // Showing is best effort: a panic there is told by itself.
        let _ended = self.printing.await;
    }
}

#[expect(clippy::disallowed_methods, reason = "the command line is one of the places that spawn")]
fn spawn_blocking(work: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    tokio::task::spawn_blocking(work)
}

/// Puts chunks together to lines and prints them.
#[derive(Default)]
struct Screen {
    /// The unfinished line of each stream of each task.
    open: HashMap<(String, String), Vec<u8>>,
    gone: bool,
}

/// An unfinished line longer than this is shown in pieces, in bytes.
const LINE_BYTES_MAX: usize = 64 * 1024;

impl Screen {
    fn chunk(&mut self, task: String, stream: String, bytes: &[u8]) {
        if self.gone {
            return;
        }
        let key = (task, stream);
        let mut line = self.open.remove(&key).unwrap_or_default();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            line.extend_from_slice(piece);
            if piece.ends_with(b"\n") || line.len() >= LINE_BYTES_MAX {
                self.print(&key.0, &line);
                line.clear();
            }
        }
        if !line.is_empty() {
            self.open.insert(key, line);
        }
    }

    /// Shows the lines that never ended.
    fn finish(mut self) {
        let mut open: Vec<_> = std::mem::take(&mut self.open).into_iter().collect();
        open.sort();
        for ((task, _), line) in open {
            self.print(&task, &line);
        }
    }

    fn print(&mut self, task: &str, line: &[u8]) {
        if self.gone {
            return;
        }
        let text = String::from_utf8_lossy(line);
        let shown = format!("[{task}] {}", text.trim_end_matches(['\r', '\n']));
        match print::data(&shown) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => self.gone = true,
            // Showing is best effort; the run goes on.
            _ => {}
        }
    }
}
