//! What it costs who publishes that others look on: `vakbus emit` alone, and beside a
//! `vakbus tail --follow` and a `vakbus top` of the same bus.
//!
//! Processor seconds of the publisher, and how long it took: on a machine with few cores who looks
//! on needs one of them, so the second says more about the machine than about the bus.

use std::{
    fs::File,
    io::{BufRead as _, BufReader, Read, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};

use crate::nats;
use crate::repo::{Repo, name_of, succeeds};
use crate::scratch::Scratch;

use super::Options;
use super::measure::{Measured, alternate};

/// Processor seconds, on this machine's own engine behind a daemon.
pub(super) fn daemon_work(repo: &Repo, _options: &Options) -> Result<Measured> {
    measure(repo, &["up"], |took| took.processor)
}

/// Seconds, there.
pub(super) fn daemon_time(repo: &Repo, _options: &Options) -> Result<Measured> {
    measure(repo, &["up"], |took| took.wall)
}

/// Processor seconds, at a NATS server.
pub(super) fn nats_work(repo: &Repo, _options: &Options) -> Result<Measured> {
    measure(repo, &["up", "--nats"], |took| took.processor)
}

/// Seconds, there.
pub(super) fn nats_time(repo: &Repo, _options: &Options) -> Result<Measured> {
    measure(repo, &["up", "--nats"], |took| took.wall)
}

fn measure(repo: &Repo, up: &[&str], figure: fn(Took) -> f64) -> Result<Measured> {
    if !succeeds(&mut repo.cargo(["build", "--quiet", "--release", "-p", "bus-cli"]))? {
        bail!("bus-cli does not build");
    }
    let scratch = Scratch::new("watch")?;
    let text = scratch.path().join("text");
    write_text(&text)?;
    let program = repo.target_dir()?.join("release").join("vakbus");
    let mut place = Place { program, home: scratch.folder("home")?, text, server: None };
    let mut command = place.command(up);
    nats::lend(repo, &mut command);
    place.server = Some(Watcher::start(command, "ready")?);
    alternate(
        RUNS,
        || Ok(figure(place.emit()?)),
        || {
            let watchers = [place.tail()?, place.top()?];
            let took = place.emit()?;
            for mut watcher in watchers {
                watcher.check_runs()?;
            }
            Ok(figure(took))
        },
    )
}

/// A data home with a bus.
struct Place {
    program: PathBuf,
    home: PathBuf,
    /// What is published.
    text: PathBuf,
    server: Option<Watcher>,
}

/// What the publisher took, in seconds.
struct Took {
    wall: f64,
    processor: f64,
}

impl Place {
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(args).env("VAKBUS_DATA_DIR", &self.home).stdin(Stdio::null());
        command
    }

    /// Publishes the text; what that took, as the shell tells it.
    fn emit(&self) -> Result<Took> {
        let mut command = Command::new("bash");
        command.args(["-c", "TIMEFORMAT='%3R %3U %3S'; time \"$@\"", "time"]).arg(&self.program);
        command.args(["emit", "terminal", "--session", SESSION, "--quiet"]);
        command.env("VAKBUS_DATA_DIR", &self.home).env("LC_ALL", "C");
        command.stdin(File::open(&self.text).context("open the text")?);
        let output = command.output().with_context(|| name_of(&command))?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}: {}: {said}", name_of(&command), output.status);
        parse(&said).with_context(|| format!("not a time: {said}"))
    }

    /// Who prints all that is published; it hears already.
    fn tail(&self) -> Result<Watcher> {
        let tail = Watcher::spawn(self.command(&["tail", "--follow"]), MARK)?;
        for _ in 0..MARKS_MAX {
            let args = ["pub", "--session", SESSION, "terminal", MARK];
            let mut mark = self.command(&args);
            ensure!(mark.status()?.success(), "{} failed", name_of(&mark));
            if tail.seen.recv_timeout(A_SECOND).is_ok() {
                return Ok(tail);
            }
        }
        bail!("vakbus tail --follow hears nothing")
    }

    /// Who shows it all on a terminal, which python lends.
    fn top(&self) -> Result<Watcher> {
        let mut command = Command::new("python3");
        command.args(["-c", LEND]).arg(&self.program).arg("top");
        command.env("VAKBUS_DATA_DIR", &self.home).stdin(Stdio::null());
        Watcher::start(command, "queues")
    }
}

/// A program that runs until this is dropped; what it prints is read all the time.
struct Watcher {
    child: Child,
    /// Says when what was waited for was printed.
    seen: Receiver<()>,
}

impl Watcher {
    /// Starts a program and waits until it has printed `mark`, in whatever case.
    fn start(command: Command, mark: &'static str) -> Result<Self> {
        let name = name_of(&command);
        let watcher = Self::spawn(command, mark)?;
        let seen = watcher.seen.recv_timeout(READY_MAX);
        seen.with_context(|| format!("{name} never printed `{mark}`"))?;
        Ok(watcher)
    }

    fn spawn(mut command: Command, mark: &'static str) -> Result<Self> {
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().with_context(|| name_of(&command))?;
        let printed = child.stdout.take().context("the program has no output")?;
        let (seen_by, seen) = mpsc::channel();
        thread::spawn(move || read_all(printed, mark, &seen_by));
        Ok(Self { child, seen })
    }

    /// Fails when it has ended by itself: then nobody looked on.
    fn check_runs(&mut self) -> Result<()> {
        match self.child.try_wait().context("look at a watcher")? {
            None => Ok(()),
            Some(status) => bail!("a watcher ended by itself: {status}"),
        }
    }
}

impl Drop for Watcher {
    /// Asks it to end, so that a supervisor ends its server.
    fn drop(&mut self) {
        let pid = self.child.id().to_string();
        // One that has ended already needs no signal.
        let _ignored = Command::new("kill").arg(pid).stderr(Stdio::null()).status();
        let _reaped = self.child.wait();
    }
}

/// Reads to the end, and tells once that `mark` was printed.
fn read_all(printed: impl Read, mark: &str, seen: &mpsc::Sender<()>) {
    let (mut printed, mut last) = (BufReader::new(printed), Vec::new());
    let mut is_seen = false;
    while let Ok(bytes) = printed.fill_buf() {
        let count = bytes.len();
        if count == 0 {
            return;
        }
        if !is_seen {
            last.extend(bytes.iter().map(u8::to_ascii_lowercase));
            is_seen = last.windows(mark.len()).any(|window| window == mark.as_bytes());
            last.drain(..last.len().saturating_sub(mark.len()));
            if is_seen {
                // Whoever waited no longer needs no answer.
                let _ignored = seen.send(());
            }
        }
        printed.consume(count);
    }
}

/// The last line of what the shell says: seconds, of the clock, of the program, of the system.
fn parse(said: &str) -> Option<Took> {
    let mut numbers = said.lines().last()?.split(' ').map(|word| word.parse::<f64>().ok());
    let mut next = || numbers.next().flatten();
    let (wall, user, system) = (next()?, next()?, next()?);
    Some(Took { wall, processor: user + system })
}

fn write_text(path: &Path) -> Result<()> {
    let mut file = std::io::BufWriter::new(File::create(path).context("write the text")?);
    for number in 0..LINES {
        writeln!(file, "   Compiling crate-{number:07} v0.1.0 (/srv/crates/{number:07}/src)")?;
    }
    Ok(file.flush()?)
}

/// Runs a program on a terminal of 120 columns that answers where its cursor is, as it has to.
const LEND: &str = r#"
import os, pty, sys
os.environ['TERM'] = 'xterm-256color'
def read(terminal):
    printed = os.read(terminal, 65536)
    if b'\x1b[6n' in printed:
        os.write(terminal, b'\x1b[1;1R')
    return printed
sized = ['sh', '-c', 'stty rows 40 cols 120 && exec "$@"', 'sh'] + sys.argv[1:]
sys.exit(pty.spawn(sized, read))
"#;

/// 60 bytes each: 360 MB, so that the publisher works for a second or two.
const LINES: u32 = 6_000_000;
const SESSION: &str = "watched";
const MARK: &str = "somebody-looks-on";
const MARKS_MAX: u32 = 20;
const A_SECOND: Duration = Duration::from_secs(1);
const READY_MAX: Duration = Duration::from_secs(30);
const RUNS: usize = 7;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_are_on_the_last_line() {
        let took = parse("a warning\n1.500 0.250 0.125\n").unwrap();
        assert_eq!((took.wall, took.processor), (1.5, 0.375));
        assert!(parse("1.500 0.250\n").is_none() && parse("").is_none());
    }

    #[test]
    fn a_watcher_is_ready_once_it_printed_the_mark() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo not yet; echo now Ready; exec cat"]).stdin(Stdio::piped());
        let mut watcher = Watcher::start(command, "ready").unwrap();
        watcher.check_runs().unwrap();
    }

    #[test]
    fn a_watcher_that_ended_by_itself_is_an_error() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo ready"]);
        let mut watcher = Watcher::start(command, "ready").unwrap();
        watcher.child.wait().unwrap();
        assert!(watcher.check_runs().is_err());
    }
}
