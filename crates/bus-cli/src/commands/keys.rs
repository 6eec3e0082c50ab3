//! `vakbus keys`: the named secrets of a workspace.

use serde_json::json;

use super::confirm::confirm;
use crate::{
    args::{Global, KeysCommand},
    error::{CliError, Exit},
    home::Home,
    print,
    secrets::Secrets,
    workspace::{KeyStanding, NamedSecret, Workspace},
};

/// Runs the command.
pub(crate) fn run(command: &KeysCommand, global: &Global) -> Result<Exit, CliError> {
    let home = Home::locate(global.data_dir.as_deref())?;
    let workspace = Workspace::open(&home, &global.workspace)?;
    let secrets = Secrets::new(&global.config, &home);
    match command {
        KeysCommand::Ls => list(&workspace, &secrets, global)?,
        KeysCommand::Rotate => {
            check_own(&secrets)?;
            let name = workspace.rotate()?;
            for secret in workspace.secrets()?.iter().filter(|secret| secret.name == name) {
                show(secret, global)?;
            }
        }
        KeysCommand::Withdraw { name, yes } => {
            check_own(&secrets)?;
            let named = workspace.secrets()?;
            if named.iter().any(|s| s.name.to_string() == *name && s.standing == KeyStanding::Opens)
            {
                let place = global.workspace.as_str();
                confirm(*yes, &format!("Withdraw secret {name} of workspace {place} for ever?"))?;
            }
            workspace.withdraw(name)?;
            for secret in workspace.secrets()?.iter().filter(|s| s.name.to_string() == *name) {
                show(secret, global)?;
            }
        }
    }
    Ok(Exit::Done)
}

fn list(workspace: &Workspace, secrets: &Secrets, global: &Global) -> Result<(), CliError> {
    if secrets.workspace_secret()?.is_some() && !global.quiet {
        print::talk("the workspace's secret comes from outside; these are not used meanwhile");
    }
    workspace.secrets()?.iter().try_for_each(|secret| show(secret, global))
}

fn show(secret: &NamedSecret, global: &Global) -> Result<(), CliError> {
    let since = secret.since.map(|time| humantime::format_rfc3339_seconds(time).to_string());
    let (name, standing) = (secret.name.to_string(), secret.standing.word());
    if global.json {
        return print::json(&json!({ "name": name, "standing": standing, "since": since }));
    }
    print::line(&format!("{name}  {standing}  since {}", since.as_deref().unwrap_or("?")))
}

/// Refuses to change secrets that are not the ones in use.
fn check_own(secrets: &Secrets) -> Result<(), CliError> {
    if secrets.workspace_secret()?.is_none() {
        return Ok(());
    }
    let [.., name] = secrets.names();
    let what = format!("the workspace's secret is the one in {name}, not those kept here");
    Err(CliError::usage(what).next(format!("change it where {name} is set, or unset it")))
}
