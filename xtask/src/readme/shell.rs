//! One bash for all commands, as a reader would have it: `cd` and `export` last.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use anyhow::{Context, Result};

/// How one command ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ended {
    /// Its exit code; absent when it never said.
    pub(super) code: Option<i32>,
    /// Why there is no exit code.
    pub(super) trouble: String,
    /// Everything it wrote to either stream.
    pub(super) printed: String,
}

/// Where and with which variables the commands run.
pub(super) struct Shell {
    folder: PathBuf,
    variables: Vec<(&'static str, OsString)>,
    wait_max: Duration,
}

impl Shell {
    pub(super) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), variables: Vec::new(), wait_max: WAIT_MAX }
    }

    pub(super) fn env(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.variables.push((name, value.into()));
        self
    }

    /// Ends a command that takes longer.
    #[cfg(test)]
    pub(super) fn wait_max(self, wait_max: Duration) -> Self {
        Self { wait_max, ..self }
    }

    /// Runs `commands` in their order with notes kept in `notes`; stops at the first that takes
    /// the shell with it or never ends. What is left running in the background is ended.
    ///
    /// # Errors
    /// When bash cannot be started or the notes cannot be kept.
    pub(super) fn run(
        &self,
        notes: &Path,
        commands: &[&str],
        mut tell: impl FnMut(Ended),
    ) -> Result<()> {
        for (number, text) in (1..).zip(commands) {
            std::fs::write(notes.join(format!("{number}.sh")), text).context("note a command")?;
        }
        let mut bash = self.bash(notes, commands.len());
        let mut child = bash.spawn().context("start bash")?;
        let codes = codes(&mut child)?;
        for number in 1..=commands.len() {
            let (code, trouble) = match codes.recv_timeout(self.wait_max) {
                Ok(line) => (line.parse().ok(), format!("bash said `{line}`")),
                Err(RecvTimeoutError::Disconnected) => (None, "it ended the shell".to_owned()),
                Err(RecvTimeoutError::Timeout) => {
                    (None, format!("it did not end in {} s", self.wait_max.as_secs()))
                }
            };
            let printed = std::fs::read(notes.join(format!("{number}.out"))).unwrap_or_default();
            let printed = String::from_utf8_lossy(&printed).into_owned();
            let is_over = code.is_none();
            tell(Ended { code, trouble, printed });
            if is_over {
                break;
            }
        }
        end(&mut child);
        Ok(())
    }

    fn bash(&self, notes: &Path, count: usize) -> Command {
        let mut bash = Command::new("bash");
        bash.args(["--noprofile", "--norc", "-c", DRIVER, "bash"]).arg(notes);
        bash.arg(count.to_string()).current_dir(&self.folder);
        // What cargo tells a program that it runs is not there in a reader's shell.
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if FROM_CARGO.iter().any(|start| text.starts_with(start)) {
                bash.env_remove(&name);
            }
        }
        for (name, value) in &self.variables {
            bash.env(name, value);
        }
        bash.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
        bash
    }
}

/// Passes on what the driver prints, one exit code a line.
fn codes(child: &mut Child) -> Result<Receiver<String>> {
    let printed = child.stdout.take().context("bash has a standard output")?;
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(printed).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    Ok(receiver)
}

/// Ends bash and all that it left behind, which share its process group.
fn end(child: &mut Child) {
    let group = format!("-{}", child.id());
    // Best effort: an empty group has nothing left to end.
    let _ignored =
        Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
    let _ignored = child.wait();
}

/// Reads the commands from the folder `$1`, runs `$2` of them and prints their exit codes.
const DRIVER: &str = r#"
XTASK_NOTES=$1 XTASK_COUNT=$2
for ((XTASK_NUMBER = 1; XTASK_NUMBER <= XTASK_COUNT; XTASK_NUMBER++)); do
    eval "$(<"$XTASK_NOTES/$XTASK_NUMBER.sh")" >"$XTASK_NOTES/$XTASK_NUMBER.out" 2>&1
    echo "$?"
done
"#;
/// Long enough for a release build on a slow machine.
const WAIT_MAX: Duration = Duration::from_secs(30 * 60);
const FROM_CARGO: [&str; 6] = [
    "CARGO_PKG_",
    "CARGO_MANIFEST_",
    "CARGO_CRATE_",
    "CARGO_BIN_",
    "CARGO_PRIMARY_",
    "LD_LIBRARY_PATH",
];
