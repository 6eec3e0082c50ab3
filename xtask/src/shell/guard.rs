//! Ends a process group when its owner is done with it, or is gone: a Ctrl-C that ends this program
//! leaves no daemon behind.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use anyhow::{Context, Result};

/// A process of its own that waits for the end of a pipe from us.
pub(super) struct Guard {
    watch: Child,
    pipe: Option<ChildStdin>,
}

impl Guard {
    /// Watches over the process group `group`; removes `scratch` too when its owner is gone.
    ///
    /// # Errors
    /// When bash cannot be started.
    pub(super) fn over(group: u32, scratch: &Path) -> Result<Self> {
        let mut bash = Command::new("bash");
        bash.args(["--noprofile", "--norc", "-c", WATCH, "bash"]).arg(group.to_string());
        bash.arg(scratch).current_dir("/").process_group(0);
        bash.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut watch = bash.spawn().context("start bash")?;
        let pipe = watch.stdin.take();
        Ok(Self { watch, pipe })
    }

    /// Ends the group and returns when it has ended; `leader` is the child that began it.
    pub(super) fn end(mut self, leader: &mut Child) {
        if let Some(mut pipe) = self.pipe.take() {
            // Best effort: one that is gone already has seen the end of the pipe.
            let _ignored = pipe.write_all(b"kept\n");
        }
        let _ignored = leader.wait();
        let _ignored = self.watch.wait();
    }

    /// Does what the end of this process does.
    #[cfg(test)]
    pub(super) fn abandon(mut self) {
        drop(self.pipe.take());
        self.watch.wait().unwrap();
    }
}

/// Whoever finishes its work at the first signal, as a worker does, stops at the second.
const WATCH: &str = r#"
trap '' HUP INT TERM
read -r word
kill -TERM -- "-$1"
for ((turn = 0; turn < 200; turn++)); do
    kill -0 -- "-$1" || break
    ((turn == 60)) && kill -TERM -- "-$1"
    sleep 0.05
done
((turn == 200)) && kill -KILL -- "-$1"
[[ $word == kept ]] || rm -rf -- "$2"
"#;
