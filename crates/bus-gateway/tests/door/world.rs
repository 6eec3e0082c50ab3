//! A door before a real engine, and a client that sends bytes.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use bus_core::{
    BoxFuture, BusMetrics, Engine, Expect, Frame, FrameId, Metered, Result, Traffic, planes,
};
use bus_gateway::{Api, Build, ChoreCounts, Counts, Gateway, Sources, Standing};
use bus_mem::InMemoryBus;
use bus_subjects::{Subject, WorkspaceId};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_util::sync::{CancellationToken, DropGuard};

/// A process with one workspace, and how often the door asked it for anything.
pub(crate) struct Process {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) traffic: Arc<Traffic>,
    pub(crate) metrics: Option<Arc<BusMetrics>>,
    pub(crate) asked: AtomicUsize,
    pub(crate) hangs: bool,
    pub(crate) chores: Option<ChoreCounts>,
}

impl Sources for Process {
    fn build(&self) -> Build {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Build { version: "0.1.0", engine: self.engine.promises().engine }
    }

    fn counts(&self) -> Counts {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let agents = self.metrics.as_ref().map(|metrics| (w1(), Arc::clone(metrics)));
        // One that has agents here leaves the counting of its engine to others.
        let carried = agents.is_none().then(|| self.traffic.report());
        Counts { carried, agents, chores: self.chores.clone() }
    }

    fn ask(&self) -> BoxFuture<'_, Result<Standing>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Box::pin(async {
            if self.hangs {
                std::future::pending::<()>().await;
            }
            Standing::read(&[(w1(), Arc::clone(&self.engine))]).await
        })
    }
}

impl Process {
    /// One whose engine has the streams of its workspace.
    pub(crate) async fn new() -> Self {
        let traffic = Arc::<Traffic>::default();
        let bus: Arc<dyn Engine> = Arc::new(InMemoryBus::new().connect());
        let engine: Arc<dyn Engine> = Arc::new(Metered::new(bus, Arc::clone(&traffic)));
        for stream in planes::workspace_streams(&w1()).unwrap() {
            engine.declare(stream).await.unwrap();
        }
        let asked = AtomicUsize::new(0);
        Self { engine, traffic, metrics: None, asked, hangs: false, chores: None }
    }

    /// Has a task wait in the queue of `role`.
    pub(crate) async fn task(&self, role: &str) {
        let subject = Subject::parse(&format!("vak.work.w1.{role}.task")).unwrap();
        let frame = Frame::new(subject.clone(), FrameId::parse("task-1").unwrap(), "12345");
        let spec = bus_core::ConsumerSpec {
            stream: planes::work_stream(&w1()).unwrap(),
            name: format!("worker_{role}").parse().unwrap(),
            filter: (&subject).into(),
            lease: std::time::Duration::from_secs(30),
        };
        drop(self.engine.consume(spec).await.unwrap());
        self.engine.append(frame, Expect::Any).await.unwrap();
    }

    /// How often anything was asked of it.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

pub(crate) fn w1() -> WorkspaceId {
    WorkspaceId::parse("w1").unwrap()
}

/// A door that is open until this is dropped.
pub(crate) struct Open {
    pub(crate) address: SocketAddr,
    pub(crate) process: Arc<Process>,
    _closes: DropGuard,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Open {
    pub(crate) async fn before(process: Process) -> Self {
        Self::at("127.0.0.1:0", process).await
    }

    pub(crate) async fn at(address: &str, process: Process) -> Self {
        Self::with(address, process, None).await
    }

    pub(crate) async fn with(address: &str, process: Process, api: Option<Api>) -> Self {
        let process = Arc::new(process);
        let sources: Arc<dyn Sources> = Arc::<Process>::clone(&process);
        let gateway = Gateway::bind(address.parse().unwrap()).await.unwrap();
        let gateway = match api {
            Some(api) => gateway.with_api(api),
            None => gateway,
        };
        let (address, closed) = (gateway.address(), CancellationToken::new());
        let served = gateway.serve(sources, closed.clone());
        spawn(served);
        Self { address, process, _closes: closed.drop_guard() }
    }

    /// Asks as a scraper does.
    pub(crate) async fn get(&self, path: &str) -> Answer {
        let host = format!("Host: {}\r\n", self.address);
        self.send(&format!("GET {path} HTTP/1.1\r\n{host}\r\n")).await
    }

    /// Sends a request as it stands and reads the answer to its end.
    pub(crate) async fn send(&self, request: &str) -> Answer {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        read(&mut stream).await
    }
}

/// Reads an answer to the end of the connection.
pub(crate) async fn read(stream: &mut TcpStream) -> Answer {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let Some((head, body)) = answer.split_once("\r\n\r\n") else {
        panic!("no answer: {answer:?}");
    };
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
}

#[expect(clippy::disallowed_methods, reason = "a door is served beside what asks")]
pub(crate) fn spawn(served: impl Future<Output = ()> + Send + 'static) {
    drop(tokio::spawn(served));
}
