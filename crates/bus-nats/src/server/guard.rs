//! Ends the server when this process dies without ending it (S0.87: nothing is left running).
//!
//! The system could do it (`PR_SET_PDEATHSIG`), but asking for it takes code between fork and exec,
//! and it fires when the *thread* ends that started the server. Instead a small shell waits at the
//! end of a pipe that only this process holds: when the pipe closes, the process is gone.

use std::{
    io,
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
};

/// The shell that waits. Dropping it ends it and leaves the server alone.
#[derive(Debug)]
pub(super) struct Guard {
    /// Holds our end of the pipe.
    shell: Child,
}

impl Guard {
    /// Watches over the process `pid`, whose number must not be free before this is dropped.
    pub(super) fn over(pid: u32) -> io::Result<Self> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SCRIPT, "nats-server-guard", &pid.to_string()]);
        command.env_clear().env("PATH", "/usr/bin:/bin").current_dir("/");
        // In a group of its own, so that Ctrl-C at a terminal does not reach it.
        command.process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self { shell: command.spawn()? })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // It can only have ended already.
        let _ignored = self.shell.kill();
        let _ignored = self.shell.wait();
    }
}

/// Nobody writes into the pipe, so `read` returns when it closes. A stopped server must go on to
/// hear the signal; one that does not end in five seconds is killed.
const SCRIPT: &str = r#"
read -r _
kill -TERM "$1"
kill -CONT "$1"
for _ in 1 2 3 4 5; do
    sleep 1
    kill -0 "$1" || exit 0
done
kill -KILL "$1"
"#;
