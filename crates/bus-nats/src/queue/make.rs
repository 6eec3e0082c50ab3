//! The stream of all boards: made, and made so that it has room.

use bus_core::{ErrorKind, Result};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Map, Value, json};

use super::store::BOARD;
use crate::{
    api::{Api, ApiFailure, GetRequest, new_stream_pauses},
    profile::Profile,
};

/// What the server says of the board.
#[derive(Deserialize)]
struct Info {
    config: Map<String, Value>,
}

/// Has the board made where several servers keep it, and waits until it answers: they take a while
/// to elect who leads a new stream, and the first record must not wait for that.
///
/// What keeps them from it is told to whoever writes a record.
pub(super) async fn prepare(api: &Api, profile: Profile, op: &'static str) {
    if !api.has_copies() {
        return;
    }
    for pause in new_stream_pauses() {
        tokio::time::sleep(pause).await;
        let any = Some(NO_RECORD.to_owned());
        let wanted = GetRequest { last_by_subj: any, ..GetRequest::default() };
        match api.get(op, BOARD, &wanted).await {
            Err(ApiFailure::Bus(error)) if error.kind() == ErrorKind::NotFound => {}
            _answered => return,
        }
        if let Err(error) = declare(api, profile, op).await {
            tracing::debug!(%error, "there is no board yet");
            return;
        }
    }
}

/// Makes the board.
///
/// # Errors
/// `Denied` where another account keeps it; those of a call.
pub(super) async fn declare(api: &Api, profile: Profile, op: &'static str) -> Result<()> {
    api.check_keeps_itself(op).map_err(|error| error.at(BOARD))?;
    let config = board_config(profile);
    let asked = api.call::<Value>(op, &format!("STREAM.CREATE.{BOARD}"), &config).await;
    match asked {
        // One that was made before, also to tell of its records in a way that nobody hears now.
        Err(failure) if failure.err_code() == Some(NAME_IN_USE) => {
            if let Err(error) = widen(api, op).await {
                tracing::warn!(%error, "the board takes as few readers as before");
            }
            Ok(())
        }
        asked => asked.map(drop).map_err(|failure| failure.into_error(op, BOARD)),
    }
}

/// Lets a board that was made before have as many readers as one that is made now, and leaves it as
/// it is besides.
async fn widen(api: &Api, op: &'static str) -> Result<()> {
    let failed = |failure: ApiFailure| failure.into_error(op, BOARD);
    let info = api.ask::<Info>(op, &format!("STREAM.INFO.{BOARD}")).await.map_err(failed)?;
    let mut config = info.config;
    let readers_max = config.insert(READERS.to_owned(), READERS_MAX.into());
    if readers_max.and_then(|max| max.as_i64()).is_some_and(|max| max >= READERS_MAX) {
        return Ok(());
    }
    let updated = api.call::<IgnoredAny>(op, &format!("STREAM.UPDATE.{BOARD}"), &config).await;
    updated.map(drop).map_err(failed)
}

/// The stream of all boards, as a server is asked to make it.
///
/// It has no bound of its own: by honest writers it holds at most one state and one frame for each
/// message and each consumer of it, and all those messages are in streams that have bounds.
fn board_config(profile: Profile) -> Value {
    json!({
        "name": BOARD,
        "subjects": ["vakq.>"],
        "retention": "limits",
        "storage": "file",
        "discard": "old",
        "max_msgs_per_subject": 1,
        READERS: READERS_MAX,
        "num_replicas": profile.replicas(),
        "allow_direct": true,
        "allow_msg_ttl": true,
    })
}

const NAME_IN_USE: u32 = 10_058;
/// Where no record ever stands.
const NO_RECORD: &str = "vakq.none";
const READERS: &str = "max_consumers";
/// Each engine of each queue follows. The server's own limit is 1,000 a stream.
const READERS_MAX: i64 = 100_000;

#[cfg(test)]
mod tests {
    use bus_testserver::TestServer;

    use super::*;
    use crate::{connection::Connection, options::NatsOptions};

    const OP: &str = "test";

    async fn config(api: &Api) -> Map<String, Value> {
        let verb = format!("STREAM.INFO.{BOARD}");
        api.ask::<Info>(OP, &verb).await.ok().unwrap().config
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_board_that_was_made_before_is_given_room_for_its_readers_and_else_left() {
        let server = TestServer::start();
        let api = Api::new(Connection::open(NatsOptions::new(server.url())).await.unwrap());
        let mut before = board_config(Profile::default());
        before["max_consumers"] = json!(7);
        before["description"] = json!("as it was");
        let made = api.call::<Value>(OP, &format!("STREAM.CREATE.{BOARD}"), &before).await;
        assert!(made.is_ok());
        declare(&api, Profile::default(), OP).await.unwrap();
        let after = config(&api).await;
        assert_eq!(after["max_consumers"], READERS_MAX);
        assert_eq!(after["description"], "as it was");
    }
}
