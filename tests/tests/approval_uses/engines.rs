//! The same on a disk, through the socket of a daemon, and on real servers.

use std::{fs::Permissions, os::unix::fs::PermissionsExt as _, path::Path};

use bus_core::{Admission, Clock, Engine, Issue, SystemClock};
use bus_crypto::{NkeyKind, SigningKey, SystemEntropy};
use bus_disk::{DiskBus, DiskOptions};
use bus_link::{LinkBus, LinkLimits, LinkOptions, LinkServer};
use bus_nats::{NatsBus, NatsOptions, Profile};
use bus_subjects::{AclPolicy, Filter, WorkspaceId};
use bus_testserver::{TestCluster, TestServer};
use tokio::task::JoinSet;

use super::{race::race, *};

/// A server on a socket over a directory, as a daemon has it; dropped it is gone.
struct Daemon {
    disk: DiskBus,
    account: SigningKey,
    stop: tokio_util::sync::CancellationToken,
    serving: JoinSet<()>,
}

impl Daemon {
    async fn start(dir: &Path) -> Self {
        let disk = DiskBus::open(DiskOptions::new(dir.join("data"))).unwrap();
        let account = SigningKey::generate(NkeyKind::Account, &SystemEntropy::new()).unwrap();
        let admission = Admission::new(Arc::new(SystemClock::new()));
        admission.trust(WorkspaceId::parse("w1").unwrap(), *account.public());
        // Policies are before each agent's engine here.
        let admission = admission.policy(|_| {
            let mut all = AclPolicy::default();
            all.publish.allow.push(Filter::all());
            all.subscribe.allow.push(Filter::all());
            all
        });
        let (engine, limits) = (Arc::new(disk.connect()), LinkLimits::default());
        let socket = dir.join("bus.sock");
        let server = LinkServer::bind(&socket, engine, admission, limits).await.unwrap();
        let stop = tokio_util::sync::CancellationToken::new();
        let stopped = stop.clone();
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            server.serve(stopped.cancelled()).await;
            server.close().await;
        });
        Self { disk, account, stop, serving }
    }

    async fn connect(&self, dir: &Path) -> Arc<dyn Engine> {
        let workspace = WorkspaceId::parse("w1").unwrap();
        let agent = "link".parse().unwrap();
        let issue = Issue::new(workspace, agent, vec![Role::Operator], SystemClock::new().now());
        let identity = Identity::issue(&self.account, &issue, &SystemEntropy::new()).unwrap();
        let options = LinkOptions::default();
        Arc::new(LinkBus::connect(&dir.join("bus.sock"), identity, options).await.unwrap())
    }

    async fn stop(self) {
        self.stop.cancel();
        self.serving.join_all().await;
        self.disk.shut_down().await.unwrap();
    }
}

fn home() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    std::fs::set_permissions(home.path(), Permissions::from_mode(0o700)).unwrap();
    home
}

async fn on(engine: Arc<dyn Engine>) -> Scene {
    Scene::on(Stage::on(engine, Arc::new(SystemClock::new())).await.unwrap())
}

/// One whole story: refused for another target, used once, refused after that.
async fn story(scene: &Scene) {
    let asked = scene.ask().await;
    let until = Some(scene.in_a_minute());
    let other = scene.desk.ask(ACTION, "web-2", None).unwrap();
    let name = asked.approval.into();
    let (refused, ()) =
        tokio::join!(scene.desk.take(&name, &other, until), scene.answer(&asked, "yes"));
    assert_eq!(code(refused), "target-mismatch");
    take(&scene.desk, &asked, until).await.unwrap();
    assert_eq!(code(scene.take(&asked).await), "decision-consumed");
    let withdrawn = scene.allowed().await;
    scene.desk.withdraw(withdrawn.approval).await.unwrap();
    assert_eq!(code(take(&scene.desk, &withdrawn, until).await), "decision-withdrawn");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_sixteen_uses_at_once_through_a_daemon_exactly_one_succeeds() {
    let home = home();
    let daemon = Daemon::start(home.path()).await;
    let scene = on(daemon.connect(home.path()).await).await;
    race(&scene, 20).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_is_used_once_through_a_daemon() {
    let home = home();
    let daemon = Daemon::start(home.path()).await;
    story(&on(daemon.connect(home.path()).await).await).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_sixteen_uses_at_once_on_a_server_exactly_one_succeeds() {
    let server = tokio::task::block_in_place(TestServer::start);
    let bus = NatsBus::open(NatsOptions::new(server.url())).await.unwrap();
    race(&on(Arc::new(bus)).await, 20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_is_used_once_on_a_server() {
    let server = tokio::task::block_in_place(TestServer::start);
    let bus = NatsBus::open(NatsOptions::new(server.url())).await.unwrap();
    story(&on(Arc::new(bus)).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_sixteen_uses_at_once_on_three_servers_exactly_one_succeeds() {
    let cluster = tokio::task::block_in_place(TestCluster::start);
    let servers = cluster.urls();
    let first = servers.first().cloned().unwrap();
    let options = NatsOptions { servers, profile: Profile::Replicated, ..NatsOptions::new(first) };
    let scene = on(Arc::new(NatsBus::open(options).await.unwrap())).await;
    race(&scene, 5).await;
    story(&scene).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_a_verdict_and_a_use_survive_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let opened = || DiskBus::open(DiskOptions::new(dir.path())).unwrap();
    let mut disk = opened();
    let mut scene = on(Arc::new(disk.connect())).await;
    let asked = scene.ask().await;
    for step in ["asked", "answered", "used"] {
        disk.shut_down().await.unwrap();
        disk = opened();
        scene.stage.engine = Arc::new(disk.connect());
        scene.worker = scene.stage.endpoint(again(&scene.worker)).unwrap();
        scene.otto = scene.stage.endpoint(again(&scene.otto)).unwrap();
        scene.desk = Approvals::new(scene.worker.clone(), LEASE);
        let open = scene.otto.open_approvals(None).await.unwrap().len();
        match step {
            "asked" => {
                assert_eq!(open, 1, "it stays readable until its verdict is stored");
                scene.answer(&asked, "yes").await;
            }
            "answered" => {
                assert_eq!(open, 0);
                scene.take(&asked).await.unwrap();
            }
            _ => assert_eq!(code(scene.take(&asked).await), "decision-consumed"),
        }
    }
    assert_eq!(scene.records().await, ["vak.approval.consumed"]);
}
