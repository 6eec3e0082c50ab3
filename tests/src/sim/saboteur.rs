//! The broker that agents talk to: the real one, or the real one with a fault planted before it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use bus_core::{
    ConsumerSpec, ConsumerState, Durability, ErrorKind, Expect, Frame, FrameId, Lag, Placement,
    Priority, Receipt, Result, Seq, StreamSpec, Verdict,
};
use bus_envelope::Timestamp;
use bus_mem::{
    Limits,
    core::{Broker, Claim, ConsumerKey, Message},
};
use bus_subjects::{ConsumerName, Filter, StreamName, Subject};
use bytes::Bytes;

use super::{Fault, random::Random};

/// The pure broker and what it does wrong.
#[derive(Debug)]
pub(super) struct Saboteur {
    broker: Broker,
    fault: Option<Fault>,
    random: Random,
    /// The last message handed out.
    out: Option<(ConsumerKey, Claim)>,
    /// Tasks that will never be handed out.
    lost: BTreeSet<Seq>,
    /// The placements that were asked for and not passed on.
    asked: BTreeMap<FrameId, Placement>,
    work: StreamName,
}

impl Saboteur {
    pub(super) fn new(fault: Option<Fault>, seed: u64, work: StreamName) -> Self {
        Self {
            broker: Broker::new(Limits::default(), Durability::Memory),
            fault,
            // Its own chance, so that the agents do the same with and without it.
            random: Random::new(!seed),
            out: None,
            lost: BTreeSet::new(),
            asked: BTreeMap::new(),
            work,
        }
    }

    pub(super) fn declare(&mut self, spec: StreamSpec) -> Result<()> {
        self.broker.declare(spec)
    }

    pub(super) fn consume(&mut self, spec: ConsumerSpec) -> Result<ConsumerKey> {
        self.broker.consume(spec)
    }

    pub(super) fn append(
        &mut self,
        frame: Frame,
        expect: Expect,
        now: Timestamp,
        mut ready: impl FnMut(ConsumerKey),
    ) -> Result<Receipt> {
        let kept = frame.clone();
        let is_task = frame.subject.as_str().starts_with("vak.work.");
        let is_letter = frame.subject.as_str().starts_with("vak.dlq.");
        let is_receipt = frame.subject.as_str().starts_with("vak.receipts.");
        if (is_task && (self.does(Fault::StoresNothing) || self.does(Fault::InventsDuplicate)))
            || (is_letter && self.does(Fault::DropsLetter))
        {
            return self.pretend(&frame.subject);
        }
        let frame = match is_receipt && self.does(Fault::AltersReceipt) {
            true => altered(frame),
            false => self.misplaced(frame),
        };
        let answer = self.broker.append(frame, expect, now, &mut ready);
        match &answer {
            Ok(receipt) if receipt.duplicate && self.does(Fault::ForgetsId) => {
                let id = FrameId::parse(&format!("{}~", kept.id))?;
                self.broker.append(Frame { id, ..kept }, Expect::Any, now, ready)
            }
            Ok(receipt) if is_task && !receipt.duplicate && self.does(Fault::LosesTask) => {
                self.lost.insert(receipt.seq);
                answer
            }
            Err(error) if error.kind() == ErrorKind::Conflict && self.always(Fault::ForksHead) => {
                self.broker.append(kept, Expect::Any, now, ready)
            }
            _ => answer,
        }
    }

    pub(super) fn append_all(
        &mut self,
        mut frames: Vec<Frame>,
        now: Timestamp,
        mut ready: impl FnMut(ConsumerKey),
    ) -> Result<Vec<Receipt>> {
        if frames.len() > 1 && self.does(Fault::TearsBatch) {
            let kept = frames.split_off(frames.len() / 2);
            let mut receipts = self.broker.append_all(shared(frames), now, &mut ready)?;
            for frame in kept {
                receipts.push(self.pretend(&frame.subject)?);
            }
            return Ok(receipts);
        }
        self.broker.append_all(shared(frames), now, ready)
    }

    pub(super) fn discard(
        &mut self,
        name: &StreamName,
        seq: Seq,
        ready: impl FnMut(ConsumerKey),
    ) -> Result<bool> {
        if self.always(Fault::KeepsDiscarded) {
            return self.broker.read_one(name, seq).map(|message| message.is_some());
        }
        Ok(self.broker.discard(name, seq, ready)?.is_some())
    }

    pub(super) fn pause(
        &mut self,
        spec: &ConsumerSpec,
        until: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<ConsumerKey> {
        let until = until.filter(|_| !self.always(Fault::IgnoresPause));
        self.broker.pause(&spec.stream, &spec.name, until, now)
    }

    pub(super) fn remove(
        &mut self,
        (stream, name): (&StreamName, &ConsumerName),
        key: ConsumerKey,
    ) -> Result<Option<ConsumerKey>> {
        if self.always(Fault::KeepsRemoved) {
            return Ok(Some(key));
        }
        Ok(self.broker.remove_consumer(stream, name)?.map(|removed| removed.key))
    }

    pub(super) fn claim(&mut self, key: ConsumerKey, now: Timestamp) -> Option<Claim> {
        if let Some((of, claim)) = self.out.clone()
            && of == key
            && self.does(Fault::HandsOutTwice)
        {
            return Some(claim);
        }
        let mut claim = self.broker.claim(key, now)?;
        while self.lost.contains(&claim.message.seq) {
            self.broker.settle(key, claim.token, &Verdict::Ack, now).ok()?;
            claim = self.broker.claim(key, now)?;
        }
        if let Some(asked) = self.asked.get(&claim.message.frame.id) {
            let frame = Frame::clone(&claim.message.frame).placed(asked.clone());
            claim.message.frame = Arc::new(frame);
        }
        if self.always(Fault::LosesAttempts) {
            claim.attempt = 1;
        }
        if self.fault == Some(Fault::HandsOutTwice) {
            self.out = Some((key, claim.clone()));
        }
        Some(claim)
    }

    pub(super) fn settle(
        &mut self,
        key: ConsumerKey,
        token: u64,
        verdict: &Verdict,
        now: Timestamp,
    ) -> Result<()> {
        let verdict = match verdict {
            Verdict::Ack if self.does(Fault::ForgetsAck) => {
                &Verdict::Release { after: Duration::ZERO }
            }
            Verdict::Retry { after } if self.does(Fault::RetriesEarly) => {
                &Verdict::Retry { after: *after / 4 }
            }
            Verdict::Release { after } if self.does(Fault::CountsRelease) => {
                &Verdict::Retry { after: *after }
            }
            verdict => verdict,
        };
        let answer = self.broker.settle(key, token, verdict, now).map(drop);
        if self.always(Fault::SettlesLate) { Ok(()) } else { answer }
    }

    pub(super) fn extend(
        &mut self,
        key: ConsumerKey,
        token: u64,
        now: Timestamp,
    ) -> Result<Duration> {
        if self.does(Fault::ForgetsExtension) {
            return Ok(Duration::from_secs(1));
        }
        self.broker.extend(key, token, now)
    }

    pub(super) fn lag(&mut self, name: &StreamName, now: Timestamp) -> Result<Lag> {
        let mut lag = self.broker.lag(name, now)?;
        lag.pending += u64::from(self.does(Fault::MiscountsLag));
        Ok(lag)
    }

    pub(super) fn consumers(
        &mut self,
        name: &StreamName,
        now: Timestamp,
    ) -> Result<Vec<ConsumerState>> {
        self.broker.consumers(name, now)
    }

    /// The clock went back.
    pub(super) fn stepped_back(&mut self, keys: &[ConsumerKey], now: Timestamp) {
        if self.always(Fault::TakesJumpForTime) {
            let later = now.plus(Duration::from_secs(3600));
            keys.iter().for_each(|&key| self.broker.tick(key, later));
        }
    }

    pub(super) fn tick(&mut self, key: ConsumerKey, now: Timestamp) {
        self.broker.tick(key, now);
    }

    pub(super) fn next_deadline(&self, key: ConsumerKey) -> Option<Timestamp> {
        self.broker.next_deadline(key)
    }

    pub(super) fn last(&self, subject: &Subject) -> Result<Option<Message>> {
        self.broker.last(subject)
    }

    pub(super) fn read_one(&self, name: &StreamName, seq: Seq) -> Result<Option<Message>> {
        self.broker.read_one(name, seq)
    }

    /// All that a stream holds.
    pub(super) fn read_all(&self, name: &StreamName) -> Result<Vec<Message>> {
        let (key, last) = self.broker.head(name)?;
        let (mut stored, mut from) = (Vec::new(), Some(Seq(1)));
        while let Some(first) = from {
            from = self.broker.read(key, &Filter::all(), (first, last), LOOKS_MAX, &mut stored);
        }
        Ok(stored)
    }

    /// The frame without what it says about its place in line.
    fn misplaced(&mut self, frame: Frame) -> Frame {
        let Some(asked) = frame.placement.as_deref().cloned() else { return frame };
        let placement = match self.fault {
            Some(Fault::IgnoresKey) => Placement { key: None, ..asked.clone() },
            Some(Fault::IgnoresSchedule) => Placement { not_before: None, ..asked.clone() },
            Some(Fault::IgnoresPriority) => {
                Placement { priority: Priority::NORMAL, ..asked.clone() }
            }
            _ => return frame,
        };
        // The agents get back what they sent: only the order tells.
        self.asked.insert(frame.id.clone(), asked);
        frame.placed(placement)
    }

    /// A receipt for nothing.
    fn pretend(&mut self, subject: &Subject) -> Result<Receipt> {
        let last = self.broker.last(subject)?.map_or(Seq(0), |stored| stored.seq);
        let duplicate = self.fault == Some(Fault::InventsDuplicate);
        let seq = if duplicate { last } else { Seq(last.0 + 1) };
        Ok(Receipt { stream: self.work.clone(), seq, duplicate, durability: Durability::Memory })
    }

    /// Whether `fault` is planted and happens now: once in ten times.
    fn does(&mut self, fault: Fault) -> bool {
        self.fault == Some(fault) && self.random.chance(100)
    }

    fn always(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }
}

/// Messages looked at in one go.
const LOOKS_MAX: usize = 1_000;

fn shared(frames: Vec<Frame>) -> Vec<Arc<Frame>> {
    frames.into_iter().map(Arc::new).collect()
}

/// The same frame with its last byte changed.
fn altered(mut frame: Frame) -> Frame {
    let mut bytes = frame.body.to_vec();
    if let Some(last) = bytes.last_mut() {
        *last ^= 1;
    }
    frame.body = Bytes::from(bytes);
    frame
}
