//! How runs end: exit codes, signals, time limits, stops, and nobody left behind.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use bytes::Bytes;

use bus_runner::{CommandSpec, ExitKind, StopSignal, run};

use crate::support::{
    Held, Kept, all_gone, finished, first_line, running_with, seconds, shell, within,
};

async fn exit_of(spec: &CommandSpec) -> ExitKind {
    finished(spec, "").await.0.exit
}

fn reason_of(exit: ExitKind) -> String {
    match exit {
        ExitKind::NotStarted { reason, is_transient: false } => reason,
        other => panic!("the command started: {other:?}"),
    }
}

#[tokio::test]
async fn exit_codes_are_reported_as_they_are() {
    for code in [0, 1, 2, 127, 128, 143, 255] {
        assert_eq!(exit_of(&shell(&format!("exit {code}"))).await, ExitKind::Exited { code });
    }
}

#[tokio::test]
async fn a_signal_from_elsewhere_is_reported_as_it_is() {
    for signal in [9, 15, 6] {
        let exit = exit_of(&shell(&format!("ulimit -c 0; kill -{signal} $$"))).await;
        assert_eq!(exit, ExitKind::Signaled { signal });
    }
}

#[tokio::test]
async fn a_command_that_does_not_exist_is_named() {
    let exit = exit_of(&CommandSpec::new("no-such-command-here", ["x"])).await;
    assert_eq!(reason_of(exit), "command not found: no-such-command-here");
    let exit = exit_of(&CommandSpec::new("/no/such/command", ["x"])).await;
    assert_eq!(reason_of(exit), "command not found: /no/such/command");
}

#[tokio::test]
async fn a_file_that_is_not_executable_is_named() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let exit = exit_of(&CommandSpec::new(file.path(), ["x"])).await;
    assert_eq!(reason_of(exit), format!("command not executable: {}", file.path().display()));
}

#[tokio::test]
async fn a_script_without_its_interpreter_is_told_from_a_missing_command() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("script");
    std::fs::write(&path, "#!/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let reason = reason_of(exit_of(&CommandSpec::new(&path, ["x"])).await);
    assert_eq!(reason, format!("interpreter of the command not found: {}", path.display()));
}

#[tokio::test]
async fn a_missing_working_directory_is_named() {
    let mut spec = shell("exit 0");
    spec.cwd = Some("/no/such/folder".into());
    assert_eq!(reason_of(exit_of(&spec).await), "working directory not found: /no/such/folder");
}

#[tokio::test]
async fn arguments_that_the_system_refuses_are_named() {
    let spec = CommandSpec::new("true", ["x".repeat(200_000)]);
    assert_eq!(reason_of(exit_of(&spec).await), "arguments too long for this system: true");
}

#[tokio::test]
async fn the_command_runs_in_its_working_directory() {
    let folder = tempfile::tempdir().unwrap();
    let mut spec = shell("pwd -P");
    spec.cwd = Some(folder.path().to_owned());
    let (_report, kept) = finished(&spec, "").await;
    let expected = folder.path().canonicalize().unwrap();
    assert_eq!(String::from_utf8(kept.stdout).unwrap().trim(), expected.to_str().unwrap());
}

#[tokio::test]
async fn the_command_leads_a_group_of_its_own() {
    let (_report, kept) = finished(&shell("cut -d' ' -f5 /proc/self/stat"), "").await;
    assert_eq!(String::from_utf8(kept.stdout).unwrap().trim(), kept.pid.unwrap().to_string());
}

#[tokio::test]
async fn the_time_limit_ends_a_command_that_obeys_sigterm() {
    let mut spec = shell("trap 'printf bye; exit 0' TERM; sleep 1000 & wait");
    spec.timeout = Some(Duration::from_secs(1));
    spec.grace = Duration::from_secs(20);
    let (report, kept) = finished(&spec, "").await;
    assert_eq!((report.exit, kept.stdout.as_slice()), (ExitKind::TimedOut, &b"bye"[..]));
    assert!(!report.leftovers_killed);
}

#[tokio::test]
async fn a_group_that_ignores_sigterm_is_gone_after_the_grace() {
    let mark = seconds();
    let script = format!(
        "trap '' TERM; sh -c 'trap \"\" TERM; echo $$; exec sleep {mark}' & \
                  wait; sleep {mark}"
    );
    let mut spec = shell(&script);
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

#[tokio::test]
async fn a_grandchild_that_outlives_an_obedient_command_is_gone_after_the_grace() {
    let mark = seconds();
    let script = format!("sh -c 'trap \"\" TERM; echo $$; exec sleep {mark}' & wait");
    let mut spec = shell(&script);
    spec.timeout = Some(Duration::from_secs(1));
    let (mut kept, mut heard) = Kept::heard();
    let command = spec.for_text("").unwrap();
    let running = run(&command, Bytes::new(), &mut kept, StopSignal::new());
    let looking = async { Held::new(&first_line(&mut heard).await) };
    let (report, grandchild) = within(async { tokio::join!(running, looking) }).await;
    assert_eq!((report.exit, report.leftovers_killed), (ExitKind::TimedOut, true));
    grandchild.ended().await;
}

#[tokio::test]
async fn a_stopped_process_is_ended_by_the_time_limit_too() {
    let mut spec = shell("kill -STOP $$");
    spec.timeout = Some(Duration::from_millis(100));
    assert_eq!(exit_of(&spec).await, ExitKind::TimedOut);
}

#[tokio::test]
async fn a_stop_kills_the_group_at_once() {
    let mark = seconds();
    let mut spec =
        shell(&format!("trap '' TERM; (trap '' TERM; sleep {mark}) & echo $!; wait; wait"));
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

#[tokio::test]
async fn a_stop_before_the_start_starts_nothing() {
    let (stop, mut kept) = (StopSignal::new(), Kept::default());
    stop.child().kill_now();
    assert!(!stop.is_given());
    stop.kill_now();
    let command = shell("echo x").for_text("").unwrap();
    let report = within(run(&command, Bytes::new(), &mut kept, stop.child())).await;
    assert_eq!((report.exit, kept.pid), (ExitKind::Killed, None));
}

#[tokio::test]
async fn dropping_the_run_kills_the_group() {
    let mark = seconds();
    let script = format!("trap '' TERM; (trap '' TERM; exec sleep {mark}) & echo $!; wait; wait");
    let (mut kept, mut heard) = Kept::heard();
    let command = shell(&script).for_text("").unwrap();
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

#[tokio::test]
async fn a_background_child_that_holds_the_output_open_is_ended_after_the_grace() {
    let mark = seconds();
    let (mut kept, mut heard) = Kept::heard();
    let command = shell(&format!("sleep {mark} & echo $!; exit 5")).for_text("").unwrap();
    let running = run(&command, Bytes::new(), &mut kept, StopSignal::new());
    let looking = async { Held::new(&first_line(&mut heard).await) };
    let (report, background) = within(async { tokio::join!(running, looking) }).await;
    assert_eq!((&report.exit, report.leftovers_killed), (&ExitKind::Exited { code: 5 }, true));
    assert!(report.output_complete);
    background.ended().await;
}

#[tokio::test]
async fn a_background_child_that_floods_the_output_is_ended_after_the_grace() {
    let (report, _kept) = finished(&shell("yes & exit 0"), "").await;
    assert_eq!((&report.exit, report.leftovers_killed), (&ExitKind::Exited { code: 0 }, true));
    assert!(report.output_complete);
}

#[tokio::test]
async fn a_background_child_that_ends_within_the_grace_is_heard() {
    let mut spec = shell("(sleep 0.1; printf late) & printf early");
    spec.grace = Duration::from_secs(30);
    let (report, kept) = finished(&spec, "").await;
    assert_eq!((kept.stdout.as_slice(), report.leftovers_killed), (&b"earlylate"[..], false));
}

#[tokio::test]
async fn a_silent_background_child_ends_with_the_run() {
    let mark = seconds();
    let script = format!("sleep {mark} >/dev/null 2>&1 & exit 0");
    let (report, _kept) = finished(&shell(&script), "").await;
    assert_eq!((&report.exit, report.leftovers_killed), (&ExitKind::Exited { code: 0 }, false));
    all_gone(&mark).await;
}

#[tokio::test]
async fn a_process_outside_the_group_is_neither_killed_nor_waited_for() {
    let mark = seconds();
    let (mut kept, mut heard) = Kept::heard();
    let script = format!("echo $(setsid sh -c 'echo $$; exec sleep {mark} >&2' &); exit 0");
    let mut spec = shell(&script);
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

#[tokio::test]
async fn a_command_that_closes_its_output_goes_on() {
    let (report, _kept) = finished(&shell("exec >&- 2>&-; sleep 0.3; exit 7"), "").await;
    assert_eq!(report.exit, ExitKind::Exited { code: 7 });
    assert!(report.output_complete);
}

#[tokio::test]
async fn the_time_limit_holds_for_a_command_that_closed_its_output() {
    let mark = seconds();
    let mut spec = shell(&format!("exec >&- 2>&-; exec sleep {mark}"));
    spec.timeout = Some(Duration::from_millis(100));
    assert_eq!(exit_of(&spec).await, ExitKind::TimedOut);
}

#[tokio::test]
async fn a_time_limit_that_is_not_reached_changes_nothing() {
    let mut spec = shell("exit 4");
    spec.timeout = Some(Duration::MAX);
    spec.grace = Duration::MAX;
    assert_eq!(exit_of(&spec).await, ExitKind::Exited { code: 4 });
}

#[tokio::test]
async fn what_a_command_used_is_reported() {
    let script = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
    let usage = finished(&shell(script), "").await.0.usage.unwrap();
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

#[tokio::test]
async fn a_program_that_is_being_written_may_start_another_time() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("busy");
    std::fs::copy("/bin/true", &program).unwrap();
    let writer = std::fs::OpenOptions::new().write(true).open(&program).unwrap();

    let busy = exit_of(&CommandSpec::new(&program, Vec::<String>::new())).await;
    drop(writer);

    assert!(matches!(busy, ExitKind::NotStarted { is_transient: true, .. }), "{busy:?}");
}
