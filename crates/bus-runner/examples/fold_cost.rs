//! How fast output becomes lines: plain text, coloured text, progress bars.
//!
//! `cargo run --release -p bus-runner --example fold_cost`, on Linux: it measures its own processor
//! time, so that other programs do not matter.
#![expect(clippy::print_stdout, reason = "its output is what it is for")]

use std::hint::black_box;

use bus_runner::{Fold, FoldLimits, Sanitize};

/// How much goes through for each figure.
const BYTES: usize = 200_000_000;

/// How much comes at once, as from a pipe.
const CHUNK: usize = 64 * 1024;

fn main() -> std::io::Result<()> {
    let text = |i: usize| if i % 80 == 79 { b'\n' } else { b'a' + (i % 26) as u8 };
    let kinds: [(&str, Vec<u8>); 4] = [
        ("text", (0..CHUNK).map(text).collect()),
        ("coloured", b"\x1b[32mok\x1b[0m some words here\r\n".repeat(CHUNK / 28)),
        ("erased bars", "\r\x1b[2K▓▓▓▓▓▓░░░░ 50%".as_bytes().repeat(CHUNK / 40)),
        ("bars", "\r▓▓▓▓▓▓░░░░ 50%".as_bytes().repeat(CHUNK / 36)),
    ];
    for (kind, chunk) in &kinds {
        let mut fold = Fold::new(FoldLimits::one_row());
        let mut shown = 0;
        let folded = rate(chunk, |chunk| fold.push(chunk, &mut |line| shown += line.styled.len()))?;
        let (mut sanitize, mut text) = (Sanitize::new(), String::new());
        let sanitized = rate(chunk, |chunk| {
            text.clear();
            sanitize.push(chunk, &mut text);
        })?;
        black_box((shown, text.len()));
        println!("{kind:>12}: folded {folded:6.0} MB/s, sanitized {sanitized:6.0} MB/s");
    }
    Ok(())
}

/// Millions of bytes in a second of one core.
fn rate(chunk: &[u8], mut push: impl FnMut(&[u8])) -> std::io::Result<f64> {
    let rounds = BYTES.div_ceil(chunk.len());
    let begin = processor_nanoseconds()?;
    (0..rounds).for_each(|_| push(black_box(chunk)));
    let nanoseconds = processor_nanoseconds()? - begin;
    Ok((rounds * chunk.len()) as f64 * 1e3 / nanoseconds)
}

fn processor_nanoseconds() -> std::io::Result<f64> {
    let text = std::fs::read_to_string("/proc/self/schedstat")?;
    let first = text.split(' ').next().and_then(|first| first.parse().ok());
    first.ok_or_else(|| std::io::Error::other("schedstat has no figure"))
}
