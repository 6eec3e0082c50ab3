//! S0.6: no operation of the bus keeps its thread: neither by working long nor by waiting.
//!
//! Everything runs on one thread beside a task that does nothing but take its turn. How long it had
//! to wait for its turn is measured in time that the thread's processor spent, so that a busy
//! machine does not count; and whether the thread ever went to sleep is asked of the system. (That
//! nothing needs a second thread is shown by the engine's suite and by nearly every story: they
//! run on such a runtime.)
//!
//! The only test of its program, because a thread may have to wait for the memory of another one.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "the helpers of a story that cannot be told fail it")]

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bus_core::{
    BlobBody, Bus as _, ConsumerSpec, Engine, Expect, ExpectRevision, Failure, FeedItem, Frame,
    FrameId, Handled, Handler, Job, Overflow, Put, Recorded, Retention, Revision, Seq, Stop,
    StreamSpec, SystemClock, TaskEvent, Verdict, WatchItem,
};
use bus_envelope::Draft;
use bus_mem::InMemoryBus;
use bus_stories::{Flaky, Op, Stage, task};
use bus_subjects::{BucketKey, BucketName, ConsumerName, Filter, Role, StreamName, Subject};
use bytes::Bytes;
use futures_util::stream;
use rustix::time::{ClockId, clock_gettime};
use tokio::task::{JoinSet, yield_now};

const SUBSCRIBERS: usize = 10_000;
const MESSAGES: usize = 100_000;
const KEYS: usize = 10_000;
const BLOB_BYTES: usize = 64 << 20;

/// How long the thread may work for one turn of an operation, in an unoptimised program.
const TURN_MAX: Duration = Duration::from_millis(100);

/// An operation is to blame when it kept the thread in every one of these rounds.
const ROUNDS_MAX: usize = 3;

#[tokio::test]
async fn no_operation_keeps_its_thread() {
    the_meter_sees_work_and_sleep().await;
    // The system itself lets a thread wait now and then, for a page of memory or of the program.
    // What an operation does itself, it does every time.
    let mut bad = round().await;
    for _ in 1..ROUNDS_MAX {
        if bad.is_empty() {
            return;
        }
        let again = round().await;
        bad.retain(|what, _| again.contains_key(what));
    }
    assert_eq!(bad, BTreeMap::new());
}

/// Calls every operation; returns those that kept the thread, and how.
async fn round() -> BTreeMap<&'static str, String> {
    let mut meter = Meter::new();
    let bus = InMemoryBus::with_clock(Arc::new(SystemClock::new()));
    let engine = Arc::new(Flaky::new(Arc::new(bus)));

    live(&mut meter, &*engine).await;
    durable(&mut meter, &*engine).await;
    buckets(&mut meter, &*engine).await;
    blobs(&mut meter, &*engine).await;
    agents(&mut meter, &engine).await;
    meter.run("close", engine.close()).await.unwrap();

    let called: BTreeSet<usize> = engine.calls().iter().map(|call| number(call.op)).collect();
    assert_eq!(called, (0..OPS).collect(), "an operation was not called");
    meter.bad()
}

/// A meter that sees nothing would prove nothing.
async fn the_meter_sees_work_and_sleep() {
    let mut meter = Meter::new();
    let working = async {
        let start = spent_ns();
        while Duration::from_nanos(spent_ns() - start) <= TURN_MAX {}
    };
    meter.run("work long", working).await;
    assert!(!meter.bad().is_empty());

    let mut meter = Meter::new();
    let waiting = async { std::thread::park_timeout(Duration::from_millis(20)) };
    meter.run("wait", waiting).await;
    assert!(!meter.bad().is_empty());
}

async fn live(meter: &mut Meter, bus: &dyn Engine) {
    let capacity = Overflow::DropOldest { capacity: NonZeroUsize::new(64).unwrap() };
    let latest = Overflow::Latest { subjects: NonZeroUsize::new(64).unwrap() };
    let mut heard = Vec::new();
    for number in 0..SUBSCRIBERS {
        let overflow = if number % 10 == 0 { latest } else { capacity };
        let subscribed = bus.subscribe(filter("load.one"), overflow);
        heard.push(meter.run("subscribe", subscribed).await.unwrap());
    }
    meter.run("publish to 10,000 subscribers", bus.publish(frame("load.one", "1"))).await.unwrap();
    // Every subset of twelve levels as stars: 4,096 filters that match one subject.
    let levels = "load.a.b.c.d.e.f.g.h.i.j.k.l";
    for number in 0..4096_u32 {
        let stars = levels.split('.').enumerate().map(|(at, level)| {
            let is_star = at > 0 && number & (1 << (at - 1)) != 0;
            if is_star { "*" } else { level }
        });
        let stars: Vec<&str> = stars.collect();
        let subscribed = bus.subscribe(filter(&stars.join(".")), capacity);
        heard.push(meter.run("subscribe to a filter of its own", subscribed).await.unwrap());
    }
    meter.run("publish to 4,096 filters", bus.publish(frame(levels, "2"))).await.unwrap();
    let publishing = async {
        for n in 0..1_000 {
            bus.publish(frame("load.one", &format!("3.{n}"))).await.unwrap();
        }
    };
    meter.run("publish a thousand times", publishing).await;
    let hearing = async {
        for feed in &mut heard {
            assert!(matches!(feed.next().await, Some(FeedItem::Frame(_) | FeedItem::Gap { .. })));
        }
    };
    meter.run("hear", hearing).await;
    let mut questions = bus.subscribe(filter("ask"), capacity).await.unwrap();
    let asking = async {
        let answering = async {
            let Some(FeedItem::Frame(asked)) = questions.next().await else { return };
            let reply = Frame { subject: asked.reply.clone().unwrap(), ..frame("answer", "a") };
            bus.publish(reply).await.unwrap();
        };
        let asked = bus.request(frame("ask", "q"), Duration::from_secs(60));
        let (answer, ()) = tokio::join!(asked, answering);
        answer.unwrap();
    };
    meter.run("request", asking).await;
    meter.run("unsubscribe 14,096 times", async { drop(heard) }).await;
}

async fn durable(meter: &mut Meter, bus: &dyn Engine) {
    let stream = StreamName::parse("LONG").unwrap();
    let spec = StreamSpec::new(stream.clone(), vec![filter("long.*")], Retention::WorkQueue);
    meter.run("declare", bus.declare(spec)).await.unwrap();
    for batch in 0..MESSAGES / 1_000 {
        let id = |n| format!("{batch}.{n}");
        let frames = (0..1_000).map(|n| frame("long.a", &id(n))).collect();
        meter.run("append a batch of a thousand", bus.append_all(frames)).await.unwrap();
    }
    meter.run("append", bus.append(frame("long.a", "one"), Expect::Any)).await.unwrap();
    meter.run("last", bus.last(Subject::parse("long.a").unwrap())).await.unwrap();
    meter.run("read", bus.read(stream.clone(), Seq(500))).await.unwrap();
    let consumer = |name: &str, filter| ConsumerSpec {
        stream: stream.clone(),
        name: ConsumerName::parse(name).unwrap(),
        filter,
        lease: Duration::from_secs(600),
    };
    let joining = bus.consume(consumer("all", filter("long.a")));
    let mut member = meter.run("consume 100,000 messages", joining).await.unwrap();
    let first = meter.run("claim the first of 100,000", member.next()).await.unwrap().unwrap();
    meter.run("extend", first.extend()).await.unwrap();
    meter.run("settle", first.settle(Verdict::Ack)).await.unwrap();
    let claiming = async {
        for _ in 0..10_000 {
            let claimed = member.next().await.unwrap().unwrap();
            claimed.settle(Verdict::Release { after: Duration::from_secs(60) }).await.unwrap();
        }
    };
    meter.run("claim and put back ten thousand", claiming).await;
    meter.run("discard", bus.discard(stream.clone(), Seq(60_000))).await.unwrap();
    meter.run("count", bus.lag(stream.clone())).await.unwrap();
    meter.run("list consumers", bus.consumers(stream.clone())).await.unwrap();
    let name = ConsumerName::parse("all").unwrap();
    meter.run("pause", bus.pause(stream.clone(), name.clone(), None)).await.unwrap();
    for (what, filter) in
        [("replay 100,000 messages", Filter::all()), ("replay nothing of them", filter("long.b"))]
    {
        let replaying = async {
            let mut replay = bus.replay(stream.clone(), filter, Seq(1)).await.unwrap();
            while let Some(stored) = replay.next().await {
                stored.unwrap();
            }
        };
        meter.run(what, replaying).await;
    }
    meter.run("remove the consumer", bus.remove_consumer(stream.clone(), name)).await.unwrap();
    let none = bus.consume(consumer("none", filter("long.b")));
    let mut none = meter.run("consume what does not match", none).await.unwrap();
    let waiting = async {
        tokio::select! {
            _ = none.next() => unreachable!("nothing was ever stored there"),
            () = async { for _ in 0..1_000 { yield_now().await } } => {}
        }
    };
    meter.run("wait for what does not match", waiting).await;
}

async fn buckets(meter: &mut Meter, bus: &dyn Engine) {
    let bucket = BucketName::parse("many").unwrap();
    let key = |n: usize| BucketKey::parse(&format!("k.{n}")).unwrap();
    for n in 0..KEYS {
        let put = Put::new(n.to_string()).ttl(Duration::from_secs(3_600));
        meter.run("put", bus.put(bucket.clone(), key(n), put)).await.unwrap();
    }
    meter.run("get", bus.get(bucket.clone(), key(7))).await.unwrap();
    for (what, keys) in [("watch 10,000 keys", Filter::all()), ("watch one", filter("k.9999"))] {
        let watching = async {
            let mut watch = bus.watch(bucket.clone(), keys, Revision::START).await.unwrap();
            while watch.next().await.unwrap().unwrap() != WatchItem::Current {}
            watch
        };
        let watch = meter.run(what, watching).await;
        let deleting = bus.delete(bucket.clone(), key(7), ExpectRevision::Any);
        meter.run("delete", deleting).await.unwrap();
        meter.run("stop to watch", async { drop(watch) }).await;
    }
}

async fn blobs(meter: &mut Meter, bus: &dyn Engine) {
    let bucket = BucketName::parse("large").unwrap();
    let key = |name| BucketKey::parse(name).unwrap();
    let whole = Bytes::from(vec![7; BLOB_BYTES]);
    let parts: Vec<_> =
        (0..BLOB_BYTES / 1000).map(|n| Ok(whole.slice(n * 1000..(n + 1) * 1000))).collect();
    let put = bus.put_blob(bucket.clone(), key("whole"), BlobBody::from(whole));
    meter.run("put a blob of 64 MiB in one part", put).await.unwrap();
    let put = bus.put_blob(bucket.clone(), key("parts"), BlobBody::new(stream::iter(parts)));
    meter.run("put a blob of 64 MiB in 67,108 parts", put).await.unwrap();
    let reading = async {
        let mut blob = bus.get_blob(bucket.clone(), key("whole")).await.unwrap().unwrap();
        while let Some(piece) = blob.body.next().await {
            piece.unwrap();
        }
    };
    meter.run("read a blob of 64 MiB", reading).await;
    meter.run("list blobs", bus.list_blobs(bucket.clone())).await.unwrap();
    meter.run("delete a blob", bus.delete_blob(bucket, key("whole"))).await.unwrap();
}

async fn agents(meter: &mut Meter, engine: &Arc<Flaky>) {
    let clock = Arc::new(SystemClock::new());
    let stage = Stage::on(Arc::clone(engine) as Arc<dyn Engine>, clock).await.unwrap();
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    for n in 0..100 {
        meter.run("send", boss.send(task(&stage, &n.to_string()))).await.unwrap();
    }
    let large = "x".repeat(600 * 1024);
    meter.run("send 600 KiB", boss.send(task(&stage, &large))).await.unwrap();
    let worker = stage.worker("coder").unwrap();
    let (stop, done) = (Stop::default(), AtomicU64::new(0));
    let report = |event: TaskEvent| {
        assert!(matches!(event, TaskEvent::Completed { .. }), "{event:?}");
        if done.fetch_add(1, Ordering::Relaxed) == 100 {
            stop.drain.cancel();
        }
    };
    let handler =
        Reporting { receipts: stage.receipts().subject(), tokens: stage.tokens().subject() };
    meter.run("work", worker.run(&handler, &stop, report)).await.unwrap();
}

/// Says live what it does and leaves a receipt.
struct Reporting {
    receipts: Subject,
    tokens: Subject,
}

impl Handler for Reporting {
    async fn handle(&self, job: Job<'_>) -> Result<Handled, Failure> {
        let event = Draft::new(self.tokens.clone(), "vak.tokens", "done");
        job.endpoint.publish(event).await.unwrap();
        let id = format!("{}.receipt", job.message.envelope.id);
        let receipt = Draft::new(self.receipts.clone(), "vak.receipt", "done").id(id);
        match job.endpoint.record(receipt).await.unwrap() {
            Recorded::Stored(_) | Recorded::AlreadyThere => Ok(Handled),
        }
    }
}

/// A task that takes its turn as often as it can, and what was seen meanwhile.
struct Meter {
    turns: Arc<Turns>,
    /// What was done, the longest turn of it, and how often the thread went to sleep.
    seen: Vec<(&'static str, Duration, u64)>,
    _ticker: JoinSet<()>,
}

#[derive(Default)]
struct Turns {
    last_ns: AtomicU64,
    longest_ns: AtomicU64,
    count: AtomicU64,
}

impl Meter {
    fn new() -> Self {
        let turns = Arc::new(Turns::default());
        let mut ticker = JoinSet::new();
        let taken = Arc::clone(&turns);
        ticker.spawn(async move {
            loop {
                taken.take();
                yield_now().await;
            }
        });
        Self { turns, seen: Vec::new(), _ticker: ticker }
    }

    async fn run<T>(&mut self, what: &'static str, work: impl Future<Output = T>) -> T {
        // Both sides of the work the other task has its turn.
        self.wait_for_turn().await;
        let sleeps = sleeps();
        self.turns.last_ns.store(spent_ns(), Ordering::Relaxed);
        self.turns.longest_ns.store(0, Ordering::Relaxed);
        let result = work.await;
        self.wait_for_turn().await;
        let longest = Duration::from_nanos(self.turns.longest_ns.load(Ordering::Relaxed));
        let slept = sleeps_since(sleeps);
        match self.seen.iter_mut().find(|(known, ..)| *known == what) {
            Some((_, known, all)) => (*known, *all) = ((*known).max(longest), *all + slept),
            None => self.seen.push((what, longest, slept)),
        }
        result
    }

    async fn wait_for_turn(&self) {
        let count = self.turns.count.load(Ordering::Relaxed);
        while self.turns.count.load(Ordering::Relaxed) == count {
            yield_now().await;
        }
    }

    /// What kept the thread too long, or put it to sleep.
    fn bad(&self) -> BTreeMap<&'static str, String> {
        let seen = self.seen.iter();
        seen.filter(|(_, longest, slept)| *longest > TURN_MAX || *slept > 0)
            .map(|(what, longest, slept)| (*what, format!("{longest:?} a turn, {slept} sleeps")))
            .collect()
    }
}

impl Turns {
    fn take(&self) {
        let now = spent_ns();
        let before = self.last_ns.swap(now, Ordering::Relaxed);
        if before > 0 {
            self.longest_ns.fetch_max(now - before, Ordering::Relaxed);
        }
        self.count.fetch_add(1, Ordering::Relaxed);
    }
}

/// The time that the processor spent on this thread.
fn spent_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap()
}

/// How often this thread gave the processor away because it had to wait.
fn sleeps() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.unwrap().trim().parse().unwrap()
}

fn sleeps_since(before: u64) -> u64 {
    sleeps() - before
}

fn filter(text: &str) -> Filter {
    Filter::parse(text).unwrap()
}

fn frame(subject: &str, id: &str) -> Frame {
    Frame::new(Subject::parse(subject).unwrap(), FrameId::parse(id).unwrap(), "body")
}

const OPS: usize = 26;

/// A new operation does not compile here before it has a number, and then it must be called.
const fn number(op: Op) -> usize {
    match op {
        Op::Publish => 0,
        Op::Subscribe => 1,
        Op::Request => 2,
        Op::Declare => 3,
        Op::Append => 4,
        Op::AppendAll => 5,
        Op::Last => 6,
        Op::Read => 7,
        Op::Discard => 8,
        Op::Consume => 9,
        Op::Consumers => 10,
        Op::Pause => 11,
        Op::RemoveConsumer => 12,
        Op::Replay => 13,
        Op::Lag => 14,
        Op::Close => 15,
        Op::Get => 16,
        Op::Put => 17,
        Op::Delete => 18,
        Op::Watch => 19,
        Op::PutBlob => 20,
        Op::GetBlob => 21,
        Op::DeleteBlob => 22,
        Op::ListBlobs => 23,
        Op::Settle => 24,
        Op::Extend => 25,
    }
}
