//! `--check`: a nats-server reads each configuration, in a place where nothing is kept.

use std::{path::Path, process::Command};

use bus_nats::server::{ServerBinary, find_server};

use super::config::{Maker, text};
use crate::{
    commands::{backup::Scratch, up::nats::failed},
    error::{CliError, Exit},
    print::harmless,
};

/// Has a server read all configurations.
///
/// # Errors
/// The first that it does not take, with what it says.
pub(super) fn all(maker: &Maker<'_>) -> Result<(), CliError> {
    let binary = find_server(None).map_err(|error| failed(&error))?;
    let scratch = Scratch::new()?;
    for server in &maker.plan.servers {
        let store = scratch.path().join(&server.name);
        one(&binary, &server.name, &store, &text(&maker.server(server)?, &store)?)?;
    }
    for machine in &maker.plan.machines {
        let store = scratch.path().join(&machine.name);
        // The credentials are read when the link is made.
        let config = maker.machine(machine, &maker.plan.config_dir.of(&machine.name))?;
        one(&binary, &machine.name, &store, &text(&config, &store)?)?;
    }
    Ok(())
}

fn one(binary: &ServerBinary, name: &str, store: &Path, text: &str) -> Result<(), CliError> {
    let file = store.join("server.conf");
    let written = std::fs::create_dir(store).and_then(|()| std::fs::write(&file, text));
    let checked =
        written.and_then(|()| Command::new(binary.path()).arg("-t").arg("-c").arg(&file).output());
    let checked = checked.map_err(|error| {
        CliError::new(Exit::Failed, format!("cannot have a server read {name}: {error}"))
    })?;
    if checked.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&checked.stderr);
    let said = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("nothing");
    let said = said.replace(&file.display().to_string(), "server.conf");
    let what =
        format!("nats-server does not take the configuration of {name}: {}", harmless(&said));
    Err(CliError::new(Exit::Failed, what).next("certificates that it names must be there"))
}
