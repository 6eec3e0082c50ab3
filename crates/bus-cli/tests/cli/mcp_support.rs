//! The client of MCP that nobody here wrote: the package `mcp` from `PyPI`, fetched once.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
    time::Duration,
};

use serde_json::Value;

use crate::support::Place;

/// The release that these tests were made with.
const RELEASE: &str = "mcp==2.3.0";

/// The longest time that a story may take, an engine's lease included.
const LIMIT: Duration = Duration::from_secs(180);

/// Runs `story`, a Python function of the file of stories, in a mode of the protocol beside the
/// daemon of `place`, and returns what it says.
pub(crate) fn story(place: &Place, story: &str, mode: &str) -> Value {
    place.write("stories.py", include_str!("mcp/stories.py"));
    let vakbus = env!("CARGO_BIN_EXE_vakbus");
    // The settings of this place are in the environment of its commands.
    let mut command = place.shell(r#"exec python3 stories.py "$1" "$2""#);
    command.args([story, mode]).env("PYTHONPATH", packages()).env("VAKBUS", vakbus);
    let output = assert_cmd::Command::from_std(command).timeout(LIMIT).output().unwrap();
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{story} {mode}: {out}{err}");
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"))
}

/// Where the package and what it needs are. Whoever comes first fetches them, the others wait.
fn packages() -> &'static Path {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND.get_or_init(|| {
        let tools = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("tools");
        fs::create_dir_all(&tools).unwrap();
        // Parts of it are made for one version of Python.
        let tag = said(Command::new("python3").args(["-c", TAG]));
        let place = tools.join(format!("{}-{}", RELEASE.replace("==", "-"), tag.trim()));
        let lock = File::create(tools.join("mcp.lock")).unwrap();
        lock.lock().unwrap();
        if !place.is_dir() {
            let work = tempfile::tempdir_in(&tools).unwrap();
            let mut pip = Command::new("python3");
            pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
            let known = work.path().join("constraints.txt");
            fs::write(&known, include_str!("mcp/constraints.txt")).unwrap();
            pip.args(["--only-binary", ":all:", "--target"])
                .arg(work.path().join("p"))
                .arg("--constraint")
                .arg(known)
                .arg(RELEASE);
            said(&mut pip);
            fs::rename(work.path().join("p"), &place).unwrap();
        }
        place
    })
}

/// What a command prints that has to succeed.
fn said(command: &mut Command) -> String {
    const NEEDED: &str = "no client of MCP: it needs python3 with pip, and PyPI";
    let output = command.output().unwrap_or_else(|error| panic!("{NEEDED}: {error}"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{NEEDED}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

const TAG: &str = "import sys; print(sys.implementation.cache_tag)";
