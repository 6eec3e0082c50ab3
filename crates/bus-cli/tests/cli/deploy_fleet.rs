//! The reference deployment on one machine: three servers, and a machine with a server of its own.

use std::{collections::BTreeSet, process::Command, sync::Arc};

use bus_core::ErrorKind;
use bus_nats::{NatsAuth, NatsBus, NatsOptions, permissions::Layout};
use serde_json::Value;

use crate::{
    daemon_support::{Daemon, ids, lines},
    deploy_support::{Ports, Started, ports, servers},
    support::{LIMIT, Outcome, Place, run},
};

/// A fleet that runs.
struct Fleet {
    /// Where it was rendered.
    place: Place,
    hub: Vec<Ports>,
    /// The port of the machine's own server, and all servers; the machine's is the last one.
    leaf: u16,
    servers: Vec<Started>,
}

impl Fleet {
    fn start() -> Self {
        let (place, hub, leaf) = (Place::new(), ports(3), bus_testserver::free_address().port());
        assert_eq!(place.run(&["workspace", "new", "fleet"]).code, Some(0));
        let (out, store) = (place.path("fleet"), place.path("store"));
        std::fs::create_dir(&store).unwrap();
        let servers = servers(3, &hub).replace("/var/lib", &store.display().to_string());
        // The folders are used where they were written.
        place.write(
            "fleet.toml",
            &format!(
                "config_dir = \"{}/{{name}}\"\n{servers}\
                 [[machine]]\nname = \"m1\"\nclient = {leaf}\nstore = \"{}/m1\"\n[keeper]\n",
                out.display(),
                store.display()
            ),
        );
        let rendered = place.run(&["deploy", "render", "fleet.toml", "--out", "fleet"]);
        assert_eq!(rendered.code, Some(0), "{rendered:?}");
        let names = ["n1", "n2", "n3", "m1"];
        let clients = hub.iter().map(|[client, ..]| *client).chain([leaf]);
        let started = names
            .iter()
            .zip(clients)
            .map(|(name, port)| Started::new(&out.join(name).join("server.conf"), port));
        let servers = started.collect();
        Self { place, hub, leaf, servers }
    }

    /// `vakbus` where the operator is.
    fn operator(&self, args: &[&str]) -> Command {
        let mut command = self.place.command();
        command.args(args).args(["--nats-url", &self.hub_urls(), "--workspace", "fleet"]);
        command
    }

    fn hub_urls(&self) -> String {
        let urls = self.hub.iter().map(|[client, ..]| format!("nats://127.0.0.1:{client}"));
        urls.collect::<Vec<_>>().join(",")
    }

    /// Another machine, with a copy of the workspaces.
    fn machine(&self) -> Place {
        let machine = Place::new();
        std::fs::create_dir(machine.path("data")).unwrap();
        let mut copy = Command::new("cp");
        copy.arg("-a").arg(self.place.path("data/workspaces")).arg(machine.path("data"));
        assert!(copy.status().unwrap().success());
        machine
    }

    /// `vakbus` in `place`, with the settings of a machine.
    fn command(&self, place: &Place, machine: &str, args: &[&str]) -> Command {
        let mut command = place.command();
        let folder = self.place.path("fleet").join(machine);
        command.arg("--config").arg(folder.join("vakbus.toml")).args(["--workspace", "fleet"]);
        let credentials = folder.join("keeper-fleet.creds");
        if credentials.exists() {
            command.arg("--creds").arg(credentials);
        }
        command.args(args);
        command
    }

    /// What a unit of a machine starts, in `place`; again as long as servers are not there yet, as
    /// the unit has it.
    fn service(&self, place: &Place, (machine, unit): (&str, &str), instance: &str) -> Daemon {
        let unit = self.place.read(&format!("fleet/{machine}/{unit}"));
        let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
        let start = start.replace("%i", instance);
        assert!(unit.contains("Restart=on-failure"), "{unit}");
        let mut last = None;
        for _ in 0..STARTS_MAX {
            let mut command = place.command();
            command.args(start.split(' ').skip(1)).arg("--json");
            match Daemon::try_of(command) {
                Ok(daemon) => return daemon,
                Err(ended) => {
                    assert_eq!(ended.code, Some(5), "{ended:?}");
                    last = Some(ended);
                }
            }
        }
        panic!("never ready: {last:?}")
    }
}

/// Runs a command again and again until it says what is waited for.
fn until(
    command: impl Fn() -> Command,
    is_so: impl Fn(&Outcome) -> bool,
) -> Result<Outcome, Option<Outcome>> {
    let tries = LIMIT.as_millis() / 800;
    let mut last = None;
    for _ in 0..tries {
        let outcome = run(command(), "");
        if is_so(&outcome) {
            return Ok(outcome);
        }
        last = Some(outcome);
    }
    Err(last)
}

#[test]
fn the_reference_deployment_starts_and_carries_a_task_from_leaf_to_hub() {
    let fleet = Fleet::start();
    let hub = fleet.hub_urls();
    // The machine's server hears of accounts as the three do.
    let pushed = until(
        || {
            let mut command = fleet.place.command();
            command.args(["auth", "push", "--json", "--nats-url", &hub]);
            command
        },
        |outcome| {
            let all: BTreeSet<String> = lines(outcome).iter().flat_map(taken).collect();
            outcome.code == Some(0) && all.len() == 4
        },
    );
    let pushed = pushed.expect("not all servers take tokens");
    assert!(lines(&pushed).iter().all(|line| taken(line).len() == 4), "{pushed:?}");

    let keeper = fleet.service(&fleet.place, ("n1", "vakbus-keeper.service"), "");
    let machine = fleet.machine();
    let courier = fleet.service(&machine, ("m1", "vakbus-courier@.service"), "fleet");
    let sent = run(fleet.command(&machine, "m1", &["task", "send", "--to-hub", "x"]), "");
    assert_eq!(sent.code, Some(0), "{sent:?}");
    let carried = until(
        || {
            let both = ["--state", "waiting", "--state", "at-hub"];
            let args = ["outbox", "ls", "--json"].into_iter().chain(both).collect::<Vec<_>>();
            fleet.command(&machine, "m1", &args)
        },
        |outcome| {
            let records = lines(outcome);
            records.len() == 1 && records[0]["state"] == "at-hub"
        },
    );
    // It is a task of the three, and none of the machine.
    let there = run(fleet.command(&fleet.place, "n1", &["task", "ls", "--json"]), "");
    let here = run(fleet.command(&machine, "m1", &["task", "ls", "--json"]), "");
    let stopped = courier.stop();
    assert!(carried.is_ok(), "{carried:?}: {stopped:?}");
    assert_eq!(ids(&there), [sent.stdout.trim_end()]);
    assert!(ids(&here).is_empty(), "{here:?}");
    assert_eq!(stopped.code, Some(0), "{stopped:?}");
    assert_eq!(keeper.stop().code, Some(0));
    // Nobody made another workspace on the way.
    assert_eq!(fleet.place.run(&["workspace", "ls"]).stdout.lines().count(), 1);
}

#[test]
fn a_machine_that_was_away_hears_of_a_revocation_by_itself() {
    let mut fleet = Fleet::start();
    let add = run(fleet.operator(&["agent", "add", "bob", "--role", "worker"]), "");
    assert_eq!(add.code, Some(0), "{add:?}");
    let is_there = |outcome: &Outcome, count: u64| {
        let lines = lines(outcome);
        lines.iter().any(|line| line["account"] == "fleet" && line["as_here"] == count)
    };
    let status = |fleet: &Fleet| fleet.operator(&["auth", "status", "--json"]);
    let all = until(|| status(&fleet), |outcome| is_there(outcome, 4));
    assert!(all.is_ok(), "{all:?}");
    drop(fleet.servers.pop());
    let away = until(|| status(&fleet), |outcome| is_there(outcome, 3));
    assert!(away.is_ok(), "{away:?}");
    let revoked = run(fleet.operator(&["agent", "revoke", "bob", "-y", "--json"]), "");
    assert!(is_there(&run(status(&fleet), ""), 3), "{revoked:?}");
    let config = fleet.place.path("fleet/m1/server.conf");
    fleet.servers.push(Started::new(&config, fleet.leaf));
    // Nobody pushes any more: it asks.
    let heard = until(|| status(&fleet), |outcome| is_there(outcome, 4));
    assert!(heard.is_ok(), "{heard:?}");
}

/// The users that the tokens in a server's configuration keep out.
fn kept_out(place: &Place, server: &str) -> BTreeSet<String> {
    let config = place.read(&format!("fleet/{server}/server.conf"));
    let words = config.split(|c: char| c.is_whitespace() || matches!(c, '"' | ','));
    let tokens = words.filter_map(|word| bus_crypto::jwt::decode_account(word).ok());
    tokens.flat_map(|claims| claims.revocations.into_keys()).collect()
}

fn revoke(place: &Place, whom: [&str; 2]) -> Command {
    let mut command = place.command();
    command.args(["deploy", "revoke", "fleet.toml", "--out", "fleet", "--workspace", "fleet"]);
    command.args(whom).args(["-y", "--json"]);
    command
}

fn answering(outcome: &Outcome) -> usize {
    let lines = lines(outcome);
    lines.iter().filter(|line| line["version"].is_string()).count()
}

/// A connection of the machine's courier to the three, with these credentials.
async fn logged_in(fleet: &Fleet, credentials: &str) -> bus_core::Result<NatsBus> {
    let credentials = bus_crypto::creds::parse(credentials).unwrap();
    let [client, ..] = fleet.hub[0];
    NatsBus::open(NatsOptions {
        auth: NatsAuth::Jwt(Arc::new(credentials)),
        inbox_prefix: "_INBOX.courier-m1".to_owned(),
        api_prefix: Layout::API_PREFIX.to_owned(),
        workspace: Some("fleet".parse().unwrap()),
        ..NatsOptions::new(format!("nats://127.0.0.1:{client}"))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_machine_is_cut_off_and_its_credentials_are_good_for_nothing() {
    let mut fleet = Fleet::start();
    let status = || fleet.operator(&["auth", "status", "--json"]);
    let all = until(status, |outcome| answering(outcome) == 4);
    assert!(all.is_ok(), "{all:?}");
    let stolen = fleet.place.read("fleet/m1/courier-fleet.creds");
    assert!(logged_in(&fleet, &stolen).await.is_ok(), "it comes in before");

    let taken_back = run(revoke(&fleet.place, ["--machine", "m1"]), "");
    assert_eq!(taken_back.code, Some(0), "{taken_back:?}");
    let said = lines(&taken_back);
    let keys = said[0]["revoked"].as_array().unwrap().iter();
    let keys: BTreeSet<_> = keys.map(|key| key.as_str().unwrap().to_owned()).collect();
    assert_eq!((said[0]["machine"].as_str(), keys.len()), (Some("m1"), 4), "{taken_back:?}");
    assert_eq!(said.last().unwrap()["untold"], serde_json::json!([]), "{taken_back:?}");
    // Its server runs on, and is none of the fleet's any more.
    let left = until(status, |outcome| answering(outcome) == 3);
    assert!(left.is_ok(), "{left:?}");
    let refused = logged_in(&fleet, &stolen).await;
    assert!(refused.as_ref().is_err_and(|error| error.kind() == ErrorKind::Denied), "{refused:?}");
    for server in ["n1", "n2", "n3", "m1"] {
        assert_eq!(kept_out(&fleet.place, server), keys, "{server}");
    }

    // Another machine takes its place.
    assert!(!fleet.place.path("fleet/m1/system.creds").exists());
    let rendered = fleet.place.run(&["deploy", "render", "fleet.toml", "--out", "fleet"]);
    assert_eq!(rendered.code, Some(0), "{rendered:?}");
    drop(fleet.servers.pop());
    let config = fleet.place.path("fleet/m1/server.conf");
    fleet.servers.push(Started::new(&config, fleet.leaf));
    let back =
        until(|| fleet.operator(&["auth", "status", "--json"]), |outcome| answering(outcome) == 4);
    assert!(back.is_ok(), "{back:?}");
}

#[test]
fn a_machine_that_was_not_told_of_a_revoked_agent_is_named_and_hears_of_it_later() {
    let mut fleet = Fleet::start();
    let add = run(fleet.operator(&["agent", "add", "bob", "--role", "worker"]), "");
    assert_eq!(add.code, Some(0), "{add:?}");
    drop(fleet.servers.pop());
    let revoked = run(revoke(&fleet.place, ["--agent", "bob"]), "");
    assert_eq!(revoked.code, Some(5), "{revoked:?}");
    let said = lines(&revoked);
    assert_eq!(said.last().unwrap()["untold"], serde_json::json!(["m1"]), "{revoked:?}");
    let key = said[0]["nkey"].as_str().unwrap().to_owned();
    assert_eq!(kept_out(&fleet.place, "m1"), [key].into());
    let config = fleet.place.path("fleet/m1/server.conf");
    fleet.servers.push(Started::new(&config, fleet.leaf));
    let heard = until(
        || fleet.operator(&["auth", "status", "--json"]),
        |outcome| {
            let lines = lines(outcome);
            lines.iter().any(|line| line["account"] == "fleet" && line["as_here"] == 4)
        },
    );
    assert!(heard.is_ok(), "{heard:?}");
}

fn taken(line: &Value) -> Vec<String> {
    let servers = line["taken"].as_array().cloned().unwrap_or_default();
    servers.iter().filter_map(|server| server.as_str().map(str::to_owned)).collect()
}

/// Each takes some time, and a cluster a few seconds until it keeps three copies.
const STARTS_MAX: u32 = 200;
