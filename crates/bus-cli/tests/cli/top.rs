//! `vakbus top` in a terminal: what a person sees, what keys do, and what is left of it afterwards.

use std::{
    fs::File,
    io::{Read, Write},
    process::{Child, Stdio},
    sync::{Arc, Condvar, Mutex},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    fs::{Mode, OFlags, open},
    process::{Pid, Signal, kill_process},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Termios, Winsize, tcgetattr, tcsetwinsize},
};

use crate::{
    daemon_support::Daemon,
    support::{LIMIT, Place},
};

#[test]
fn a_queue_appears_and_q_gives_the_terminal_back_as_it_was() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    assert_eq!(place.run(&["task", "send", "--role", "coder", "x"]).code, Some(0));
    let mut top = Top::start(&place);
    let before = top.settings();
    top.shows("agents at work (0)");
    top.shows("coder");
    assert_ne!(modes(&top.settings()), modes(&before), "it takes single keys");
    top.types(b"q");
    let (code, written) = top.ended();
    assert_eq!(code, Some(0), "{written}");
    let left = written.rfind("\u{1b}[?1049l").expect("it leaves its screen");
    assert!(written.rfind("\u{1b}[?1049h").unwrap() < left);
    assert!(written.rfind("\u{1b}[?25h").unwrap() > written.rfind("\u{1b}[?25l").unwrap());
    assert_eq!(modes(&top.settings()), modes(&before));
    daemon.stop();
}

#[test]
fn keys_are_obeyed_while_the_bus_stands_still() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    assert_eq!(place.run(&["task", "send", "--role", "coder", "x"]).code, Some(0));
    let mut top = Top::start(&place);
    top.shows("coder");
    daemon.running.signal(Signal::STOP);
    top.types(b"p");
    top.shows("hand out none until it is resumed?");
    top.types(b"y");
    top.shows("working… pausing queue coder");
    top.types(b"?");
    top.shows("throw a dead letter away");
    // In a dialog as well.
    top.types(b"\x03");
    let (code, written) = top.ended();
    daemon.running.signal(Signal::CONT);
    assert_eq!(code, Some(0), "{written}");
    daemon.stop();
}

#[test]
fn a_bus_that_stood_still_is_there_again() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let mut top = Top::start(&place);
    top.shows("queues (0)");
    daemon.running.signal(Signal::STOP);
    top.shows("bus away since");
    daemon.running.signal(Signal::CONT);
    assert_eq!(place.run(&["task", "send", "--role", "coder", "x"]).code, Some(0));
    top.shows("coder");
    top.shows("vakbus top");
    top.types(b"q");
    assert_eq!(top.ended().0, Some(0));
    daemon.stop();
}

/// A `vakbus top` in a terminal of its own.
struct Top {
    child: Child,
    master: File,
    seen: Arc<(Mutex<Seen>, Condvar)>,
}

/// What the terminal got.
#[derive(Default)]
struct Seen {
    written: Vec<u8>,
    /// How often it was asked where its cursor is.
    asked: usize,
    is_over: bool,
}

/// Asks a terminal where its cursor is.
const WHERE: &[u8] = b"\x1b[6n";

impl Top {
    fn start(place: &Place) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).and_then(|()| unlockpt(&master)).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let slave = open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
        let size = Winsize { ws_row: 30, ws_col: COLUMNS as u16, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&master, size).unwrap();
        let mut command = place.command();
        command.args(["top", "--interval", "250ms"]).env("TERM", "xterm-256color");
        command.stdin(Stdio::from(slave.try_clone().unwrap()));
        command.stdout(Stdio::from(slave.try_clone().unwrap())).stderr(Stdio::from(slave));
        let child = command.spawn().unwrap();
        drop(command);
        let seen = Arc::<(Mutex<Seen>, Condvar)>::default();
        let (mut reader, shared) = (File::from(master.try_clone().unwrap()), Arc::clone(&seen));
        let mut answers = File::from(master.try_clone().unwrap());
        thread::spawn(move || {
            let mut part = [0; 4096];
            loop {
                // The terminal ends with an error when the last of its other ends is closed.
                let count = reader.read(&mut part).unwrap_or(0);
                let mut seen = shared.0.lock().unwrap();
                seen.written.extend_from_slice(&part[..count]);
                // A terminal says where its cursor is when it is asked.
                let asked = seen.written.windows(WHERE.len()).filter(|bytes| *bytes == WHERE);
                let asked = asked.count();
                for _ in std::mem::replace(&mut seen.asked, asked)..asked {
                    answers.write_all(b"\x1b[1;1R").unwrap();
                }
                seen.is_over = count == 0;
                shared.1.notify_all();
                if seen.is_over {
                    return;
                }
            }
        });
        Self { child, master: File::from(master), seen }
    }

    fn settings(&self) -> Termios {
        tcgetattr(&self.master).unwrap()
    }

    fn types(&mut self, keys: &[u8]) {
        self.master.write_all(keys).unwrap();
    }

    /// Waits until `text` is on the screen.
    fn shows(&self, text: &str) {
        let is_shown = |seen: &Seen| screen(&seen.written).iter().any(|row| row.contains(text));
        if let Err(seen) = self.wait_until(is_shown) {
            panic!("never showed {text:?}:\n{}", screen(&seen).join("\n"));
        }
    }

    /// Waits until it ends; its exit code and all that it wrote.
    fn ended(&mut self) -> (Option<i32>, String) {
        let over = self.wait_until(|seen| seen.is_over);
        if let Err(seen) = over {
            kill_process(Pid::from_child(&self.child), Signal::KILL).unwrap();
            panic!("still there:\n{}", screen(&seen).join("\n"));
        }
        let written = self.seen.0.lock().unwrap().written.clone();
        (self.child.wait().unwrap().code(), String::from_utf8(written).unwrap())
    }

    fn wait_until(&self, is_so: impl Fn(&Seen) -> bool) -> Result<(), Vec<u8>> {
        let (seen, news) = &*self.seen;
        let mut seen = seen.lock().unwrap();
        let until = now() + LIMIT;
        while !is_so(&seen) {
            let left = until.saturating_duration_since(now());
            if left.is_zero() || seen.is_over {
                return Err(seen.written.clone());
            }
            seen = news.wait_timeout(seen, left.min(Duration::from_secs(1))).unwrap().0;
        }
        Ok(())
    }
}

impl Drop for Top {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// How a terminal takes what is typed and shows what is written.
fn modes(settings: &Termios) -> impl PartialEq + std::fmt::Debug + use<> {
    (settings.input_modes, settings.output_modes, settings.local_modes)
}

/// What a terminal shows that got these bytes: the little of it that the screen uses.
fn screen(written: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(written);
    let mut rows = vec![vec![' '; COLUMNS]; 30];
    let (mut row, mut column) = (0, 0);
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\u{1b}' => {
                if characters.next() != Some('[') {
                    continue;
                }
                let mut words = String::new();
                let end = characters.by_ref().find(|next| {
                    let is_end = next.is_ascii_alphabetic();
                    if !is_end {
                        words.push(*next);
                    }
                    is_end
                });
                match end {
                    Some('H') => {
                        let mut numbers = words.split(';').map(|word| word.parse().unwrap_or(1));
                        row = numbers.next().unwrap_or(1_usize) - 1;
                        column = numbers.next().unwrap_or(1_usize) - 1;
                    }
                    Some('J') => rows = vec![vec![' '; COLUMNS]; 30],
                    _ => {}
                }
            }
            '\r' => column = 0,
            '\n' => row += 1,
            shown => {
                if let Some(cell) = rows.get_mut(row).and_then(|row| row.get_mut(column)) {
                    *cell = shown;
                }
                column += 1;
            }
        }
    }
    rows.into_iter().map(|row| row.into_iter().collect()).collect()
}

#[expect(clippy::disallowed_methods, reason = "a test waits with a limit")]
fn now() -> Instant {
    Instant::now()
}

const COLUMNS: usize = 120;
