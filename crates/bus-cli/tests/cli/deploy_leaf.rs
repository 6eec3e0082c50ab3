//! What the three let somebody do who has a machine's credentials and a server of his own making.

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader, Write},
    net::TcpStream,
};

use bus_crypto::creds;
use data_encoding::BASE64URL_NOPAD;
use serde_json::{Value, json};

use crate::{
    deploy_support::{Started, ports, servers},
    support::{LIMIT, Place},
};

/// A server of a cluster, and the folder of a machine whose server never ran.
struct Hub {
    place: Place,
    client: u16,
    leaf: u16,
    _server: Started,
}

impl Hub {
    fn start() -> Self {
        let (place, ports) = (Place::new(), ports(1));
        assert_eq!(place.run(&["workspace", "new", "fleet"]).code, Some(0));
        let store = place.path("store");
        std::fs::create_dir(&store).unwrap();
        let file = servers(1, &ports).replace("/var/lib", &store.display().to_string());
        let machine = format!("[[machine]]\nname = \"m1\"\nstore = \"{}/m1\"\n", store.display());
        place.write("fleet.toml", &format!("{file}{machine}"));
        let rendered = place.run(&["deploy", "render", "fleet.toml", "--out", "fleet"]);
        assert_eq!(rendered.code, Some(0), "{rendered:?}");
        let [client, _, leaf] = ports[0];
        let server = Started::new(&place.path("fleet/n1/server.conf"), client);
        Self { place, client, leaf, _server: server }
    }

    /// A leaf of the server's own domain, with the machine's credentials.
    fn stranger(&self) -> Stranger {
        let mut stream = TcpStream::connect(("127.0.0.1", self.leaf)).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let mut said = BufReader::new(stream.try_clone().unwrap());
        let mut info = String::new();
        said.read_line(&mut info).unwrap();
        let info: Value = serde_json::from_str(info.strip_prefix("INFO ").unwrap()).unwrap();
        let credentials = creds::parse(&self.place.read("fleet/m1/system.creds")).unwrap();
        let nonce = info["nonce"].as_str().unwrap();
        let connect = json!({
            "jwt": credentials.jwt(),
            "sig": BASE64URL_NOPAD.encode(&credentials.key().sign(nonce.as_bytes())),
            "name": "stranger",
            "server_id": "stranger",
            "domain": "hub",
            "jetstream": true,
            "headers": true,
            "version": "2.12.0",
        });
        write!(stream, "CONNECT {connect}\r\n").unwrap();
        Stranger { stream, said }
    }
}

/// A leaf that keeps to nothing.
struct Stranger {
    stream: TcpStream,
    said: BufReader<TcpStream>,
}

impl Stranger {
    /// What it hears until the server has taken what it says.
    fn says(&mut self, line: &str) -> Vec<String> {
        write!(self.stream, "{line}\r\nPING\r\n").unwrap();
        let mut heard = Vec::new();
        loop {
            let mut line = Vec::new();
            self.said.read_until(b'\n', &mut line).unwrap();
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            if line.is_empty() || line.starts_with("PONG") || line.starts_with("-ERR") {
                heard.push(line);
                return heard;
            }
            heard.push(line);
        }
    }
}

#[test]
fn a_stolen_machine_hears_nothing_of_what_servers_say_to_each_other() {
    let hub = Hub::start();
    let mut stranger = hub.stranger();
    for filter in [">", "$SYS.>", "$SYS.REQ.SERVER.PING", "$SYS.REQ.CLAIMS.>", "$SYS.ACCOUNT.>"] {
        stranger.says(&format!("LS+ {filter}"));
    }
    let url = format!("nats://127.0.0.1:{}", hub.client);
    let told = hub.place.run(&["auth", "push", "--nats-url", &url]);
    assert_eq!(told.code, Some(0), "{told:?}");
    let heard = stranger.says("PING");
    let messages = heard.iter().filter_map(|line| line.strip_prefix("LMSG "));
    let subjects: BTreeSet<&str> = messages.filter_map(|line| line.split(' ').next()).collect();
    let is_told = |subject: &&str| {
        let is_lookup = subject.ends_with(".CLAIMS.LOOKUP");
        is_lookup || ["$SYS.REQ.SERVER.PING", "$SYS.REQ.CLAIMS.UPDATE"].contains(subject)
    };
    assert!(subjects.contains("$SYS.REQ.SERVER.PING"), "{heard:?}");
    assert!(subjects.iter().all(is_told), "{subjects:?}");
}

#[test]
fn a_stolen_machine_tells_servers_nothing() {
    let hub = Hub::start();
    for subject in ["$SYS.SERVER.stranger.STATSZ", "$SYS.REQ.CLAIMS.UPDATE", "$NRG.V.x"] {
        let heard = hub.stranger().says(&format!("LMSG {subject} 2\r\n{{}}"));
        assert!(
            heard.last().is_some_and(|last| last.contains("Permissions Violation")),
            "{heard:?}"
        );
    }
}
