//! Where the repository is, which files it has, and the cargo that works on it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The work tree the developer stands in.
#[derive(Debug)]
pub(crate) struct Repo {
    root: PathBuf,
}

impl Repo {
    /// Finds the workspace that holds the current folder.
    ///
    /// # Errors
    /// When cargo knows of no workspace here.
    pub(crate) fn find() -> Result<Self> {
        let mut locate = Command::new(cargo_program());
        locate.args(["locate-project", "--workspace", "--message-format", "plain"]);
        let manifest = PathBuf::from(text_of(&mut locate)?.trim_end());
        let root = manifest.parent().context("the workspace manifest has no folder")?;
        Ok(Self { root: root.to_owned() })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// A cargo call from the root of the workspace. Build scripts ask what cargo tells a program
    /// that it runs: with ours they would run again, and much be built anew.
    pub(crate) fn cargo<'a>(&self, words: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = Command::new(cargo_program());
        command.current_dir(&self.root).args(words);
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if FROM_CARGO.iter().any(|start| text.starts_with(start)) {
                command.env_remove(&name);
            }
        }
        command
    }

    /// Files of the work tree that are or could be committed: sorted, relative, with `/`.
    ///
    /// # Errors
    /// When git fails.
    pub(crate) fn files(&self) -> Result<Vec<String>> {
        files_in(&self.root)
    }

    /// The folder that cargo builds into.
    ///
    /// # Errors
    /// When cargo fails.
    pub(crate) fn target_dir(&self) -> Result<PathBuf> {
        let metadata = self.metadata().no_deps().exec().context("cargo metadata")?;
        Ok(metadata.target_directory.into_std_path_buf())
    }

    pub(crate) fn metadata(&self) -> cargo_metadata::MetadataCommand {
        let mut command = cargo_metadata::MetadataCommand::new();
        command.cargo_path(cargo_program()).current_dir(&self.root);
        command
    }
}

/// Lists the files of the git work tree at `root` that are not ignored.
///
/// # Errors
/// When git fails.
pub(crate) fn files_in(root: &Path) -> Result<Vec<String>> {
    let mut list = git(root);
    list.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let text = text_of(&mut list)?;
    let mut files: Vec<String> = text
        .split('\0')
        .filter(|file| !file.is_empty() && root.join(file).symlink_metadata().is_ok())
        .map(str::to_owned)
        .collect();
    files.sort();
    files.dedup();
    Ok(files)
}

/// A git call at `root`, deaf to the variables that a hook would have set.
pub(crate) fn git(root: &Path) -> Command {
    let mut command = Command::new("git");
    command.current_dir(root);
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"] {
        command.env_remove(name);
    }
    command
}

/// Runs a command with the terminal as its own; says whether it succeeded.
///
/// # Errors
/// When it cannot be started.
pub(crate) fn succeeds(command: &mut Command) -> Result<bool> {
    Ok(command.status().with_context(|| name_of(command))?.success())
}

/// Runs a command and returns what it printed.
///
/// # Errors
/// When it cannot be started, fails, or prints what is not UTF-8.
pub(crate) fn text_of(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| name_of(command))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{}: {}: {}", name_of(command), output.status, said.trim_end());
    }
    String::from_utf8(output.stdout).with_context(|| name_of(command))
}

/// The command as a person would type it, for messages.
pub(crate) fn name_of(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let mut name = program.to_string_lossy().into_owned();
    for word in command.get_args() {
        name.push(' ');
        name.push_str(&word.to_string_lossy());
    }
    name
}

/// The cargo that runs us, so that a chosen toolchain stays chosen.
fn cargo_program() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"))
}

/// How the variables begin that cargo sets for a program that it runs.
pub(crate) const FROM_CARGO: [&str; 5] =
    ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CRATE_", "CARGO_BIN_", "CARGO_PRIMARY_"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cargo_that_we_call_is_told_nothing_of_our_own_package() {
        assert!(std::env::var_os("CARGO_PKG_NAME").is_some());
        let command = Repo { root: PathBuf::from("/") }.cargo(["build"]);
        assert!(
            command.get_envs().any(|(name, value)| name == "CARGO_PKG_NAME" && value.is_none())
        );
    }
}
