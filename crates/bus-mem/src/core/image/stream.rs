//! What survives of one stream.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use bus_core::{Error, ErrorKind, Frame, Result, StreamSpec};
use bus_envelope::Timestamp;
use bus_subjects::{Subject, SubjectTable};
use foldhash::fast::RandomState;

use super::{ConsumerImage, Image, Standing, unheard_of};
use crate::core::{
    dedupe::{Dedupe, Digest, DigestKey},
    stream::Stream,
};

/// A stream by its messages.
#[derive(Debug)]
pub(super) struct StreamImage {
    pub(super) spec: StreamSpec,
    key: DigestKey,
    last: u64,
    pub(super) messages: BTreeMap<u64, Kept>,
    ids: BTreeMap<u64, (Digest, Timestamp)>,
    /// When the newest message was stored.
    newest: Timestamp,
    /// The numbers of its consumers by their filters, and what that says of subjects asked for.
    pub(super) table: SubjectTable<u64>,
    routes: HashMap<Subject, Box<[u64]>, RandomState>,
}

/// A message.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) frame: Arc<Frame>,
    pub(super) time: Timestamp,
    /// By the numbers of consumers. Those of removed consumers stay behind.
    pub(super) standings: Vec<(u64, Standing)>,
}

impl Image {
    pub(super) fn declare(&mut self, stream: u32, spec: &StreamSpec, key: [u8; 16]) -> Result<()> {
        match self.streams.get(stream as usize) {
            Some(known) if known.spec == *spec => Ok(()),
            Some(_) => {
                let why = format!("the stream {stream} was declared in another way before");
                Err(Error::new(ErrorKind::Invalid, "apply", why).at(&spec.name))
            }
            None if self.streams.len() == stream as usize => {
                self.streams.push(StreamImage::new(spec.clone(), DigestKey(key)));
                Ok(())
            }
            None => Err(unheard_of(stream)),
        }
    }
}

impl StreamImage {
    fn new(spec: StreamSpec, key: DigestKey) -> Self {
        Self {
            spec,
            key,
            last: 0,
            messages: BTreeMap::new(),
            ids: BTreeMap::new(),
            newest: Timestamp::MIN,
            table: SubjectTable::new(),
            routes: HashMap::default(),
        }
    }

    /// Keeps a message; false when it is there already.
    pub(super) fn store(&mut self, seq: u64, time: Timestamp, frame: &Arc<Frame>) -> bool {
        self.last = self.last.max(seq);
        self.newest = self.newest.max(time);
        self.remember(self.key.digest(&frame.id), seq, time);
        if self.messages.contains_key(&seq) {
            return false;
        }
        let frame = Arc::clone(frame);
        self.messages.insert(seq, Kept { frame, time, standings: Vec::new() });
        true
    }

    pub(super) fn is_at(&mut self, last: u64, ids: &[([u64; 2], u64, Timestamp)]) {
        self.last = self.last.max(last);
        for &(digest, seq, time) in ids {
            self.remember(Digest(digest), seq, time);
        }
    }

    /// The numbers of the consumers that read `subject`.
    pub(super) fn readers(&mut self, subject: &Subject) -> &[u64] {
        if !self.routes.contains_key(subject) {
            if self.routes.len() >= ROUTES_MAX {
                self.routes.clear();
            }
            let readers = self.table.matches(subject).into_iter().copied().collect();
            self.routes.insert(subject.clone(), readers);
        }
        self.routes.get(subject).map_or(&[], |readers| readers)
    }

    /// A consumer came or went.
    pub(super) fn forget_routes(&mut self) {
        self.routes.clear();
    }

    /// Puts everything into `stream`, its consumers in the order of their numbers.
    pub(super) fn restore(
        self,
        stream: &mut Stream,
        consumers: Vec<(u64, ConsumerImage)>,
        (now, token): (Timestamp, u64),
    ) {
        for (&seq, kept) in &self.messages {
            stream.restore_message(seq, Arc::clone(&kept.frame), kept.time);
        }
        for (&seq, &(digest, time)) in &self.ids {
            stream.restore_id(digest, seq, time);
        }
        stream.restore_last(self.last);
        let mut indices = HashMap::with_capacity(consumers.len());
        for (number, consumer) in &consumers {
            let token = token.max(consumer.token);
            let index = stream.restore_consumer(
                consumer.spec.clone(),
                (*number, token),
                consumer.paused_until,
            );
            indices.insert(*number, index);
        }
        // Who was handed out holds the key of its order, so those come first.
        for (&seq, kept) in &self.messages {
            for &(number, standing) in &kept.standings {
                let Some(&index) = indices.get(&number) else { continue };
                let Some(consumer) = stream.member_mut(index) else { continue };
                standing.restore(consumer, seq, kept.frame.placement.as_deref(), now);
            }
        }
        for (number, mut consumer) in consumers {
            consumer.look(number, &self.messages);
            let index = indices.get(&number).copied();
            let Some(member) = index.and_then(|index| stream.member_mut(index)) else { continue };
            for seq in consumer.fresh {
                // One that was taken out by an operator may have stayed behind.
                let kept = self.messages.get(&seq);
                if let Some(kept) = kept.filter(|kept| !kept.stands_for(number)) {
                    let placement = kept.frame.placement.as_deref();
                    member.restore_fresh(seq, placement, kept.time, now);
                }
            }
        }
    }

    fn remember(&mut self, digest: Digest, seq: u64, time: Timestamp) {
        self.ids.insert(seq, (digest, time));
        let ids_max = Dedupe::ids_max(self.spec.messages_max.get());
        let (newest, window) = (self.newest, self.spec.dedupe_window);
        while let Some(first) = self.ids.first_entry() {
            let is_over = first.get().1.plus(window) <= newest;
            if !is_over && self.ids.len() as u64 <= ids_max {
                return;
            }
            self.ids.pop_first();
        }
    }

    pub(super) const fn key(&self) -> DigestKey {
        self.key
    }
}

impl Kept {
    /// Whether the consumer `number` handed it out before.
    pub(super) fn stands_for(&self, number: u64) -> bool {
        self.standings.iter().any(|(other, _)| *other == number)
    }
}

/// Subjects remembered at most.
const ROUTES_MAX: usize = 16_384;
