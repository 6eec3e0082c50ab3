//! The picture of all streams and their consumers.

use super::{Broker, StreamCursor};
use crate::{
    core::picture::{Piece, StreamPart},
    journal::Statement,
};

impl Broker {
    /// Adds the next piece of a picture to `statements`; false when it was the last one.
    ///
    /// The picture together with all changes since before its first piece, up to those that were
    /// recorded when its last piece was taken, makes the whole. It may be used when those are safe.
    pub fn picture(&self, cursor: &mut StreamCursor, statements: &mut Vec<Statement>) -> bool {
        let mut piece = Piece::new(statements);
        if let (0, StreamPart::Begin, Some(last)) =
            (cursor.stream, cursor.part, self.consumers.checked_sub(1))
        {
            // How many there were, so that no number is given twice. Those that are there follow.
            piece.say(Statement::ConsumerRemoved { consumer: last });
        }
        while let Some(stream) = self.streams.get(cursor.stream) {
            let number = cursor.stream as u32;
            match stream.picture(number, cursor.part, &mut piece) {
                Some(part) => cursor.part = part,
                None => {
                    cursor.stream += 1;
                    cursor.part = StreamPart::Begin;
                }
            }
            if piece.is_full() {
                return cursor.stream < self.streams.len();
            }
        }
        false
    }
}
