//! `vakbus up --http-listen`: the door that agents come to, with its secret and its certificate.

use std::{fs, net::SocketAddr, path::Path, sync::Arc};

use bus_crypto::SystemEntropy;
use bus_gateway::{Api, DoorSecret, Gateway, GatewayError, Tls};
use bus_peers::PeerBus;
use rustix::process::{Resource, getrlimit, setrlimit};

use crate::{
    args::UpArgs,
    error::{CliError, Exit},
    home::{Home, read_private},
    print as out,
};

/// Opens it, on the loopback or behind TLS.
///
/// # Errors
/// When its address is taken or needs TLS, and when its secret or certificate cannot be had.
pub(super) async fn open(
    address: SocketAddr,
    args: &UpArgs,
    home: &Home,
) -> Result<Gateway, CliError> {
    let tls = match (&args.http_cert, &args.http_key) {
        (Some(cert), Some(key)) => Some(certificate(cert, key, args.http_name.clone())?),
        _ => None,
    };
    let bound = match tls {
        Some(tls) => Gateway::bind_tls(address, tls).await,
        None => Gateway::bind(address).await,
    };
    let gateway = bound.map_err(|error| told(&error))?;
    let secret = secret(home)?;
    raise_files();
    let logs = home.below(LOGS);
    logs.create()?;
    let peers = Arc::new(PeerBus::new(logs.path()));
    out::remark(&format!("the secret of {} is in {}", gateway.url(), shown(home)));
    Ok(gateway.with_api(Api::new(secret, peers)))
}

/// The secret of the door, which is made when there is none.
fn secret(home: &Home) -> Result<DoorSecret, CliError> {
    home.create()?;
    // Two daemons that begin at one time take the same.
    let _turn = home.turn()?;
    if home.state(SECRET).is_none() {
        let made = DoorSecret::generate(&SystemEntropy::new()).map_err(|error| told(&error))?;
        home.write_new(SECRET, &made.to_text())?;
        return Ok(made);
    }
    let text = home.read(SECRET)?;
    DoorSecret::parse(&text).map_err(|error| {
        let what = format!("{}: {error}", shown(home));
        CliError::new(Exit::Failed, what).next("remove the file: a new one is made")
    })
}

fn certificate(cert: &Path, key: &Path, names: Vec<String>) -> Result<Tls, CliError> {
    let chain = fs::read(cert).map_err(|error| {
        CliError::usage(format!("cannot read {}: {error}", cert.display()))
            .next("name the certificate with --http-cert FILE")
    })?;
    let key = read_private(key)?;
    Tls::from_pem(&chain, key.as_bytes(), names).map_err(|error| {
        CliError::usage(error.to_string()).next("see --http-cert, --http-key and --http-name")
    })
}

fn told(error: &GatewayError) -> CliError {
    let (code, next) = match error {
        GatewayError::NotLoopback { .. } => (
            Exit::Usage,
            "name 127.0.0.1 or [::1], or give --http-cert, --http-key and --http-name",
        ),
        _ => (Exit::Failed, "name another with --http-listen, such as 127.0.0.1:0 for a free port"),
    };
    CliError::new(code, error.to_string()).next(next)
}

/// Has a connection for each place of the door: as far as the hard limit goes, fewer are.
fn raise_files() {
    let mut limit = getrlimit(Resource::Nofile);
    let places = Gateway::CONNECTIONS_MAX + Gateway::LISTENERS_MAX + FILES_BESIDE;
    let wanted = u64::try_from(places).unwrap_or(u64::MAX).min(limit.maximum.unwrap_or(u64::MAX));
    if limit.current.is_some_and(|current| current < wanted) {
        limit.current = Some(wanted);
        // Without it connections wait sooner.
        let _fewer = setrlimit(Resource::Nofile, limit);
    }
}

fn shown(home: &Home) -> String {
    home.path().join(SECRET).display().to_string()
}

/// The file of the secret.
const SECRET: &str = "http.secret";

/// The folder of journals.
const LOGS: &str = "logs";

/// Files that are no connections of the door.
const FILES_BESIDE: usize = 1_024;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn home() -> (tempfile::TempDir, Home) {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::locate(Some(&dir.path().join("data"))).unwrap();
        (dir, home)
    }

    #[test]
    fn the_secret_is_made_once_and_is_its_owners_alone() {
        let (_dir, home) = home();
        let made = secret(&home).unwrap();
        assert_eq!(secret(&home).unwrap().to_text(), made.to_text());
        let mode = fs::metadata(home.path().join(SECRET)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_secret_that_others_can_read_or_that_is_none_is_refused() {
        let (_dir, home) = home();
        home.create().unwrap();
        home.write_new(SECRET, "canary").unwrap();
        let error = secret(&home).unwrap_err().as_warning();
        assert!(error.contains("expected the secret of a door"), "{error}");
        assert!(!error.contains("canary"), "{error}");
        let open = fs::Permissions::from_mode(0o644);
        fs::set_permissions(home.path().join(SECRET), open).unwrap();
        let error = secret(&home).unwrap_err().as_warning();
        assert!(error.contains("other users can reach it"), "{error}");
    }
}
