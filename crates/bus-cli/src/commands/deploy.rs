//! `vakbus deploy`: the machines of a fleet, each with all that its servers and services need.

mod check;
mod config;
mod credentials;
mod folder;
mod plan;
mod reader;
mod revoke;
mod units;

use std::path::Path;

use bus_crypto::{SystemEntropy, Zeroizing};
use bus_nats::server::RoutePassword;
use bus_subjects::WorkspaceId;
use serde_json::json;

use self::{
    config::{Maker, SYSTEM_FILE, link_file, text},
    credentials::{Wanted, user_of},
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
    workspace::Workspace,
};

/// Runs the command.
pub(crate) fn run(command: DeployCommand, global: &Global) -> Result<Exit, CliError> {
    match command {
        DeployCommand::Render(args) => render(&args, global),
        DeployCommand::Revoke(args) => revoke::run(&args, global),
    }
}

fn render(args: &RenderArgs, global: &Global) -> Result<Exit, CliError> {
    let ground = Ground::find(&args.file, global)?;
    let maker = ground.maker();
    if args.check {
        check::all(&maker)?;
    }
    write(&maker, &out(&args.out)?, None, global)?;
    Ok(Exit::Done)
}

/// What a deployment is made from.
struct Ground {
    home: Home,
    plan: Plan,
    workspaces: Vec<Workspace>,
    operator: Operator,
    password: RoutePassword,
}

impl Ground {
    /// Reads the file, and what the data home has of what it names.
    ///
    /// # Errors
    /// When the file is wrong, or names a workspace that is not there.
    fn find(file: &Path, global: &Global) -> Result<Self, CliError> {
        let plan = Plan::read(&Source::read(file)?)?;
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
        Ok(Self { home, plan, workspaces, operator, password })
    }

    fn maker(&self) -> Maker<'_> {
        let Self { plan, operator, workspaces, password, .. } = self;
        Maker { plan, operator, workspaces, password: password.clone() }
    }
}

/// The directory of the folders.
fn out(dir: &Path) -> Result<Home, CliError> {
    let out = std::path::absolute(dir)
        .map_err(|error| CliError::usage(format!("cannot find {}: {error}", dir.display())))?;
    Home::locate(Some(&out))
}

/// Brings all folders up to date and tells of each. That of the machine `lost` gets no credentials.
///
/// # Errors
/// When a file is in the way: then nothing is written.
fn write(
    maker: &Maker<'_>,
    out: &Home,
    lost: Option<&str>,
    global: &Global,
) -> Result<(), CliError> {
    let mut folders = Vec::new();
    for server in &maker.plan.servers {
        folders.push(server_folder(maker, server, out)?);
    }
    for machine in &maker.plan.machines {
        let mut folder = machine_folder(maker, machine, out)?;
        if lost != Some(machine.name.as_str()) {
            machine_credentials(maker, machine, &mut folder)?;
        }
        folders.push(folder);
    }
    // All of them are looked at before one is touched.
    let changes = folders.into_iter().map(Folder::compare).collect::<Result<Vec<_>, _>>()?;
    for change in changes {
        tell(&change.write()?, global)?;
    }
    Ok(())
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

/// What a machine with a server of its own needs, but for its credentials.
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
    Ok(folder)
}

/// As whom a machine, its server and its services log in.
fn machine_credentials(
    maker: &Maker<'_>,
    machine: &Machine,
    folder: &mut Folder,
) -> Result<(), CliError> {
    let mut put = |file: String, wanted: &Wanted<'_>| {
        credentials(maker, folder, (&machine.name, file), wanted)
    };
    for workspace in maker.served(machine) {
        let (key, name) = (workspace.account_key(), workspace.name());
        put(link_file(name.as_str()), &Wanted::link(key, &machine.name, name)?)?;
        let courier = Wanted::courier(key, &machine.name, name)?;
        put(format!("courier-{name}.creds"), &courier)?;
        let (store, file) = (workspace.store()?, format!("keeper-{name}.creds"));
        put(file, &Wanted::keeper(&store, &machine.name))?;
    }
    let system = maker.operator.system_key();
    put(SYSTEM_FILE.to_owned(), &Wanted::system(system, &machine.name))
}

/// Has a folder hold credentials: those that are there unless they were taken back. The operator
/// knows of them first.
fn credentials(
    maker: &Maker<'_>,
    folder: &mut Folder,
    (machine, file): (&str, String),
    wanted: &Wanted<'_>,
) -> Result<(), CliError> {
    let Maker { plan, operator, .. } = maker;
    let is_good = |text: &Zeroizing<String>| {
        user_of(text).is_some_and(|user| !operator.is_taken_back(&user.key))
    };
    let there = folder.there(&file)?.filter(is_good);
    let text = wanted.kept_or_new(there.as_ref().map(|text| text.as_str()))?;
    if let Some(user) = user_of(&text) {
        operator.note_user((&plan.cluster, machine), &user)?;
    }
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
