//! A fresh clone of the work tree, with an environment that leaves the developer's own alone.

use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::repo::{self, Repo};
use crate::scratch::Scratch;
use crate::shell::{Ended, Shell};

/// A copy of the files that are or could be committed, as a repository of one commit.
pub(super) struct Sandbox {
    scratch: Scratch,
    shell: Shell,
}

impl Sandbox {
    /// Copies the work tree and points the build, the data home and installs to places of ours.
    ///
    /// # Errors
    /// When git or the disk fails.
    pub(super) fn new(repo: &Repo) -> Result<Self> {
        let scratch = Scratch::new("readme")?;
        let clone = scratch.folder("clone")?;
        copy(repo.root(), &clone)?;
        commit(&clone)?;
        // The workspace's own build, so that nothing from outside is built twice; as a link as
        // well, for commands that name `target/` themselves.
        let target = repo.target_dir()?;
        std::os::unix::fs::symlink(&target, clone.join("target")).context("link target")?;
        let installs = scratch.folder("installs")?;
        let data = scratch.folder("data")?;
        let mut path = installs.join("bin").into_os_string();
        if let Some(outer) = std::env::var_os("PATH") {
            path.push(":");
            path.push(outer);
        }
        let shell = Shell::new(&clone, scratch.path())
            .env("CARGO_TARGET_DIR", &target)
            .env("CARGO_INSTALL_ROOT", &installs)
            .env("VAKBUS_DATA_DIR", &data)
            // The commands run as written. Nothing here measures speed, so the optimiser does less.
            .env("CARGO_PROFILE_RELEASE_LTO", "off")
            .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")
            .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
            .env("PATH", path);
        Ok(Self { scratch, shell })
    }

    /// Runs the commands in one shell and tells how each ended.
    ///
    /// # Errors
    /// When the shell cannot be started.
    pub(super) fn run(&self, commands: &[&str], tell: impl FnMut(Ended) -> bool) -> Result<()> {
        self.shell.run(&self.scratch.folder("commands")?, commands, tell)
    }
}

/// Copies what git lists, permissions and links included.
pub(super) fn copy(from: &Path, to: &Path) -> Result<()> {
    for file in repo::files_in(from)? {
        let (source, place) = (from.join(&file), to.join(&file));
        let folder = place.parent().context("a file stands in a folder")?;
        std::fs::create_dir_all(folder).with_context(|| format!("make the folder of {file}"))?;
        if source.is_symlink() {
            let target = std::fs::read_link(&source).with_context(|| format!("read {file}"))?;
            std::os::unix::fs::symlink(target, &place).with_context(|| format!("link {file}"))?;
        } else {
            std::fs::copy(&source, &place).with_context(|| format!("copy {file}"))?;
        }
    }
    Ok(())
}

/// Makes `folder` a repository whose one commit holds everything in it.
pub(super) fn commit(folder: &Path) -> Result<()> {
    let identity = ["-c", "user.name=xtask", "-c", "user.email=xtask@localhost"];
    let plain = ["-c", "commit.gpgsign=false", "-c", "core.hooksPath=/dev/null"];
    let calls: [&[&str]; 3] = [
        &["init", "--quiet", "--initial-branch", "main"],
        &["add", "--all"],
        &["commit", "--quiet", "--message", "The work tree as it is"],
    ];
    for words in calls {
        let mut command = repo::git(folder);
        command.args(identity).args(plain).args(words);
        if !repo::succeeds(&mut command)? {
            bail!("git {} failed in the fresh clone", words.join(" "));
        }
    }
    Ok(())
}
