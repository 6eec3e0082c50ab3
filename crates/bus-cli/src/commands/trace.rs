//! `vakbus trace`: one chain of causes, as far as it is kept, as a tree.

mod recorded;
mod scan;
mod tree;

use bus_envelope::EventHash;
use serde_json::{Value, json};

use self::{
    scan::{Found, Node, Wanted},
    tree::{Link, Row},
};
use crate::{
    args::{Global, TraceArgs},
    engine::{self, Scope},
    error::{CliError, Exit},
    print as out,
    workspace::Part,
};

/// Runs the command.
pub(crate) fn run(args: &TraceArgs, global: &Global) -> Result<Exit, CliError> {
    let wanted = Wanted::parse(&args.id);
    engine::run(global, async |session| {
        let agent = session.agent(Part::Operator, Scope::default()).await?;
        let found = scan::scan(&agent.endpoint, &wanted).await?;
        if found.nodes.is_empty() {
            return Err(nothing(args, &found));
        }
        let nodes: Vec<&Node> = found.nodes.values().collect();
        let links: Vec<Link> = nodes
            .iter()
            .map(|node| Link { leaf: node.leaf, cause: node.cause, time: node.time })
            .collect();
        let rows = tree::rows(&links);
        match global.json {
            true => tell_json(&rows, &nodes, &found)?,
            false => tell(&rows, &nodes, &found, &wanted)?,
        }
        Ok(Exit::Done)
    })
}

fn nothing(args: &TraceArgs, found: &Found) -> CliError {
    let what = format!("nothing of {} is kept", args.id);
    let failure = CliError::new(Exit::Failed, what);
    match unseen(found).as_slice() {
        [live, ..] => failure.next(format!(
            "vakbus tail shows what is kept; an id is a trace's, a message's hash, or a task's. \
             Not seen: {live}"
        )),
        [] => failure,
    }
}

/// What this command cannot look at, in words.
fn unseen(found: &Found) -> Vec<String> {
    let mut unseen = vec![
        "live events that nobody recorded".to_owned(),
        "the mailboxes of other agents".to_owned(),
    ];
    unseen.extend(found.denied.iter().map(|kind| format!("{kind}s, which you may not read")));
    if found.is_cut {
        let what = "what only further looks would find: the chain is longer than";
        unseen.push(format!("{what} {} looks reach", scan::PASSES_MAX));
    }
    if found.unheard > 0 {
        let events = out::counted(found.unheard, "event", "events");
        unseen.push(format!("{events} that recorders did not hear"));
    }
    if found.refused > 0 {
        let events = out::counted(found.refused, "recorded event", "recorded events");
        unseen.push(format!("{events} damaged, forged, or sealed for others"));
    }
    let unreadable = unreadable(found);
    if unreadable > 0 {
        let records = out::counted(unreadable, "message", "messages");
        unseen.push(format!("what {records} say that cannot be opened here"));
    }
    unseen
}

fn unreadable(found: &Found) -> u64 {
    found.nodes.values().filter(|node| node.unreadable.is_some()).count() as u64
}

fn missing(rows: &[Row]) -> usize {
    rows.iter().filter(|row| row.link.is_none()).count()
}

fn tell_json(rows: &[Row], nodes: &[&Node], found: &Found) -> Result<(), CliError> {
    for row in rows {
        let placed = json!({ "leaf": row.leaf.to_string(), "depth": row.depth });
        let node = row.link.and_then(|number| nodes.get(number));
        let said = node.map_or_else(|| json!({ "seen": false }), |node| node_json(node));
        out::json(&out::with(placed, said))?;
    }
    out::json(&json!({
        "events": nodes.len(),
        "missing": missing(rows),
        "unreadable": unreadable(found),
        "not_seen": unseen(found),
    }))
}

fn node_json(node: &Node) -> Value {
    json!({
        "cause": node.cause.map(|cause| cause.to_string()),
        "kind": node.kind,
        "id": node.id,
        "subject": node.subject.as_str(),
        "agent": node.agent,
        "time": node.time.to_string(),
        "traceparent": node.traceparent,
        "position": node.position.map(|position| position.0),
        "unreadable": node.unreadable,
        "recorded": node.run.map(|run| json!({
            "events": run.events,
            "bytes": run.bytes,
            "until": run.until.to_string(),
        })),
        "seen": true,
    })
}

fn tell(rows: &[Row], nodes: &[&Node], found: &Found, wanted: &Wanted) -> Result<(), CliError> {
    let name = match wanted {
        Wanted::Trace(trace) => format!("trace {trace}"),
        Wanted::Leaf(leaf) => format!("message {leaf}"),
        Wanted::Task(id) => format!("task {}", out::harmless(id)),
    };
    let count = out::counted(nodes.len() as u64, "message", "messages");
    out::line(&format!("{name}   {count}, {} not kept", missing(rows)))?;
    for row in rows {
        let words = match row.link.and_then(|number| nodes.get(number)) {
            Some(node) => node_words(node),
            None => format!("[not kept] {}", short(&row.leaf)),
        };
        out::line(&format!("{}{}", branch(rows, row), out::harmless(&words)))?;
    }
    out::line(&format!("not seen: {}", out::harmless(&unseen(found).join("; "))))
}

fn node_words(node: &Node) -> String {
    let position = node.position.map_or_else(String::new, |seq| format!(" {}", seq.0));
    let Node { kind, words, agent, .. } = node;
    let time = node.time.to_string();
    let time = time.get(..19).unwrap_or(&time);
    if let Some(run) = node.run {
        let events = out::counted(run.events, "event", "events");
        let until = run.until.to_string();
        let until = until.get(11..19).unwrap_or(&until);
        return format!("{kind}  {events}, {} bytes  {agent}  {time} to {until}", run.bytes);
    }
    match (&node.unreadable, node.position) {
        (Some(why), _) => format!("{kind}{position}  {agent}  {time}  cannot be opened: {why}"),
        (None, None) => format!("{kind}  {words}  {agent}  {time}  kept in its dead letter"),
        (None, Some(_)) => format!("{kind}{position}  {words}  {agent}  {time}"),
    }
}

/// The lines that lead to a row from those above it; of a very deep one only the nearest.
fn branch(rows: &[Row], row: &Row) -> String {
    let mut parts = vec![if row.is_last { "└─ " } else { "├─ " }];
    let mut above = row.above.and_then(|number| rows.get(number));
    while let Some(row) = above {
        if parts.len() == DEPTH_MAX {
            parts.push("… ");
            break;
        }
        parts.push(if row.is_last { "   " } else { "│  " });
        above = row.above.and_then(|number| rows.get(number));
    }
    parts.into_iter().rev().collect()
}

fn short(leaf: &EventHash) -> String {
    let text = leaf.to_string();
    format!("{}…", text.get(..12).unwrap_or(&text))
}

/// How many branches are drawn beside each other.
const DEPTH_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_that_was_not_looked_through_to_its_end_is_told_as_such() {
        let is_told = |is_cut| {
            let mut found = Found::default();
            found.is_cut = is_cut;
            unseen(&found).iter().any(|what| what.contains("longer than 16 looks"))
        };
        assert!(is_told(true) && !is_told(false));
    }
}
