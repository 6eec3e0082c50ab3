//! What is done to an engine, and how a seed becomes a list of it.
//!
//! Numbers that pick something (a message, a delivery, a watch) are taken modulo what is there
//! when the operation runs. So any part of a list makes sense by itself, and a failing list can
//! be cut down.

use super::random::Random;

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Operation {
    Append { stream: u8, message: Message, expect: Head },
    AppendAll { stream: u8, messages: Vec<Message>, repeats_itself: bool },
    Claim { consumer: u8 },
    Settle { held: u8, how: How },
    Extend { held: u8 },
    Forget { held: u8 },
    Discard { stream: u8, message: u8 },
    Pause { consumer: u8, seconds: Option<u8> },
    Remove { consumer: u8 },
    Elapse { seconds: u16 },
    Compare { stream: u8 },
    Put { key: u8, expect: Known, ttl_seconds: Option<u8> },
    Delete { key: u8, expect: Known },
    Get { key: u8 },
    OpenWatch { watch: u8 },
    ReadWatch { watch: u8, items: u8 },
    ReadWatchWhole { watch: u8 },
    ResumeWatch { watch: u8 },
}

/// A message to append.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) subject: u8,
    /// Under an id that was used before; else under a new one.
    pub(super) repeats: Option<u8>,
    pub(super) delay_seconds: Option<u8>,
    pub(super) level: u8,
    pub(super) key: Option<u8>,
}

/// What an append expects of its subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Head {
    Any,
    Right,
    Wrong,
}

/// What a write expects of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    Any,
    Absent,
    Newest,
    Stale,
}

/// A verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    Ack,
    Reject,
    Retry { seconds: u8 },
    Release { seconds: u8 },
}

impl Operation {
    /// `steps` operations of the seed; without `time`, none that waits for any.
    pub(super) fn list(seed: u64, steps: usize, time: bool) -> Vec<Self> {
        let mut random = Random::new(seed);
        (0..steps).map(|_| Self::random(&mut random, time)).collect()
    }

    fn random(random: &mut Random, time: bool) -> Self {
        match random.below(100) {
            0..20 => Self::Append {
                stream: byte(random, 3),
                message: Message::random(random, time),
                expect: match random.below(6) {
                    0 => Head::Right,
                    1 => Head::Wrong,
                    _ => Head::Any,
                },
            },
            20..25 => Self::AppendAll {
                stream: byte(random, 3),
                messages: (0..=random.below(5)).map(|_| Message::random(random, time)).collect(),
                repeats_itself: random.one_in(8),
            },
            25..46 => Self::Claim { consumer: byte(random, 6) },
            46..60 => Self::Settle { held: byte(random, 250), how: How::random(random, time) },
            60..62 => Self::Extend { held: byte(random, 250) },
            62..63 => Self::Forget { held: byte(random, 250) },
            63..66 => Self::Discard { stream: byte(random, 3), message: byte(random, 250) },
            66..68 => Self::Pause { consumer: byte(random, 6), seconds: seconds(random, time) },
            68..69 => Self::Remove { consumer: byte(random, 6) },
            69..77 if time => Self::Elapse { seconds: how_long(random) },
            69..79 => Self::Compare { stream: byte(random, 3) },
            79..87 => Self::Put {
                key: byte(random, 5),
                expect: Known::random(random),
                ttl_seconds: if random.one_in(3) { seconds(random, time) } else { None },
            },
            87..90 => Self::Delete { key: byte(random, 5), expect: Known::random(random) },
            90..93 => Self::Get { key: byte(random, 5) },
            93..94 => Self::OpenWatch { watch: byte(random, 2) },
            94..96 => Self::ReadWatch { watch: byte(random, 2), items: byte(random, 4) },
            96..99 => Self::ReadWatchWhole { watch: byte(random, 2) },
            _ => Self::ResumeWatch { watch: byte(random, 2) },
        }
    }
}

impl Message {
    fn random(random: &mut Random, time: bool) -> Self {
        Self {
            subject: byte(random, 2),
            repeats: random.one_in(8).then(|| byte(random, 250)),
            delay_seconds: if random.one_in(5) { seconds(random, time) } else { None },
            level: if random.one_in(3) { byte(random, 10) } else { 4 },
            key: random.one_in(2).then(|| byte(random, 3)),
        }
    }
}

impl How {
    fn random(random: &mut Random, time: bool) -> Self {
        let seconds = if random.one_in(2) { seconds(random, time).unwrap_or(0) } else { 0 };
        match random.below(8) {
            0..4 => Self::Ack,
            4 => Self::Reject,
            5 | 6 => Self::Retry { seconds },
            _ => Self::Release { seconds },
        }
    }
}

impl Known {
    fn random(random: &mut Random) -> Self {
        match random.below(6) {
            0 => Self::Absent,
            1 | 2 => Self::Newest,
            3 => Self::Stale,
            _ => Self::Any,
        }
    }
}

fn byte(random: &mut Random, bound: u8) -> u8 {
    random.below(u64::from(bound)).to_le_bytes()[0]
}

/// A few seconds; `None` where time does not pass.
fn seconds(random: &mut Random, time: bool) -> Option<u8> {
    time.then(|| 1 + byte(random, 8))
}

/// Mostly less than a lease, sometimes longer than the window of ids, seldom than a head start.
fn how_long(random: &mut Random) -> u16 {
    match random.below(12) {
        0 => 40,
        1 => 700,
        _ => 1 + u16::from(byte(random, 4)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_operations() {
        assert_eq!(Operation::list(7, 300, true), Operation::list(7, 300, true));
        assert_ne!(Operation::list(7, 300, true), Operation::list(8, 300, true));
    }

    #[test]
    fn a_longer_list_begins_with_the_shorter_one() {
        let (short, long) = (Operation::list(7, 50, true), Operation::list(7, 300, true));
        assert!(long.starts_with(&short));
    }

    #[test]
    fn without_time_nothing_waits() {
        let waits = |operation: &Operation| match operation {
            Operation::Elapse { .. } => true,
            Operation::Append { message, .. } => message.delay_seconds.is_some(),
            Operation::Pause { seconds, .. } => seconds.is_some(),
            Operation::Put { ttl_seconds, .. } => ttl_seconds.is_some(),
            Operation::Settle { how, .. } => {
                matches!(how, How::Retry { seconds: 1.. } | How::Release { seconds: 1.. })
            }
            _ => false,
        };
        assert!(Operation::list(7, 3000, true).iter().any(waits));
        assert!(!Operation::list(7, 3000, false).iter().any(waits));
    }
}
