//! What receipts say, and whether it fits the tasks of the bundle.

use std::collections::{HashMap, HashSet};

use bus_envelope::{EventHash, MessageEnvelope};

use crate::{
    RECEIPT_COMPLETED, WorkReceipt,
    log::{Log, entries_file},
    verify::{Finding, FindingKind, logs::Entry},
};

/// What an entry says about a task.
pub(super) enum Said {
    /// It is no receipt.
    Nothing,
    /// It is a receipt whose payload is sealed: only its cause is known.
    Sealed,
    /// It is a receipt for the task with this id.
    Task(String),
}

/// Reads an envelope of the receipts log.
pub(super) fn read(envelope: &MessageEnvelope) -> Result<Said, (FindingKind, String)> {
    if envelope.event_type != RECEIPT_COMPLETED {
        return Ok(Said::Nothing);
    }
    if envelope.seal.is_some() {
        return Ok(Said::Sealed);
    }
    let receipt = WorkReceipt::parse(&envelope.payload)
        .map_err(|error| (FindingKind::ReceiptForm, error.to_string()))?;
    if receipt.worker != envelope.lineage.agent {
        let detail = format!("it is sent by {} for {}", envelope.lineage.agent, receipt.worker);
        return Err((FindingKind::ReceiptMismatch, detail));
    }
    Ok(Said::Task(receipt.task_id))
}

/// How the tasks of a bundle ended.
pub(super) struct Ends {
    /// Tasks with neither a receipt nor a dead letter.
    pub(super) open: u64,
    /// Tasks with both.
    pub(super) twice: u64,
}

/// Checks that every receipt has its task and no task has two, and counts how the tasks ended.
/// Without the tasks, only what receipts say of them is compared.
pub(super) fn check(
    tasks: Option<&[Entry]>,
    receipts: &[Entry],
    dead_letters: &[Entry],
) -> Result<Ends, Finding> {
    let file = entries_file(Log::Receipts.name());
    let ids: Option<HashMap<EventHash, &str>> =
        tasks.map(|tasks| tasks.iter().map(|task| (task.leaf, task.id.as_str())).collect());
    let mut answered: HashMap<EventHash, u64> = HashMap::new();
    for (receipt, line) in receipts.iter().zip(1_u64..) {
        let fault = |kind, detail: String| Err(Finding::new(&file, kind, detail).at(line));
        let said = match &receipt.receipt {
            Said::Nothing => continue,
            Said::Sealed => None,
            Said::Task(id) => Some(id.as_str()),
        };
        let Some(cause) = receipt.cause else {
            return fault(FindingKind::ReceiptWithoutTask, "it names no task as its cause".into());
        };
        let mut task = said.unwrap_or("it answers");
        if let Some(ids) = &ids {
            let Some(sent) = ids.get(&cause) else {
                let detail = format!("the task {task} is not in the bundle");
                return fault(FindingKind::ReceiptWithoutTask, detail);
            };
            if let Some(said) = said.filter(|said| said != sent) {
                let detail = format!("it speaks of the task {said} and answers {sent}");
                return fault(FindingKind::ReceiptMismatch, detail);
            }
            task = *sent;
        }
        if let Some(other) = answered.insert(cause, line) {
            let detail = format!("line {other} is a receipt for the task {task} already");
            return fault(FindingKind::ReceiptTwice, detail);
        }
    }
    let given_up: HashSet<EventHash> =
        dead_letters.iter().filter_map(|letter| letter.cause).collect();
    let mut ends = Ends { open: 0, twice: 0 };
    for task in tasks.unwrap_or_default() {
        match (answered.contains_key(&task.leaf), given_up.contains(&task.leaf)) {
            (false, false) => ends.open += 1,
            (true, true) => ends.twice += 1,
            _ => {}
        }
    }
    Ok(ends)
}
