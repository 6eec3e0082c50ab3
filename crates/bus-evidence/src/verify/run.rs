//! Verifies a bundle from its directory listing to the last checkpoint.

use std::{collections::BTreeMap, path::Path};

use bus_core::Revocation;
use bus_crypto::PublicKey;

use crate::{
    log::{CERTIFICATES, Log, entries_file},
    verify::{
        Counts, Finding, FindingKind, Report, certificates::Authority, files::Files, heads::Heads,
        kept, kept::Whole, logs, logs::Contents, receipts,
    },
};

/// What the verifier is told from outside the bundle.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// The account key of the workspace. Without it the verdict is `consistent, signer unknown`.
    pub trust: Option<PublicKey>,
    /// Checkpoints kept elsewhere. Without one a tail that was cut off together with its checkpoint
    /// is not noticed: the verdict is `completeness unknown`. Their signers need a certificate in
    /// the bundle.
    pub kept: Vec<String>,
    /// Keys that the account revoked. Nothing that they signed counts, whatever time it carries:
    /// a checkpoint has no time, so nothing shows that an entry is older than the revocation.
    pub revoked: Vec<Revocation>,
    /// Whether the recorder is believed that it wrote nothing that was stored after its signer's
    /// key was revoked. Then entries that say an earlier time count.
    pub trust_recorder: bool,
    /// Whether the log of the tasks has to be there: without it, receipts are not held against what
    /// they answer.
    pub require_tasks: bool,
}

/// Verifies the bundle in the directory `dir`, which is only read.
///
/// # Errors
/// The first thing that is wrong. What a line shows by itself comes before what the log shows as a
/// whole, so that the finding names the cause and not its consequence.
pub fn verify(dir: &Path, options: &Options) -> Result<Report, Finding> {
    run(&Files::Directory(dir), options)
}

/// As [`verify`], for a bundle whose files are in memory: contents by file name.
///
/// # Errors
/// As [`verify`].
pub fn verify_files(
    files: &BTreeMap<String, Vec<u8>>,
    options: &Options,
) -> Result<Report, Finding> {
    run(&Files::Memory(files), options)
}

fn run(files: &Files<'_>, options: &Options) -> Result<Report, Finding> {
    let names = files.check_names()?;
    let has_tasks = names.contains(&Log::Tasks.name());
    if options.require_tasks && !has_tasks {
        let detail = "it is not in the bundle, so receipts are not held against their tasks";
        let file = entries_file(Log::Tasks.name());
        return Err(Finding::new(&file, FindingKind::TasksNotShown, detail));
    }
    let heads = Heads::read(files, names)?;
    let place = &heads.place;
    let (mut authority, certificates) = Authority::read(files, place, options)?;
    heads.check(CERTIFICATES, &certificates, &authority)?;
    let mut read = |log: Log| {
        let contents = Contents::read(files, log, place, &mut authority)?;
        heads.check(log.name(), &contents.tree, &authority)?;
        Ok::<_, Finding>(contents)
    };
    let tasks = has_tasks.then(|| read(Log::Tasks)).transpose()?;
    let receipts = read(Log::Receipts)?;
    let dead_letters = read(Log::DeadLetters)?;
    let tasks_of = tasks.as_ref().map(|tasks| &*tasks.entries);
    let (receipts_of, letters_of) = (&*receipts.entries, &*dead_letters.entries);
    let all = tasks_of.unwrap_or_default().iter().chain(receipts_of).chain(letters_of);
    let newest = logs::newest(all);
    heads.check_validity(newest, &authority)?;
    let ends = receipts::check(tasks_of, receipts_of, letters_of)?;
    let counts = Counts {
        certificates: certificates.size(),
        tasks: tasks.as_ref().map_or(0, |tasks| tasks.tree.size()),
        receipts: receipts.tree.size(),
        dead_letters: dead_letters.tree.size(),
    };
    let chains =
        tasks.as_ref().map_or(0, |tasks| tasks.chains) + receipts.chains + dead_letters.chains;
    let whole = |name, tree, entries| Whole { name, tree, entries };
    let mut wholes = vec![whole(CERTIFICATES, certificates, &[])];
    if let Some(tasks) = &tasks {
        wholes.push(whole(Log::Tasks.name(), tasks.tree.clone(), &tasks.entries));
    }
    wholes.push(whole(Log::Receipts.name(), receipts.tree, receipts_of));
    wholes.push(whole(Log::DeadLetters.name(), dead_letters.tree, letters_of));
    let kept = kept::check(&options.kept, place, &authority, &wholes)?;
    let logs = counts.completeness(place, &kept, names);
    let recorder = heads.recorder();
    let (trust, signers) = authority.into_parts();
    let (workspace, session) = (place.workspace.to_string(), place.session.to_string());
    let (tasks_open, tasks_twice) = (ends.open, ends.twice);
    Ok(Report {
        workspace,
        session,
        trust,
        recorder,
        counts,
        chains,
        tasks_shown: has_tasks,
        tasks_open,
        tasks_twice,
        signers,
        kept,
        logs,
    })
}
