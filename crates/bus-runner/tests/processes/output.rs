//! Output of real processes: every byte once, in order, hashed, in bounded memory.

use std::time::Duration;

use bytes::Bytes;
use sha2::{Digest, Sha256};

use bus_runner::{
    CHUNK_BYTES_MAX, CommandSpec, ExitKind, OutputSink, OutputStream, StopSignal, run,
};

use crate::support::{Kept, again_with, finished, is_again, shell, within};

fn hash_of(stdout: &[u8], stderr: &[u8]) -> [u8; 32] {
    Sha256::digest([Sha256::digest(stdout), Sha256::digest(stderr)].concat()).into()
}

#[tokio::test]
async fn both_streams_arrive_whole_and_apart() {
    let (report, kept) = finished(&shell("printf out; printf err >&2; printf more"), "").await;
    assert!(report.is_success() && report.output_complete, "{report:?}");
    assert_eq!((kept.stdout.as_slice(), kept.stderr.as_slice()), (&b"outmore"[..], &b"err"[..]));
    assert_eq!((report.stdout_bytes, report.stderr_bytes), (7, 3));
    assert_eq!(report.output_hash, hash_of(b"outmore", b"err"));
}

#[tokio::test]
async fn each_stream_has_its_own_hash_beside_that_of_both() {
    let (report, _kept) = finished(&shell("printf out; printf err >&2; printf more"), "").await;
    assert_eq!(report.stdout_hash[..], Sha256::digest(b"outmore")[..]);
    assert_eq!(report.stderr_hash[..], Sha256::digest(b"err")[..]);
}

#[tokio::test]
async fn the_hash_tells_the_streams_apart() {
    let (on_stdout, _kept) = finished(&shell("printf x"), "").await;
    let (on_stderr, _kept) = finished(&shell("printf x >&2"), "").await;
    assert_ne!(on_stdout.output_hash, on_stderr.output_hash);
}

#[tokio::test]
async fn the_text_reaches_the_command_without_a_shell() {
    let mut spec = CommandSpec::new("printf", ["%s", "<{}>"]);
    spec.grace = Duration::from_millis(300);
    let text = "$(id) `id` \"'; {} \\n é";
    let mut kept = Kept::default();
    let command = spec.for_text(text).unwrap();
    within(run(&command, Bytes::new(), &mut kept, StopSignal::new())).await;
    assert_eq!(kept.stdout, format!("<{text}>").into_bytes());
}

#[tokio::test]
async fn characters_cut_between_writes_keep_their_bytes() {
    // The child waits between the parts, so that the cut falls inside the character.
    let script = "printf 'LINE2 \\342'; sleep 0.05; printf '\\224\\200 tail\\377'; \
                  printf '\\360' >&2; sleep 0.05; printf '\\237\\230\\200' >&2; printf '\\303'";
    let (report, kept) = finished(&shell(script), "").await;
    assert_eq!(kept.stdout, b"LINE2 \xe2\x94\x80 tail\xff\xc3");
    assert_eq!(kept.stderr, "😀".as_bytes());
    assert_eq!(report.output_hash, hash_of(&kept.stdout, &kept.stderr));
}

#[tokio::test]
async fn a_stream_with_emoji_on_every_block_border_keeps_its_bytes() {
    let text = format!("x{}", "😀".repeat(100_000));
    let (report, kept) = finished(&shell("cat; printf y"), text.clone()).await;
    assert_eq!(kept.stdout, format!("{text}y").into_bytes());
    assert_eq!(report.stdout_bytes, 400_002);
    assert!((1..=CHUNK_BYTES_MAX).contains(&kept.chunk_bytes_max), "{}", kept.chunk_bytes_max);
}

#[tokio::test]
async fn input_and_output_larger_than_any_pipe_flow_at_the_same_time() {
    let input: Vec<u8> = (0..8_000_000_u32).map(|at| (at % 251) as u8).collect();
    let (report, kept) = finished(&shell("tee /dev/stderr"), input.clone()).await;
    assert!(report.is_success(), "{report:?}");
    assert!(kept.stdout == input && kept.stderr == input);
}

#[tokio::test]
async fn input_that_nobody_reads_is_no_failure() {
    let input = vec![b'x'; 4_000_000];
    let (report, kept) = finished(&shell("printf done"), input).await;
    assert_eq!((report.exit, kept.stdout.as_slice()), (ExitKind::Exited { code: 0 }, &b"done"[..]));
}

#[tokio::test]
async fn without_input_the_command_reads_the_end_at_once() {
    let (report, kept) = finished(&shell("cat; printf end"), "").await;
    assert_eq!((report.exit, kept.stdout.as_slice()), (ExitKind::Exited { code: 0 }, &b"end"[..]));
}

#[tokio::test]
async fn the_end_of_stderr_is_kept_for_reasons() {
    let script = "head -c 100000 /dev/zero | tr '\\0' a >&2; printf 'the reason' >&2; exit 3";
    let (report, _kept) = finished(&shell(script), "").await;
    assert_eq!(report.exit, ExitKind::Exited { code: 3 });
    let expected = [vec![b'a'; 4096 - 10], b"the reason".to_vec()].concat();
    assert_eq!(report.stderr_tail, expected);
}

/// Counts and forgets.
#[derive(Default)]
struct Counted(u64);

impl OutputSink for Counted {
    fn started(&mut self, _pid: u32) {}

    async fn chunk(&mut self, _stream: OutputStream, bytes: Bytes) {
        self.0 += bytes.len() as u64;
    }
}

#[tokio::test]
async fn a_flood_of_output_needs_no_memory() {
    if !is_again() {
        return again_with("output::a_flood_of_output_needs_no_memory", []);
    }
    let bytes: u64 = if cfg!(debug_assertions) { 200_000_000 } else { 1_000_000_000 };
    let spec = CommandSpec::new("head", ["-c", &bytes.to_string(), "/dev/zero"]);
    let command = spec.for_text("").unwrap();
    let peak_kib = || procfs::process::Process::myself().unwrap().status().unwrap().vmhwm.unwrap();
    let before = peak_kib();
    let mut counted = Counted::default();
    let report = within(run(&command, Bytes::new(), &mut counted, StopSignal::new())).await;
    assert_eq!((report.stdout_bytes, counted.0), (bytes, bytes));
    let grown_kib = peak_kib() - before;
    assert!(grown_kib < 16 * 1024, "{grown_kib} KiB");
}

/// Takes a chunk only when it is allowed to.
struct Gated(tokio::sync::mpsc::Receiver<()>, u64);

impl OutputSink for Gated {
    fn started(&mut self, _pid: u32) {}

    async fn chunk(&mut self, _stream: OutputStream, bytes: Bytes) {
        let _closed = self.0.recv().await;
        self.1 += bytes.len() as u64;
    }
}

#[tokio::test]
async fn a_slow_sink_loses_nothing_and_kills_nobody() {
    let (gate, receiver) = tokio::sync::mpsc::channel(1);
    let mut spec = shell("head -c 60000 /dev/zero; printf x >&2");
    spec.grace = Duration::ZERO;
    let command = spec.for_text("").unwrap();
    let mut gated = Gated(receiver, 0);
    let running = run(&command, Bytes::new(), &mut gated, StopSignal::new());
    // Longer than the grace and the time after a kill together: the sink's time is its own.
    let opening = async {
        finished(&shell("sleep 1.5"), "").await;
        drop(gate);
    };
    let (report, ()) = within(async { tokio::join!(running, opening) }).await;
    assert!(report.output_complete && !report.leftovers_killed, "{report:?}");
    assert_eq!(gated.1, 60_001);
}

/// Gives the stop signal with its first chunk and never takes it.
struct Stuck(StopSignal);

impl OutputSink for Stuck {
    fn started(&mut self, _pid: u32) {}

    async fn chunk(&mut self, _stream: OutputStream, _bytes: Bytes) {
        self.0.kill_now();
        std::future::pending::<()>().await;
    }
}

#[tokio::test]
async fn a_stop_does_not_wait_for_a_sink_that_never_ends() {
    let command = shell("echo x; exec sleep 1000").for_text("").unwrap();
    let stop = StopSignal::new();
    let report = within(run(&command, Bytes::new(), &mut Stuck(stop.clone()), stop)).await;
    assert_eq!((report.exit, report.output_complete), (ExitKind::Killed, false));
}
