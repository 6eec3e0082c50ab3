//! Deployments on this machine: their files, and their servers as they are started elsewhere.

use std::{
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use bus_testserver::free_address;

use crate::support::LIMIT;

/// The ports of one server: for clients, for the others, for machines.
pub(crate) type Ports = [u16; 3];

/// Ports for so many servers.
pub(crate) fn ports(count: usize) -> Vec<Ports> {
    (0..count).map(|_| [(); 3].map(|()| free_address().port())).collect()
}

/// A deployment's file with so many servers on this machine.
pub(crate) fn servers(count: usize, ports: &[Ports]) -> String {
    let mut file = "workspaces = [\"fleet\"]\n".to_owned();
    for (number, [client, route, leaf]) in ports.iter().take(count).enumerate() {
        let name = format!("n{}", number + 1);
        file.push_str(&format!(
            "[[server]]\nname = \"{name}\"\nhost = \"127.0.0.1\"\nstore = \"/var/lib/{name}\"\n\
             client = {client}\nroute = {route}\nleaf = {leaf}\n"
        ));
    }
    file
}

/// A nats-server with a configuration that was written; killed with this.
pub(crate) struct Started(Child);

impl Started {
    /// Starts it, and waits until clients can connect.
    pub(crate) fn new(config: &Path, port: u16) -> Self {
        let child = Command::new(crate::nats_support::program())
            .arg("-c")
            .arg(config)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut started = Self(child);
        let listens = |_| {
            let ended = started.0.try_wait().unwrap();
            assert!(ended.is_none(), "{}: it has ended: {ended:?}", config.display());
            let is_there = TcpStream::connect(("127.0.0.1", port)).is_ok();
            if !is_there {
                // Nothing else tells of it.
                std::thread::park_timeout(LOOK_EVERY);
            }
            is_there
        };
        let looks = LIMIT.as_millis() / LOOK_EVERY.as_millis();
        assert!((0..looks).any(listens), "{}: nobody listens", config.display());
        started
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

const LOOK_EVERY: Duration = Duration::from_millis(20);
