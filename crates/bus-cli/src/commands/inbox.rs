//! `vakbus inbox`: messages to one agent, kept until it takes them.

use std::{collections::HashSet, time::Duration};

use bus_core::{ApprovalVerdict, Mail, Mailbox, Opened};
use bus_envelope::Draft;
use bus_subjects::Address;
use serde_json::json;
use tokio::time::timeout;

use super::{live, outbox, task::text_or_stdin};
use crate::{
    args::{Global, InboxCommand},
    engine::{self, Agent, Scope},
    error::{CliError, Exit},
    print as out,
    swarm::{LEASE_OF_DAEMON, Signals},
    workspace::Part,
};

/// Runs the command.
pub(crate) fn run(command: InboxCommand, global: &Global) -> Result<Exit, CliError> {
    match command {
        InboxCommand::Send { to, text, to_hub } => {
            let payload = text_or_stdin(&text)?;
            engine::run(global, async |session| {
                let agent = match to_hub {
                    true => session.agent_to_hub(Part::Operator).await?,
                    false => session.agent(Part::Operator, Scope::default()).await?,
                };
                let workspace = agent.endpoint.workspace().clone();
                let subject = Address::Inbox { workspace, agent: to.clone() }.subject();
                let draft = Draft::new(subject, "vak.message", payload)
                    .content_type("text/plain; charset=utf-8");
                let sent = agent.endpoint.send_to(&to, draft).await;
                let sent = match to_hub {
                    true => sent.map_err(outbox::missing)?,
                    false => sent?,
                };
                match global.json {
                    true => out::json(&json!({ "message": sent.id, "to": to.as_str() }))?,
                    false => out::line(&sent.id)?,
                }
                Ok(Exit::Done)
            })
        }
        InboxCommand::Read { follow, keep, all } => engine::run(global, async |session| {
            let agent = session.agent(Part::Operator, Scope::default()).await?;
            let taking = match (keep, all) {
                (true, _) => Taking::Nothing,
                (false, true) => Taking::All,
                (false, false) => Taking::AllButVerdicts,
            };
            read(&agent, (follow, taking), global).await
        }),
    }
}

/// What is taken out of a mailbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taking {
    Nothing,
    /// Answers to approvals are there to be used once, by another command.
    AllButVerdicts,
    All,
}

async fn read(
    agent: &Agent,
    (follow, taking): (bool, Taking),
    global: &Global,
) -> Result<Exit, CliError> {
    let mut signals = Signals::new();
    let mut mailbox = agent.endpoint.mailbox(LEASE_OF_DAEMON).await?;
    let mut kept = Vec::new();
    let mut told = HashSet::new();
    loop {
        let next = tokio::select! {
            next = next(&mut mailbox, follow) => next?,
            _asked = signals.next(|| false) => None,
        };
        let Some(mail) = next else { break };
        match &mail.content {
            // A verdict that was left there comes again.
            Ok(opened) if told.contains(&opened.envelope.id) => {}
            Ok(opened) => tell(opened, global)?,
            Err(error) => {
                // It stays: the key may come, or somebody may look at it.
                out::talk(&format!("warning: a message cannot be opened: {error}"));
                kept.push(mail);
                continue;
            }
        }
        // Only when it is printed: what nobody saw comes again.
        let verdict = mail.content.as_ref().ok().filter(|opened| is_verdict(opened));
        match (taking, verdict.map(|opened| opened.envelope.id.clone())) {
            (Taking::AllButVerdicts, Some(id)) if follow => {
                told.insert(id);
                mail.later(VERDICTS_REST).await?;
            }
            (Taking::AllButVerdicts, Some(_)) | (Taking::Nothing, _) => kept.push(mail),
            (Taking::All | Taking::AllButVerdicts, _) => mail.ack().await?,
        }
    }
    for mail in kept {
        mail.later(Duration::ZERO).await?;
    }
    Ok(Exit::Done)
}

/// The next message; none when there is none for a moment, or the bus was closed.
async fn next(mailbox: &mut Mailbox, follow: bool) -> Result<Option<Mail>, CliError> {
    let next = match follow {
        true => mailbox.next().await,
        false => timeout(MOMENT, mailbox.next()).await.unwrap_or(None),
    };
    Ok(next.transpose()?)
}

fn tell(opened: &Opened, global: &Global) -> Result<(), CliError> {
    if global.json {
        return out::json(&live::message_json(opened));
    }
    let text = String::from_utf8_lossy(&opened.payload);
    let from = &opened.envelope.lineage.agent;
    // Line breaks are the message's own; the rest could steer a terminal.
    let lines: Vec<String> = text.lines().map(out::harmless).collect();
    out::line(&format!("{from}: {}", lines.join("\n")))
}

fn is_verdict(opened: &Opened) -> bool {
    opened.envelope.event_type == ApprovalVerdict::EVENT_TYPE
}

/// How long an answer to an approval rests that was read and left in the mailbox.
const VERDICTS_REST: Duration = Duration::from_secs(10);

/// After how long without a message a mailbox counts as read to its end.
const MOMENT: Duration = Duration::from_millis(500);
