//! `vakbus auth status`: what the servers hold of each account, and what they lack.

use bus_core::{Certificate, Clock, SystemClock};
use bus_nats::claims::{Holdings, ServerClaims, ServerFacts, Servers};
use serde_json::json;

use crate::{
    args::Global,
    engine,
    error::{CliError, Exit},
    home::Home,
    operator::{AccountToken, Operator, all_workspaces},
    print,
    workspace::Workspace,
};

/// Shows it; unreachable when a server is away or does not hold what this data home has, or nobody
/// leads.
pub(super) fn show(home: &Home, global: &Global) -> Result<Exit, CliError> {
    let operator = Operator::needed(home)?;
    let workspaces = all_workspaces(home)?;
    let accounts = operator.accounts(&workspaces)?;
    let place = super::place(home, global)?;
    let (servers, stands) = engine::block_on(async {
        let claims = place.claims(&operator).await?;
        let looked = look(&claims, &operator, accounts).await;
        let closed = claims.close().await;
        let looked = looked?;
        closed?;
        Ok(looked)
    })?;
    servers.answered.iter().try_for_each(|facts| show_server(facts, global))?;
    servers.away.iter().try_for_each(|name| show_away(name, global))?;
    let leaderless = |cluster| print::remark(&format!("cluster {cluster}: nobody leads it yet"));
    servers.leaderless.iter().for_each(leaderless);
    stands.iter().try_for_each(|stand| stand.show(servers.answered.len(), global))?;
    workspaces.iter().try_for_each(warn_of_ends)?;
    let count = servers.answered.len();
    let is_whole = servers.away.is_empty() && servers.leaderless.is_empty();
    let is_well = is_whole && stands.iter().all(|stand| stand.same == count);
    Ok(if is_well { Exit::Done } else { Exit::Unreachable })
}

/// Tells whose certificates end soon: nobody gets in with one that has ended.
fn warn_of_ends(workspace: &Workspace) -> Result<(), CliError> {
    let now = SystemClock::new().now().unix_ns();
    for Certificate { agent, expires, .. } in workspace.agents()? {
        let Some(end) = expires else { continue };
        if end.unix_ns() - now < SOON_NS {
            let name = workspace.name();
            print::remark(&format!("{name}: the certificate of {agent} ends at {end}"));
        }
    }
    Ok(())
}

/// Two weeks.
const SOON_NS: i128 = 14 * 24 * 3_600 * 1_000_000_000;

/// How many servers hold the token that this data home has.
struct Stand {
    name: String,
    account: String,
    /// As here.
    same: usize,
    /// Another one of this operator.
    other: usize,
    /// None of this operator.
    without: usize,
}

async fn look(
    claims: &ServerClaims,
    operator: &Operator,
    accounts: Vec<AccountToken>,
) -> Result<(Servers, Vec<Stand>), CliError> {
    let servers = claims.servers().await?;
    let mut stands = Vec::new();
    for AccountToken { name, account, token } in accounts {
        let Holdings { held, without } = claims.lookup(&account, operator.claims()).await?;
        let same = held.iter().filter(|held| held.token == token).count();
        let (account, other) = (account.text(), held.len() - same);
        stands.push(Stand { name, account, same, other, without });
    }
    Ok((servers, stands))
}

fn show_server(facts: &ServerFacts, global: &Global) -> Result<(), CliError> {
    let lacks = facts.shortcomings();
    if global.json {
        return print::json(&json!({
            "server": facts.name,
            "version": facts.version,
            "cluster": facts.cluster,
            "domain": facts.domain,
            "lacks": lacks,
        }));
    }
    let cluster =
        facts.cluster.as_deref().map_or_else(String::new, |name| format!(", cluster {name}"));
    let domain =
        facts.domain.as_deref().map_or_else(String::new, |name| format!(", domain {name}"));
    let ServerFacts { name, version, .. } = facts;
    print::line(&print::harmless(&format!("server {name}  {version}{cluster}{domain}")))?;
    lacks.iter().for_each(|what| print::remark(&format!("{name}: {what}")));
    Ok(())
}

fn show_away(name: &str, global: &Global) -> Result<(), CliError> {
    if global.json {
        return print::json(&json!({ "server": name, "away": true }));
    }
    print::line(&print::harmless(&format!("server {name}  away")))
}

impl Stand {
    fn show(&self, servers: usize, global: &Global) -> Result<(), CliError> {
        let Self { name, account, same, other, without } = self;
        if global.json {
            return print::json(&json!({
                "account": name,
                "key": account,
                "as_here": same,
                "other": other,
                "without": without,
            }));
        }
        print::line(&format!("account {name}  {account}  as here on {same} of {servers}"))?;
        if same != &servers {
            print::remark(&format!("{name}: give it to the servers: vakbus auth push"));
        }
        Ok(())
    }
}
