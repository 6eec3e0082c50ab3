//! What is stored at the end of a run: read back, its chains checked, and exported.

use std::{collections::BTreeSet, num::NonZeroUsize, path::Path};

use bus_core::{Bus, Seq, planes};
use bus_envelope::{ChainLimits, ChainScope, ChainSet, ChainTotals, MessageEnvelope, wire};
use bus_evidence::{BundleWriter, Log, Options};
use bus_subjects::{Address, AddressKind, Filter, StreamName};

use super::{feeder::Fed, fleet::Fleet, ledger::Ledger, others::Seen};
use crate::error::{CliError, Exit};

/// The receipts and dead letters of a run, as they are stored.
#[derive(Debug, Default)]
pub(super) struct Stored {
    pub(super) receipts: Vec<MessageEnvelope>,
    pub(super) dead_letters: Vec<MessageEnvelope>,
    pub(super) chains: ChainTotals,
}

/// How many chains are followed.
const CHAINS_MAX: NonZeroUsize = NonZeroUsize::new(1 << 20).unwrap();

/// How many events of each are remembered.
const WINDOW: NonZeroUsize = NonZeroUsize::new(64).unwrap();

/// Reads everything back and walks every chain. What cannot be read is a trouble of the run; the
/// rest is read all the same.
pub(super) async fn read((fleet, others): (&Fleet, &Seen), ledger: &Ledger) -> Stored {
    let mut chains = ChainSet::new(ChainLimits { chains_max: CHAINS_MAX, window: WINDOW });
    let engine = &*fleet.engine;
    let (of_receipts, of_letters) = of_this_run(fleet);
    let receipts = read_stream(engine, planes::receipts_stream(), of_receipts, ledger).await;
    for envelope in &receipts {
        chains.feed(ChainScope::subject_of(envelope), envelope);
    }
    let letters = planes::dead_letters_stream();
    let mut dead_letters = read_stream(engine, letters, of_letters, ledger).await;
    let mut lives = fleet.worker_lives();
    lives.extend(&others.lives);
    dead_letters.retain(|letter| lives.contains(&letter.lineage.incarnation));
    for envelope in &dead_letters {
        chains.feed(ChainScope::incarnation_of(envelope), envelope);
    }
    Stored { receipts, dead_letters, chains: chains.totals() }
}

/// Where receipts and dead letters of this run are; a daemon keeps those of others beside them.
fn of_this_run(fleet: &Fleet) -> (Filter, Filter) {
    let workspace = fleet.orchestrator.workspace().clone();
    let letters = AddressKind::DeadLetter.filter(Some(&workspace));
    let session = fleet.session.clone();
    (Filter::from(&Address::Receipt { workspace, session }.subject()), letters)
}

/// Writes the bundle and then verifies it as a stranger would.
pub(super) fn write(
    dir: &Path,
    (fleet, others): (&Fleet, &Seen),
    fed: &Fed,
    stored: &Stored,
) -> Result<bus_evidence::Report, CliError> {
    let failed = |what: String| {
        CliError::new(Exit::Failed, format!("evidence not written: {what}"))
            .next("the tasks themselves have run; the directory is incomplete")
    };
    let workspace = fleet.orchestrator.workspace();
    let mut bundle = BundleWriter::create(dir, workspace, &fleet.session)
        .map_err(|error| failed(error.to_string()))?;
    let mut write = || -> Result<(), String> {
        for token in certificates((fleet, others), stored) {
            bundle.certificate(&token).map_err(|error| error.to_string())?;
        }
        for frame in &fed.frames {
            let envelope = wire::decode(&frame.headers, &frame.body).map_err(|e| e.to_string())?;
            bundle.append(Log::Tasks, &envelope).map_err(|error| error.to_string())?;
        }
        for envelope in &stored.receipts {
            bundle.append(Log::Receipts, envelope).map_err(|error| error.to_string())?;
        }
        for envelope in &stored.dead_letters {
            bundle.append(Log::DeadLetters, envelope).map_err(|error| error.to_string())?;
        }
        Ok(())
    };
    write().map_err(failed)?;
    let orchestrator = &fleet.orchestrator;
    bundle
        .finish(orchestrator.identity().key(), orchestrator.agent())
        .map_err(|error| failed(error.to_string()))?;
    let options = Options { trust: Some(fleet.account), ..Options::default() };
    bus_evidence::verify(dir, &options).map_err(|finding| {
        CliError::new(Exit::Failed, format!("the evidence does not verify: {finding}"))
    })
}

impl Stored {
    /// How many of the records on the receipts are of this type: other evidence stands beside them.
    pub(super) fn count_of(&self, event_type: &str) -> usize {
        self.receipts.iter().filter(|record| record.event_type == event_type).count()
    }
}

/// The certificates of all who signed something of the run, each once: a command of a task may have
/// stored evidence as an agent of its own.
fn certificates((fleet, others): (&Fleet, &Seen), stored: &Stored) -> BTreeSet<String> {
    let signers = stored.receipts.iter().filter_map(|record| record.signature.as_ref());
    let of_records = signers.filter_map(|signed| fleet.roster.get(&signed.signer));
    let of_records = of_records.map(|certificate| certificate.token().to_owned());
    let of_fleet = fleet.certificates().map(str::to_owned);
    of_fleet.chain(others.certificates.iter().cloned()).chain(of_records).collect()
}

async fn read_stream<B: Bus + ?Sized>(
    engine: &B,
    stream: bus_core::Result<StreamName>,
    filter: Filter,
    ledger: &Ledger,
) -> Vec<MessageEnvelope> {
    let mut envelopes = Vec::new();
    let failed = |error: bus_core::Error| {
        ledger.fail(format!("what is stored could not be read to its end: {error}"));
    };
    let replay = match stream {
        Ok(stream) => engine.replay(stream, filter, Seq(1)).await,
        Err(error) => Err(error),
    };
    let mut replay = match replay {
        Ok(replay) => replay,
        Err(error) => {
            failed(error);
            return envelopes;
        }
    };
    while let Some(stored) = replay.next().await {
        let stored = match stored {
            Ok(stored) => stored,
            // Where it would go on is not known.
            Err(error) => {
                failed(error);
                return envelopes;
            }
        };
        let (subject, seq) = (&stored.frame.subject, stored.seq.0);
        match wire::decode(&stored.frame.headers, &stored.frame.body) {
            Ok(envelope) => envelopes.push(envelope),
            Err(error) => ledger.fail(format!("{subject}: record {seq} is damaged: {error}")),
        }
    }
    envelopes
}

#[cfg(test)]
mod tests;
