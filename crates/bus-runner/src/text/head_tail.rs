//! The beginning and the end of a long output.

use std::collections::VecDeque;

/// Takes an output piece by piece; keeps its end in bounded memory and hands its beginning on.
///
/// The beginning goes on at once, so it costs no memory here. What is neither beginning nor end is
/// counted only; the hash over all of it is the run's ([`RunReport`](crate::RunReport)). How the
/// output is cut into pieces makes no difference.
///
/// ```
/// # use bus_runner::{HeadTail, LeftOut};
/// let mut output = HeadTail::new(4, 3);
/// assert_eq!(output.push(b"begin"), b"begi");
/// assert_eq!(output.push(b" to the end"), b"");
/// let end = output.finish();
/// assert_eq!(end.tail, b"end");
/// assert_eq!(end.left_out, Some(LeftOut { at: 4, bytes: 9 }));
/// assert_eq!(end.bytes, 16);
/// ```
#[derive(Clone, Debug)]
pub struct HeadTail {
    head_max: u64,
    tail: VecDeque<u8>,
    tail_max: usize,
    bytes: u64,
}

/// The end of an output, and what is known about all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadTailEnd {
    /// What follows the beginning, or what follows after what is left out.
    pub tail: Vec<u8>,
    /// What stands between beginning and end; none when that is nothing.
    pub left_out: Option<LeftOut>,
    /// How many bytes there were in all.
    pub bytes: u64,
}

/// A part of an output that is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// How many bytes stand before it: the length of the beginning.
    pub at: u64,
    /// How many bytes it has.
    pub bytes: u64,
}

impl HeadTail {
    /// Hands the first `head_max` bytes on and keeps the last `tail_max` of the others.
    ///
    /// An output of up to `head_max + tail_max` bytes is kept whole.
    #[must_use]
    pub fn new(head_max: u64, tail_max: usize) -> Self {
        Self { head_max, tail: VecDeque::new(), tail_max, bytes: 0 }
    }

    /// Takes the next piece; returns the part of it that belongs to the beginning.
    #[must_use = "the beginning is not kept here"]
    pub fn push<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let room = self.head_max.saturating_sub(self.bytes);
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        let in_head = usize::try_from(room).unwrap_or(usize::MAX).min(bytes.len());
        let (head, rest) = bytes.split_at(in_head);
        self.keep_end(rest);
        head
    }

    /// How many bytes came so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Ends the output.
    #[must_use]
    pub fn finish(self) -> HeadTailEnd {
        let at = self.head_max.min(self.bytes);
        let left_out = self.bytes.saturating_sub(at).saturating_sub(self.tail.len() as u64);
        HeadTailEnd {
            left_out: (left_out > 0).then_some(LeftOut { at, bytes: left_out }),
            bytes: self.bytes,
            tail: self.tail.into(),
        }
    }

    fn keep_end(&mut self, bytes: &[u8]) {
        let skipped = bytes.len().saturating_sub(self.tail_max);
        let bytes = bytes.get(skipped..).unwrap_or_default();
        // Room first, so that no more than the bound is ever held.
        let room = self.tail_max.saturating_sub(bytes.len());
        let gone = self.tail.len().saturating_sub(room);
        self.tail.drain(..gone);
        self.tail.extend(bytes);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The beginning and the end of `output`, pushed in pieces of `sizes`.
    fn split(output: &[u8], sizes: &[usize], limits: (u64, usize)) -> (Vec<u8>, HeadTailEnd) {
        let mut kept = HeadTail::new(limits.0, limits.1);
        let (mut head, mut rest) = (Vec::new(), output);
        for size in sizes {
            let (piece, others) = rest.split_at((*size).min(rest.len()));
            head.extend_from_slice(kept.push(piece));
            rest = others;
            assert!(kept.tail.len() <= limits.1, "more is held than the bound");
        }
        head.extend_from_slice(kept.push(rest));
        (head, kept.finish())
    }

    fn output() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(any::<u8>(), 0..200)
    }

    fn sizes() -> impl Strategy<Value = Vec<usize>> {
        proptest::collection::vec(0..60_usize, 0..12)
    }

    proptest! {
        #[test]
        fn head_and_tail_and_what_is_left_out_are_all(
            output in output(), sizes in sizes(), head_max in 0..80_u64, tail_max in 0..80_usize,
        ) {
            let (head, end) = split(&output, &sizes, (head_max, tail_max));
            let left_out = end.left_out.map_or(0, |left_out| left_out.bytes as usize);
            prop_assert!(output.starts_with(&head) && output.ends_with(&end.tail));
            prop_assert_eq!(head.len() + left_out + end.tail.len(), output.len());
            prop_assert_eq!(end.bytes, output.len() as u64);
            prop_assert_eq!(left_out == 0, output.len() as u64 <= head_max + tail_max as u64);
            if let Some(left_out) = end.left_out {
                prop_assert_eq!(left_out.at, head.len() as u64);
            }
        }

        #[test]
        fn pieces_make_no_difference(
            output in output(), sizes in sizes(), head_max in 0..80_u64, tail_max in 0..80_usize,
        ) {
            let whole = split(&output, &[], (head_max, tail_max));
            prop_assert_eq!(split(&output, &sizes, (head_max, tail_max)), whole);
        }
    }
}
