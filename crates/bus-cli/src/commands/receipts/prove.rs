//! `vakbus receipts prove`.

use std::path::Path;

use bus_core::{Certificate, Seq};
use bus_evidence::{Checkpoint, Proof};
use bus_subjects::{AgentId, SessionId};
use serde_json::json;

use super::{
    Wanted,
    checkpoint::{hand_out, log_of, refused},
    record::{self, LeftOut},
};
use crate::{
    args::{Global, ProveArgs},
    engine::{Agent, Session},
    error::{CliError, Exit},
    print as out,
};

/// Proves that a receipt is in its log, or that a log goes on from a checkpoint.
pub(super) async fn run(
    args: &ProveArgs,
    session: &Session,
    agent: &Agent,
    global: &Global,
) -> Result<Exit, CliError> {
    match (&args.since, &args.what) {
        (Some(since), _) => since_checkpoint(since, args, session, agent, global).await,
        (None, Some(what)) => of_receipt(&Wanted::of(what), args, session, agent, global).await,
        (None, None) => Err(CliError::usage("name a task or a position, or give --since")),
    }
}

async fn of_receipt(
    wanted: &Wanted,
    args: &ProveArgs,
    session: &Session,
    agent: &Agent,
    global: &Global,
) -> Result<Exit, CliError> {
    let (seq, of) = find(wanted, args.session.as_ref(), agent).await?;
    let found = record::beginning(&agent.endpoint, &of, |_| None).await?;
    let log = log_of(agent, &of, found.shown.iter().map(|(_, kept)| &kept.envelope))?;
    let place = found.shown.iter().zip(0_u64..).find(|((at, _), _)| *at == seq);
    let Some(((_, kept), index)) = place else {
        return Err(match found.left_out {
            Some(left_out) => unproved(seq, &left_out),
            None => wanted.missing(),
        });
    };
    remark(found.left_out.as_ref());
    let (signer, envelope) = (kept.signer(session.roster())?, &kept.envelope);
    let proof = log
        .inclusion(index, envelope, &signer, agent.endpoint.identity())
        .map_err(|error| refused(&error))?;
    let about = json!({
        "origin": proof.checkpoint.origin(),
        "entries": proof.checkpoint.size(),
        "entry": index + 1,
        "position": seq.0,
        "leaf": envelope.compute_hash().to_string(),
    });
    let text = Proof::Inclusion(proof).to_string();
    hand_out(&text, "proof", about, args.output.as_deref(), global)
}

/// Says that the log which is proved something of is the beginning of what is stored.
fn remark(left_out: Option<&LeftOut>) {
    if let Some(left_out) = left_out {
        out::remark(&format!("warning: {}", left_out.told()));
    }
}

/// The refusal for a record that is not in the log.
fn unproved(seq: Seq, left_out: &LeftOut) -> CliError {
    let what = format!("position {} is in no log: {}", seq.0, left_out.told());
    let next = format!("vakbus receipts show {} shows what can be read of it", left_out.from.0);
    CliError::new(Exit::Failed, what).next(next)
}

/// The position and the session of the one record that is meant.
async fn find(
    wanted: &Wanted,
    of: Option<&SessionId>,
    agent: &Agent,
) -> Result<(Seq, SessionId), CliError> {
    let mut found = Vec::new();
    record::walk(&agent.endpoint, of, |record| {
        if wanted.is(&record)
            && let Some(session) = &record.session
        {
            found.push((record.seq, session.clone()));
        }
    })
    .await?;
    match found.as_slice() {
        [] => Err(wanted.missing()),
        [one] => Ok(one.clone()),
        [first, ..] => {
            let (count, position) = (found.len(), first.0.0);
            let what = format!("{count} receipts are of a task of that id");
            let next =
                format!("name one by its position, such as {position}: vakbus receipts ls --task");
            Err(CliError::usage(what).next(next))
        }
    }
}

async fn since_checkpoint(
    since: &Path,
    args: &ProveArgs,
    session: &Session,
    agent: &Agent,
    global: &Global,
) -> Result<Exit, CliError> {
    let shown = since.display();
    let text = std::fs::read_to_string(since)
        .map_err(|error| CliError::usage(format!("cannot read {shown}: {error}")))?;
    let earlier =
        Checkpoint::parse(&text).map_err(|error| CliError::usage(format!("{shown}: {error}")))?;
    let of = session_of(&earlier, agent)?;
    let found = record::beginning(&agent.endpoint, &of, |_| None).await?;
    let log = log_of(agent, &of, found.shown.iter().map(|(_, kept)| &kept.envelope))?;
    remark(found.left_out.as_ref());
    let signers = signers_of(&earlier, session)?;
    let proof = log
        .consistency(&earlier, &signers, agent.endpoint.identity())
        .map_err(|error| refused(&error))?;
    let about = json!({
        "origin": proof.checkpoint.origin(),
        "entries": proof.checkpoint.size(),
        "from": proof.old,
    });
    let text = Proof::Consistency(proof).to_string();
    hand_out(&text, "proof", about, args.output.as_deref(), global)
}

/// The session whose receipts a checkpoint is of.
fn session_of(earlier: &Checkpoint, agent: &Agent) -> Result<SessionId, CliError> {
    let workspace = agent.endpoint.workspace();
    let rest = earlier.origin().strip_prefix(&format!("vakbus/{workspace}/"));
    let session = rest.and_then(|rest| rest.strip_suffix("/receipts"));
    session.and_then(|session| SessionId::parse(session).ok()).ok_or_else(|| {
        let origin = earlier.origin();
        let what = format!("it is of {origin:?}, and not of receipts of workspace {workspace}");
        CliError::usage(what).next("--workspace NAME chooses the workspace")
    })
}

/// The certificates of those who signed a checkpoint, also of those who are gone.
fn signers_of(earlier: &Checkpoint, session: &Session) -> Result<Vec<Certificate>, CliError> {
    let names = earlier.signatures().iter().map(|signature| signature.name());
    let names: Vec<AgentId> = names.filter_map(|name| AgentId::parse(name).ok()).collect();
    let agents = session.workspace.all_certificates()?;
    let signers = agents
        .into_iter()
        .filter(|agent| names.contains(&agent.agent) && earlier.verify(&agent.nkey).is_ok());
    Ok(signers.collect())
}
