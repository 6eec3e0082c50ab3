//! Looks through what is kept for the messages of one chain of causes.

use std::collections::{BTreeMap, BTreeSet};

use bus_core::{
    DeadLetterEvent, Endpoint, ErrorKind, Frame, GivenUpCause, Opened, Result, Results, Seq,
    Stored, planes,
};
use bus_envelope::{EventHash, MessageEnvelope, Timestamp, wire};
use bus_evidence::{RECEIPT_COMPLETED, WorkReceipt};
use bus_subjects::{Address, AddressKind, Filter, StreamName, Subject};

use super::recorded::Run;

/// What is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wanted {
    /// All of a trace: 32 hexadecimal digits.
    Trace(String),
    /// A message by its hash, with what led to it and what it led to.
    Leaf(EventHash),
    /// A task by its id, likewise.
    Task(String),
}

/// A message that was found.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) leaf: EventHash,
    pub(super) cause: Option<EventHash>,
    pub(super) kind: &'static str,
    /// What it says, in few words.
    pub(super) words: String,
    pub(super) id: String,
    pub(super) subject: Subject,
    pub(super) agent: String,
    pub(super) time: Timestamp,
    pub(super) traceparent: String,
    /// Where it is kept; none for a task that is kept in its dead letter.
    pub(super) position: Option<Seq>,
    /// What was recorded: the first of such events, and these behind it.
    pub(super) run: Option<Run>,
    /// Why it cannot be opened and checked: then its sender's word is all there is.
    pub(super) unreadable: Option<String>,
}

/// What was found, and what could not be looked at.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) nodes: BTreeMap<EventHash, Node>,
    /// Kinds that the agent may not read.
    pub(super) denied: BTreeSet<&'static str>,
    /// Whether the last pass still found something, so that there may be more.
    pub(super) is_cut: bool,
    /// Recorded events that are damaged, or from nobody who may send them.
    pub(super) refused: u64,
    /// Events that a recorder did not hear.
    pub(super) unheard: u64,
    traces: BTreeSet<String>,
    causes: BTreeSet<EventHash>,
    ids: BTreeSet<String>,
}

/// One kind of message that is kept.
struct Source {
    kind: &'static str,
    stream: StreamName,
    filter: Filter,
}

impl Wanted {
    /// What `id` names.
    pub(super) fn parse(id: &str) -> Self {
        let is_hex = |length| {
            id.len() == length && id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        };
        match EventHash::parse(id) {
            Ok(leaf) => Self::Leaf(leaf),
            Err(_) if is_hex(32) => Self::Trace(id.to_owned()),
            Err(_) => Self::Task(id.to_owned()),
        }
    }
}

/// Looks for all of it. Each pass over what is kept finds what the one before led to, and the last
/// one finds nothing new.
///
/// # Errors
/// Those of the engine; what the agent may not read is left out.
pub(super) async fn scan(endpoint: &Endpoint, wanted: &Wanted) -> Result<Found> {
    let mut found = Found::default();
    match wanted {
        Wanted::Trace(trace) => drop(found.traces.insert(trace.clone())),
        Wanted::Leaf(leaf) => drop(found.causes.insert(*leaf)),
        Wanted::Task(id) => {
            found.ids.insert(id.clone());
            // A task that is done has left its queue; its result names it for a week.
            let result = match Results::new(endpoint.clone()).get(id).await {
                Err(error) if error.kind() == ErrorKind::Denied => None,
                result => result?,
            };
            found.causes.extend(result.map(|result| result.task));
        }
    }
    let seed: BTreeSet<EventHash> = found.causes.clone();
    found.is_cut = true;
    for _pass in 0..PASSES_MAX {
        let before = found.reach();
        for source in sources(endpoint)? {
            found.look(endpoint, &source, &seed).await?;
        }
        if before != found.reach() {
            continue;
        }
        // Recordings are long, and seldom lead on: they come once nothing else does.
        found.look_at_recordings(endpoint, &seed).await?;
        if before == found.reach() {
            found.is_cut = false;
            break;
        }
    }
    Ok(found)
}

fn sources(endpoint: &Endpoint) -> Result<Vec<Source>> {
    let workspace = endpoint.workspace();
    let all = |kind: AddressKind| kind.filter(Some(workspace));
    let own = Address::Inbox { workspace: workspace.clone(), agent: endpoint.agent().clone() };
    let source = |kind, stream, filter| Source { kind, stream, filter };
    Ok(vec![
        source("task", planes::work_stream(workspace)?, all(AddressKind::Task)),
        source("dead letter", planes::dead_letters_stream()?, all(AddressKind::DeadLetter)),
        source("receipt", planes::receipts_stream()?, all(AddressKind::Receipt)),
        source("approval", planes::approvals_stream()?, all(AddressKind::Approval)),
        source("letter", planes::inbox_stream(workspace)?, Filter::from(&own.subject())),
    ])
}

impl Found {
    /// How much is known that leads on.
    fn reach(&self) -> (usize, usize, usize) {
        let kept = self.nodes.values().filter(|node| node.run.is_none()).count();
        (kept, self.causes.len(), self.traces.len())
    }

    async fn look(
        &mut self,
        endpoint: &Endpoint,
        source: &Source,
        seed: &BTreeSet<EventHash>,
    ) -> Result<()> {
        let (stream, filter) = (source.stream.clone(), source.filter.clone());
        let mut records = match endpoint.replay(stream, filter).await {
            Err(error) if matches!(error.kind(), ErrorKind::Denied | ErrorKind::NotFound) => {
                self.denied.insert(source.kind);
                return Ok(());
            }
            records => records?,
        };
        while let Some(stored) = records.next().await {
            let stored = stored?;
            let Ok(envelope) = wire::decode(&stored.frame.headers, &stored.frame.body) else {
                continue;
            };
            let leaf = envelope.compute_hash();
            if self.nodes.get(&leaf).is_some_and(|node| node.position.is_some()) {
                continue;
            }
            let is_letter = source.kind == "dead letter";
            if is_letter && !self.ids.is_empty() {
                self.name_by_letter(endpoint, &stored.frame);
            }
            if self.is_meant(&envelope, leaf, seed) {
                let position = (source.kind, Some(stored.seq));
                self.add(endpoint, &stored, (envelope, leaf), position);
            }
        }
        Ok(())
    }

    /// A letter names the task that it is about only when it is opened.
    fn name_by_letter(&mut self, endpoint: &Endpoint, frame: &Frame) {
        let Ok(opened) = endpoint.open(frame) else { return };
        let letter = DeadLetterEvent::from_json(&opened.payload);
        if letter.is_ok_and(|letter| self.ids.contains(&letter.envelope_id)) {
            self.causes.extend(opened.envelope.lineage.cause);
            self.causes.insert(opened.hash);
        }
    }

    /// Whether a message belongs to what is looked for, by what is found so far.
    pub(super) fn is_meant(
        &mut self,
        envelope: &MessageEnvelope,
        leaf: EventHash,
        seed: &BTreeSet<EventHash>,
    ) -> bool {
        let is_named = seed.contains(&leaf) || self.ids.contains(&envelope.id);
        if is_named {
            // All of the trace that it is part of.
            self.traces.extend(trace_of(envelope));
        }
        let cause = envelope.lineage.cause;
        is_named
            || self.causes.contains(&leaf)
            || cause.is_some_and(|cause| self.is_known(&cause, seed))
            || trace_of(envelope).is_some_and(|trace| self.traces.contains(&trace))
    }

    /// Whether what names this cause was led to by something that is looked for.
    fn is_known(&self, cause: &EventHash, seed: &BTreeSet<EventHash>) -> bool {
        self.nodes.contains_key(cause) || seed.contains(cause) || self.causes.contains(cause)
    }

    fn add(
        &mut self,
        endpoint: &Endpoint,
        stored: &Stored,
        (envelope, leaf): (MessageEnvelope, EventHash),
        (kind, position): (&'static str, Option<Seq>),
    ) {
        self.causes.extend(envelope.lineage.cause);
        let opened = endpoint.open(&stored.frame);
        let (words, unreadable) = match &opened {
            Ok(opened) => (words(kind, opened), None),
            Err(error) => (String::new(), Some(error.to_string())),
        };
        if let (Ok(opened), "dead letter") = (&opened, kind) {
            self.add_original(endpoint, opened);
        }
        let node = Node {
            leaf,
            cause: envelope.lineage.cause,
            kind,
            words,
            agent: envelope.lineage.agent.to_string(),
            time: envelope.time,
            traceparent: envelope.trace.traceparent(),
            id: envelope.id,
            subject: envelope.subject,
            position,
            unreadable,
            run: None,
        };
        self.nodes.insert(leaf, node);
    }

    /// The task in a dead letter, unless it is known from its queue, where it may be again.
    fn add_original(&mut self, endpoint: &Endpoint, letter: &Opened) {
        let Ok(event) = DeadLetterEvent::from_json(&letter.payload) else { return };
        let Ok(subject) = Subject::parse(&event.subject) else { return };
        let Ok(frame) = event.original.to_frame(subject) else { return };
        let Ok(envelope) = wire::decode(&frame.headers, &frame.body) else { return };
        let leaf = envelope.compute_hash();
        // What the letter holds is its writer's word, and the cause is what it is about.
        if letter.envelope.lineage.cause == Some(leaf) && !self.nodes.contains_key(&leaf) {
            let stored = Stored { frame, seq: Seq(0), time: envelope.time };
            self.add(endpoint, &stored, (envelope, leaf), ("task", None));
        }
    }
}

fn trace_of(envelope: &MessageEnvelope) -> Option<String> {
    envelope.trace.traceparent().get(3..35).map(str::to_owned)
}

fn words(kind: &str, opened: &Opened) -> String {
    let envelope = &opened.envelope;
    match kind {
        "task" => match Address::parse(&envelope.subject) {
            Ok(Address::Task { role, .. }) => format!("{} for {role}", envelope.id),
            _ => envelope.id.clone(),
        },
        "dead letter" => GivenUpCause::of(envelope).map_or("unknown", GivenUpCause::as_str).into(),
        "receipt" if envelope.event_type == RECEIPT_COMPLETED => {
            WorkReceipt::parse(&opened.payload).map_or_else(
                |_| envelope.event_type.clone(),
                |receipt| format!("exit {}, attempt {}", receipt.exit_code, receipt.attempt),
            )
        }
        _ => envelope.event_type.clone(),
    }
}

/// How often what is kept is looked through: a cause of a cause of … may take a pass each.
pub(super) const PASSES_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_trace_a_hash_or_a_task() {
        let (trace, leaf) = ("4bf92f3577b34da6a3ce929d0e0e4736", EventHash::of(b"x"));
        assert_eq!(Wanted::parse(trace), Wanted::Trace(trace.to_owned()));
        assert_eq!(Wanted::parse(&leaf.to_string()), Wanted::Leaf(leaf));
        for task in ["task-9", "01a22d9b-8e42-7e37-8cb6-72dba09e51a3", &trace.to_uppercase()] {
            assert_eq!(Wanted::parse(task), Wanted::Task(task.to_owned()));
        }
    }
}
