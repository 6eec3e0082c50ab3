//! What a command writes, at 100 MB a second: what it costs to run it, to show, keep and record
//! what it writes (T1 to T3), and to make lines of it (T4).
//!
//! The figures are processor seconds for 100 MB. Raw is the second that these take to come, so a
//! ratio is the share of one core.

use crate::case::Figures;

pub(crate) mod run;
pub(crate) mod text;
pub(crate) mod writer;

/// How much is written.
const BYTES: usize = 100_000_000;

/// The middle of several rounds, beside the second that the output takes.
fn beside_a_second(mut seconds: Vec<f64>) -> Figures {
    seconds.sort_by(f64::total_cmp);
    let ours = seconds.get(seconds.len() / 2).copied().unwrap_or(f64::NAN);
    Figures { raw: 1.0, ours }
}
