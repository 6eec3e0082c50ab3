//! Job control in a terminal makes process groups beside the command's; they end with the run.

use std::time::Duration;

use bytes::Bytes;

use bus_runner::{ExitKind, StopSignal, run};

use crate::support::{
    Ends, Held, Kept, all_gone, finished, first_line, running_with, seconds, within,
};

#[tokio::test]
async fn groups_of_job_control_end_with_the_run() {
    let mark = seconds();
    let script = format!(
        "set -m; sleep {mark} >/dev/null 2>&1 & cut -d' ' -f5 /proc/$!/stat; \
         sleep {mark} >/dev/null 2>&1 & exit 0"
    );
    let (report, kept) = finished(&Ends::Terminal.shell(&script), "").await;
    assert!(report.is_success(), "{report:?}");
    let group = String::from_utf8(kept.stdout).unwrap();
    assert_ne!(group.trim(), kept.pid.unwrap().to_string(), "it has a group of its own");
    all_gone(&mark).await;
}

#[tokio::test]
async fn a_group_of_job_control_hears_of_the_time_limit_too() {
    let script = "set -m; sh -c 'trap \"echo heard; exit\" TERM; echo ready; \
                  while :; do sleep 0.02; done' & trap '' TERM; wait; wait";
    let mut spec = Ends::Terminal.shell(script);
    spec.timeout = Some(Duration::from_secs(1));
    spec.grace = Duration::from_secs(20);
    let (report, kept) = finished(&spec, "").await;
    let said = String::from_utf8_lossy(&kept.stdout).into_owned();
    assert!(report.exit == ExitKind::TimedOut && said.contains("heard"), "{report:?} {said}");
}

#[tokio::test]
async fn a_shell_that_ignores_sigterm_is_gone_after_the_grace() {
    let mark = seconds();
    let script = format!(
        "trap '' TERM HUP; set -m; sh -c 'trap \"\" TERM HUP; exec sleep {mark}' & wait; wait"
    );
    let mut spec = Ends::Terminal.shell(&script);
    spec.timeout = Some(Duration::from_millis(500));
    let (report, _kept) = finished(&spec, "").await;
    assert_eq!(report.exit, ExitKind::TimedOut);
    all_gone(&mark).await;
}

#[tokio::test]
async fn dropping_the_run_ends_the_whole_session() {
    let mark = seconds();
    let script = format!(
        "set -m; sh -c 'trap \"\" TERM HUP; echo $$; exec sleep {mark} >/dev/null 2>&1' & wait"
    );
    let (mut kept, mut heard) = Kept::heard();
    let command = Ends::Terminal.shell(&script).for_text("").unwrap();
    let running = run(&command, Bytes::new(), &mut kept, StopSignal::new());
    let member = within(async {
        tokio::select! {
            report = running => panic!("the run ended: {report:?}"),
            pid = first_line(&mut heard) => Held::new(&pid),
        }
    });
    member.await.ended().await;
    all_gone(&mark).await;
}

#[tokio::test]
async fn a_process_of_another_session_is_left_alone() {
    let mark = seconds();
    let (mut kept, mut heard) = Kept::heard();
    let script = format!("echo $(setsid sh -c 'echo $$; exec sleep {mark} >/dev/null 2>&1' &)");
    let command = Ends::Terminal.shell(&script).for_text("").unwrap();
    let running = run(&command, Bytes::new(), &mut kept, StopSignal::new());
    let (report, pid) = within(async { tokio::join!(running, first_line(&mut heard)) }).await;
    assert!(report.is_success() && report.output_complete, "{report:?}");
    let outsider: i32 = pid.parse().unwrap();
    assert_eq!(running_with(&mark), [outsider]);
    let outsider = rustix::process::Pid::from_raw(outsider).unwrap();
    rustix::process::kill_process(outsider, rustix::process::Signal::KILL).unwrap();
}
