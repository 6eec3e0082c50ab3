//! How runs start, and why some do not.

use std::os::unix::fs::PermissionsExt;

use bytes::Bytes;

use bus_runner::{CommandSpec, ExitKind, StopSignal, run};

use crate::support::{Ends, Kept, exit_of, finished, with_both_ends, within};

with_both_ends! {
    a_command_that_does_not_exist_is_named
    a_file_that_is_not_executable_is_named
    a_script_without_its_interpreter_is_told_from_a_missing_command
    a_missing_working_directory_is_named
    arguments_that_the_system_refuses_are_named
    the_command_runs_in_its_working_directory
    the_command_leads_a_group_of_its_own
    a_stop_before_the_start_starts_nothing
    a_program_that_is_being_written_may_start_another_time
}

fn reason_of(exit: ExitKind) -> String {
    match exit {
        ExitKind::NotStarted { reason, is_transient: false } => reason,
        other => panic!("the command started: {other:?}"),
    }
}

async fn a_command_that_does_not_exist_is_named(ends: Ends) {
    let exit = exit_of(&ends.of(CommandSpec::new("no-such-command-here", ["x"]))).await;
    assert_eq!(reason_of(exit), "command not found: no-such-command-here");
    let exit = exit_of(&ends.of(CommandSpec::new("/no/such/command", ["x"]))).await;
    assert_eq!(reason_of(exit), "command not found: /no/such/command");
}

async fn a_file_that_is_not_executable_is_named(ends: Ends) {
    let file = tempfile::NamedTempFile::new().unwrap();
    let exit = exit_of(&ends.of(CommandSpec::new(file.path(), ["x"]))).await;
    assert_eq!(reason_of(exit), format!("command not executable: {}", file.path().display()));
}

async fn a_script_without_its_interpreter_is_told_from_a_missing_command(ends: Ends) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("script");
    std::fs::write(&path, "#!/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let reason = reason_of(exit_of(&ends.of(CommandSpec::new(&path, ["x"]))).await);
    assert_eq!(reason, format!("interpreter of the command not found: {}", path.display()));
}

async fn a_missing_working_directory_is_named(ends: Ends) {
    let mut spec = ends.shell("exit 0");
    spec.cwd = Some("/no/such/folder".into());
    assert_eq!(reason_of(exit_of(&spec).await), "working directory not found: /no/such/folder");
}

async fn arguments_that_the_system_refuses_are_named(ends: Ends) {
    let spec = ends.of(CommandSpec::new("true", ["x".repeat(200_000)]));
    assert_eq!(reason_of(exit_of(&spec).await), "arguments too long for this system: true");
}

async fn the_command_runs_in_its_working_directory(ends: Ends) {
    let folder = tempfile::tempdir().unwrap();
    let mut spec = ends.shell("pwd -P");
    spec.cwd = Some(folder.path().to_owned());
    let (_report, kept) = finished(&spec, "").await;
    let expected = folder.path().canonicalize().unwrap();
    assert_eq!(String::from_utf8(kept.stdout).unwrap().trim(), expected.to_str().unwrap());
}

async fn the_command_leads_a_group_of_its_own(ends: Ends) {
    let (_report, kept) = finished(&ends.shell("cut -d' ' -f5 /proc/self/stat"), "").await;
    assert_eq!(String::from_utf8(kept.stdout).unwrap().trim(), kept.pid.unwrap().to_string());
}

async fn a_stop_before_the_start_starts_nothing(ends: Ends) {
    let (stop, mut kept) = (StopSignal::new(), Kept::default());
    stop.child().kill_now();
    assert!(!stop.is_given());
    stop.kill_now();
    let command = ends.shell("echo x").for_text("").unwrap();
    let report = within(run(&command, Bytes::new(), &mut kept, stop.child())).await;
    assert_eq!((report.exit, kept.pid), (ExitKind::Killed, None));
}

async fn a_program_that_is_being_written_may_start_another_time(ends: Ends) {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("busy");
    std::fs::copy("/bin/true", &program).unwrap();
    let writer = std::fs::OpenOptions::new().write(true).open(&program).unwrap();

    let busy = exit_of(&ends.of(CommandSpec::new(&program, Vec::<String>::new()))).await;
    drop(writer);

    assert!(matches!(busy, ExitKind::NotStarted { is_transient: true, .. }), "{busy:?}");
}
