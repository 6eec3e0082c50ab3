//! A home that nobody used before, for the commands of one page.

use std::ops::Range;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::nats;
use crate::scratch::Scratch;
use crate::shell::{self, Ended, Shell};

/// Where a page's commands run: an empty home, an empty folder in it, `vakbus` in the path, and no
/// variable of whoever runs this.
pub(super) struct Home {
    notes: PathBuf,
    shell: Shell,
    _scratch: Scratch,
}

impl Home {
    /// Makes one for `program`; `server` is the nats-server that it may start.
    ///
    /// # Errors
    /// When the disk fails.
    pub(super) fn new(program: &Path, server: Option<&Path>, wait_max: Duration) -> Result<Self> {
        let scratch = Scratch::new("guide")?;
        let (home, temporary) = (scratch.folder("home")?, scratch.folder("tmp")?);
        let (bin, notes) = (scratch.folder("bin")?, scratch.folder("commands")?);
        let work = scratch.folder("home/work")?;
        symlink(program, bin.join("vakbus")).context("link vakbus")?;
        let mut path = bin.into_os_string();
        if let Some(outer) = std::env::var_os("PATH") {
            path.push(":");
            path.push(outer);
        }
        let mut shell = Shell::new(&work, scratch.path())
            .bare()
            .wait_max(wait_max)
            .env("HOME", home)
            .env("TMPDIR", temporary)
            .env("PATH", path)
            .env("LANG", "C.UTF-8");
        if let Some(server) = server {
            shell = shell.env(nats::VARIABLE, server);
        }
        Ok(Self { notes, shell, _scratch: scratch })
    }

    /// Runs the commands in one shell and tells how each ended, as long as `tell` says `true`.
    ///
    /// # Errors
    /// When the shell cannot be started.
    pub(super) fn run(&self, commands: &[&str], tell: impl FnMut(Ended) -> bool) -> Result<()> {
        self.shell.run(&self.notes, commands, tell)
    }

    /// All that these commands have printed, background included.
    pub(super) fn printed(&self, commands: Range<usize>) -> String {
        commands.map(|number| shell::printed(&self.notes, number)).collect()
    }
}
