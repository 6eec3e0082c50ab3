//! What reaches a person's terminal of what others wrote, and what a pipe gets of it.

use std::{
    fs::{File, OpenOptions},
    io::{ErrorKind, Read},
    os::unix::fs::OpenOptionsExt,
    process::Stdio,
    sync::mpsc,
    thread,
};

use rustix::{
    fs::OFlags,
    io::Errno,
    process::{Pid, Signal, kill_process},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
};

use crate::{
    daemon_support::Daemon,
    support::{LIMIT, Lines, Place},
};

/// Names the window, wipes the screen, asks the terminal who it is, and prints in red.
const STEERS: &str = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}c\u{1b}[31mred\u{1b}[0m\n";

/// What a terminal may see of it.
const SHOWN: &str = "\u{1b}[0;31mred\u{1b}[0m\n";

#[test]
fn following_on_a_terminal_shows_colours_and_finished_bars() {
    let place = Place::new();
    place.write("tasks", "{\"id\": \"t-1\", \"payload\": \"x\"}\n");
    place.write("output", &format!("{STEERS}10%\r50%\r\u{1b}[K100%\n"));
    let args = ["swarm", "--follow", "--workers", "1", "--tasks", "tasks", "--", "cat", "output"];
    let terminal = Terminal::start(&place, &args).ended();
    assert_eq!(terminal.code, Some(0), "{terminal:?}");
    let lines = format!("[t-1] {SHOWN}[t-1] 100%\n");
    assert!(terminal.stdout.starts_with(&lines), "{terminal:?}");
}

#[test]
fn following_in_a_pipe_shows_lines_without_colours() {
    let place = Place::new();
    place.write("tasks", "{\"id\": \"t-1\", \"payload\": \"x\"}\n");
    place.write("output", STEERS);
    let args = ["swarm", "--follow", "--workers", "1", "--tasks", "tasks", "--", "cat", "output"];
    let outcome = place.run(&args);
    assert!(outcome.stdout.starts_with("[t-1] red\n"), "{outcome:?}");
}

/// A place with a daemon, in which the task `t-1` has written [`STEERS`].
fn with_a_result() -> (Place, Daemon) {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    place.write("output", STEERS);
    let sent = place.run(&["task", "send", "--role", "coder", "--id", "t-1", "x"]);
    assert_eq!(sent.code, Some(0), "{sent:?}");
    let args = ["worker", "--role", "coder", "--until-empty", "--", "cat", "output"];
    let worked = place.run(&args);
    assert_eq!(worked.code, Some(0), "{worked:?}");
    (place, daemon)
}

#[test]
fn a_result_is_exact_in_a_pipe_and_steers_no_terminal() {
    let (place, daemon) = with_a_result();
    let args = ["task", "result", "t-1"];
    assert_eq!(place.run(&args).stdout, STEERS);
    let terminal = Terminal::start(&place, &args).ended();
    assert_eq!((terminal.code, terminal.stdout.as_str()), (Some(0), SHOWN), "{terminal:?}");
    daemon.stop();
}

#[test]
fn raw_output_reaches_a_terminal_only_by_force() {
    let (place, daemon) = with_a_result();
    let refused = Terminal::start(&place, &["task", "result", "t-1", "--raw"]).ended();
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""), "{refused:?}");
    let next = "next: vakbus task result t-1 --raw | less, or --raw=force";
    assert!(refused.stderr.contains(next), "{refused:?}");
    let forced = Terminal::start(&place, &["task", "result", "t-1", "--raw=force"]).ended();
    assert_eq!((forced.code, forced.stdout.as_str()), (Some(0), STEERS), "{forced:?}");
    let piped = place.run(&["task", "result", "t-1", "--raw"]);
    assert_eq!((piped.code, piped.stdout.as_str()), (Some(0), STEERS), "{piped:?}");
    let listener = Terminal::start(&place, &["sub", "--raw", "vak.events.default.>"]).ended();
    assert_eq!((listener.code, listener.stdout.as_str()), (Some(2), ""), "{listener:?}");
    daemon.stop();
}

#[test]
fn the_payload_of_a_dead_letter_is_exact_in_a_pipe_and_steers_no_terminal() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    assert_eq!(place.run(&["task", "send", "--id", "t-1", STEERS]).code, Some(0));
    let worked = place.run(&["worker", "--until-empty", "--max-retries", "0", "--", "false"]);
    assert_eq!(worked.code, Some(3), "{worked:?}");
    let args = ["dlq", "show", "1", "--payload"];
    assert_eq!(place.run(&args).stdout, STEERS);
    let terminal = Terminal::start(&place, &args).ended();
    assert_eq!((terminal.code, terminal.stdout.as_str()), (Some(0), SHOWN), "{terminal:?}");
    let refused = [&args[..], &["--raw"]].concat();
    let refused = Terminal::start(&place, &refused).ended();
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""), "{refused:?}");
    daemon.stop();
}

#[test]
fn an_event_is_one_line_in_its_colours() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let args = ["sub", "--count", "1", "vak.events.default.>"];
    let mut listener = Terminal::start(&place, &args);
    listener.says("listening on");
    let sent = place.run(&["pub", "--session", "s1", "terminal", &format!("{STEERS}more")]);
    assert_eq!(sent.code, Some(0), "{sent:?}");
    let heard = listener.ended();
    let line = "vak.events.default.s1.terminal  \u{1b}[0;31mred\u{1b}[0m more\n";
    assert_eq!((heard.code, heard.stdout.as_str()), (Some(0), line), "{heard:?}");
    daemon.stop();
}

#[test]
fn an_answer_is_exact_in_a_pipe_and_steers_no_terminal() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let mut responder = place.start(&["reply", "judge.review", "--", "cat"]);
    responder.says("answering judge.review");
    let args = ["request", "judge.review", STEERS];
    assert_eq!(place.run(&args).stdout, STEERS);
    let terminal = Terminal::start(&place, &args).ended();
    assert_eq!((terminal.code, terminal.stdout.as_str()), (Some(0), SHOWN), "{terminal:?}");
    responder.signal(Signal::TERM);
    responder.ended();
    daemon.stop();
}

#[test]
fn a_terminal_without_colours_gets_none() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let mut responder = place.start(&["reply", "judge.review", "--", "cat"]);
    responder.says("answering judge.review");
    let args = ["--color", "never", "request", "judge.review", STEERS];
    assert_eq!(Terminal::start(&place, &args).ended().stdout, "red\n");
    responder.signal(Signal::TERM);
    responder.ended();
    daemon.stop();
}

/// A `vakbus` whose stdout is a terminal.
struct Terminal {
    child: std::process::Child,
    shown: mpsc::Receiver<Vec<u8>>,
    stderr: Lines,
    said: Vec<String>,
}

/// How it ended; line breaks are as it wrote them.
#[derive(Debug)]
struct Ended {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Terminal {
    fn start(place: &Place, args: &[&str]) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let flags = OFlags::NOCTTY.bits().cast_signed();
        let slave = OpenOptions::new().read(true).write(true).custom_flags(flags).open(name);
        let mut command = place.command();
        command.args(args).env("TERM", "xterm-256color").stdin(Stdio::null());
        command.stdout(slave.unwrap()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // With the command's own ends gone too, the terminal ends when the program does.
        drop(command);
        let stderr = Lines::of(child.stderr.take().unwrap());
        let (sender, shown) = mpsc::channel();
        thread::spawn(move || sender.send(read_all(File::from(master))));
        Self { child, shown, stderr, said: Vec::new() }
    }

    fn says(&mut self, what: &str) {
        while let Some(line) = self.stderr.next() {
            let is_said = line.contains(what);
            self.said.push(line);
            if is_said {
                return;
            }
        }
        panic!("never said {what:?}: {:?}", self.said);
    }

    fn ended(mut self) -> Ended {
        let Ok(shown) = self.shown.recv_timeout(LIMIT) else {
            kill_process(Pid::from_child(&self.child), Signal::KILL).unwrap();
            panic!("still running: {:?}", self.said);
        };
        let code = self.child.wait().unwrap().code();
        let mut stderr = self.said;
        stderr.extend(std::iter::from_fn(|| self.stderr.next()));
        let stdout = String::from_utf8(shown).unwrap().replace("\r\n", "\n");
        Ended { code, stdout, stderr: stderr.join("\n") }
    }
}

fn read_all(mut master: File) -> Vec<u8> {
    let (mut all, mut part) = (Vec::new(), [0; 4096]);
    loop {
        match master.read(&mut part) {
            Ok(0) => return all,
            Ok(count) => all.extend_from_slice(&part[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // Linux says so when the last end of the other side is closed.
            Err(error) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => return all,
            Err(error) => panic!("the terminal cannot be read: {error}"),
        }
    }
}
