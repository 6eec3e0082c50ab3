//! One call of a hook: a command in a process group of its own, or a POST; again when it fails.

use std::{sync::Arc, time::Duration};

use bus_runner::{CommandSpec, ExitKind, OutputSink, OutputStream, RunReport, StopSignal};
use bytes::Bytes;
use serde_json::Value;
use tokio::{sync::Semaphore, time::sleep};
use tokio_util::sync::CancellationToken;

use crate::{commands::up::counts::HookCounts, config::Hook, print as out};

/// Calls one hook.
pub(super) struct Caller {
    hook: Hook,
    /// What a command is begun with: the shell, and none of the bus's secrets.
    spec: CommandSpec,
    pauses: Pauses,
    counts: Arc<HookCounts>,
    /// One for each command that may run at a time.
    places: Arc<Semaphore>,
}

/// What became of what was to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Settled {
    /// The hook heard of it.
    Heard,
    /// It did not, however often it was told.
    GivenUp,
}

/// How long a call that failed waits until it is tried again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pauses {
    first: Duration,
    most: Duration,
    tries: u32,
}

impl Pauses {
    /// Eight tries within about two minutes.
    const USUAL: Self =
        Self { first: Duration::from_secs(1), most: Duration::from_secs(60), tries: 8 };

    /// The pause after the `tries`-th try; none after the last one.
    fn after(self, tries: u32) -> Option<Duration> {
        let doubled = self.first.saturating_mul(1 << (tries.saturating_sub(1)).min(16));
        (tries < self.tries).then_some(doubled.min(self.most))
    }
}

impl Caller {
    /// `places` says how many commands run at a time, for all that share it.
    pub(super) fn new(
        (hook, spec): (Hook, CommandSpec),
        counts: Arc<HookCounts>,
        places: Arc<Semaphore>,
    ) -> Self {
        Self { hook, spec, pauses: Pauses::USUAL, counts, places }
    }

    /// What its calls are counted in.
    pub(super) fn counts(&self) -> &HookCounts {
        &self.counts
    }

    /// Has the hook hear of `body`, or gives up after the last try, which is told: after eight
    /// tries of ten seconds at most and the pauses between them. A stop settles nothing.
    pub(super) async fn tell(&self, body: &Value, stop: &CancellationToken) -> Option<Settled> {
        let mut tries = 0_u32;
        loop {
            tries = tries.saturating_add(1);
            let failed = match self.call(body, stop).await {
                Ok(()) => return Some(Settled::Heard),
                Err(_) if stop.is_cancelled() => return None,
                Err(failed) => failed,
            };
            self.counts.failed();
            let what = told(body);
            let Some(pause) = self.pauses.after(tries) else {
                out::remark(&format!(
                    "warning: the hook did not hear of {what} and is not told again: {failed}"
                ));
                return Some(Settled::GivenUp);
            };
            tracing::warn!("the hook did not hear of {what}, and is told again: {failed}");
            tokio::select! {
                () = stop.cancelled() => return None,
                () = sleep(pause) => {}
            }
        }
    }

    async fn call(&self, body: &Value, stop: &CancellationToken) -> Result<(), String> {
        let bytes = Bytes::from(body.to_string());
        match &self.hook {
            Hook::Url(url) => tokio::select! {
                biased;
                posted = url.post("application/json", &[], bytes, CALL_TIME) => {
                    posted.map_err(|failed| failed.to_string())
                }
                () = overdue(stop) => Err("it was broken off with the daemon".to_owned()),
            },
            Hook::Command(line) => self.run(line, body, bytes, stop).await,
        }
    }

    async fn run(
        &self,
        line: &str,
        body: &Value,
        stdin: Bytes,
        stop: &CancellationToken,
    ) -> Result<(), String> {
        let mut spec = self.spec.clone();
        spec.args.push(line.into());
        spec.timeout = Some(CALL_TIME);
        spec.grace = GRACE;
        for (name, value) in variables(body) {
            spec.env.push((name.into(), value.into()));
        }
        let place = tokio::select! {
            place = self.places.acquire() => place,
            () = stop.cancelled() => return Err("the daemon ends".to_owned()),
        };
        // They are never closed.
        let _place = place.map_err(|error| error.to_string())?;
        // A `{}` in the line is the shell's, and stays what it is.
        let command = spec.for_text("{}").map_err(|error| error.to_string())?;
        let mut said = Said::default();
        let ends = StopSignal::new();
        let report = {
            let run = bus_runner::run(&command, stdin, &mut said, ends.clone());
            tokio::pin!(run);
            tokio::select! {
                report = &mut run => report,
                () = overdue(stop) => {
                    ends.kill_now();
                    run.await
                }
            }
        };
        said.log();
        ended(&report)
    }
}

/// What a command says, for the log.
#[derive(Debug, Default)]
struct Said(Vec<u8>);

impl Said {
    fn log(&self) {
        let text = String::from_utf8_lossy(&self.0);
        for line in text.lines() {
            tracing::info!("hook: {}", out::harmless(line));
        }
    }
}

impl OutputSink for Said {
    fn started(&mut self, _pid: u32) {}

    async fn chunk(&mut self, _stream: OutputStream, bytes: Bytes) {
        let room = SAID_BYTES_MAX.saturating_sub(self.0.len()).min(bytes.len());
        self.0.extend_from_slice(bytes.get(..room).unwrap_or_default());
    }
}

fn ended(report: &RunReport) -> Result<(), String> {
    let tail = String::from_utf8_lossy(&report.stderr_tail);
    let said = tail.lines().last().map(|line| format!(": {}", out::harmless(line)));
    let how = match &report.exit {
        ExitKind::Exited { code: 0 } => return Ok(()),
        ExitKind::Exited { code } => format!("its command ended with {code}"),
        ExitKind::Signaled { signal } => format!("its command was ended by signal {signal}"),
        ExitKind::TimedOut => {
            format!("its command took longer than {}", humantime::format_duration(CALL_TIME))
        }
        ExitKind::Killed => "its command was ended with the daemon".to_owned(),
        ExitKind::NotStarted { reason, .. } => format!("its command was not started: {reason}"),
    };
    Err(format!("{how}{}", said.unwrap_or_default()))
}

/// Returns when a call that is under way at the end of the daemon is not waited for any longer.
async fn overdue(stop: &CancellationToken) {
    stop.cancelled().await;
    sleep(STOPS_WITHIN).await;
}

/// What a command finds in its environment.
fn variables(body: &Value) -> Vec<(&'static str, String)> {
    let names = [
        ("VAKBUS_HOOK", "hook"),
        ("VAKBUS_WORKSPACE", "workspace"),
        ("VAKBUS_LETTER", "letter"),
        ("VAKBUS_TASK", "task"),
        ("VAKBUS_APPROVAL", "approval"),
    ];
    let value = |member: &str| match body.get(member)? {
        // Nobody can set a variable with a NUL in it.
        Value::String(text) => Some(text.replace('\0', "\u{fffd}")),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    names.into_iter().filter_map(|(name, member)| Some((name, value(member)?))).collect()
}

/// What a body is about, for people.
fn told(body: &Value) -> String {
    let text = |member: &str| body.get(member).and_then(Value::as_str).map(out::harmless);
    match (body.get("letter"), text("approval")) {
        (Some(letter), _) => format!("dead letter {letter}"),
        (None, Some(approval)) => format!("approval {approval}"),
        (None, None) => match body.get("record") {
            Some(record) => format!("record {record} of the approvals"),
            None => "something".to_owned(),
        },
    }
}

/// How long one call may take.
const CALL_TIME: Duration = Duration::from_secs(10);

/// How long a command that is told to end has for it.
const GRACE: Duration = Duration::from_secs(2);

/// How long a call may still take once the daemon is told to end.
const STOPS_WITHIN: Duration = Duration::from_secs(1);

/// How much of what a command says goes into the log.
const SAID_BYTES_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    const FAST: Pauses =
        Pauses { first: Duration::from_millis(1), most: Duration::from_millis(2), tries: 3 };

    fn caller(line: &str) -> Caller {
        let spec = CommandSpec::new("sh", ["-c"]);
        let hook = Hook::parse(line).unwrap();
        let places = Arc::new(Semaphore::new(1));
        Caller { pauses: FAST, ..Caller::new((hook, spec), Arc::default(), places) }
    }

    fn body() -> Value {
        serde_json::json!({ "hook": "dead-letter", "workspace": "w", "letter": 7, "task": "t\u{0}1" })
    }

    #[test]
    fn pauses_grow_and_end() {
        let pauses: Vec<u64> =
            (1..).map_while(|tries| Some(Pauses::USUAL.after(tries)?.as_secs())).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60]);
    }

    #[tokio::test]
    async fn a_command_gets_the_news_on_stdin_and_its_kind_in_its_environment() {
        let dir = tempfile::tempdir().unwrap();
        let (read, vars) = (dir.path().join("read"), dir.path().join("vars"));
        let line = format!(
            "cat > {}; printf '%s' \"$VAKBUS_HOOK $VAKBUS_WORKSPACE $VAKBUS_LETTER $VAKBUS_TASK\" \
             > {}; echo {{}}",
            read.display(),
            vars.display()
        );
        let told = caller(&line).tell(&body(), &CancellationToken::new()).await;
        assert_eq!(told, Some(Settled::Heard));
        let read: Value = serde_json::from_slice(&std::fs::read(read).unwrap()).unwrap();
        assert_eq!(read, body());
        assert_eq!(std::fs::read_to_string(vars).unwrap(), "dead-letter w 7 t\u{fffd}1");
    }

    #[tokio::test]
    async fn a_command_that_fails_is_tried_again_and_given_up() {
        let dir = tempfile::tempdir().unwrap();
        let tries = dir.path().join("tries");
        let line = format!("echo x >> {}; exit 3", tries.display());
        let caller = caller(&line);
        let told = caller.tell(&body(), &CancellationToken::new()).await;
        assert_eq!((told, caller.counts().reading("x").failures), (Some(Settled::GivenUp), 3));
        assert_eq!(std::fs::read_to_string(tries).unwrap(), "x\nx\nx\n");
    }

    #[tokio::test]
    async fn a_command_that_hangs_is_ended_with_the_daemon_and_settles_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let begun = dir.path().join("begun");
        let line = format!("echo x > {}; exec sleep 600", begun.display());
        let (stop, caller, body) = (CancellationToken::new(), caller(&line), body());
        let (settled, ()) = tokio::join!(caller.tell(&body, &stop), async {
            while !begun.exists() {
                tokio::task::yield_now().await;
            }
            stop.cancel();
        });
        assert_eq!(settled, None);
    }

    #[tokio::test]
    async fn no_more_commands_run_at_a_time_than_there_are_places() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().display();
        let line = format!(
            "mkdir {path}/alone || echo x >> {path}/clash; \
             i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done; \
             echo x >> {path}/ran; rmdir {path}/alone"
        );
        let (caller, body, stop) = (caller(&line), body(), CancellationToken::new());
        let tell = || caller.tell(&body, &stop);
        let told = tokio::join!(tell(), tell(), tell(), tell());
        assert_eq!(<[_; 4]>::from(told), [Some(Settled::Heard); 4]);
        assert_eq!(std::fs::read_to_string(dir.path().join("ran")).unwrap(), "x\n".repeat(4));
        assert!(!dir.path().join("clash").exists());
    }

    #[test]
    fn a_failure_says_what_the_command_said_last() {
        let report = RunReport {
            exit: ExitKind::Exited { code: 2 },
            stdout_bytes: 0,
            stderr_bytes: 9,
            output_hash: [0; 32],
            stdout_hash: [0; 32],
            stderr_hash: [0; 32],
            stderr_tail: b"a\nno \x1b[31mway\n".to_vec(),
            leftovers_killed: false,
            output_complete: true,
            usage: None,
        };
        let failed = ended(&report).unwrap_err();
        assert!(failed.contains("ended with 2: no ") && !failed.contains('\x1b'), "{failed}");
    }
}
