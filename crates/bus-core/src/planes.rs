//! The streams of a workspace: which subjects are durable, and by which policy.

use std::{num::NonZeroU64, time::Duration};

use bus_subjects::{Address, AddressKind, Filter, StreamName, WorkspaceId};

use crate::{Result, Retention, StreamSpec};

/// Every stream a workspace needs, ready to be declared.
///
/// Work and inboxes are streams of the workspace; receipts, approvals and dead letters are shared
/// by all workspaces of one engine, each under its own subjects.
///
/// # Errors
/// None in practice: a valid workspace id gives valid names. The type says so because the names
/// are checked like any other.
pub fn workspace_streams(workspace: &WorkspaceId) -> Result<Vec<StreamSpec>> {
    const INBOX_MESSAGES_MAX: NonZeroU64 = NonZeroU64::new(10_000).unwrap();
    let spec = |name: StreamName, filter: &str, retention| -> Result<StreamSpec> {
        Ok(StreamSpec::new(name, vec![Filter::parse(filter)?], retention))
    };
    let work = format!("vak.work.{workspace}.*.task");
    let inbox = format!("vak.agent.{workspace}.*.inbox");
    let mut inboxes = spec(inbox_stream(workspace)?, &inbox, Retention::WorkQueue)?;
    inboxes.messages_per_subject_max = INBOX_MESSAGES_MAX;
    let mut streams = vec![
        spec(work_stream(workspace)?, &work, Retention::WorkQueue)?,
        inboxes,
        spec(receipts_stream()?, "vak.receipts.>", Retention::AppendOnly)?,
        spec(approvals_stream()?, "vak.approvals.>", Retention::Kept)?,
        spec(dead_letters_stream()?, "vak.dlq.>", Retention::Kept)?,
    ];
    for records in streams.iter_mut().skip(2) {
        records.dedupe_window = RECORDS_DEDUPE_WINDOW;
    }
    Ok(streams)
}

/// The stream that keeps what the agents of `workspace` send to a hub that may be away, ready to be
/// declared at an engine that has one.
///
/// # Errors
/// As [`workspace_streams`].
pub fn outbox(workspace: &WorkspaceId) -> Result<StreamSpec> {
    let records = AddressKind::Outbox.filter(Some(workspace));
    Ok(StreamSpec::new(outbox_stream(workspace)?, vec![records], Retention::WorkQueue))
}

/// The stream that keeps what was recorded of the live events of `workspace`, ready to be declared:
/// at most 65,536 batches, which stay until their recorder removes them.
///
/// # Errors
/// As [`workspace_streams`].
pub fn recordings(workspace: &WorkspaceId) -> Result<StreamSpec> {
    const BATCHES_MAX: NonZeroU64 = NonZeroU64::new(65_536).unwrap();
    let recorded = Address::filter_recordings(workspace).to_vec();
    let mut spec = StreamSpec::new(recordings_stream(workspace)?, recorded, Retention::Kept);
    spec.messages_max = BATCHES_MAX;
    spec.messages_per_subject_max = BATCHES_MAX;
    Ok(spec)
}

/// The subjects of which the newest frame is what matters: a subscriber with
/// [`Overflow::Latest`](crate::Overflow::Latest) gets it right away, although it was published
/// before (S0.37).
///
/// # Errors
/// As [`workspace_streams`].
pub fn latest_value_filters() -> Result<Vec<Filter>> {
    Ok(vec![Filter::parse("vak.events.*.*.telemetry")?])
}

/// How long the ids of receipts, approvals and dead letters are remembered: longer than any retry
/// of their task, so that there is one of each.
const RECORDS_DEDUPE_WINDOW: Duration = Duration::from_secs(24 * 3600);

/// The stream that keeps the tasks of `workspace`.
///
/// # Errors
/// As [`workspace_streams`].
pub fn work_stream(workspace: &WorkspaceId) -> Result<StreamName> {
    Ok(StreamName::parse(&format!("VAK_WORK_{workspace}"))?)
}

/// The stream that keeps the mailboxes of `workspace`.
///
/// # Errors
/// As [`workspace_streams`].
pub fn inbox_stream(workspace: &WorkspaceId) -> Result<StreamName> {
    Ok(StreamName::parse(&format!("VAK_INBOX_{workspace}"))?)
}

/// The name of the stream that keeps the outboxes of `workspace`.
///
/// # Errors
/// As [`workspace_streams`].
pub fn outbox_stream(workspace: &WorkspaceId) -> Result<StreamName> {
    Ok(StreamName::parse(&format!("VAK_OUTBOX_{workspace}"))?)
}

/// The name of the stream that keeps the recordings of `workspace`.
///
/// # Errors
/// As [`workspace_streams`].
pub fn recordings_stream(workspace: &WorkspaceId) -> Result<StreamName> {
    Ok(StreamName::parse(&format!("VAK_REC_{workspace}"))?)
}

/// The stream that keeps receipts.
///
/// # Errors
/// As [`workspace_streams`].
pub fn receipts_stream() -> Result<StreamName> {
    Ok(StreamName::parse("VAK_RECEIPTS")?)
}

/// The stream that keeps approvals: requests and their verdicts.
///
/// # Errors
/// As [`workspace_streams`].
pub fn approvals_stream() -> Result<StreamName> {
    Ok(StreamName::parse("VAK_APPROVALS")?)
}

/// The stream that keeps dead letters.
///
/// # Errors
/// As [`workspace_streams`].
pub fn dead_letters_stream() -> Result<StreamName> {
    Ok(StreamName::parse("VAK_DLQ")?)
}
