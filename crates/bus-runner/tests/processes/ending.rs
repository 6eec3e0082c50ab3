//! How runs end: exit codes, signals, time limits, stops, and nobody left behind.

use std::time::Duration;

use bytes::Bytes;

use bus_runner::{CommandSpec, ExitKind, StopSignal, run};

use crate::support::{
    Ends, Held, Kept, all_gone, exit_of, finished, first_line, running_with, seconds,
    with_both_ends, within,
};

with_both_ends! {
    exit_codes_are_reported_as_they_are
    a_signal_from_elsewhere_is_reported_as_it_is
    the_time_limit_ends_a_command_that_obeys_sigterm
    a_group_that_ignores_sigterm_is_gone_after_the_grace
    a_grandchild_that_outlives_an_obedient_command_is_gone_after_the_grace
    a_stopped_process_is_ended_by_the_time_limit_too
    a_stop_kills_the_group_at_once
    dropping_the_run_kills_the_group
    a_background_child_that_holds_the_output_open_is_ended_after_the_grace
    a_background_child_that_floods_the_output_is_ended_after_the_grace
    a_background_child_that_ends_within_the_grace_is_heard
    a_silent_background_child_ends_with_the_run
    a_process_outside_the_group_is_neither_killed_nor_waited_for
    a_command_that_closes_its_output_goes_on
    the_time_limit_holds_for_a_command_that_closed_its_output
    a_time_limit_that_is_not_reached_changes_nothing
    what_a_command_used_is_reported
}

async fn exit_codes_are_reported_as_they_are(ends: Ends) {
    for code in [0, 1, 2, 127, 128, 143, 255] {
        assert_eq!(exit_of(&ends.shell(&format!("exit {code}"))).await, ExitKind::Exited { code });
    }
}

async fn a_signal_from_elsewhere_is_reported_as_it_is(ends: Ends) {
    for signal in [9, 15, 6] {
        let exit = exit_of(&ends.shell(&format!("ulimit -c 0; kill -{signal} $$"))).await;
        assert_eq!(exit, ExitKind::Signaled { signal });
    }
}

async fn the_time_limit_ends_a_command_that_obeys_sigterm(ends: Ends) {
    let mut spec = ends.shell("trap 'printf bye; exit 0' TERM; sleep 1000 & wait");
    spec.timeout = Some(Duration::from_secs(1));
    spec.grace = Duration::from_secs(20);
    let (report, kept) = finished(&spec, "").await;
    assert_eq!((report.exit, kept.stdout.as_slice()), (ExitKind::TimedOut, &b"bye"[..]));
    assert!(!report.leftovers_killed);
}

async fn a_group_that_ignores_sigterm_is_gone_after_the_grace(ends: Ends) {
    let mark = seconds();
    let script = format!(
        "trap '' TERM; sh -c 'trap \"\" TERM; echo $$; exec sleep {mark}' & \
                  wait; sleep {mark}"
    );
    let mut spec = ends.shell(&script);
    spec.timeout = Some(Duration::from_secs(1));
    let (mut kept, mut heard) = Kept::heard();
    let command = spec.for_text("").unwrap();
    let running = run(&command, Bytes::new(), &mut kept, StopSignal::new());
    let looking = async { Held::new(&first_line(&mut heard).await) };
    let (report, grandchild) = within(async { tokio::join!(running, looking) }).await;
    assert_eq!(report.exit, ExitKind::TimedOut);
    grandchild.ended().await;
    all_gone(&mark).await;
}

async fn a_grandchild_that_outlives_an_obedient_command_is_gone_after_the_grace(ends: Ends) {
    let mark = seconds();
    let script = format!("sh -c 'trap \"\" TERM HUP; echo $$; exec sleep {mark}' & wait");
    let mut spec = ends.shell(&script);
    spec.timeout = Some(Duration::from_secs(1));
    let (mut kept, mut heard) = Kept::heard();
    let command = spec.for_text("").unwrap();
    let running = run(&command, Bytes::new(), &mut kept, StopSignal::new());
    let looking = async { Held::new(&first_line(&mut heard).await) };
    let (report, grandchild) = within(async { tokio::join!(running, looking) }).await;
    assert_eq!((report.exit, report.leftovers_killed), (ExitKind::TimedOut, true));
    grandchild.ended().await;
}

async fn a_stopped_process_is_ended_by_the_time_limit_too(ends: Ends) {
    let mut spec = ends.shell("kill -STOP $$");
    spec.timeout = Some(Duration::from_millis(100));
    assert_eq!(exit_of(&spec).await, ExitKind::TimedOut);
}

async fn a_stop_kills_the_group_at_once(ends: Ends) {
    let mark = seconds();
    let mut spec =
        ends.shell(&format!("trap '' TERM; (trap '' TERM; sleep {mark}) & echo $!; wait; wait"));
    spec.grace = Duration::from_secs(1_000);
    let (mut kept, mut heard) = Kept::heard();
    let (command, stop) = (spec.for_text("").unwrap(), StopSignal::new());
    let running = run(&command, Bytes::new(), &mut kept, stop.clone());
    let stopping = async {
        let grandchild = Held::new(&first_line(&mut heard).await);
        stop.kill_now();
        grandchild.ended().await;
    };
    let (report, ()) = within(async { tokio::join!(running, stopping) }).await;
    assert_eq!((report.exit, report.leftovers_killed), (ExitKind::Killed, false));
}

async fn dropping_the_run_kills_the_group(ends: Ends) {
    let mark = seconds();
    let script = format!("trap '' TERM; (trap '' TERM; exec sleep {mark}) & echo $!; wait; wait");
    let (mut kept, mut heard) = Kept::heard();
    let command = ends.shell(&script).for_text("").unwrap();
    let running = run(&command, Bytes::new(), &mut kept, StopSignal::new());
    let grandchild = within(async {
        tokio::select! {
            report = running => panic!("the run ended: {report:?}"),
            pid = first_line(&mut heard) => Held::new(&pid),
        }
    });
    grandchild.await.ended().await;
    all_gone(&mark).await;
}

async fn a_background_child_that_holds_the_output_open_is_ended_after_the_grace(ends: Ends) {
    let mark = seconds();
    let (mut kept, mut heard) = Kept::heard();
    let command =
        ends.shell(&format!("trap '' HUP; sleep {mark} & echo $!; exit 5")).for_text("").unwrap();
    let running = run(&command, Bytes::new(), &mut kept, StopSignal::new());
    let looking = async { Held::new(&first_line(&mut heard).await) };
    let (report, background) = within(async { tokio::join!(running, looking) }).await;
    assert_eq!((&report.exit, report.leftovers_killed), (&ExitKind::Exited { code: 5 }, true));
    assert!(report.output_complete);
    background.ended().await;
}

async fn a_background_child_that_floods_the_output_is_ended_after_the_grace(ends: Ends) {
    let (report, _kept) = finished(&ends.shell("trap '' HUP; yes & exit 0"), "").await;
    assert_eq!((&report.exit, report.leftovers_killed), (&ExitKind::Exited { code: 0 }, true));
    assert!(report.output_complete);
}

async fn a_background_child_that_ends_within_the_grace_is_heard(ends: Ends) {
    let mut spec = ends.shell("trap '' HUP; (sleep 0.1; printf late) & printf early");
    spec.grace = Duration::from_secs(30);
    let (report, kept) = finished(&spec, "").await;
    assert_eq!((kept.stdout.as_slice(), report.leftovers_killed), (&b"earlylate"[..], false));
}

async fn a_silent_background_child_ends_with_the_run(ends: Ends) {
    let mark = seconds();
    let script = format!("sleep {mark} >/dev/null 2>&1 & exit 0");
    let (report, _kept) = finished(&ends.shell(&script), "").await;
    assert_eq!((&report.exit, report.leftovers_killed), (&ExitKind::Exited { code: 0 }, false));
    all_gone(&mark).await;
}

async fn a_process_outside_the_group_is_neither_killed_nor_waited_for(ends: Ends) {
    let mark = seconds();
    let (mut kept, mut heard) = Kept::heard();
    let script = format!("echo $(setsid sh -c 'echo $$; exec sleep {mark} >&2' &); exit 0");
    let mut spec = ends.shell(&script);
    spec.grace = Duration::from_millis(100);
    let command = spec.for_text("").unwrap();
    let running = run(&command, Bytes::new(), &mut kept, StopSignal::new());
    let (report, pid) = within(async { tokio::join!(running, first_line(&mut heard)) }).await;
    assert_eq!(report.exit, ExitKind::Exited { code: 0 });
    assert!(!report.output_complete);
    assert_eq!(running_with(&mark), [pid.parse::<i32>().unwrap()]);
    let outsider = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
    rustix::process::kill_process(outsider, rustix::process::Signal::KILL).unwrap();
}

async fn a_command_that_closes_its_output_goes_on(ends: Ends) {
    let (report, _kept) = finished(&ends.shell("exec >&- 2>&-; sleep 0.3; exit 7"), "").await;
    assert_eq!(report.exit, ExitKind::Exited { code: 7 });
    assert!(report.output_complete);
}

async fn the_time_limit_holds_for_a_command_that_closed_its_output(ends: Ends) {
    let mark = seconds();
    let mut spec = ends.shell(&format!("exec >&- 2>&-; exec sleep {mark}"));
    spec.timeout = Some(Duration::from_millis(100));
    assert_eq!(exit_of(&spec).await, ExitKind::TimedOut);
}

async fn a_time_limit_that_is_not_reached_changes_nothing(ends: Ends) {
    let mut spec = ends.shell("exit 4");
    spec.timeout = Some(Duration::MAX);
    spec.grace = Duration::MAX;
    assert_eq!(exit_of(&spec).await, ExitKind::Exited { code: 4 });
}

async fn what_a_command_used_is_reported(ends: Ends) {
    let script = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
    let usage = finished(&ends.shell(script), "").await.0.usage.unwrap();
    assert!(usage.cpu_user + usage.cpu_system > Duration::ZERO, "{usage:?}");
    assert!(usage.peak_rss_bytes.unwrap() > 100_000, "{usage:?}");
}

#[tokio::test]
async fn a_thousand_runs_leave_no_process_and_no_descriptor() {
    let mark = seconds();
    let descriptors = || procfs::process::Process::myself().unwrap().fd_count().unwrap();
    let command = CommandSpec::new("true", [&mark]).for_text("").unwrap();
    for _ in 0..20 {
        run(&command, Bytes::new(), &mut Kept::default(), StopSignal::new()).await;
    }
    let before = descriptors();
    for _ in 0..1_000 {
        let report = run(&command, Bytes::new(), &mut Kept::default(), StopSignal::new()).await;
        assert!(report.is_success(), "{report:?}");
    }
    // The other tests of this file have some open at the same time; a leak would be thousands.
    assert!(descriptors() < before + 500, "{before} then {}", descriptors());
}
