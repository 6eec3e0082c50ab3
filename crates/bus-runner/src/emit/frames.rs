//! What goes over the emit socket: a kind, a length, and so many bytes.

use std::fmt;

use bytes::{Buf, Bytes, BytesMut};
use serde::{Deserialize, Serialize};

/// One message of either side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) kind: Kind,
    pub(super) bytes: Bytes,
}

/// What a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The first one: a [`Hello`].
    Hello,
    /// Text of a stream of tokens.
    Text,
    /// What a model thinks.
    Thinking,
    /// Output for the first stream of the terminal.
    Stdout,
    /// Output for the second one.
    Stderr,
    /// The end of a stream of tokens: its reason.
    End,
    /// To the client: its hello is good.
    Accepted,
    /// To the client: why nothing more is taken from it.
    Refused,
    /// To the client, after its last message: a [`Done`].
    Done,
}

/// How a client says who it is.
#[derive(Serialize, Deserialize)]
pub(super) struct Hello {
    /// The version it speaks.
    pub(super) v: u32,
    /// The token of its run.
    pub(super) token: String,
    /// The stream of tokens that its text is of.
    pub(super) stream: String,
}

/// What became of everything that a client sent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Done {
    /// How many bytes were taken.
    pub(super) bytes: u64,
    /// Why some of it was not published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
}

/// Bytes that are no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadFrame {
    #[error("{0} is no kind of message")]
    Kind(u8),
    #[error("a message has {0} bytes: at most {FRAME_BYTES_MAX} are allowed")]
    TooLong(u32),
}

/// The version that both sides speak.
pub(super) const VERSION: u32 = 1;

/// The most bytes of one message.
pub(super) const FRAME_BYTES_MAX: usize = 64 * 1024;

const HEAD_BYTES: usize = 5;

const KINDS: [(Kind, u8); 9] = [
    (Kind::Hello, 0),
    (Kind::Text, 1),
    (Kind::Thinking, 2),
    (Kind::Stdout, 3),
    (Kind::Stderr, 4),
    (Kind::End, 5),
    (Kind::Accepted, 128),
    (Kind::Refused, 129),
    (Kind::Done, 130),
];

impl Frame {
    pub(super) fn new(kind: Kind, bytes: impl Into<Bytes>) -> Self {
        Self { kind, bytes: bytes.into() }
    }

    /// Its bytes on the socket. What is too long for a message is cut off: only words of the
    /// runner's own could be.
    pub(super) fn encode(&self) -> Vec<u8> {
        let bytes = self.bytes.get(..FRAME_BYTES_MAX).unwrap_or(&self.bytes);
        let mut all = Vec::with_capacity(HEAD_BYTES + bytes.len());
        all.push(self.kind.number());
        all.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(0).to_be_bytes());
        all.extend_from_slice(bytes);
        all
    }

    /// Takes the first message out of `came`; none when it is not there as a whole.
    pub(super) fn decode(came: &mut BytesMut) -> Result<Option<Self>, BadFrame> {
        let Some((&[kind, a, b, c, d], _)) = came.split_first_chunk::<HEAD_BYTES>() else {
            return Ok(None);
        };
        let number = kind;
        let kind = Kind::of(number).ok_or(BadFrame::Kind(number))?;
        let said = u32::from_be_bytes([a, b, c, d]);
        let length = usize::try_from(said).unwrap_or(usize::MAX);
        if length > FRAME_BYTES_MAX {
            return Err(BadFrame::TooLong(said));
        }
        if came.len() < HEAD_BYTES + length {
            came.reserve(HEAD_BYTES + length - came.len());
            return Ok(None);
        }
        came.advance(HEAD_BYTES);
        Ok(Some(Self { kind, bytes: came.split_to(length).freeze() }))
    }
}

impl Kind {
    fn number(self) -> u8 {
        KINDS.iter().find(|(kind, _)| *kind == self).map_or(u8::MAX, |(_, number)| *number)
    }

    fn of(number: u8) -> Option<Self> {
        KINDS.iter().find(|(_, known)| *known == number).map(|(kind, _)| *kind)
    }
}

impl fmt::Debug for Hello {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { v, stream, token: _ } = self;
        f.debug_struct("Hello").field("v", v).field("stream", stream).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What is read of `bytes` that come in pieces of `size`, and how many were held at most
    /// between the pieces.
    fn read(bytes: &[u8], size: usize) -> (Vec<Frame>, Option<BadFrame>, usize) {
        let (mut came, mut frames, mut held) = (BytesMut::new(), Vec::new(), 0);
        for piece in bytes.chunks(size) {
            came.extend_from_slice(piece);
            loop {
                match Frame::decode(&mut came) {
                    Ok(Some(frame)) => frames.push(frame),
                    Ok(None) => break,
                    Err(error) => return (frames, Some(error), held),
                }
            }
            held = held.max(came.len());
        }
        (frames, None, held)
    }

    fn frames() -> impl Strategy<Value = Vec<Frame>> {
        let kind = proptest::sample::select(KINDS.map(|(kind, _)| kind).to_vec());
        let frame = (kind, proptest::collection::vec(any::<u8>(), 0..300))
            .prop_map(|(kind, bytes)| Frame::new(kind, bytes));
        proptest::collection::vec(frame, 0..5)
    }

    proptest! {
        #[test]
        fn messages_are_read_as_they_were_written_wherever_they_are_cut(
            frames in frames(), size in 1..40_usize,
        ) {
            let bytes: Vec<u8> = frames.iter().flat_map(Frame::encode).collect();
            let (read, error, _) = read(&bytes, size);
            prop_assert_eq!((read, error), (frames, None));
        }

        #[test]
        fn bytes_of_strangers_are_read_the_same_at_all_cuts(
            bytes in proptest::collection::vec(any::<u8>(), 0..400), size in 1..40_usize,
        ) {
            let (whole, error, _) = read(&bytes, usize::MAX >> 1);
            let cut = read(&bytes, size);
            prop_assert_eq!((&cut.0, &cut.1), (&whole, &error));
        }

        #[test]
        fn no_more_than_a_message_is_held_whatever_its_head_says(
            said in 0..4 * FRAME_BYTES_MAX as u32, size in 1..9000_usize,
        ) {
            let mut bytes = vec![Kind::Text.number()];
            bytes.extend_from_slice(&said.to_be_bytes());
            bytes.resize(HEAD_BYTES + 4 * FRAME_BYTES_MAX, Kind::Text.number());
            let (_, _, held) = read(&bytes, size);
            prop_assert!(held < HEAD_BYTES + FRAME_BYTES_MAX);
        }
    }

    #[test]
    fn a_message_that_is_too_long_is_refused_by_its_head() {
        let mut came = BytesMut::from(&[1, 0, 1, 0, 1][..]);
        assert_eq!(Frame::decode(&mut came), Err(BadFrame::TooLong(0x10001)));
    }

    #[test]
    fn a_token_is_not_shown() {
        let hello = Hello { v: 1, token: "canary".into(), stream: "main".into() };
        assert!(!format!("{hello:?}").contains("canary"));
    }
}
