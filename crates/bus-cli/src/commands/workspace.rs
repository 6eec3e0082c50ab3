//! `vakbus workspace`: make, show and list workspaces.

use serde_json::json;

use crate::{
    args::{Global, WorkspaceCommand},
    error::{CliError, Exit},
    home::Home,
    print,
    workspace::Workspace,
};

/// Runs the command.
pub(crate) fn run(command: &WorkspaceCommand, global: &Global) -> Result<Exit, CliError> {
    let home = Home::locate(global.data_dir.as_deref())?;
    match command {
        WorkspaceCommand::New { name } => show(&Workspace::new(&home, name)?, global)?,
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
