//! Who comes to a server without a token: agents with their keys, and bearers of tickets.

use std::{
    fs,
    io::{BufRead, BufReader, ErrorKind, Write},
    net::TcpStream,
    os::unix::fs::{DirBuilderExt, PermissionsExt},
};

use bus_crypto::{SigningKey, creds};
use data_encoding::BASE64URL_NOPAD;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    auth_support::Operated,
    support::{LIMIT, Lines, Place, Running, run},
};

/// A server that has strangers decided about.
struct Site(Operated);

impl Site {
    fn start() -> Self {
        Self(Operated::with(&["--callout"]))
    }

    fn does(&self, args: &[&str]) -> String {
        self.0.does(args)
    }

    /// Starts `vakbus auth serve` and waits until it is ready.
    fn serve(&self) -> (Running, Lines, Value) {
        let command = self.0.command(&self.0.place, &["auth", "serve", "--json"]);
        let mut running = Running::start(command);
        let stdout = Lines::of(running.take_stdout());
        let Some(line) = stdout.next() else { panic!("never ready: {:?}", running.ended()) };
        (running, stdout, serde_json::from_str(&line).unwrap())
    }

    /// The key of an agent of this home.
    fn key(&self, agent: &str) -> SigningKey {
        let file = self.0.place.workspace().join(format!("agents/{agent}.creds"));
        creds::parse(&fs::read_to_string(file).unwrap()).unwrap().into_parts().1
    }

    /// Connects with what `show` makes of the server's nonce; none when it is not let in.
    fn login(&self, show: impl Fn(&str) -> Value) -> Option<BufReader<TcpStream>> {
        let stream = TcpStream::connect(self.0.address()).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        let greeting: Value = serde_json::from_str(line.strip_prefix("INFO ").unwrap()).unwrap();
        let mut hello = show(greeting["nonce"].as_str().unwrap());
        hello["verbose"] = json!(false);
        hello["protocol"] = json!(1);
        write!(stream.get_mut(), "CONNECT {hello}\r\nPING\r\n").unwrap();
        line.clear();
        stream.read_line(&mut line).unwrap();
        (line == "PONG\r\n").then_some(stream)
    }

    fn login_by_key(&self, key: &SigningKey) -> Option<BufReader<TcpStream>> {
        self.login(|nonce| {
            let signature = key.sign(nonce.as_bytes());
            json!({ "nkey": key.public().text(), "sig": BASE64URL_NOPAD.encode(&signature) })
        })
    }
}

/// Whether the server ends a connection, and not only the patience of who waits for that.
fn is_cut_off(mut stream: BufReader<TcpStream>) -> bool {
    let mut line = String::new();
    loop {
        line.clear();
        match stream.read_line(&mut line) {
            Ok(0) => return true,
            Ok(_) if line.starts_with("PING") => {
                let _gone = stream.get_mut().write_all(b"PONG\r\n");
            }
            Ok(_) => {}
            Err(error) => return error.kind() == ErrorKind::ConnectionReset,
        }
    }
}

#[test]
fn an_agent_comes_in_by_its_key_until_it_is_revoked() {
    let site = Site::start();
    site.does(&["agent", "add", "ann", "--role", "worker"]);
    let ann = site.key("ann");
    assert!(site.login_by_key(&ann).is_none(), "nobody decides about it yet");
    let (service, stdout, ready) = site.serve();
    assert_eq!((&ready["ready"], &ready["workspaces"]), (&json!(true), &json!(["default"])));
    let connected = site.login_by_key(&ann).expect("let in");
    site.does(&["agent", "add", "bob", "--role", "observer"]);
    assert!(site.login_by_key(&site.key("bob")).is_some(), "added while the service runs");
    site.does(&["agent", "revoke", "ann", "--yes"]);
    assert!(is_cut_off(connected));
    assert!(site.login_by_key(&ann).is_none());
    service.signal(Signal::INT);
    let ended = service.ended();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let stopped: Value = serde_json::from_str(&stdout.next().unwrap()).unwrap();
    assert_eq!((&stopped["admitted"], &stopped["refused"]), (&json!(2), &json!(1)));
}

#[test]
fn a_damaged_workspace_keeps_no_other_closed_and_none_of_its_revocations_back() {
    let site = Site::start();
    site.does(&["agent", "add", "ann", "--role", "worker"]);
    let damage = |name: &str| {
        let dir = site.0.place.path(&format!("data/workspaces/{name}"));
        fs::DirBuilder::new().mode(0o700).create(&dir).unwrap();
        site.0.place.write(&format!("data/workspaces/{name}/account.nk"), "damaged");
        fs::set_permissions(dir.join("account.nk"), fs::Permissions::from_mode(0o600)).unwrap();
    };
    damage("a1");
    let (service, _stdout, ready) = site.serve();
    assert_eq!(ready["workspaces"], json!(["default"]));
    damage("a2");
    let connected = site.login_by_key(&site.key("ann")).expect("let in");
    site.does(&["agent", "revoke", "ann", "--yes"]);
    assert!(is_cut_off(connected));
    service.signal(Signal::TERM);
    assert_eq!(service.ended().code, Some(0));
}

#[test]
fn a_command_of_another_machine_logs_in_with_its_agents_key_alone() {
    let site = Site::start();
    site.does(&["agent", "add", "boss", "--role", "orchestrator"]);
    site.does(&["task", "ls"]);
    let other = site.0.copy();
    fs::remove_dir_all(other.path("data/operator")).unwrap();
    fs::remove_file(other.path("data/workspaces/default/store.nk")).unwrap();
    let send = || {
        let mut command = site.0.command(&other, &["task", "send", "x", "--as", "boss"]);
        command.env("VAK_BUS_NATS_NKEY_SEED", site.key("boss").seed_text().as_str());
        run(command, "")
    };
    assert_eq!(send().code, Some(4), "nobody decides about it yet");
    let (service, _stdout, _) = site.serve();
    let sent = send();
    assert_eq!(sent.code, Some(0), "{sent:?}");
    assert!(site.does(&["task", "ls", "--json"]).contains(sent.stdout.trim_end()));
    service.signal(Signal::TERM);
    assert_eq!(service.ended().code, Some(0));
}

#[test]
fn a_worker_of_another_machine_takes_the_tasks_of_its_queue_with_its_key_alone() {
    let site = Site::start();
    site.does(&["agent", "add", "bob", "--role", "worker", "--queue", "coder"]);
    site.does(&["task", "send", "x", "--role", "coder"]);
    site.does(&["task", "send", "y", "--role", "judge"]);
    let other = site.0.copy();
    fs::remove_dir_all(other.path("data/operator")).unwrap();
    fs::remove_file(other.path("data/workspaces/default/store.nk")).unwrap();
    let (service, _stdout, _) = site.serve();
    let work = |role: &str| {
        let args = ["worker", "--role", role, "--as", "bob", "--", "true"];
        let mut command = site.0.command(&other, &args);
        command.env("VAK_BUS_NATS_NKEY_SEED", site.key("bob").seed_text().as_str());
        command
    };
    let mut worker = Running::start(work("coder"));
    worker.says("completed");
    worker.signal(Signal::INT);
    assert_eq!(worker.ended().code, Some(0));
    assert_eq!(run(work("judge"), "").code, Some(4));
    service.signal(Signal::TERM);
    assert_eq!(service.ended().code, Some(0));
}

#[test]
fn a_ticket_lets_in_once() {
    let site = Site::start();
    let (service, _stdout, _) = site.serve();
    let args = ["auth", "ticket", "--agent", "screen", "--role", "observer", "--for", "5m"];
    let ticket = site.does(&args);
    let show = |_: &str| json!({ "auth_token": ticket });
    assert!(site.login(show).is_some());
    assert!(site.login(show).is_none());
    service.signal(Signal::TERM);
    assert_eq!(service.ended().code, Some(0));
}

#[test]
fn a_ticket_says_what_it_gives() {
    let place = Place::new();
    assert_eq!(place.run(&["workspace", "new", "w1"]).code, Some(0));
    let args = ["auth", "ticket", "--agent", "a", "--role", "worker", "--role", "view", "--json"];
    let made = place.run(&[&args[..], &["--workspace", "w1"]].concat());
    assert_eq!(made.code, Some(0), "{made:?}");
    let ticket = made.json();
    assert!(ticket["ticket"].as_str().unwrap().starts_with("vakt1."));
    assert_eq!(ticket["workspace"], "w1");
    assert_eq!(ticket["roles"], json!(["worker", "view"]));
    let too_long = ["auth", "ticket", "--agent", "a", "--role", "view", "--for", "25h"];
    let refused = place.run(&[&too_long[..], &["--workspace", "w1"]].concat());
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("within 24 hours"), "{refused:?}");
}

#[test]
fn without_an_operator_there_is_nothing_to_serve() {
    let refused = Place::new().run(&["auth", "serve"]);
    refused.failed_with("has no operator of servers", "vakbus auth server-config");
}
