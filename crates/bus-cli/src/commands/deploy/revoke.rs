//! `vakbus deploy revoke`: shuts out a machine that was lost, or an agent, at all servers of a
//! fleet, and has its folders say so.

use std::collections::BTreeSet;

use bus_crypto::PublicKey;
use bus_subjects::AgentId;
use serde_json::json;

use super::{Ground, credentials::user_of, out, write};
use crate::{
    args::{Global, RevokeArgs},
    commands::{agent, auth, confirm::confirm},
    engine::{self, NatsPlace},
    error::{CliError, Exit},
    home::Home,
    operator::{MachineUser, PushedAccount},
    print,
    workspace::Workspace,
};

/// Runs the command. What is taken back is written down first; then servers are told, and the
/// folders are brought up to date whatever became of that.
pub(super) fn run(args: &RevokeArgs, global: &Global) -> Result<Exit, CliError> {
    let ground = Ground::find(&args.file, global)?;
    let out = out(&args.out)?;
    let lost = args.machine.as_deref();
    let pushed = match (lost, &args.agent) {
        (Some(machine), _) => take_back(&ground, machine, (args, &out), global)?,
        (None, Some(agent)) => revoke(&ground, agent, args, global)?,
        (None, None) => return Err(CliError::usage("name a machine or an agent")),
    };
    if let Ok(pushed) = &pushed {
        pushed.iter().try_for_each(|pushed| auth::tell(pushed, global))?;
    }
    write(&ground.maker(), &out, lost, global)?;
    let pushed = pushed.map_err(|error| agent::not_told(&error))?;
    let untold = untold(&ground, lost, &pushed);
    tell_untold(&pushed, &untold, global)?;
    match untold.is_empty() {
        true => Ok(auth::exit_of(&pushed)),
        false => Ok(Exit::Unreachable),
    }
}

/// What became of telling the servers: of what was written down before.
type Told = Result<Vec<PushedAccount>, CliError>;

/// Takes back all that a machine was given, and tells the servers.
fn take_back(
    ground: &Ground,
    machine: &str,
    (args, out): (&RevokeArgs, &Home),
    global: &Global,
) -> Result<Told, CliError> {
    let users = users(ground, machine, out)?;
    if users.is_empty() {
        let cluster = &ground.plan.cluster;
        let what = format!("no machine {machine} of {cluster} was given credentials");
        let names: Vec<_> = ground.plan.machines.iter().map(|one| one.name.as_str()).collect();
        let next = format!("the machines of {}: {}", args.file.display(), names.join(", "));
        return Err(CliError::usage(what).next(next));
    }
    let count = print::counted(users.len() as u64, "credential", "credentials");
    confirm(args.yes, &format!("Take back {count} of machine {machine} for ever?"))?;
    users.iter().try_for_each(|user| ground.operator.take_back(user))?;
    if global.json {
        let keys: Vec<_> = users.iter().map(|user| user.key.text()).collect();
        print::json(&json!({ "machine": machine, "revoked": keys }))?;
    } else {
        print::line(&format!("{machine}  {count} taken back"))?;
    }
    let accounts: Vec<PublicKey> = users.iter().map(|user| user.account).collect();
    let Ground { home, plan, operator, workspaces, .. } = ground;
    let place = NatsPlace::deployed(global, home, &plan.client_urls())?;
    let mut told =
        engine::block_on(async { Ok(place.take_back(operator, workspaces, &accounts).await) })?;
    // It is not to be told: that it hears no more is the point.
    for pushed in told.iter_mut().flatten() {
        pushed.pushed.silent.retain(|server| server != machine);
        pushed.pushed.refused.retain(|(server, _)| server != machine);
    }
    Ok(told)
}

/// The users of a machine: those that were written down, and those of its folder, which may be
/// older than that.
fn users(ground: &Ground, machine: &str, out: &Home) -> Result<Vec<MachineUser>, CliError> {
    let mut users = ground.operator.users_of(&ground.plan.cluster, machine)?;
    // Nothing but a folder of the deployment is looked into.
    if !ground.plan.machines.iter().any(|one| one.name == machine) {
        return Ok(users);
    }
    let folder = out.below(machine);
    for name in folder.list(".creds")? {
        let text = folder.read_long(&format!("{name}.creds"))?;
        if let Some(user) = user_of(&text).filter(|user| !users.contains(user)) {
            ground.operator.note_user((&ground.plan.cluster, machine), &user)?;
            users.push(user);
        }
    }
    Ok(users)
}

/// Takes back the key of an agent, and tells the servers and everybody who hears of it on the bus.
fn revoke(
    ground: &Ground,
    agent: &AgentId,
    args: &RevokeArgs,
    global: &Global,
) -> Result<Told, CliError> {
    let workspace = workspace(ground, args, global)?;
    confirm(args.yes, &format!("Revoke the key of agent {agent} for ever?"))?;
    agent::show_revoked(&workspace.revoke(agent)?, global)?;
    let Ground { home, plan, operator, .. } = ground;
    let place = NatsPlace::deployed(global, home, &plan.client_urls())?;
    let (pushed, told) = engine::block_on(async {
        let pushed = place.revoke(operator, workspace).await;
        Ok((pushed, place.tell(workspace).await))
    })?;
    match (pushed, told) {
        // The one is told although the other went wrong.
        (Ok(pushed), Err(error)) => {
            pushed.iter().try_for_each(|pushed| auth::tell(pushed, global))?;
            Ok(Err(error))
        }
        (pushed, _) => Ok(pushed),
    }
}

fn workspace<'a>(
    ground: &'a Ground,
    args: &RevokeArgs,
    global: &Global,
) -> Result<&'a Workspace, CliError> {
    let wanted = &global.workspace;
    let is_of_it = ground.plan.workspaces.contains(wanted);
    let found = ground.workspaces.iter().find(|workspace| workspace.name() == wanted);
    found.filter(|_| is_of_it).ok_or_else(|| {
        let what = format!("{wanted} is none of the workspaces of {}", args.file.display());
        let names: Vec<_> = ground.plan.workspaces.iter().map(|name| name.as_str()).collect();
        CliError::usage(what).next(format!("name one with --workspace: {}", names.join(", ")))
    })
}

/// The servers of the deployment that did not take every token. Those that nobody on the other side
/// knows of are among them: who else would miss a machine that is away.
fn untold<'a>(
    ground: &'a Ground,
    lost: Option<&str>,
    pushed: &[PushedAccount],
) -> BTreeSet<&'a str> {
    let plan = &ground.plan;
    let servers = plan.servers.iter().map(|server| server.name.as_str());
    let machines = plan.machines.iter().map(|machine| machine.name.as_str());
    let has_all = |server: &str| {
        pushed.iter().all(|one| one.pushed.taken.iter().any(|taken| taken == server))
    };
    let wanted = servers.chain(machines).filter(|server| Some(*server) != lost);
    wanted.filter(|server| !has_all(server)).collect()
}

fn tell_untold(
    pushed: &[PushedAccount],
    untold: &BTreeSet<&str>,
    global: &Global,
) -> Result<(), CliError> {
    if global.json {
        return print::json(&json!({ "untold": untold }));
    }
    let is_told_of = |server: &str| {
        let known = |one: &PushedAccount| {
            let refused = one.pushed.refused.iter().map(|(name, _)| name);
            one.pushed.silent.iter().chain(refused).any(|name| name == server)
        };
        pushed.iter().any(known)
    };
    for server in untold.iter().filter(|server| !is_told_of(server)) {
        print::remark(&format!("{server} has not heard of it; it will within 10 s of its return"));
    }
    Ok(())
}
