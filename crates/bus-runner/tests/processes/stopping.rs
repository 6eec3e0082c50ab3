//! How runs are stopped from outside: a word first, and force after a moment.

use std::time::Duration;

use bytes::Bytes;

use bus_runner::{END_GRACE_MAX, ExitKind, OutputSink, OutputStream, StopSignal, run};

use crate::support::{Ends, Kept, all_gone, first_line, seconds, with_both_ends, within};

with_both_ends! {
    a_cancelled_command_gets_sigterm_first
    a_cancelled_command_that_does_not_listen_is_killed_after_the_grace
    a_grace_longer_than_a_moment_is_cut
    a_kill_does_not_wait_for_the_grace_of_an_end
    what_outlives_a_cancelled_command_is_gone_too
    an_end_does_not_wait_for_a_sink_that_never_ends
}

/// Runs a script and stops it as soon as it has written its first line.
async fn stopped(ends: Ends, script: &str, grace: Duration) -> (ExitKind, String) {
    let mut spec = ends.shell(script);
    spec.grace = grace;
    let ((mut kept, mut heard), stop) = (Kept::heard(), StopSignal::new());
    let command = spec.for_text("").unwrap();
    let running = run(&command, Bytes::new(), &mut kept, stop.child());
    let stopping = async {
        first_line(&mut heard).await;
        stop.end();
    };
    let (report, ()) = within(async { tokio::join!(running, stopping) }).await;
    (report.exit, String::from_utf8(kept.stdout).unwrap())
}

async fn a_cancelled_command_gets_sigterm_first(ends: Ends) {
    let script = "trap 'printf bye; exit 0' TERM; echo ready; sleep 1000 & wait";
    let (exit, said) = stopped(ends, script, Duration::from_secs(20)).await;
    assert!(exit == ExitKind::Killed && said.ends_with("bye"), "{exit:?} {said:?}");
}

async fn a_cancelled_command_that_does_not_listen_is_killed_after_the_grace(ends: Ends) {
    let mark = seconds();
    let script = format!("trap '' TERM; echo ready; sleep {mark}; sleep {mark}");
    let (exit, _said) = stopped(ends, &script, Duration::from_millis(100)).await;
    assert_eq!(exit, ExitKind::Killed);
    all_gone(&mark).await;
}

async fn a_grace_longer_than_a_moment_is_cut(ends: Ends) {
    let mark = seconds();
    let script = format!("trap '' TERM; echo ready; sleep {mark}; sleep {mark}");
    let (exit, _said) = stopped(ends, &script, Duration::from_secs(10_000)).await;
    assert_eq!(exit, ExitKind::Killed);
    assert!(END_GRACE_MAX < Duration::from_secs(5), "workers drop a run after five seconds");
}

async fn a_kill_does_not_wait_for_the_grace_of_an_end(ends: Ends) {
    let script = "trap 'echo heard' TERM; echo ready; while :; do sleep 0.02; done";
    let mut spec = ends.shell(script);
    spec.timeout = Some(Duration::from_secs(1));
    spec.grace = Duration::from_secs(10_000);
    let ((mut kept, mut heard), stop) = (Kept::heard(), StopSignal::new());
    let command = spec.for_text("").unwrap();
    let running = run(&command, Bytes::new(), &mut kept, stop.clone());
    // The time limit would give it hours.
    let killing = async {
        first_line(&mut heard).await;
        while !first_line(&mut heard).await.contains("heard") {}
        stop.kill_now();
    };
    let (report, ()) = within(async { tokio::join!(running, killing) }).await;
    assert_eq!(report.exit, ExitKind::TimedOut);
}

async fn what_outlives_a_cancelled_command_is_gone_too(ends: Ends) {
    let mark = seconds();
    let script = format!("sh -c 'trap \"\" TERM HUP; exec sleep {mark}' & echo ready; wait");
    let (exit, _said) = stopped(ends, &script, Duration::from_millis(100)).await;
    assert_eq!(exit, ExitKind::Killed);
    all_gone(&mark).await;
}

/// Asks for the end with its first chunk and never takes it.
struct Stuck(StopSignal);

impl OutputSink for Stuck {
    fn started(&mut self, _pid: u32) {}

    async fn chunk(&mut self, _stream: OutputStream, _bytes: Bytes) {
        self.0.end();
        std::future::pending::<()>().await;
    }
}

async fn an_end_does_not_wait_for_a_sink_that_never_ends(ends: Ends) {
    let command = ends.shell("echo x; exec sleep 1000").for_text("").unwrap();
    let stop = StopSignal::new();
    let report = within(run(&command, Bytes::new(), &mut Stuck(stop.clone()), stop)).await;
    assert_eq!((report.exit, report.output_complete), (ExitKind::Killed, false));
}
