//! What is done to both engines, and how a seed becomes a list of it.
//!
//! Numbers that pick something are taken modulo what is there when the operation runs, so that any
//! part of a list makes sense by itself and a failing list can be cut down. Nothing here waits for
//! time to pass: what has a time has one that is long over or a lifetime away.

use crate::random::Random;

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Operation {
    Declare { stream: u8, otherwise: bool },
    Append { stream: u8, message: Message, head: Head },
    AppendAll { stream: u8, messages: Vec<Message> },
    Last { stream: u8, subject: u8 },
    Read { stream: u8, seq: u8 },
    Replay { stream: u8, subject: Option<u8>, from: u8 },
    Discard { stream: u8, seq: u8 },
    Lag { stream: u8 },
    Claim { consumer: u8, many: u8 },
    Settle { held: u8, how: How },
    SettleAll { how: How },
    Extend { held: u8 },
    Pause { consumer: u8, when: When },
    Remove { consumer: u8 },
    Put { key: u8, known: Known, ends: bool },
    Delete { key: u8, known: Known },
    Get { key: u8 },
    OpenWatch { watch: u8, key: Option<u8> },
    ReadWatch { watch: u8 },
    ResumeWatch { watch: u8 },
    PutBlob { key: u8, size: u8, breaks: bool },
    GetBlob { key: u8 },
    DeleteBlob { key: u8 },
    ListBlobs,
    Publish { subject: u8, headers: u8 },
    Subscribe { slot: u8, subject: Option<u8>, latest: bool },
    Hear { slot: u8 },
    Leave { slot: u8 },
    Request { subject: u8 },
}

/// A message to append.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) subject: u8,
    /// Under an id that was used before; else under a new one.
    pub(crate) repeats: Option<u8>,
    pub(crate) not_before: Option<When>,
    pub(crate) level: u8,
    pub(crate) key: Option<u8>,
    /// How many headers it has, and whether it wants an answer.
    pub(crate) headers: u8,
    pub(crate) reply: bool,
}

/// A time that nothing here waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    Over,
    Never,
}

/// What an append expects of its subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Head {
    Any,
    Right,
    Wrong,
}

/// What a write expects of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known {
    Any,
    Absent,
    Newest,
    Stale,
}

/// A verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    Ack,
    Reject,
    Retry(When),
    Release(When),
}

impl Operation {
    /// `steps` operations of the seed.
    pub(crate) fn list(seed: u64, steps: usize) -> Vec<Self> {
        let mut random = Random::new(seed);
        (0..steps).map(|_| Self::random(&mut random)).collect()
    }

    /// Whether a message becomes ready by it.
    pub(crate) const fn makes_ready(&self) -> bool {
        matches!(self, Self::Settle { .. } | Self::SettleAll { .. } | Self::Pause { .. })
    }

    fn random(random: &mut Random) -> Self {
        match random.below(100) {
            0..44 => Self::stored(random),
            44..66 => Self::queued(random),
            66..80 => Self::kept(random),
            80..86 => Self::large(random),
            _ => Self::live(random),
        }
    }

    fn stored(random: &mut Random) -> Self {
        let stream = byte(random, 3);
        match random.below(44) {
            0..24 => Self::Append {
                stream,
                message: Message::random(random, stream),
                head: match random.below(if stream == CHAINS { 3 } else { 1 }) {
                    1 => Head::Right,
                    2 => Head::Wrong,
                    _ => Head::Any,
                },
            },
            24..30 => Self::AppendAll {
                stream,
                messages: (0..=random.below(5)).map(|_| Message::random(random, stream)).collect(),
            },
            30..33 => Self::Last { stream, subject: byte(random, 2) },
            33..36 => Self::Read { stream, seq: byte(random, 20) },
            36..39 => {
                let subject = random.chance(500).then(|| byte(random, 2));
                Self::Replay { stream, subject, from: byte(random, 20) }
            }
            39..42 => Self::Discard { stream, seq: byte(random, 20) },
            42..43 => Self::Declare { stream, otherwise: random.chance(500) },
            _ => Self::Lag { stream },
        }
    }

    fn queued(random: &mut Random) -> Self {
        let consumer = byte(random, 6);
        match random.below(44) {
            0..20 => Self::Claim { consumer, many: 1 },
            20..23 => Self::Claim { consumer, many: 2 + byte(random, 3) },
            23..36 => Self::Settle { held: byte(random, 250), how: How::random(random) },
            36..37 => Self::SettleAll { how: How::random(random) },
            37..39 => Self::Extend { held: byte(random, 250) },
            39..43 => {
                let when = if random.chance(300) { When::Never } else { When::Over };
                Self::Pause { consumer, when }
            }
            _ => Self::Remove { consumer },
        }
    }

    fn kept(random: &mut Random) -> Self {
        let (key, watch) = (byte(random, 5), byte(random, 2));
        match random.below(14) {
            0..5 => Self::Put { key, known: Known::random(random), ends: random.chance(200) },
            5..7 => Self::Delete { key, known: Known::random(random) },
            7..9 => Self::Get { key },
            9..10 => Self::OpenWatch { watch, key: random.chance(300).then_some(key) },
            10..13 => Self::ReadWatch { watch },
            _ => Self::ResumeWatch { watch },
        }
    }

    fn large(random: &mut Random) -> Self {
        let key = byte(random, 3);
        match random.below(6) {
            0..2 => Self::PutBlob { key, size: byte(random, 6), breaks: random.chance(200) },
            2..4 => Self::GetBlob { key },
            4..5 => Self::DeleteBlob { key },
            _ => Self::ListBlobs,
        }
    }

    fn live(random: &mut Random) -> Self {
        let slot = byte(random, 3);
        match random.below(14) {
            0..6 => Self::Publish { subject: byte(random, 3), headers: byte(random, 4) },
            6..8 => Self::Subscribe {
                slot,
                subject: random.chance(500).then(|| byte(random, 3)),
                latest: random.chance(400),
            },
            8..12 => Self::Hear { slot },
            12..13 => Self::Leave { slot },
            _ => Self::Request { subject: byte(random, 3) },
        }
    }
}

impl Message {
    /// A message for `stream`: those of chains are placed like all others there.
    fn random(random: &mut Random, stream: u8) -> Self {
        let is_placed = stream != CHAINS;
        Self {
            subject: byte(random, 2),
            repeats: random.chance(120).then(|| byte(random, 250)),
            not_before: (is_placed && random.chance(100))
                .then(|| if random.chance(500) { When::Over } else { When::Never }),
            level: if is_placed && random.chance(300) { byte(random, 10) } else { 4 },
            key: (is_placed && random.chance(400)).then(|| byte(random, 3)),
            headers: byte(random, 4),
            reply: random.chance(100),
        }
    }
}

impl How {
    fn random(random: &mut Random) -> Self {
        let when = if random.chance(200) { When::Never } else { When::Over };
        match random.below(8) {
            0..4 => Self::Ack,
            4 => Self::Reject,
            5 | 6 => Self::Retry(when),
            _ => Self::Release(when),
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
    u8::try_from(random.below(u64::from(bound))).unwrap_or(0)
}

/// The stream whose subjects have heads that appends expect.
pub(crate) const CHAINS: u8 = 2;
