//! The picture of one stream.

use std::sync::Arc;

use super::Stream;
use crate::{
    core::picture::{ConsumerPart, Piece, StreamPart},
    journal::Statement,
};

impl Stream {
    /// Says some of `part`, and returns which comes next.
    pub(crate) fn picture(
        &self,
        stream: u32,
        part: StreamPart,
        piece: &mut Piece<'_>,
    ) -> Option<StreamPart> {
        match part {
            StreamPart::Begin => {
                let (spec, key) = (self.spec.clone(), self.dedupe.key().0);
                piece.say(Statement::Declared { stream, spec, key });
                piece.say(Statement::StreamAt { stream, last: self.log.last(), ids: Vec::new() });
                Some(StreamPart::Messages(0))
            }
            StreamPart::Messages(from) => Some(self.picture_messages(stream, from, piece)),
            StreamPart::Ids(from) => Some(self.picture_ids(stream, from, piece)),
            StreamPart::Consumer(index) => {
                let member = self.consumers.get(index)?;
                let Some(member) = member else { return Some(StreamPart::Consumer(index + 1)) };
                let consumer = &member.consumer;
                let from = consumer.picture_head(stream, self.log.last() + 1, piece);
                let (number, part) = (consumer.number(), ConsumerPart::Leases(0));
                Some(StreamPart::Rest { index, number, from, part })
            }
            StreamPart::Rest { index, number, from, part } => {
                let consumer = self.consumer(index, number);
                let next = consumer.and_then(|consumer| consumer.picture(from, part, piece));
                Some(next.map_or(StreamPart::Consumer(index + 1), |part| StreamPart::Rest {
                    index,
                    number,
                    from,
                    part,
                }))
            }
        }
    }

    fn picture_messages(&self, stream: u32, from: u64, piece: &mut Piece<'_>) -> StreamPart {
        for (seq, slot) in self.log.iter_from(from) {
            if piece.is_full() {
                return StreamPart::Messages(seq);
            }
            let (time, frame) = (slot.time, Arc::clone(&slot.frame));
            piece.say(Statement::Stored { stream, seq, time, frame });
        }
        StreamPart::Ids(0)
    }

    /// Those of messages that are still there came with them, or with the change that was theirs.
    fn picture_ids(&self, stream: u32, from: u64, piece: &mut Piece<'_>) -> StreamPart {
        let (mut ids, mut next) = (Vec::new(), StreamPart::Consumer(0));
        for (digest, seq, time) in self.dedupe.ids_from(from) {
            if piece.is_full() {
                next = StreamPart::Ids(seq);
                break;
            }
            if self.log.get(seq).is_none() {
                ids.push((digest.0, seq, time));
            }
        }
        if !ids.is_empty() {
            piece.say(Statement::StreamAt { stream, last: self.log.last(), ids });
        }
        next
    }
}
