//! `vakbus verify`: an evidence directory, checked offline.

use std::{fs, path::PathBuf};

use bus_core::Revocation;
use bus_crypto::{NkeyKind, PublicKey};
use bus_evidence::Options;
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
    if !args.dir.is_dir() {
        let what = format!("{} is not a directory", args.dir.display());
        return Err(CliError::usage(what).next("vakbus verify --help"));
    }
    match bus_evidence::verify(&args.dir, &Options { trust, kept, revoked }) {
        Ok(report) => {
            if global.json {
                let verdict = report.verdict();
                print::json(&json!({ "ok": true, "verdict": verdict, "report": report }))?;
            } else {
                let text = report.to_string();
                let lines: Vec<String> = text.lines().map(print::harmless).collect();
                print::line(&lines.join("\n"))?;
            }
            Ok(Exit::Done)
        }
        Err(finding) => {
            if global.json {
                print::json(&json!({ "ok": false, "finding": finding }))?;
            } else {
                print::line(&print::harmless(&format!("not verified: {finding}")))?;
            }
            Ok(Exit::Failed)
        }
    }
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
