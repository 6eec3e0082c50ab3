//! `vakbus verify`: an evidence directory or a proof, checked offline.

use std::{fs, io::Read as _, path::PathBuf};

use bus_core::Revocation;
use bus_crypto::{NkeyKind, PublicKey};
use bus_evidence::{Finding, FindingKind, Options, Proof};
use serde::Serialize;
use serde_json::json;

use crate::{
    args::{Global, VerifyArgs},
    error::{CliError, Exit},
    print,
};

/// Verifies and says what was found.
pub(crate) fn run(args: &VerifyArgs, global: &Global) -> Result<Exit, CliError> {
    let trust = args.trust.as_deref().map(account).transpose()?;
    let mut kept = Vec::new();
    for path in &args.checkpoint {
        let text = fs::read_to_string(path)
            .map_err(|error| CliError::usage(format!("cannot read {}: {error}", path.display())))?;
        kept.push(text);
    }
    let revoked = match trust {
        Some(account) => revocations(&args.revoked, &account)?,
        None => Vec::new(),
    };
    let (trust_recorder, require_tasks) = (args.trust_recorder, args.require_tasks);
    let options = Options { trust, kept, revoked, trust_recorder, require_tasks };
    if args.path.is_dir() {
        return match bus_evidence::verify(&args.path, &options) {
            Ok(report) => tell_good(report.verdict(), &report, global),
            Err(finding) => tell(&finding, global),
        };
    }
    match bus_evidence::verify_proof(&proof(args)?, &options) {
        Ok(report) => tell_good(report.verdict(), &report, global),
        // There is nothing yet that could be wrong.
        Err(finding) if finding.kind == FindingKind::KeptMissing => {
            let next = "give it with --checkpoint FILE: the one that was kept";
            Err(CliError::usage(finding.detail).next(next))
        }
        Err(finding) => tell(&finding, global),
    }
}

/// The text of a proof file.
fn proof(args: &VerifyArgs) -> Result<String, CliError> {
    let shown = args.path.display();
    let cannot = |error| CliError::usage(format!("cannot read {shown}: {error}"));
    if !args.path.is_file() {
        let what = format!("{shown} is neither a directory nor a file");
        return Err(CliError::usage(what).next("vakbus verify --help"));
    }
    if args.require_tasks {
        let what = format!("{shown} is a file, and --require-tasks is for a directory");
        return Err(CliError::usage(what).next("leave it out"));
    }
    let mut bytes = Vec::new();
    let limit = Proof::BYTES_MAX as u64 + 1;
    fs::File::open(&args.path)
        .and_then(|file| file.take(limit).read_to_end(&mut bytes))
        .map_err(cannot)?;
    String::from_utf8(bytes).map_err(|_| CliError::usage(format!("{shown} is not a text")))
}

fn tell_good(
    verdict: &str,
    report: &(impl Serialize + std::fmt::Display),
    global: &Global,
) -> Result<Exit, CliError> {
    if global.json {
        print::json(&json!({ "ok": true, "verdict": verdict, "report": report }))?;
    } else {
        let text = report.to_string();
        let lines: Vec<String> = text.lines().map(print::harmless).collect();
        print::line(&lines.join("\n"))?;
    }
    Ok(Exit::Done)
}

/// Says what is wrong.
fn tell(finding: &Finding, global: &Global) -> Result<Exit, CliError> {
    if global.json {
        print::json(&json!({ "ok": false, "finding": finding }))?;
    } else {
        print::line(&print::harmless(&format!("not verified: {finding}")))?;
    }
    Ok(Exit::Failed)
}

/// Reads revocations, one a line. One that the account did not sign is no reason to go on without.
fn revocations(files: &[PathBuf], account: &PublicKey) -> Result<Vec<Revocation>, CliError> {
    let mut found = Vec::new();
    for path in files {
        let shown = path.display();
        let text = fs::read_to_string(path)
            .map_err(|error| CliError::usage(format!("cannot read {shown}: {error}")))?;
        for (number, line) in text.lines().enumerate() {
            let read = Revocation::parse(line, account);
            found.push(read.map_err(|error| {
                CliError::usage(format!("{shown}:{}: {error}", number + 1))
                    .next("vakbus agent ls --revocations prints them")
            })?);
        }
    }
    Ok(found)
}

fn account(text: &str) -> Result<PublicKey, CliError> {
    let key = PublicKey::parse(text.trim())
        .map_err(|error| CliError::usage(format!("--trust: {error}")))?;
    if key.kind() != NkeyKind::Account {
        return Err(CliError::usage("--trust: expected an account key, which begins with A")
            .next("vakbus workspace show"));
    }
    Ok(key)
}
