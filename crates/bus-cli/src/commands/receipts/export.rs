//! `vakbus receipts export`: a session's records as a directory for `vakbus verify`.

use std::collections::BTreeMap;

use bus_core::Endpoint;
use bus_evidence::{BundleError, BundleWriter, Log, Options, Report};
use serde_json::json;

use super::{
    letters::Letters,
    record::{self, Beginning, LeftOut},
    signer::Kept,
};
use crate::{
    args::{ExportArgs, Global},
    engine::{Agent, Session},
    error::{CliError, Exit},
    print as out,
};

/// Writes the bundle, and then verifies it as a stranger would.
pub(super) async fn run(
    args: &ExportArgs,
    session: &Session,
    agent: &Agent,
    global: &Global,
) -> Result<Exit, CliError> {
    let endpoint = &agent.endpoint;
    let doubt = record::unvouched(session.roster());
    let Beginning { shown, left_out } = record::beginning(endpoint, &args.session, doubt).await?;
    let receipts: Vec<Kept> = shown.into_iter().map(|(_, found)| found).collect();
    let letters = Letters::of(endpoint, &args.session).await?;
    let tokens = certificates(session, endpoint, receipts.iter().chain(&letters.shown))?;
    write(args, endpoint, &tokens, (&receipts, &letters.shown)).map_err(|error| failed(&error))?;
    let options = Options { trust: Some(*session.workspace.account()), ..Options::default() };
    let report = bus_evidence::verify(&args.dir, &options).map_err(|finding| {
        let what = format!("{} is written and does not verify: {finding}", args.dir.display());
        CliError::new(Exit::Failed, what)
            .next("vakbus receipts ls --session shows which record is not verified")
    })?;
    tell(args, &report, (left_out.as_ref(), &letters), global)
}

/// The certificates of who signed these, and of who records.
fn certificates<'a>(
    session: &Session,
    endpoint: &Endpoint,
    records: impl Iterator<Item = &'a Kept>,
) -> Result<Vec<String>, CliError> {
    let mut tokens: BTreeMap<String, String> = BTreeMap::new();
    // Each record is asked for its signer: a key may have been revoked between two of them.
    for record in records.filter(|record| record.envelope.signature.is_some()) {
        let signer = record.signer(session.roster())?;
        tokens.entry(signer.nkey.text()).or_insert_with(|| signer.token().to_owned());
    }
    let own = endpoint.identity().certificate();
    tokens.insert(own.nkey.text(), own.token().to_owned());
    Ok(tokens.into_values().collect())
}

fn write(
    args: &ExportArgs,
    endpoint: &Endpoint,
    tokens: &[String],
    (receipts, letters): (&[Kept], &[Kept]),
) -> Result<(), BundleError> {
    let mut bundle = BundleWriter::records(&args.dir, endpoint.workspace(), &args.session)?;
    for token in tokens {
        bundle.certificate(token)?;
    }
    for receipt in receipts {
        bundle.append(Log::Receipts, &receipt.envelope)?;
    }
    for letter in letters {
        bundle.append(Log::DeadLetters, &letter.envelope)?;
    }
    bundle.finish(endpoint.identity().key(), endpoint.agent()).map(drop)
}

fn failed(error: &BundleError) -> CliError {
    let what = format!("not exported: {error}");
    match error {
        BundleError::NotEmpty { .. } => CliError::usage(what).next("name a new directory"),
        BundleError::Recorder(_) => CliError::new(Exit::Refused, what)
            .next("leave --as out, or name an auditor, operator, orchestrator or keeper"),
        _ => {
            let next = "the directory is incomplete: remove it, and export into a new one";
            CliError::new(Exit::Failed, what).next(next)
        }
    }
}

fn tell(
    args: &ExportArgs,
    report: &Report,
    (receipts_left_out, letters): (Option<&LeftOut>, &Letters),
    global: &Global,
) -> Result<Exit, CliError> {
    let dir = args.dir.display().to_string();
    let (counts, left_out) = (&report.counts, letters.left_out);
    if global.json {
        out::json(&json!({
            "dir": dir,
            "session": args.session.as_str(),
            "receipts": counts.receipts,
            "receipts_left_out": receipts_left_out.map_or(0, |left_out| left_out.count),
            "left_out_from": receipts_left_out.map(|left_out| left_out.from.0),
            "left_out_why": receipts_left_out.map(|left_out| &left_out.why),
            "dead_letters": counts.dead_letters,
            "dead_letters_left_out": left_out,
            "certificates": counts.certificates,
            "recorder": report.recorder,
            "verdict": report.verdict(),
        }))?;
        return Ok(Exit::Done);
    }
    let receipts = out::counted(counts.receipts, "receipt", "receipts");
    let shown = out::counted(counts.dead_letters, "dead letter", "dead letters");
    out::line(&format!("{dir}: {receipts}, {shown}; {}", report.verdict()))?;
    if let Some(left_out) = receipts_left_out {
        out::remark(&format!("warning: {}", left_out.told()));
    }
    if left_out > 0 {
        let left_out = out::counted(left_out, "dead letter is", "dead letters are");
        out::remark(&format!(
            "{left_out} not in it: letters before them were redriven or discarded, so nothing shows \
             what they follow"
        ));
    }
    Ok(Exit::Done)
}
