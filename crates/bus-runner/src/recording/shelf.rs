//! What is stored of one session's recording, oldest first: what goes when there is too much.

use std::collections::BTreeMap;

use bus_core::{Endpoint, Error, ErrorKind, Frame, Result, Seq, planes};
use bus_envelope::wire;
use bus_subjects::{Address, Filter, SessionId, StreamName};
use uuid::Uuid;

use super::{RecordingKind, RecordingKinds};

/// The stored batches of one session, of all kinds that are recorded.
pub(super) struct Shelf {
    endpoint: Endpoint,
    stream: StreamName,
    bytes_max: u64,
    stored: BTreeMap<Seq, u64>,
    bytes: u64,
    discarded: u64,
}

impl Shelf {
    /// Finds what is there of an earlier recorder, and the number of each kind's last batch.
    ///
    /// # Errors
    /// As [`super::Recorder::start`].
    pub(super) async fn find(
        endpoint: Endpoint,
        session: &SessionId,
        kinds: RecordingKinds,
        bytes_max: u64,
    ) -> Result<(Self, Vec<(RecordingKind, u64)>)> {
        let stream = planes::recordings_stream(endpoint.workspace())?;
        let mut shelf =
            Self { endpoint, stream, bytes_max, stored: BTreeMap::new(), bytes: 0, discarded: 0 };
        let mut numbers = Vec::new();
        for kind in kinds.iter() {
            let filter = Filter::from(&kind.kept(shelf.endpoint.workspace(), session)?);
            let mut records =
                shelf.endpoint.replay_from(shelf.stream.clone(), filter, Seq(1)).await?;
            let mut last = 0;
            while let Some(stored) = records.next().await {
                let stored = stored?;
                let number = number_and_life(&stored.frame).map_or(0, |(number, _)| number);
                last = number.max(last + 1);
                shelf.put(stored.seq, stored.frame.bytes() as u64);
            }
            numbers.push((kind, last));
        }
        Ok((shelf, numbers))
    }

    /// Takes note of a batch that was stored.
    pub(super) fn put(&mut self, seq: Seq, bytes: u64) {
        if self.stored.insert(seq, bytes).is_none() {
            self.bytes = self.bytes.saturating_add(bytes);
        }
    }

    /// Removes the oldest batches until what is left keeps the bound; the newest one stays.
    ///
    /// # Errors
    /// Those of [`Endpoint::discard`]; what was not removed is tried again the next time.
    pub(super) async fn trim(&mut self) -> Result<()> {
        while self.bytes > self.bytes_max && self.stored.len() > 1 {
            let Some((seq, bytes)) = self.stored.first_key_value() else { return Ok(()) };
            let (seq, bytes) = (*seq, *bytes);
            self.endpoint.discard(self.stream.clone(), seq).await?;
            self.stored.remove(&seq);
            self.bytes = self.bytes.saturating_sub(bytes);
            self.discarded += 1;
        }
        Ok(())
    }

    /// Makes room in a stream that holds as many batches as it may: the oldest of all sessions go.
    /// What else an engine has no room for is not mended by that.
    ///
    /// # Errors
    /// `Full` when there is nothing to remove; those of reading and [`Endpoint::discard`].
    pub(super) async fn make_room(&mut self) -> Result<()> {
        let mut oldest = Vec::new();
        for filter in Address::filter_recordings(self.endpoint.workspace()) {
            let mut records =
                self.endpoint.replay_from(self.stream.clone(), filter, Seq(1)).await?;
            for _ in 0..ROOM {
                let Some(stored) = records.next().await.transpose()? else { break };
                oldest.push(stored.seq);
            }
        }
        oldest.sort_unstable();
        oldest.truncate(ROOM);
        if oldest.is_empty() {
            let detail = "the stream is full, and no recording is left to remove";
            return Err(Error::new(ErrorKind::Full, "record", detail).at(&self.stream));
        }
        for seq in oldest {
            self.endpoint.discard(self.stream.clone(), seq).await?;
            if let Some(bytes) = self.stored.remove(&seq) {
                self.bytes = self.bytes.saturating_sub(bytes);
            }
            self.discarded += 1;
        }
        Ok(())
    }

    /// How many batches were removed.
    pub(super) const fn discarded(&self) -> u64 {
        self.discarded
    }
}

/// The number of a stored batch, as it says itself, and the process life that stored it.
pub(super) fn number_and_life(frame: &Frame) -> Option<(u64, Uuid)> {
    let envelope = wire::decode(&frame.headers, &frame.body).ok()?;
    let number = envelope.extensions.get(NUMBER)?.parse().ok()?;
    Some((number, envelope.lineage.incarnation))
}

/// The attribute that numbers the batches of one session and kind, from 1.
pub(super) const NUMBER: &str = "batch";

/// How many batches go at once when the stream is full.
const ROOM: usize = 16;
