//! Commands in a terminal of their own: what they see of it, and that every byte of it arrives.

use bytes::Bytes;
use rustix::process::{Resource, Rlimit, setrlimit};
use sha2::{Digest, Sha256};
use tokio::task::JoinSet;

use bus_runner::{ExitKind, OutputStream, StopSignal, Terminal, TerminalSize, run};

use crate::support::{
    Ends, Kept, again_with, exit_of, finished, first_line, is_again, seconds, shell, within,
};

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

async fn output_of(script: &str, stdin: impl Into<Bytes>) -> Vec<u8> {
    let (report, kept) = finished(&Ends::Terminal.shell(script), stdin).await;
    assert!(report.is_success() && report.output_complete, "{report:?}");
    kept.stdout
}

#[tokio::test]
async fn a_command_sees_a_terminal() {
    let seen = output_of("test -t 1 && test -t 2 && stty size </dev/tty", "").await;
    assert_eq!(text(&seen), "24 80\r\n");
}

#[tokio::test]
async fn a_command_leads_a_session_of_its_own() {
    let (_report, kept) = finished(&Ends::Terminal.shell("cut -d' ' -f6 /proc/$$/stat"), "").await;
    assert_eq!(text(&kept.stdout).trim(), kept.pid.unwrap().to_string());
}

#[tokio::test]
async fn stdin_is_no_terminal() {
    assert_eq!(text(&output_of("test -t 0 || echo none", "").await), "none\r\n");
    assert_eq!(text(&output_of("test -t 0 || cat", "payload").await), "payload");
}

#[tokio::test]
async fn a_command_is_told_which_terminal_it_has_unless_it_knows() {
    let mut spec = Ends::Terminal.shell("printf %s $TERM");
    spec.env_removed.push("TERM".into());
    assert_eq!(text(&finished(&spec, "").await.1.stdout), "xterm-256color");
    spec.env.push(("TERM".into(), "vt100".into()));
    assert_eq!(text(&finished(&spec, "").await.1.stdout), "vt100");
}

#[tokio::test]
async fn a_size_in_the_environment_is_not_inherited() {
    if !is_again() {
        let sizes = [("COLUMNS", "7"), ("LINES", "3")];
        return again_with("pty::a_size_in_the_environment_is_not_inherited", sizes);
    }
    let script = "printf '<%s%s>' $COLUMNS $LINES";
    assert_eq!(text(&finished(&shell(script), "").await.1.stdout), "<73>");
    assert_eq!(text(&output_of(script, "").await), "<>");
}

#[tokio::test]
async fn output_left_after_the_end_is_read() {
    for round in 0..100 {
        let left = output_of("head -c 3000 /dev/zero | tr '\\0' a", "").await;
        assert_eq!(left, vec![b'a'; 3_000], "round {round}");
    }
}

#[tokio::test]
async fn a_flood_of_output_arrives_whole() {
    let flood = output_of("head -c 5000000 /dev/zero | tr '\\0' a; printf end", "").await;
    assert_eq!(flood.len(), 5_000_003);
    assert!(flood.ends_with(b"aend"));
}

#[tokio::test]
async fn an_end_of_output_that_is_none_is_read_over() {
    let script = "printf one; exec >&- 2>&-; sleep 0.2; exec >/dev/tty; printf two";
    assert_eq!(text(&output_of(script, "").await), "onetwo");
}

#[tokio::test]
async fn bytes_come_as_the_terminal_made_them() {
    let script = "printf 'a\\n\\377\\033[31m'; printf 'to stderr' >&2";
    let (report, kept) = finished(&Ends::Terminal.shell(script), "").await;
    let expected = b"a\r\n\xff\x1b[31mto stderr";
    assert_eq!(kept.stdout, expected);
    assert_eq!((report.stdout_bytes, report.stderr_bytes), (expected.len() as u64, 0));
    let hashes = [Sha256::digest(expected), Sha256::digest(b"")];
    assert_eq!(report.output_hash[..], Sha256::digest(hashes.concat())[..]);
    assert_eq!(report.stderr_tail, expected);
}

#[tokio::test]
async fn a_payload_is_not_echoed_and_holds_no_keys() {
    let payload = [b"\x03\x04\x1a\x13".to_vec(), vec![b'x'; 8_192]].concat();
    assert_eq!(output_of("cat", payload.clone()).await, payload);
}

#[tokio::test]
async fn a_resize_is_told_to_the_command_and_the_sink() {
    let script = "trap 'stty size </dev/tty; exit 0' WINCH; echo ready; \
                  while :; do sleep 0.02; done";
    let (large, mut spec) = ("40x120".parse().unwrap(), shell(script));
    let terminal = Terminal::new(TerminalSize::default());
    spec.terminal = Some(terminal.clone());
    let (command, (mut kept, mut heard)) = (spec.for_text("").unwrap(), Kept::heard());
    let running = run(&command, Bytes::new(), &mut kept, StopSignal::new());
    let resizing = async {
        first_line(&mut heard).await;
        terminal.resize(large);
    };
    let (report, ()) = within(async { tokio::join!(running, resizing) }).await;
    assert!(report.is_success(), "{report:?}");
    assert_eq!(text(&kept.stdout), "ready\r\n40 120\r\n");
    assert_eq!(kept.sizes, [TerminalSize::default(), large]);
}

#[tokio::test]
async fn a_run_begins_with_the_size_of_that_moment() {
    let mut spec = shell("stty size </dev/tty");
    let terminal = Terminal::new(TerminalSize::default());
    spec.terminal = Some(terminal.clone());
    terminal.resize("10x20".parse().unwrap());
    assert_eq!(text(&finished(&spec, "").await.1.stdout), "10 20\r\n");
}

#[tokio::test]
async fn a_background_child_hears_of_the_hangup() {
    let mark = seconds();
    let mut spec = Ends::Terminal.shell(&format!("sleep {mark} & exit 5"));
    // Long enough to hear of it on a busy machine, and shorter than the child would sleep.
    spec.grace = Duration::from_secs(30);
    let (report, _kept) = finished(&spec, "").await;
    assert_eq!((&report.exit, report.leftovers_killed), (&ExitKind::Exited { code: 5 }, false));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_command_inherits_anothers_terminal() {
    let mut runs = JoinSet::new();
    for at in 0..200 {
        let ends = if at % 2 == 0 { Ends::Pipes } else { Ends::Terminal };
        runs.spawn(async move {
            let (_report, kept) = finished(&ends.shell("exec ls -l /proc/self/fd"), "").await;
            (ends, text(&kept.stdout))
        });
    }
    while let Some(ended) = runs.join_next().await {
        let (ends, descriptors) = ended.unwrap();
        let terminals = descriptors.matches("/dev/pts/").count();
        assert_eq!(terminals, if ends == Ends::Pipes { 0 } else { 2 }, "{descriptors}");
        assert!(!descriptors.contains("ptmx"), "{descriptors}");
    }
}

#[tokio::test]
async fn no_terminal_left_is_told_as_passing() {
    if !is_again() {
        return again_with("pty::no_terminal_left_is_told_as_passing", []);
    }
    // Not one more descriptor: neither for a terminal.
    setrlimit(Resource::Nofile, Rlimit { current: Some(3), maximum: Some(1_024) }).unwrap();
    let exit = exit_of(&Ends::Terminal.shell("exit 0")).await;
    let ExitKind::NotStarted { reason, is_transient: true } = exit else { panic!("{exit:?}") };
    assert!(reason.starts_with("no terminal for the command: "), "{reason}");
}

#[tokio::test]
async fn a_hundred_terminals_leave_no_descriptor() {
    if !is_again() {
        return again_with("pty::a_hundred_terminals_leave_no_descriptor", []);
    }
    let descriptors = || procfs::process::Process::myself().unwrap().fd_count().unwrap();
    let command = Ends::Terminal.shell("exit 0").for_text("").unwrap();
    let mut counts = Vec::new();
    for _ in 0..100 {
        let report = run(&command, Bytes::new(), &mut Kept::default(), StopSignal::new()).await;
        assert!(report.is_success(), "{report:?}");
        counts.push(descriptors());
    }
    assert_eq!(counts.first(), counts.last(), "{counts:?}");
}

#[tokio::test]
async fn output_of_a_terminal_is_no_stdout() {
    struct Streams(Vec<OutputStream>);
    impl bus_runner::OutputSink for Streams {
        fn started(&mut self, _pid: u32) {}
        async fn chunk(&mut self, stream: OutputStream, _bytes: Bytes) {
            self.0.push(stream);
        }
    }
    let (command, mut streams) = (Ends::Terminal.shell("echo x"), Streams(Vec::new()));
    let command = command.for_text("").unwrap();
    within(run(&command, Bytes::new(), &mut streams, StopSignal::new())).await;
    streams.0.dedup();
    assert_eq!(streams.0, [OutputStream::Terminal]);
}
