//! The command whose output is measured: lines as builds and agents write them, 100 MB a second.

use std::{
    io::{Write as _, stdout},
    time::Duration,
};

use anyhow::{Context as _, Result};

use crate::case::wall_time;

/// The option with which this program is that command.
pub(super) const OPTION: &str = "--write-output";

/// How many bytes it is to write, when it is that command.
pub(crate) fn asked(mut words: impl Iterator<Item = String>) -> Option<Result<usize>> {
    (words.next()? == OPTION).then(|| {
        let count = words.next().context("a number of bytes")?;
        count.parse().context("a number of bytes")
    })
}

/// Writes so many bytes, no faster than 100 MB a second.
///
/// # Errors
/// Nobody reads them.
pub(crate) fn write(bytes: usize) -> Result<()> {
    let (block, mut stdout) = (lines(BLOCK), stdout().lock());
    let (start, mut left) = (wall_time(), bytes);
    while left > 0 {
        let piece = block.get(..left.min(block.len())).unwrap_or_default();
        stdout.write_all(piece)?;
        left -= piece.len();
        let due = start + A_SECOND.mul_f64((bytes - left) as f64 / BYTES_A_SECOND);
        rest(due.saturating_sub(wall_time()));
    }
    Ok(stdout.flush()?)
}

/// Lines of a build, some of them in colour, of `bytes` bytes together.
pub(super) fn lines(bytes: usize) -> Vec<u8> {
    let mut text = String::with_capacity(bytes + 128);
    let mut number = 0_u32;
    while text.len() < bytes {
        number += 1;
        let line = match number % 8 {
            0 => format!("\u{1b}[1;33mwarning\u{1b}[0m: unused variable `value_{number}`\r\n"),
            _ => {
                format!("   Compiling crate-{number} v0.{number}.1 (/srv/crates/{number}/src)\r\n")
            }
        };
        text.push_str(&line);
    }
    let mut bytes_of = text.into_bytes();
    bytes_of.truncate(bytes);
    bytes_of
}

/// Nobody wakes it before; were it so, it would write a little early.
fn rest(time: Duration) {
    if time > Duration::ZERO {
        std::thread::park_timeout(time);
    }
}

const BLOCK: usize = 32 * 1024;
const A_SECOND: Duration = Duration::from_secs(1);
const BYTES_A_SECOND: f64 = 100e6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_writer_is_asked_for_by_its_option_alone() {
        let asked_for = |words: &[&str]| asked(words.iter().map(|word| (*word).to_owned()));
        assert!(asked_for(&["T1"]).is_none() && asked_for(&[]).is_none());
        assert_eq!(asked_for(&[OPTION, "12"]).unwrap().unwrap(), 12);
        assert!(asked_for(&[OPTION]).unwrap().is_err());
    }

    #[test]
    fn there_are_as_many_bytes_of_lines_as_asked_for() {
        assert_eq!(lines(1_000).len(), 1_000);
    }
}
