//! The picture of all buckets.

use bus_core::KeyState;
use bus_envelope::Timestamp;

use super::BucketStore;
use crate::{
    core::picture::{BucketCursor, Piece},
    journal::Statement,
};

impl BucketStore {
    /// Adds the next piece of a picture to `statements`; false when it was the last one. As with
    /// [`Broker::picture`](super::super::Broker::picture).
    pub fn picture(
        &self,
        cursor: &mut BucketCursor,
        now: Timestamp,
        statements: &mut Vec<Statement>,
    ) -> bool {
        let mut piece = Piece::new(statements);
        let left = cursor.left.get_or_insert_with(|| self.buckets.keys().cloned().collect());
        while let Some(bucket) = left.last() {
            let Some(records) = self.buckets.get(bucket) else {
                left.pop();
                continue;
            };
            // With every piece, because ends are forgotten between two of them.
            let (last, forgotten) = (records.last(), records.forgotten());
            piece.say(Statement::BucketAt { bucket: bucket.clone(), last, forgotten });
            for (key, record) in records.changes(cursor.after) {
                if piece.is_full() {
                    return true;
                }
                let (bucket, key, revision) = (bucket.clone(), key.clone(), record.revision);
                cursor.after = revision;
                let (time, end) = (now, record.end);
                let ended = |bucket, key, expired| Statement::Ended {
                    bucket,
                    key,
                    revision,
                    time,
                    expired,
                };
                piece.say(match &record.state {
                    KeyState::Value(value) => {
                        Statement::Put { bucket, key, revision, time, end, value: value.clone() }
                    }
                    KeyState::Deleted => ended(bucket, key, false),
                    KeyState::Expired => ended(bucket, key, true),
                });
            }
            cursor.after = 0;
            left.pop();
        }
        false
    }
}
