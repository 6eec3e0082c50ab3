//! `vakbus deploy`: the machines of a fleet, each with all that its servers and services need.

mod check;
mod config;
mod credentials;
mod folder;
mod plan;
mod reader;
mod units;

use std::path::Path;

use bus_crypto::{SystemEntropy, Zeroizing};
use bus_nats::server::RoutePassword;
use bus_subjects::WorkspaceId;
use serde_json::json;

use self::{
    config::{Maker, SYSTEM_FILE, link_file, text},
    credentials::Wanted,
    folder::{Done, Folder},
    plan::{Machine, Plan, Server},
    reader::Source,
};
use crate::{
    args::{DeployCommand, Global, RenderArgs},
    error::{CliError, Exit},
    home::Home,
    operator::{Operator, all_workspaces},
    print,
};

/// Runs the command.
pub(crate) fn run(command: DeployCommand, global: &Global) -> Result<Exit, CliError> {
    match command {
        DeployCommand::Render(args) => render(&args, global),
    }
}

fn render(args: &RenderArgs, global: &Global) -> Result<Exit, CliError> {
    let plan = Plan::read(&Source::read(&args.file)?)?;
    let home = Home::locate(global.data_dir.as_deref())?;
    let workspaces = all_workspaces(&home)?;
    let is_there =
        |name: &&WorkspaceId| workspaces.iter().any(|workspace| workspace.name() == *name);
    if let Some(missing) = plan.workspaces.iter().find(|name| !is_there(name)) {
        let what = format!("{} has no workspace {missing}", home.path().display());
        let next = format!("make it: vakbus workspace new {missing}");
        return Err(CliError::new(Exit::Failed, what).next(next));
    }
    let operator = Operator::open_or_new(&home)?;
    let password = password(&home, &plan.cluster)?;
    let maker = Maker { plan: &plan, operator: &operator, workspaces: &workspaces, password };
    if args.check {
        check::all(&maker)?;
    }
    let out = std::path::absolute(&args.out)
        .map_err(|error| CliError::usage(format!("cannot find {}: {error}", args.out.display())))?;
    let out = Home::locate(Some(&out))?;
    let mut folders = Vec::new();
    for server in &plan.servers {
        folders.push(server_folder(&maker, server, &out)?);
    }
    for machine in &plan.machines {
        folders.push(machine_folder(&maker, machine, &out)?);
    }
    // All of them are looked at before one is touched.
    let changes = folders.into_iter().map(Folder::compare).collect::<Result<Vec<_>, _>>()?;
    for change in changes {
        tell(&change.write()?, global)?;
    }
    Ok(Exit::Done)
}

/// What a server of the cluster needs.
fn server_folder(maker: &Maker<'_>, server: &Server, out: &Home) -> Result<Folder, CliError> {
    let (plan, name) = (maker.plan, server.name.as_str());
    let mut folder = Folder::new(out, name);
    let there = shown(&plan.config_dir.of(name));
    folder.put("server.conf", text(&maker.server(server)?, &server.store)?);
    folder.put("vakbus-nats.service", units::nats(plan, &there, &shown(&server.store)));
    let ca = plan.tls.as_ref().map(|tls| shown(&tls.ca.of(name)));
    let mut has_services = false;
    if plan.keeper.as_deref() == Some(name) {
        has_services = true;
        folder.put("vakbus-keeper.service", units::keeper(plan, &there));
    }
    if let Some(callout) = plan.callout.as_ref().filter(|callout| callout.on == name) {
        has_services = true;
        folder.put("vakbus-callout@.service", units::callout(plan, &there, callout));
    }
    if let Some(backup) = plan.backup.as_ref().filter(|backup| backup.on == name) {
        has_services = true;
        folder.put("backup.sh", units::backup_script(plan, &there, backup));
        for (unit, text) in units::backup(&there, backup) {
            folder.put(unit, text);
        }
    }
    if has_services {
        let settings = units::settings(&plan.client_urls(), plan.profile(), ca.as_deref());
        folder.put("vakbus.toml", settings);
    }
    Ok(folder)
}

/// What a machine with a server of its own needs.
fn machine_folder(maker: &Maker<'_>, machine: &Machine, out: &Home) -> Result<Folder, CliError> {
    let (plan, name) = (maker.plan, machine.name.as_str());
    let mut folder = Folder::new(out, name);
    let dir = plan.config_dir.of(name);
    let there = shown(&dir);
    folder.put("server.conf", text(&maker.machine(machine, &dir)?, &machine.store)?);
    folder.put("vakbus-nats.service", units::nats(plan, &there, &shown(&machine.store)));
    folder.put("vakbus-courier@.service", units::courier(plan, &there));
    let ca = plan.tls.as_ref().map(|tls| shown(&tls.ca.of(name)));
    let own = format!("nats://127.0.0.1:{}", machine.client);
    folder.put("vakbus.toml", units::settings(&own, "synced", ca.as_deref()));
    for workspace in maker.served(machine) {
        let (key, name) = (workspace.account_key(), workspace.name());
        let link = Wanted::link(key, &machine.name, name)?;
        let courier = Wanted::courier(key, &machine.name, name)?;
        credentials(&mut folder, link_file(name.as_str()), &link)?;
        credentials(&mut folder, format!("courier-{name}.creds"), &courier)?;
        let (store, file) = (workspace.store()?, format!("keeper-{name}.creds"));
        credentials(&mut folder, file, &Wanted::keeper(&store, &machine.name))?;
    }
    let system = maker.operator.system_key();
    credentials(&mut folder, SYSTEM_FILE.to_owned(), &Wanted::system(system, name))?;
    Ok(folder)
}

fn credentials(folder: &mut Folder, file: String, wanted: &Wanted<'_>) -> Result<(), CliError> {
    let there = folder.there(&file)?;
    let text = wanted.kept_or_new(there.as_ref().map(|text| text.as_str()))?;
    folder.put(file, text);
    Ok(())
}

/// What the servers of a cluster show each other; made when it is first needed.
fn password(home: &Home, cluster: &str) -> Result<RoutePassword, CliError> {
    let (dir, file) = (home.below(DIR), format!("{cluster}.route"));
    let wrong = |error: bus_nats::server::ServerError| {
        CliError::new(Exit::Failed, format!("{}: {error}", dir.path().join(&file).display()))
    };
    if !dir.below(&file).exists() {
        dir.create()?;
        let made = RoutePassword::generate(&SystemEntropy::new()).map_err(wrong)?;
        match dir.write_new(&file, made.expose()) {
            // Another process made it at the same moment: that one counts.
            Err(_) if dir.below(&file).exists() => {}
            written => written?,
        }
    }
    let text = dir.read(&file)?;
    RoutePassword::parse(Zeroizing::new(text.trim_end().to_owned())).map_err(wrong)
}

fn tell(done: &Done, global: &Global) -> Result<(), CliError> {
    let Done { name, path, files, written, removed } = done;
    if global.json {
        return print::json(&json!({
            "machine": name,
            "folder": path.display().to_string(),
            "files": files,
            "written": written,
            "removed": removed,
        }));
    }
    let files = print::counted(*files as u64, "file", "files");
    let changed = match (written.len(), removed.len()) {
        (0, 0) => "nothing changed".to_owned(),
        (written, 0) => format!("{written} written"),
        (written, removed) => format!("{written} written, {removed} removed"),
    };
    print::line(&print::harmless(&format!("{}  {files}, {changed}", path.display())))
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// The directory of a data home with what deployments share.
const DIR: &str = "deploy";
