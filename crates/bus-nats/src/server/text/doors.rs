//! The doors of a server, each with its certificate: clients, routes, leaf nodes, browsers.

use bus_subjects::Filter;

use super::{
    Page, ServerError,
    page::{list, path, quoted, span},
};
use crate::server::config::{
    Cluster, HostPort, LeafNodes, LeafRemote, LeafTls, ServerConfig, ServerTls, WebSocketDoor,
};

pub(super) fn write(page: &mut Page, config: &ServerConfig) -> Result<(), ServerError> {
    tls(page, &CLIENTS, config.tls.as_ref())?;
    if let Some(cluster) = &config.cluster {
        routes(page, cluster)?;
    }
    if config.leafnodes.is_used() {
        leafnodes(page, &config.leafnodes)?;
    }
    if let Some(door) = &config.websocket {
        websocket(page, door)?;
    }
    Ok(())
}

fn routes(page: &mut Page, cluster: &Cluster) -> Result<(), ServerError> {
    page.open("cluster");
    page.line("name", quoted("cluster.name", &cluster.name)?);
    page.listen(cluster.listen);
    let mut user = String::new();
    if let Some(password) = &cluster.password {
        page.open("authorization");
        page.line("user", quoted("cluster", ROUTE_USER)?);
        page.line("password", quoted("cluster.password", password.expose())?);
        page.close();
        user = format!("{ROUTE_USER}:{}@", password.expose());
    }
    tls(page, &ROUTES, cluster.tls.as_ref())?;
    let urls = cluster.routes.iter().map(|other| format!("nats-route://{user}{other}"));
    let urls: Vec<_> = urls.collect();
    page.line("routes", list("cluster.routes", urls.iter().map(String::as_str))?);
    page.close();
    Ok(())
}

fn leafnodes(page: &mut Page, leafnodes: &LeafNodes) -> Result<(), ServerError> {
    page.open("leafnodes");
    if let Some(door) = &leafnodes.listen {
        page.listen(door.listen);
        tls(page, &LEAVES, door.tls.as_ref())?;
    }
    if !leafnodes.remotes.is_empty() {
        page.line("reconnect", span("leafnodes.reconnect", leafnodes.reconnect)?);
        page.begin("remotes: [");
        for remote in &leafnodes.remotes {
            hub(page, remote)?;
        }
        page.end("]");
    }
    page.close();
    Ok(())
}

fn hub(page: &mut Page, remote: &LeafRemote) -> Result<(), ServerError> {
    page.begin("{");
    let scheme = if remote.tls.is_some() { "tls" } else { "nats-leaf" };
    let url = |address: &HostPort| format!("{scheme}://{address}");
    let urls: Vec<_> = remote.urls.iter().map(url).collect();
    page.line("urls", list("leafnodes.remotes.urls", urls.iter().map(String::as_str))?);
    page.line("account", quoted("leafnodes.remotes.account", &remote.account.text())?);
    page.line("credentials", path("leafnodes.remotes.credentials", &remote.credentials)?);
    for (word, filters) in
        [("deny_exports", &remote.deny_exports), ("deny_imports", &remote.deny_imports)]
    {
        if !filters.is_empty() {
            page.line(word, list("leafnodes.remotes", filters.iter().map(Filter::as_str))?);
        }
    }
    if let Some(files) = &remote.tls {
        leaf_tls(page, files)?;
    }
    page.end("}");
    Ok(())
}

fn leaf_tls(page: &mut Page, files: &LeafTls) -> Result<(), ServerError> {
    if files.ca.is_none() && files.client.is_none() {
        // The scheme of the address says it already.
        return Ok(());
    }
    page.open("tls");
    if let Some((cert, key)) = &files.client {
        page.line("cert_file", path("leafnodes.remotes.tls.client", cert)?);
        page.line("key_file", path("leafnodes.remotes.tls.client", key)?);
    }
    if let Some(ca) = &files.ca {
        page.line("ca_file", path("leafnodes.remotes.tls.ca", ca)?);
    }
    page.close();
    Ok(())
}

fn websocket(page: &mut Page, door: &WebSocketDoor) -> Result<(), ServerError> {
    page.open("websocket");
    page.listen(door.listen);
    if door.tls.is_none() {
        page.line("no_tls", "true");
    }
    tls(page, &BROWSERS, door.tls.as_ref())?;
    if door.origins.is_empty() {
        page.line("same_origin", "true");
    } else {
        let origins = door.origins.iter().map(String::as_str);
        page.line("allowed_origins", list("websocket.origins", origins)?);
    }
    page.close();
    Ok(())
}

fn tls(page: &mut Page, names: &TlsNames, files: Option<&ServerTls>) -> Result<(), ServerError> {
    let Some(files) = files else { return Ok(()) };
    page.open("tls");
    page.line("cert_file", path(names.cert, &files.cert)?);
    page.line("key_file", path(names.key, &files.key)?);
    if let Some(ca) = &files.ca {
        page.line("ca_file", path(names.ca, ca)?);
    }
    page.line("verify", files.verify);
    page.close();
    Ok(())
}

/// What the files of a door are called in an error.
struct TlsNames {
    cert: &'static str,
    key: &'static str,
    ca: &'static str,
}

const CLIENTS: TlsNames = TlsNames { cert: "tls.cert", key: "tls.key", ca: "tls.ca" };
const ROUTES: TlsNames =
    TlsNames { cert: "cluster.tls.cert", key: "cluster.tls.key", ca: "cluster.tls.ca" };
const LEAVES: TlsNames =
    TlsNames { cert: "leafnodes.tls.cert", key: "leafnodes.tls.key", ca: "leafnodes.tls.ca" };
const BROWSERS: TlsNames =
    TlsNames { cert: "websocket.tls.cert", key: "websocket.tls.key", ca: "websocket.tls.ca" };
/// Whom the servers of a cluster call themselves when they have a password.
const ROUTE_USER: &str = "route";
