//! A client that goes on while its daemon is killed and started, and daemons of other versions.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{Read, Write},
    os::unix::net::{UnixListener, UnixStream},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{self, Receiver, Sender},
    },
    thread,
};

use bus_core::{Engine, Expect, Frame, FrameId, Identity, Outcome, Seq};
use bus_crypto::creds;
use bus_link::{LinkBus, LinkOptions};
use bus_subjects::{Filter, StreamName, Subject};
use tokio::{runtime::Builder, task::JoinSet};

use crate::{
    daemon_support::Daemon,
    support::{LIMIT, Place, run},
};

#[test]
fn what_was_acknowledged_in_a_burst_is_there_once_after_twenty_kills() {
    let place = Place::new();
    let mut daemon = Daemon::start(&place);
    let burst = Burst::start(identity(&place), &place.path("data/run/bus.sock"));
    let mut told = Vec::new();
    for _ in 0..KILLS {
        burst.until_acknowledged(ACKNOWLEDGED_A_LIFE, &mut told);
        daemon.kill();
        told.extend(burst.told.try_iter());
        daemon = Daemon::start(&place);
    }
    burst.until_acknowledged(ACKNOWLEDGED_A_LIFE, &mut told);
    let stored = burst.end(&mut told);
    assert!(
        told.iter().filter(|told| told.is_acknowledged()).count() > ACKNOWLEDGED_A_LIFE * KILLS
    );
    for Told { id, outcome } in told {
        let times = stored.get(&id).copied().unwrap_or_default();
        match outcome {
            Ok(()) => assert_eq!(times, 1, "{id} was acknowledged"),
            Err(Outcome::NotDone) => assert_eq!(times, 0, "{id} was refused"),
            Err(Outcome::Unknown) => assert!(times <= 1, "{id} is there {times} times"),
        }
    }
    assert_eq!(daemon.stop().code, Some(0));
}

#[test]
fn a_client_of_another_version_is_told_both() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let mut stream = UnixStream::connect(place.path("data/run/bus.sock")).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let challenge = read_message(&mut stream);
    let (first, last) = (version(&challenge, 0), version(&challenge, 2));
    let mut response = MAGIC.to_vec();
    response.extend_from_slice(&versions(last + 1, last + 2));
    // What a later version says is not known.
    response.extend_from_slice(b"and so on");
    write_message(&mut stream, &response).unwrap();
    let refused = String::from_utf8_lossy(&read_message(&mut stream)).into_owned();
    let (ours, theirs) = (format!("{first} to {last}"), format!("{} to {}", last + 1, last + 2));
    assert!(refused.contains(&ours) && refused.contains(&theirs), "{refused:?}");
    assert_eq!(daemon.stop().code, Some(0));
}

#[test]
fn a_command_that_meets_a_daemon_of_another_version_says_both() {
    let place = Place::new();
    identity(&place);
    let listener = UnixListener::bind(place.path("data/other.sock")).unwrap();
    thread::spawn(move || {
        let mut challenge = MAGIC.to_vec();
        challenge.extend_from_slice(&versions(7, 9));
        challenge.extend_from_slice(&[0; 16 + 32]);
        for stream in listener.incoming() {
            // Who only looks whether somebody is there has gone by now.
            let _gone = write_message(&mut stream.unwrap(), &challenge);
        }
    });
    let mut command = place.command();
    command.args(["task", "ls"]).env("VAKBUS_SOCKET", place.path("data/other.sock"));
    let refused = run(command, "");
    assert_ne!(refused.code, Some(0), "{refused:?}");
    assert!(refused.stderr.contains("this side speaks 1 to 1"), "{refused:?}");
    assert!(refused.stderr.contains("the other side 7 to 9"), "{refused:?}");
}

/// A client in this process that appends as fast as it is answered, some at a time.
struct Burst {
    told: Receiver<Told>,
    is_over: Arc<AtomicBool>,
    /// Counts what is stored when the burst is over.
    client: thread::JoinHandle<BTreeMap<String, usize>>,
}

/// What became of an append.
struct Told {
    id: String,
    outcome: Result<(), Outcome>,
}

impl Told {
    fn is_acknowledged(&self) -> bool {
        self.outcome.is_ok()
    }
}

impl Burst {
    fn start(identity: Identity, socket: &Path) -> Self {
        let (tell, told) = mpsc::channel();
        let is_over = Arc::new(AtomicBool::new(false));
        let (over, socket) = (Arc::clone(&is_over), socket.to_owned());
        let client = thread::spawn(move || {
            let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
            runtime.unwrap().block_on(async {
                let bus = LinkBus::connect(&socket, identity, LinkOptions::default()).await;
                let bus: Arc<dyn Engine> = Arc::new(bus.unwrap());
                let number = Arc::new(AtomicU64::new(0));
                let appender = |_| {
                    append(Arc::clone(&bus), Arc::clone(&number), Arc::clone(&over), tell.clone())
                };
                let appenders: JoinSet<()> = (0..APPENDERS).map(appender).collect();
                drop(appenders.join_all().await);
                stored(bus.as_ref()).await
            })
        });
        Self { told, is_over, client }
    }

    /// Hears of appends until `count` more are acknowledged.
    fn until_acknowledged(&self, count: usize, told: &mut Vec<Told>) {
        let mut acknowledged = 0;
        while acknowledged < count {
            let next = self.told.recv_timeout(LIMIT).expect("the client finds its daemon");
            acknowledged += usize::from(next.is_acknowledged());
            told.push(next);
        }
    }

    /// Lets what is on its way come to its end; how often each id is stored.
    fn end(self, told: &mut Vec<Told>) -> BTreeMap<String, usize> {
        self.is_over.store(true, Ordering::Release);
        let stored = self.client.join().unwrap();
        told.extend(self.told);
        let ids: BTreeSet<_> = told.iter().map(|told| told.id.as_str()).collect();
        assert_eq!(ids.len(), told.len(), "one answer to each append");
        stored
    }
}

async fn append(
    bus: Arc<dyn Engine>,
    number: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
    tell: Sender<Told>,
) {
    let subject = Subject::parse("vak.work.default.r.task").unwrap();
    while !is_over.load(Ordering::Acquire) {
        let id = format!("b-{}", number.fetch_add(1, Ordering::Relaxed));
        let frame = Frame::new(subject.clone(), FrameId::parse(&id).unwrap(), id.clone());
        let appended = bus.append(frame, Expect::Any).await;
        if let Ok(receipt) = &appended {
            assert!(!receipt.duplicate, "{id} was sent by nobody else");
        }
        let outcome = appended.map(drop).map_err(|error| error.outcome());
        tell.send(Told { id, outcome }).unwrap();
    }
}

async fn stored(bus: &dyn Engine) -> BTreeMap<String, usize> {
    let stream = StreamName::parse("VAK_WORK_default").unwrap();
    let filter = Filter::parse("vak.work.default.*.task").unwrap();
    let mut replay = bus.replay(stream, filter, Seq(1)).await.unwrap();
    let mut stored = BTreeMap::new();
    while let Some(message) = replay.next().await {
        *stored.entry(message.unwrap().frame.id.to_string()).or_default() += 1;
    }
    stored
}

/// The workspace's own operator, made by its first command.
fn identity(place: &Place) -> Identity {
    assert_eq!(place.run(&["task", "ls"]).code, Some(0));
    let text = place.read("data/workspaces/default/agents/cli.creds");
    let (token, key) = creds::parse(&text).unwrap().into_parts();
    Identity::from_parts(key, &token).unwrap()
}

fn version(hello: &[u8], at: usize) -> u16 {
    assert_eq!(&hello[..MAGIC.len()], MAGIC);
    u16::from_le_bytes([hello[MAGIC.len() + at], hello[MAGIC.len() + at + 1]])
}

fn versions(first: u16, last: u16) -> Vec<u8> {
    [first.to_le_bytes(), last.to_le_bytes()].concat()
}

fn read_message(stream: &mut UnixStream) -> Vec<u8> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut message = vec![0; u32::from_le_bytes(length) as usize];
    stream.read_exact(&mut message).unwrap();
    message
}

fn write_message(stream: &mut UnixStream, message: &[u8]) -> std::io::Result<()> {
    let length = u32::try_from(message.len()).unwrap();
    stream.write_all(&[length.to_le_bytes().as_slice(), message].concat())
}

const KILLS: usize = 20;
/// More than may be on their way when one is killed: the client finds each of them.
const ACKNOWLEDGED_A_LIFE: usize = 200;
/// How many appends are on their way at one time.
const APPENDERS: usize = 16;
/// What both sides' first words begin with, in all versions.
const MAGIC: &[u8] = b"vakbus-link\n";
