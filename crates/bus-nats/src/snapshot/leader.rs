//! A new leader for a restored stream: servers know the ids of its messages only once they have
//! read them, which the one that restored it has not.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{
    RESTORE, ask,
    manifest::{Entry, number},
};
use crate::api::Api;

/// What the servers say of the copies of a stream.
#[derive(Deserialize)]
struct Info {
    cluster: Option<Cluster>,
}

#[derive(Deserialize)]
struct Cluster {
    #[serde(default)]
    leader: String,
    #[serde(default)]
    replicas: Option<Vec<Replica>>,
}

#[derive(Deserialize)]
struct Replica {
    #[serde(default)]
    current: bool,
}

/// Gives each stream of several copies another leader; says whether the servers know the ids of
/// all streams then.
pub(super) async fn change_all(api: &Api, entries: &[Entry]) -> bool {
    let changes = stream::iter(entries).map(|entry| change(api, entry));
    changes.buffer_unordered(AT_ONCE).fold(true, async |all, one| all && one).await
}

/// Steps the leader down until another one leads. One that steps down at once comes back after some
/// seconds: the other copies are there, and have not caught up.
async fn change(api: &Api, entry: &Entry) -> bool {
    let stream = &entry.stream;
    if number(&entry.state, "last_seq") == 0 {
        // It has no ids to know.
        return true;
    }
    if number(&entry.config, "num_replicas") < 2 {
        return false;
    }
    let until = Instant::now() + CHANGED_WITHIN;
    let (mut first, mut quiet_since) = (None, Instant::now());
    while Instant::now() < until {
        match cluster(api, stream).await {
            Some(Cluster { leader, .. }) if first.as_ref().is_some_and(|one| *one != leader) => {
                return true;
            }
            Some(Cluster { leader, replicas }) => {
                first = Some(leader);
                if !replicas.iter().flatten().any(|replica| replica.current) {
                    quiet_since = Instant::now();
                }
            }
            None => quiet_since = Instant::now(),
        }
        if quiet_since.elapsed() >= QUIET {
            step_down(api, stream).await;
            quiet_since = Instant::now();
        }
        sleep(PAUSE).await;
    }
    tracing::warn!(stream, "the restored stream has no other leader yet");
    false
}

/// What its servers say of a stream; none while they agree on a leader.
async fn cluster(api: &Api, stream: &str) -> Option<Cluster> {
    let connection = api.connection();
    let subject = connection.api_subject(&format!("STREAM.INFO.{stream}"));
    let asked = ask(connection, RESTORE, (&subject, &json!({})), ANSWER_WITHIN).await;
    let info: Info = asked.ok()?;
    info.cluster.filter(|cluster| !cluster.leader.is_empty())
}

async fn step_down(api: &Api, stream: &str) {
    let connection = api.connection();
    let subject = connection.api_subject(&format!("STREAM.LEADER.STEPDOWN.{stream}"));
    let asked = ask(connection, RESTORE, (&subject, &json!({})), ANSWER_WITHIN).await;
    let asked: Result<Value, _> = asked;
    if let Err(error) = asked {
        tracing::info!(%error, "the leader of the restored stream does not step down");
    }
}

/// How many streams change theirs at a time.
const AT_ONCE: usize = 16;

/// How long the servers may take to agree on another one, and not on the same again.
const CHANGED_WITHIN: Duration = Duration::from_secs(30);

/// How long an answer is waited for before it is asked again: while they agree nobody answers.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// For how long the copies must agree before the leader steps down.
const QUIET: Duration = Duration::from_secs(2);

const PAUSE: Duration = Duration::from_millis(50);
