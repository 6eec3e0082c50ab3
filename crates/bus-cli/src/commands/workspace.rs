//! `vakbus workspace`: make, show and list workspaces.

use serde_json::json;

use super::auth;
use crate::{
    args::{Global, WorkspaceCommand},
    engine::{self, NatsPlace},
    error::{CliError, Exit},
    home::Home,
    operator::Operator,
    print,
    secrets::Secrets,
    workspace::Workspace,
};

/// Runs the command.
pub(crate) fn run(command: &WorkspaceCommand, global: &Global) -> Result<Exit, CliError> {
    let home = Home::locate(global.data_dir.as_deref())?;
    match command {
        WorkspaceCommand::New { name } => {
            let workspace = Workspace::new(&home, name)?;
            show(&workspace, global)?;
            return introduce(&home, &workspace, global);
        }
        WorkspaceCommand::Show => show(&Workspace::open(&home, &global.workspace)?, global)?,
        WorkspaceCommand::Ls => {
            for name in Workspace::list(&home)? {
                match global.json {
                    true => print::json(&json!({ "workspace": name.as_str() }))?,
                    false => print::line(name.as_str())?,
                }
            }
        }
    }
    Ok(Exit::Done)
}

/// Has the servers know a new workspace, where this data home's operator is theirs and they are
/// reached.
fn introduce(home: &Home, workspace: &Workspace, global: &Global) -> Result<Exit, CliError> {
    if Operator::open(home)?.is_none() {
        return Ok(Exit::Done);
    }
    let secrets = Secrets::new(&global.config, home);
    let told = NatsPlace::find(global, home, &secrets).and_then(|place| {
        let Some(place) = place else { return Ok(Vec::new()) };
        let Some(operator) = place.operator()? else { return Ok(Vec::new()) };
        engine::block_on(async { place.introduce(&operator, workspace).await })
    });
    let told = told.map_err(|error| {
        let what = "the workspace is made, and the servers are not told yet";
        CliError::new(error.code(), format!("{what}: {}", error.what()))
            .next("tell them when they are reached: vakbus auth push")
    })?;
    told.iter().try_for_each(|one| auth::tell(one, global))?;
    Ok(auth::exit_of(&told))
}

fn show(workspace: &Workspace, global: &Global) -> Result<(), CliError> {
    let (name, account) = (workspace.name(), workspace.account().text());
    let agents = workspace.agents()?.len();
    let path = workspace.path().display().to_string();
    if global.json {
        return print::json(&json!({
            "workspace": name.as_str(),
            "account": account,
            "agents": agents,
            "path": path,
        }));
    }
    print::line(&format!("workspace  {name}"))?;
    print::line(&format!("account    {account}  (public; give it to whoever verifies)"))?;
    print::line(&format!("agents     {agents}"))?;
    print::line(&format!("kept in    {path}  (private keys: keep a copy, show nobody)"))
}
