//! What a deployment is to be: its servers, its machines, and who does what.

mod place;

use std::{net::SocketAddr, path::PathBuf};

use bus_nats::server::HostPort;
use bus_subjects::WorkspaceId;

pub(super) use self::place::{Listen, Template};
use super::reader::{Reader, Source};
use crate::error::CliError;

/// A deployment.
pub(super) struct Plan {
    /// The name of the cluster.
    pub(super) cluster: String,
    /// The name of its JetStream among those of the machines.
    pub(super) domain: String,
    pub(super) workspaces: Vec<WorkspaceId>,
    /// Where the folder of a machine is put there.
    pub(super) config_dir: Template,
    pub(super) nats_server: PathBuf,
    pub(super) vakbus: PathBuf,
    pub(super) tls: Option<Tls>,
    /// One or three.
    pub(super) servers: Vec<Server>,
    pub(super) machines: Vec<Machine>,
    /// Which server looks after the streams.
    pub(super) keeper: Option<String>,
    pub(super) callout: Option<Callout>,
    pub(super) backup: Option<Backup>,
}

/// A server of the cluster.
pub(super) struct Server {
    pub(super) name: String,
    /// What others call it.
    pub(super) host: String,
    /// Where it listens.
    pub(super) listen: Listen,
    pub(super) client: u16,
    pub(super) route: u16,
    pub(super) leaf: u16,
    pub(super) store: PathBuf,
    pub(super) disk_bytes: Option<u64>,
}

/// A machine with a server of its own, which works on while the cluster is away.
pub(super) struct Machine {
    pub(super) name: String,
    pub(super) client: u16,
    pub(super) store: PathBuf,
    pub(super) disk_bytes: Option<u64>,
    pub(super) workspaces: Vec<WorkspaceId>,
}

/// The certificates, as files of the machines.
pub(super) struct Tls {
    pub(super) ca: Template,
    pub(super) cert: Template,
    pub(super) key: Template,
}

/// Who decides about agents without a token.
pub(super) struct Callout {
    pub(super) on: String,
    pub(super) instances: u64,
}

/// When copies are made, and how many are kept.
pub(super) struct Backup {
    pub(super) on: String,
    pub(super) at: String,
    pub(super) dir: PathBuf,
    pub(super) keep: u64,
}

impl Plan {
    /// Reads a deployment.
    ///
    /// # Errors
    /// What is missing, unknown, or would not work.
    pub(super) fn read(source: &Source) -> Result<Self, CliError> {
        let mut root = source.root();
        let names = root.texts("workspaces")?;
        let names = names.ok_or_else(|| root.refused("workspaces", "is missing"))?;
        let workspaces = workspaces(&root, names)?;
        let nats_server = program(&mut root, "nats_server", "/usr/local/bin/nats-server")?;
        let vakbus = program(&mut root, "vakbus", "/usr/local/bin/vakbus")?;
        let config_dir = match root.text("config_dir")? {
            Some(text) => Template::parse(text).map_err(|why| root.refused("config_dir", &why))?,
            None => Template::fixed("/etc/vakbus"),
        };
        let (cluster, domain) = cluster(&mut root)?;
        let tls = root.table("tls")?.map(tls).transpose()?;
        let servers = root.tables("server")?.into_iter().map(server);
        let servers = servers.collect::<Result<Vec<_>, _>>()?;
        let machines = root.tables("machine")?.into_iter();
        let machines: Result<Vec<_>, _> =
            machines.map(|machine| self::machine(machine, &workspaces)).collect();
        let at = |reader: &mut Reader<'_>| on(reader, &servers);
        let keeper = root.table("keeper")?.map(|mut keeper| {
            let on = at(&mut keeper)?;
            keeper.end().map(|()| on)
        });
        let keeper = keeper.transpose()?;
        let callout = root.table("callout")?.map(|mut callout| {
            let made = Callout {
                on: at(&mut callout)?,
                instances: callout.count("instances")?.unwrap_or(2),
            };
            callout.end().map(|()| made)
        });
        let callout = callout.transpose()?;
        let backup = root.table("backup")?.map(|backup| self::backup(backup, &servers));
        let plan = Self {
            cluster,
            domain,
            workspaces,
            config_dir,
            nats_server,
            vakbus,
            tls,
            machines: machines?,
            keeper,
            callout,
            backup: backup.transpose()?,
            servers,
        };
        plan.check(&root)?;
        root.end()?;
        Ok(plan)
    }

    fn check(&self, root: &Reader<'_>) -> Result<(), CliError> {
        if !matches!(self.servers.len(), 1 | 3) {
            let why =
                format!("expected 1 or 3, not {}: two of them hold no vote", self.servers.len());
            return Err(root.refused("server", &why));
        }
        let mut names: Vec<&str> = vec![&self.domain];
        names.extend(self.servers.iter().map(|server| server.name.as_str()));
        names.extend(self.machines.iter().map(|machine| machine.name.as_str()));
        for (at, name) in names.iter().enumerate() {
            if names.iter().take(at).any(|other| other == name) {
                let why = format!("{name} is the name of two; the domain counts");
                return Err(
                    root.refused(if at > self.servers.len() { "machine" } else { "server" }, &why)
                );
            }
        }
        self.check_encryption(root)?;
        let mut taken: Vec<SocketAddr> = Vec::new();
        for server in &self.servers {
            for port in [server.client, server.route, server.leaf] {
                let address = server.listen.at(port);
                if taken.contains(&address) {
                    return Err(root.refused("server", &format!("{address} is taken twice")));
                }
                taken.push(address);
            }
        }
        Ok(())
    }

    /// Nothing is said in the clear beyond a machine.
    fn check_encryption(&self, root: &Reader<'_>) -> Result<(), CliError> {
        if self.tls.is_some() {
            return Ok(());
        }
        let is_far = |server: &&Server| {
            !server.listen.is_loopback()
                || !HostPort::parse("host", &server.at(server.client))
                    .is_ok_and(|at| at.is_loopback())
        };
        let Some(far) = self.servers.iter().find(is_far) else { return Ok(()) };
        let why = format!("{} is reached by other machines: [tls] is needed", far.host);
        Err(root.refused("server", &why))
    }

    /// The addresses for clients.
    pub(super) fn client_urls(&self) -> String {
        let scheme = if self.tls.is_some() { "tls" } else { "nats" };
        let urls =
            self.servers.iter().map(|server| format!("{scheme}://{}", server.at(server.client)));
        urls.collect::<Vec<_>>().join(",")
    }

    /// How the cluster keeps what is stored.
    pub(super) fn profile(&self) -> &'static str {
        if self.servers.len() == 1 { "synced" } else { "replicated" }
    }
}

impl Server {
    /// A port of it, as others reach it.
    pub(super) fn at(&self, port: u16) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{port}", self.host),
            false => format!("{}:{port}", self.host),
        }
    }
}

fn cluster(root: &mut Reader<'_>) -> Result<(String, String), CliError> {
    let Some(mut table) = root.table("cluster")? else {
        return Ok(("vakbus".to_owned(), "hub".to_owned()));
    };
    let name = table.text("name")?.unwrap_or("vakbus");
    let domain = table.text("domain")?.unwrap_or("hub");
    let (name, domain) = (word(&table, "name", name)?, word(&table, "domain", domain)?);
    table.end()?;
    Ok((name, domain))
}

fn tls(mut table: Reader<'_>) -> Result<Tls, CliError> {
    let mut file = |key| {
        let text = table.needed(key)?;
        Template::parse(text).map_err(|why| table.refused(key, &why))
    };
    let tls = Tls { ca: file("ca")?, cert: file("cert")?, key: file("key")? };
    table.end()?;
    Ok(tls)
}

fn server(mut table: Reader<'_>) -> Result<Server, CliError> {
    let name = table.needed("name")?;
    let name = word(&table, "name", name)?;
    let host = table.needed("host")?;
    let listen = table.text("listen")?;
    let listen = Listen::of(host, listen).map_err(|(key, why)| table.refused(key, &why))?;
    let server = Server {
        name,
        host: host.to_owned(),
        listen,
        client: table.port("client", 4222)?,
        route: table.port("route", 6222)?,
        leaf: table.port("leaf", 7422)?,
        store: folder(&mut table, "store")?,
        disk_bytes: table.count("disk_bytes")?,
    };
    table.end()?;
    Ok(server)
}

fn machine(mut table: Reader<'_>, all: &[WorkspaceId]) -> Result<Machine, CliError> {
    let name = table.needed("name")?;
    let name = word(&table, "name", name)?;
    let workspaces = match table.texts("workspaces")? {
        None => all.to_vec(),
        Some(names) => workspaces(&table, names)?,
    };
    if let Some(unknown) = workspaces.iter().find(|workspace| !all.contains(workspace)) {
        let why = format!("{unknown} is none of the workspaces of the deployment");
        return Err(table.refused("workspaces", &why));
    }
    let machine = Machine {
        name,
        client: table.port("client", 4222)?,
        store: folder(&mut table, "store")?,
        disk_bytes: table.count("disk_bytes")?,
        workspaces,
    };
    table.end()?;
    Ok(machine)
}

fn backup(mut table: Reader<'_>, servers: &[Server]) -> Result<Backup, CliError> {
    let at = table.text("at")?.unwrap_or("*-*-* 03:15");
    let is_plain = |c: char| c.is_ascii_alphanumeric() || " *:,./~-".contains(c);
    if at.is_empty() || at.len() > 64 || !at.chars().all(is_plain) {
        return Err(table.refused("at", "expected a time as systemd's OnCalendar has it"));
    }
    let backup = Backup {
        on: on(&mut table, servers)?,
        at: at.to_owned(),
        dir: folder(&mut table, "dir")?,
        keep: table.count("keep")?.unwrap_or(14),
    };
    table.end()?;
    Ok(backup)
}

/// Which server has it; the first one when nothing is said.
fn on(table: &mut Reader<'_>, servers: &[Server]) -> Result<String, CliError> {
    let first = servers.first().map(|server| server.name.as_str()).unwrap_or_default();
    let on = table.text("on")?.unwrap_or(first);
    match servers.iter().any(|server| server.name == on) {
        true => Ok(on.to_owned()),
        false => Err(table.refused("on", "expected the name of a server")),
    }
}

fn workspaces(table: &Reader<'_>, names: Vec<&str>) -> Result<Vec<WorkspaceId>, CliError> {
    let mut found: Vec<WorkspaceId> = Vec::new();
    for name in names {
        let name = WorkspaceId::parse(name)
            .map_err(|error| table.refused("workspaces", &error.to_string()))?;
        if found.contains(&name) {
            return Err(table.refused("workspaces", &format!("{name} stands there twice")));
        }
        found.push(name);
    }
    Ok(found)
}

fn program(table: &mut Reader<'_>, key: &'static str, default: &str) -> Result<PathBuf, CliError> {
    let text = table.text(key)?.unwrap_or(default);
    place::path(text).map_err(|why| table.refused(key, &why))
}

fn folder(table: &mut Reader<'_>, key: &'static str) -> Result<PathBuf, CliError> {
    let text = table.needed(key)?;
    place::path(text).map_err(|why| table.refused(key, &why))
}

/// A name that is a level of a subject, a file and a part of a unit's name.
fn word(table: &Reader<'_>, key: &str, text: &str) -> Result<String, CliError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if !(1..=64).contains(&text.len()) || !text.bytes().all(is_plain) || text.starts_with('-') {
        return Err(table.refused(key, "expected 1 to 64 letters, digits, `-` and `_`"));
    }
    Ok(text.to_owned())
}
