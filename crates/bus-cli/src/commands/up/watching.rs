//! What waits and what was given up in each workspace, counted for the metrics of a daemon.

use std::{collections::HashMap, sync::Arc, time::Duration};

use bus_core::{Endpoint, Follow, GivenUpCause, OpenApprovals, Seq, Stored, planes};
use bus_envelope::{Timestamp, wire};
use bus_subjects::{AddressKind, WorkspaceId};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{
    auditors::{Auditors, Seated},
    chores::Chores,
    counts::Counts,
};

/// Starts to look at what is served.
pub(super) fn start(chores: &mut Chores, auditors: &Auditors) {
    let (counts, auditors) = (Arc::clone(chores.counts()), auditors.clone());
    chores.start("the metrics of approvals", |stop| run(auditors, counts, stop));
}

/// What is known of one workspace.
struct Seen {
    /// What tells the workspace from a later one of its name.
    account: String,
    open: OpenApprovals,
    approvals: Follow,
    letters: Follow,
}

async fn run(auditors: Auditors, counts: Arc<Counts>, stop: CancellationToken) {
    let mut seen: HashMap<WorkspaceId, Seen> = HashMap::new();
    loop {
        // Who serves the chore that needs them more tells what keeps auditors away.
        let Seated { endpoints, .. } = auditors.seated().await;
        seen.retain(|name, _| {
            let is_seated = endpoints.iter().any(|endpoint| endpoint.workspace() == name);
            if !is_seated {
                counts.no_approvals(name);
            }
            is_seated
        });
        for endpoint in endpoints {
            if stop.is_cancelled() {
                return;
            }
            if let Err(error) = look(&endpoint, &mut seen, &counts).await {
                let workspace = endpoint.workspace();
                counts.no_approvals(workspace);
                tracing::info!(%workspace, %error, "what waits cannot be counted for a while");
            }
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = sleep(LOOK_EVERY) => {}
        }
    }
}

async fn look(
    endpoint: &Endpoint,
    seen: &mut HashMap<WorkspaceId, Seen>,
    counts: &Counts,
) -> bus_core::Result<()> {
    let account = endpoint.identity().certificate().issuer.text();
    let workspace = endpoint.workspace();
    if seen.get(workspace).is_none_or(|known| known.account != account) {
        seen.insert(workspace.clone(), Seen::begin(endpoint, account).await?);
    }
    let Some(known) = seen.get_mut(workspace) else { return Ok(()) };
    let open = &mut known.open;
    let _applied = known
        .approvals
        .look(|stored| {
            let _changed = endpoint.apply_approval(open, &stored);
        })
        .await?;
    let now = endpoint.clock().now();
    let waits = |asked: &Timestamp, until: Option<Timestamp>| {
        until.is_none_or(|until| now < until).then_some(*asked)
    };
    let list = known.open.list();
    let waiting = list.iter().filter_map(|asked| waits(&asked.asked, asked.request.expires()));
    let (count, oldest) = (waiting.clone().count() as u64, waiting.min());
    counts.approvals(workspace, count, oldest);
    let came = |stored: Stored| counts.letter(workspace, reason_of(&stored));
    known.letters.look(came).await.map(drop)
}

impl Seen {
    /// All approvals count, and the letters that come from now on.
    async fn begin(endpoint: &Endpoint, account: String) -> bus_core::Result<Self> {
        let of = |kind: AddressKind| kind.filter(Some(endpoint.workspace()));
        let (stream, filter) = (planes::approvals_stream()?, of(AddressKind::Approval));
        let approvals = Follow::new(endpoint.clone(), stream, filter, Seq(1));
        let (stream, filter) = (planes::dead_letters_stream()?, of(AddressKind::DeadLetter));
        let letters = Follow::at_end(endpoint.clone(), stream, filter).await?;
        Ok(Self { account, open: OpenApprovals::default(), approvals, letters })
    }
}

/// Why a task was given up, in one word of a few. No key is needed for it.
fn reason_of(stored: &Stored) -> &'static str {
    let envelope = wire::decode(&stored.frame.headers, &stored.frame.body).ok();
    let cause = envelope.and_then(|envelope| GivenUpCause::of(&envelope));
    cause.map_or(UNKNOWN, GivenUpCause::as_str)
}

/// A letter of old, or of a later version, says no reason that is known.
const UNKNOWN: &str = "unknown";

/// How often what is new is counted.
const LOOK_EVERY: Duration = Duration::from_secs(1);
