//! The configurations of the servers: those of the cluster, and one for each machine.

use std::path::{Path, PathBuf};

use bus_nats::{
    permissions::{Layout, leaf_denies},
    server::{
        Cluster, HostPort, LeafDoor, LeafNodes, LeafRemote, LeafTls, RoutePassword, ServerConfig,
        ServerError, ServerTls,
    },
};

use super::plan::{Machine, Plan, Server};
use crate::{
    commands::auth::operated,
    error::{CliError, Exit},
    operator::Operator,
    workspace::Workspace,
};

/// What all configurations are made from.
pub(super) struct Maker<'a> {
    pub(super) plan: &'a Plan,
    pub(super) operator: &'a Operator,
    /// All workspaces of the data home: servers know all of its accounts.
    pub(super) workspaces: &'a [Workspace],
    /// What the servers of the cluster show each other.
    pub(super) password: RoutePassword,
}

impl Maker<'_> {
    /// The configuration of a server of the cluster.
    ///
    /// # Errors
    /// When files of the operator cannot be read, or a setting would not do.
    pub(super) fn server(&self, server: &Server) -> Result<ServerConfig, CliError> {
        let plan = self.plan;
        let tls = |verify| {
            plan.tls.as_ref().map(|tls| ServerTls {
                cert: tls.cert.of(&server.name),
                key: tls.key.of(&server.name),
                ca: Some(tls.ca.of(&server.name)),
                verify,
            })
        };
        // This one too: until they have met, servers take the number of routes for their own.
        let all = plan.servers.iter();
        let routes: Result<Vec<_>, _> =
            all.map(|one| HostPort::parse("server.route", &one.at(one.route))).collect();
        let routes = routes.map_err(|error| wrong(&error))?;
        let cluster = (plan.servers.len() > 1).then(|| Cluster {
            name: plan.cluster.clone(),
            listen: server.listen.at(server.route),
            routes,
            password: Some(self.password.clone()),
            tls: tls(true),
        });
        let door = LeafDoor { listen: server.listen.at(server.leaf), tls: tls(false) };
        let listen = (!plan.machines.is_empty()).then_some(door);
        let sentinel = plan.callout.as_ref().map(|_| self.operator.sentinel()).transpose()?;
        Ok(ServerConfig {
            name: server.name.clone(),
            listen: server.listen.at(server.client),
            file_bytes_max: server.disk_bytes,
            domain: Some(plan.domain.clone()),
            tls: tls(false),
            cluster,
            leafnodes: LeafNodes { listen, ..LeafNodes::default() },
            sentinel,
            ..operated(self.operator, self.workspaces)?
        })
    }

    /// The configuration of the server of a machine, whose folder lies at `folder`.
    ///
    /// # Errors
    /// As [`Self::server`].
    pub(super) fn machine(
        &self,
        machine: &Machine,
        folder: &Path,
    ) -> Result<ServerConfig, CliError> {
        let plan = self.plan;
        let hubs = plan.servers.iter().map(|hub| HostPort::parse("server.leaf", &hub.at(hub.leaf)));
        let urls = hubs.collect::<Result<Vec<_>, _>>().map_err(|error| wrong(&error))?;
        let tls = plan
            .tls
            .as_ref()
            .map(|tls| LeafTls { ca: Some(tls.ca.of(&machine.name)), client: None });
        let remote = |account, credentials: PathBuf, denied: Vec<_>| LeafRemote {
            urls: urls.clone(),
            account,
            credentials,
            deny_exports: denied.clone(),
            deny_imports: denied,
            tls: tls.clone(),
        };
        let mut remotes = Vec::new();
        for workspace in self.served(machine) {
            let denied = leaf_denies(&Layout::of(workspace.name())?)?;
            let credentials = folder.join(link_file(workspace.name().as_str()));
            remotes.push(remote(*workspace.account(), credentials, denied));
        }
        remotes.push(remote(*self.operator.system(), folder.join(SYSTEM_FILE), Vec::new()));
        Ok(ServerConfig {
            name: machine.name.clone(),
            listen: (std::net::Ipv4Addr::LOCALHOST, machine.client).into(),
            file_bytes_max: machine.disk_bytes,
            domain: Some(machine.name.clone()),
            leafnodes: LeafNodes { remotes, ..LeafNodes::default() },
            ..operated(self.operator, self.workspaces)?
        })
    }

    /// The workspaces of a machine.
    pub(super) fn served(&self, machine: &Machine) -> impl Iterator<Item = &Workspace> {
        self.workspaces.iter().filter(|workspace| machine.workspaces.contains(workspace.name()))
    }
}

/// A configuration as text, for a server that keeps its files at `store`.
pub(super) fn text(config: &ServerConfig, store: &Path) -> Result<String, CliError> {
    config.render(store).map_err(|error| wrong(&error))
}

fn wrong(error: &ServerError) -> CliError {
    CliError::new(Exit::of(error.kind()), error.to_string()).next("see docs/guide/deploy.md")
}

/// The credentials that the machine's server shows the cluster for a workspace.
pub(super) fn link_file(workspace: &str) -> String {
    format!("link-{workspace}.creds")
}

/// The credentials by which it is told of accounts.
pub(super) const SYSTEM_FILE: &str = "system.creds";
