//! Random operations on a whole bus whose machine stops at a random step: what was answered is
//! there once, and all that is there is what a model makes of a prefix of what was said.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use bus_core::{
    Buckets, Bus, ConsumerSpec, Deliveries, Delivery, Expect, ExpectRevision, Frame, FrameId, Put,
    Retention, Seq, StreamSpec, Verdict,
};
use bus_envelope::Timestamp;
use bus_mem::journal::Statement;
use bus_subjects::{BucketKey, BucketName, ConsumerName, Filter, StreamName, Subject};
use futures_util::{FutureExt, future::join_all};

use super::{
    world::{Said, bus_on, bus_with, model_of, state_of},
    *,
};
use crate::{
    DiskBus, DiskOptions,
    files::{dice::Dice, faulty::Fault},
};

const SMALL: Sizes = Sizes { segment: 16 * 1024, picture_after: 16 * 1024 };

/// A queue whose messages go when they are settled, and a stream that keeps them.
const STREAMS: [&str; 2] = ["W", "K"];

const LIVES: u64 = 4;

/// What a test knows of a bus from the answers alone, and all that was said to the journal.
struct World {
    dice: Dice,
    /// Answered before the sync.
    is_weak: bool,
    next_id: u64,
    asked: BTreeSet<String>,
    stored: BTreeMap<(usize, u64), String>,
    /// What somebody asked to take away, and what was answered to be away.
    may_be_gone: BTreeSet<(usize, u64)>,
    gone: BTreeSet<(usize, u64)>,
    /// The last revision of a key that was answered.
    revisions: BTreeMap<u64, u64>,
    said: Vec<(u64, Statement)>,
    tokens: HashMap<(u64, u64), (u64, u32)>,
}

/// One life of a bus.
struct Life {
    bus: DiskBus,
    members: Vec<Deliveries>,
    held: Vec<(usize, Delivery)>,
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            dice: Dice(seed),
            is_weak: seed % 4 == 3,
            next_id: 0,
            asked: BTreeSet::new(),
            stored: BTreeMap::new(),
            may_be_gone: BTreeSet::new(),
            gone: BTreeSet::new(),
            revisions: BTreeMap::new(),
            said: Vec::new(),
            tokens: HashMap::new(),
        }
    }

    /// Lives on `files` until something fails or it has had enough, and returns what is left.
    async fn live(&mut self, files: FaultyFiles) -> FaultyFiles {
        let pick = self.dice.below(10);
        if pick < 6 {
            let bytes = [0, 1, 40, 64, 100, 512, 700, 4096][self.dice.below(8) as usize];
            files.set(Fault::StopAt { step: self.dice.below(250), bytes });
        }
        let every = Duration::from_secs(3600);
        let sync = if self.is_weak { Sync::Interval(every) } else { Sync::Always };
        let opened = bus_with(&files, DiskOptions { sync, ..DiskOptions::new(DIR) }, SMALL);
        if let Ok((bus, said)) = opened {
            let fails_at = (pick == 6 || pick == 7).then(|| self.dice.below(60));
            let fault = if pick == 6 { Fault::NoSync } else { Fault::NoWrite };
            let ended = self.use_up(&bus, (&files, fails_at, fault)).await;
            if let Err(error) = ended {
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            }
            if pick == 8 {
                bus.shut_down().await.unwrap();
            }
            let seed = self.dice.below(u64::MAX);
            let keeps = [Keep::All, Keep::Synced, Keep::LastWrite, Keep::Some(seed)];
            let keep = keeps[self.dice.below(4) as usize];
            let left = files.restarted(keep);
            self.said.extend(said.all().iter().cloned());
            if self.is_weak && !matches!(keep, Keep::All) {
                self.forget_answers();
            }
            return left;
        }
        files.restarted(Keep::Some(self.dice.below(u64::MAX)))
    }

    /// After a power cut in the weaker mode only a prefix is promised.
    fn forget_answers(&mut self) {
        self.stored.clear();
        self.may_be_gone.clear();
        self.gone.clear();
        self.revisions.clear();
    }

    async fn use_up(
        &mut self,
        bus: &DiskBus,
        (files, fails_at, fault): (&FaultyFiles, Option<u64>, Fault),
    ) -> Result<()> {
        let mut life = Life { bus: bus.connect(), members: Vec::new(), held: Vec::new() };
        for (name, retention) in STREAMS.into_iter().zip([Retention::WorkQueue, Retention::Kept]) {
            let filters = vec![Filter::parse(&format!("{}.>", name.to_lowercase())).unwrap()];
            bus.declare(StreamSpec::new(stream(name), filters, retention)).await?;
            life.members.push(bus.consume(consumer(name)).await?);
        }
        for step in 0..20 + self.dice.below(60) {
            if fails_at == Some(step) {
                files.set(fault);
            }
            self.step(&mut life).await?;
        }
        Ok(())
    }

    async fn step(&mut self, life: &mut Life) -> Result<()> {
        let at = self.dice.below(2) as usize;
        match self.dice.below(14) {
            0..=2 => self.append(&life.bus, at, 1).await,
            3 | 4 => self.append(&life.bus, at, 5).await,
            5 => self.batch(&life.bus, at).await,
            6..=8 => {
                if let Some(claimed) = life.members[at].next().now_or_never().flatten() {
                    life.held.push((at, claimed?));
                }
                Ok(())
            }
            9 | 10 => self.settle(life).await,
            11 => self.change_bucket(&life.bus).await,
            12 => {
                let rest = Timestamp::from_unix_ns(1_900_000_000_000_000_000);
                let until = self.dice.is_heads().then_some(rest);
                life.bus.pause(stream(STREAMS[at]), consumer(STREAMS[at]).name, until).await
            }
            _ => self.discard(&life.bus, at).await,
        }
    }

    /// A frame, one in so many of which was there before.
    fn frame(&mut self, at: usize, old_in: u64) -> Frame {
        let is_old = self.next_id > 0 && self.dice.below(old_in) == 0;
        let number = if is_old { self.dice.below(self.next_id) } else { self.next_id };
        self.next_id += u64::from(!is_old);
        let id = format!("{at}-{number}");
        self.asked.insert(id.clone());
        let subject = format!("{}.a", STREAMS[at].to_lowercase());
        let body = vec![b'x'; self.dice.below(900) as usize];
        Frame::new(Subject::parse(&subject).unwrap(), FrameId::parse(&id).unwrap(), body)
    }

    /// Appends so many at once.
    async fn append(&mut self, bus: &DiskBus, at: usize, count: u64) -> Result<()> {
        let frames: Vec<Frame> = (0..count).map(|_| self.frame(at, 8)).collect();
        let ids: Vec<String> = frames.iter().map(|frame| frame.id.to_string()).collect();
        let answers = frames.into_iter().map(|frame| bus.append(frame, Expect::Any));
        for (id, receipt) in ids.into_iter().zip(join_all(answers).await) {
            let receipt = receipt?;
            // What a duplicate repeats may be gone since a time that is forgotten.
            if !(self.is_weak && receipt.duplicate) {
                self.stored.insert((at, receipt.seq.0), id);
            }
        }
        Ok(())
    }

    async fn batch(&mut self, bus: &DiskBus, at: usize) -> Result<()> {
        let frames: Vec<Frame> = (0..3).map(|_| self.frame(at, u64::MAX)).collect();
        let ids: Vec<String> = frames.iter().map(|frame| frame.id.to_string()).collect();
        let receipts = bus.append_all(frames).await?;
        for (id, receipt) in ids.into_iter().zip(receipts) {
            self.stored.insert((at, receipt.seq.0), id);
        }
        Ok(())
    }

    async fn settle(&mut self, life: &mut Life) -> Result<()> {
        if life.held.is_empty() {
            return Ok(());
        }
        let (at, delivery) =
            life.held.swap_remove(self.dice.below(life.held.len() as u64) as usize);
        let place = (at, delivery.seq.0);
        let after = Duration::from_secs(3600 * self.dice.below(2));
        let (verdict, ends) = match self.dice.below(5) {
            0 => (Verdict::Retry { after }, false),
            1 => (Verdict::Release { after }, false),
            2 => (Verdict::Reject { reason: "no".into() }, true),
            _ => (Verdict::Ack, true),
        };
        let goes = ends && at == 0;
        if goes {
            self.may_be_gone.insert(place);
        }
        match delivery.settle(verdict).await {
            // It was discarded meanwhile.
            Err(error) if error.kind() == ErrorKind::LeaseLost => Ok(()),
            settled => {
                settled?;
                if goes {
                    self.gone.insert(place);
                }
                Ok(())
            }
        }
    }

    async fn change_bucket(&mut self, bus: &DiskBus) -> Result<()> {
        let number = self.dice.below(4);
        let (bucket, key) = (bucket(), key(number));
        if self.dice.below(3) == 0 {
            bus.delete(bucket, key, ExpectRevision::Any).await?;
            return Ok(());
        }
        let value = vec![b'v'; self.dice.below(500) as usize];
        let revision = bus.put(bucket, key, Put::new(value)).await?;
        self.revisions.insert(number, revision.0);
        Ok(())
    }

    async fn discard(&mut self, bus: &DiskBus, at: usize) -> Result<()> {
        let seq = 1 + self.dice.below(40);
        let is_new = self.may_be_gone.insert((at, seq));
        if bus.discard(stream(STREAMS[at]), Seq(seq)).await? {
            self.gone.insert((at, seq));
        } else if is_new {
            // Nothing was there yet: what is stored there later has to stay.
            self.may_be_gone.remove(&(at, seq));
        }
        Ok(())
    }

    /// Holds what is on `files` to what was answered and to what was said.
    async fn check(&mut self, files: &FaultyFiles) {
        let (bus, said) = bus_on(&files.restarted(Keep::All), SMALL).unwrap();
        self.check_state(&bus, &said);
        self.check_answers(&bus).await;
    }

    fn check_state(&mut self, bus: &DiskBus, said: &Said) {
        self.check_tokens();
        // What was said and not kept never was.
        self.said.retain(|(position, _)| *position <= said.begun);
        let model = model_of(self.said.iter().map(|(_, statement)| statement));
        let state = state_of(bus.mem());
        let lost: Vec<_> = model.iter().filter(|line| !state.contains(line)).collect();
        let invented: Vec<_> = state.iter().filter(|line| !model.contains(line)).collect();
        assert!(lost.is_empty() && invented.is_empty(), "lost {lost:#?}, invented {invented:#?}");
    }

    /// No token is ever given twice, also when nothing is left of the first time.
    fn check_tokens(&mut self) {
        for (_, statement) in &self.said {
            if let &Statement::Leased { consumer, token, seq, attempt, .. } = statement {
                let meant = *self.tokens.entry((consumer, token)).or_insert((seq, attempt));
                assert_eq!(meant, (seq, attempt), "token {token} of {consumer} was given twice");
            }
        }
    }

    async fn check_answers(&self, bus: &DiskBus) {
        let mut there = BTreeMap::new();
        for (at, name) in STREAMS.into_iter().enumerate() {
            let Ok(mut replay) = bus.replay(stream(name), Filter::all(), Seq(1)).await else {
                continue;
            };
            while let Some(message) = replay.next().await {
                let message = message.unwrap();
                there.insert((at, message.seq.0), message.frame.id.to_string());
            }
        }
        for (place, id) in &self.stored {
            let found = there.get(place);
            assert!(found == Some(id) || self.may_be_gone.contains(place), "{id} is lost");
            assert!(found.is_none() || !self.gone.contains(place), "{id} is there again");
        }
        let ids: BTreeSet<_> = there.values().collect();
        assert_eq!(ids.len(), there.len(), "something is there twice");
        assert!(ids.iter().all(|id| self.asked.contains(*id)), "nobody asked for that");
        for (number, revision) in &self.revisions {
            let entry = bus.get(bucket(), key(*number)).await.unwrap();
            assert!(entry.is_none_or(|entry| entry.revision.0 >= *revision), "an older value");
        }
    }
}

fn stream(name: &str) -> StreamName {
    StreamName::parse(name).unwrap()
}

fn consumer(name: &str) -> ConsumerSpec {
    ConsumerSpec {
        stream: stream(name),
        name: ConsumerName::parse("c").unwrap(),
        filter: Filter::parse(&format!("{}.>", name.to_lowercase())).unwrap(),
        lease: Duration::from_secs(3600),
    }
}

fn bucket() -> BucketName {
    BucketName::parse("b").unwrap()
}

fn key(number: u64) -> BucketKey {
    BucketKey::parse(&format!("k{number}")).unwrap()
}

async fn run(seed: u64) {
    let mut world = World::new(seed);
    let mut files = FaultyFiles::default();
    for _life in 0..LIVES {
        files = world.live(files).await;
        world.check(&files).await;
    }
}

/// One seed from `VAKBUS_DISK_SEED`, or those of every test run.
fn seeds() -> Vec<u64> {
    match std::env::var("VAKBUS_DISK_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => (0..100).collect(),
    }
}

#[expect(clippy::print_stderr, reason = "a random test says its seed first")]
#[tokio::test]
async fn whatever_fails_what_is_found_is_a_prefix_with_all_that_was_answered() {
    for seed in seeds() {
        eprintln!("VAKBUS_DISK_SEED={seed}");
        run(seed).await;
    }
}
