//! Holds the NATS engine to the suite, on a server that the test starts; with `VAKBUS_CLUSTER=1` on
//! a cluster of three, which takes minutes and is asked for by `cargo xtask conformance --cluster`;
//! with `VAKBUS_LEAST_PRIVILEGE=1` behind the imports of a workspace, as
//! `cargo xtask conformance --least-privilege`.

use std::{process::ExitCode, sync::Arc, time::Duration};

use bus_conformance::Suite;

#[path = "common/cluster.rs"]
mod cluster;
#[path = "common/harness.rs"]
mod harness;
#[path = "common/least.rs"]
mod least;
#[path = "common/split.rs"]
mod split;

use cluster::NatsCluster;
use harness::Nats;
use least::LeastPrivilege;

fn main() -> ExitCode {
    let is_asked = |name| std::env::var(name).is_ok_and(|value| value == "1");
    let suite = if is_asked("VAKBUS_CLUSTER") {
        on_three()
    } else if is_asked("VAKBUS_LEAST_PRIVILEGE") {
        behind_imports()
    } else {
        on_one()
    };
    suite.declared(include_str!("../../../tests/conformance.lock")).run()
}

fn on_one() -> Suite {
    let shared = Nats::start();
    // What restarts does so on a server of its own.
    Suite::new(move || shared.clone()).restarts(Nats::start).limit(Duration::from_secs(60))
}

fn on_three() -> Suite {
    let shared = NatsCluster::start();
    let turn = Arc::default();
    Suite::new(move || shared.clone())
        .restarts(move || NatsCluster::start_in_turn(&turn))
        .limit(Duration::from_secs(120))
}

fn behind_imports() -> Suite {
    let shared = LeastPrivilege::start();
    Suite::new(move || shared.clone())
        .restarts(LeastPrivilege::start)
        .limit(Duration::from_secs(60))
}
