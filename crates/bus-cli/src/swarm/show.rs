//! Shows what the tasks write: whole lines, each with the task it is from.

mod screen;

use std::{io, thread};

use tokio::{
    sync::{mpsc, oneshot},
    time::sleep,
};
use tokio_util::sync::CancellationToken;

pub(super) use self::screen::Chunk;
use self::screen::Screen;
use super::signals::PATIENCE;
use crate::print;

/// Prints on a thread of its own, so that a slow reader of stdout holds up nothing but the showing.
///
/// A reader that goes away ends the showing, not the run.
pub(super) struct Show {
    items: mpsc::Sender<Item>,
    shown: oneshot::Receiver<()>,
    given_up: CancellationToken,
}

/// What there is to show.
enum Item {
    Chunk(Chunk),
    /// A try at this task is over, and so many bytes of its output were not published.
    Ended(String, u64),
    /// So many live messages are missing here.
    Gap(u64),
}

/// How many items may wait for the reader; the bus itself holds and counts what is more.
const WAITING_MAX: usize = 64;

impl Show {
    /// Begins to show; from `given_up` on nothing more is shown, and nobody waits for the reader.
    pub(super) fn start(given_up: CancellationToken) -> Self {
        let (items, mut waiting) = mpsc::channel(WAITING_MAX);
        let (done, shown) = oneshot::channel();
        let stop = given_up.clone();
        // No task of the runtime, which would wait for it at the end. Where no thread can be had
        // nothing is shown: showing is best effort.
        let _started = thread::Builder::new().name("show".into()).spawn(move || {
            let mut screen = Screen::new(|line: &str| print::data(line));
            while let Some(item) = waiting.blocking_recv() {
                if stop.is_cancelled() {
                    return;
                }
                show(&mut screen, item, print::talk);
            }
            screen.finish();
            let _waited = done.send(());
        });
        Self { items, shown, given_up }
    }

    /// Takes the next chunk; waits while the reader is slow.
    pub(super) async fn chunk(&self, chunk: Chunk) {
        self.send(Item::Chunk(chunk)).await;
    }

    /// Says that a try at `task` is over: what it wrote last is shown, also an unfinished line, and
    /// that `left_out` bytes were never published.
    pub(super) async fn ended(&self, task: String, left_out: u64) {
        self.send(Item::Ended(task, left_out)).await;
    }

    /// Says that live messages are missing.
    pub(super) async fn gap(&self, missed: u64) {
        self.send(Item::Gap(missed)).await;
    }

    /// Shows what is left, unfinished lines too.
    pub(super) async fn finish(self) {
        drop(self.items);
        tokio::select! {
            biased;
            // A panic there is told by itself.
            _shown = self.shown => return,
            () = self.given_up.cancelled() => {}
        }
        let tell = || print::talk("the rest of the output is not shown");
        let _told = print::until(sleep(PATIENCE), tell).await;
    }

    async fn send(&self, item: Item) {
        tokio::select! {
            biased;
            () = self.given_up.cancelled() => {}
            // The thread ends after its last item only.
            _sent = self.items.send(item) => {}
        }
    }
}

/// Shows one item; what is no output is told by `tell`.
fn show(
    screen: &mut Screen<impl FnMut(&str) -> io::Result<()>>,
    item: Item,
    mut tell: impl FnMut(&str),
) {
    match item {
        Item::Chunk(chunk) => screen.chunk(chunk),
        Item::Ended(task, left_out) => {
            screen.ended(&task);
            if left_out > 0 {
                let bytes = print::counted(left_out, "byte", "bytes");
                tell(&format!("[{}] {bytes} of its output left out", print::harmless(&task)));
            }
        }
        Item::Gap(missed) => tell(&format!("{missed} live messages are missing")),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use bytes::Bytes;

    use super::*;

    #[test]
    fn how_much_output_was_left_out_is_told_after_the_last_line() {
        let said = RefCell::new(Vec::new());
        let mut screen = Screen::new(|line: &str| {
            said.borrow_mut().push(line.to_owned());
            Ok(())
        });
        let chunk = Chunk {
            task: "t".to_owned(),
            stream: "out".to_owned(),
            offset: Some(0),
            bytes: Bytes::from_static(b"half"),
        };
        for item in [Item::Chunk(chunk), Item::Ended("t".to_owned(), 7)] {
            show(&mut screen, item, |line| said.borrow_mut().push(line.to_owned()));
        }
        show(&mut screen, Item::Ended("u".to_owned(), 0), |_| panic!("nothing was left out"));
        assert_eq!(*said.borrow(), ["[t] half", "[t] 7 bytes of its output left out"]);
    }
}
