//! One bash for all commands, as a reader would have it: `cd`, `export` and `&` last.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::repo::FROM_CARGO;

use guard::Guard;

mod guard;

/// How one command ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    /// Its exit code; absent when it never said.
    pub(crate) code: Option<i32>,
    /// Why there is no exit code.
    pub(crate) trouble: String,
    /// Everything it wrote to either stream.
    pub(crate) printed: String,
}

/// Where and with which variables the commands run.
pub(crate) struct Shell {
    folder: PathBuf,
    scratch: PathBuf,
    variables: Vec<(&'static str, OsString)>,
    is_bare: bool,
    wait_max: Duration,
}

impl Shell {
    /// One that begins in `folder`. When this process is ended before the shell is, `scratch` is
    /// removed as well.
    pub(crate) fn new(folder: &Path, scratch: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            scratch: scratch.to_owned(),
            variables: Vec::new(),
            is_bare: false,
            wait_max: WAIT_MAX,
        }
    }

    /// Gives the commands no variable of ours.
    pub(crate) fn bare(self) -> Self {
        Self { is_bare: true, ..self }
    }

    pub(crate) fn env(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.variables.push((name, value.into()));
        self
    }

    /// Ends a command that takes longer.
    pub(crate) fn wait_max(self, wait_max: Duration) -> Self {
        Self { wait_max, ..self }
    }

    /// Runs `commands` in their order with notes kept in `notes`; stops when `tell` says `false`
    /// and at the first that takes the shell with it or never ends. What is left running in the
    /// background is asked to end, and is ended when it does not.
    ///
    /// # Errors
    /// When bash cannot be started or the notes cannot be kept.
    pub(crate) fn run(
        &self,
        notes: &Path,
        commands: &[&str],
        mut tell: impl FnMut(Ended) -> bool,
    ) -> Result<()> {
        for (number, text) in commands.iter().enumerate() {
            std::fs::write(notes.join(format!("{number}.sh")), text).context("note a command")?;
        }
        let mut bash = self.bash(notes, commands.len());
        let mut child = bash.spawn().context("start bash")?;
        let guard = match Guard::over(child.id(), &self.scratch) {
            Ok(guard) => guard,
            Err(error) => {
                // Best effort: without bash nothing of it begins.
                let _ignored = child.kill();
                return Err(error);
            }
        };
        let codes = codes(&mut child)?;
        for number in 0..commands.len() {
            let (code, trouble) = match codes.recv_timeout(self.wait_max) {
                Ok(line) => (line.parse().ok(), format!("bash said `{line}`")),
                Err(RecvTimeoutError::Disconnected) => (None, "it ended the shell".to_owned()),
                Err(RecvTimeoutError::Timeout) => {
                    (None, format!("it did not end in {:?}", self.wait_max))
                }
            };
            let is_over = code.is_none();
            let goes_on = tell(Ended { code, trouble, printed: printed(notes, number) });
            if is_over || !goes_on {
                break;
            }
        }
        guard.end(&mut child);
        Ok(())
    }

    fn bash(&self, notes: &Path, count: usize) -> Command {
        let mut bash = Command::new("bash");
        bash.args(["--noprofile", "--norc", "-c", DRIVER, "bash"]).arg(notes);
        bash.arg(count.to_string()).current_dir(&self.folder);
        // What cargo tells a program that it runs is not there in a reader's shell.
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            let is_ours = text.starts_with("LD_LIBRARY_PATH")
                || FROM_CARGO.iter().any(|start| text.starts_with(start));
            if self.is_bare || is_ours {
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

/// Everything that command `number`, counted from 0, has written to either stream so far.
pub(crate) fn printed(notes: &Path, number: usize) -> String {
    let bytes = std::fs::read(notes.join(format!("{number}.out"))).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
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

/// Reads the commands from the folder `$1`, runs `$2` of them and prints their exit codes. Asked to
/// end, it begins no more; it waits for what runs in the background, so that nobody else has to.
/// In braces it is read whole before any of it is run, so that no command can garble the rest.
const DRIVER: &str = r#"{
XTASK_NOTES=$1 XTASK_COUNT=$2 XTASK_OVER=
set --
trap 'XTASK_OVER=1' TERM
for ((XTASK_NUMBER = 0; XTASK_NUMBER < XTASK_COUNT; XTASK_NUMBER++)); do
    eval "$(<"$XTASK_NOTES/$XTASK_NUMBER.sh")" >"$XTASK_NOTES/$XTASK_NUMBER.out" 2>&1
    XTASK_CODE=$?
    [[ $XTASK_OVER ]] && break
    echo "$XTASK_CODE"
done
until wait; do :; done
}"#;
/// Long enough for a release build on a slow machine.
const WAIT_MAX: Duration = Duration::from_secs(30 * 60);

#[cfg(test)]
mod tests;
