//! S3.20: what a session says live is kept, and who comes late sees the past and what follows as
//! one.

#![expect(clippy::unwrap_used, reason = "the helpers of a story that cannot be told fail it")]

mod bounds;
mod kept;
mod viewed;

use std::{sync::Arc, time::Duration};

use bus_core::{CheckpointPolicy, Endpoint, Frame, Identity, Result, Stop, planes};
use bus_crypto::SystemEntropy;
use bus_envelope::{Draft, MessageEnvelope, wire};
use bus_runner::{Recorded, Recorder, RecordingKinds, RecordingPolicy, Viewed, Viewer, Window};
use bus_stories::{Flaky, Stage};
use bus_subjects::{Address, Role, Subject};
use bytes::Bytes;

/// A stage that keeps recordings.
pub(crate) async fn stage() -> Stage {
    let stage = Stage::new().await.unwrap();
    stage.engine.declare(planes::recordings(&stage.workspace).unwrap()).await.unwrap();
    stage
}

/// The same on an engine that fails on command.
pub(crate) async fn flaky_stage() -> (Stage, Arc<Flaky>) {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    stage.engine.declare(planes::recordings(&stage.workspace).unwrap()).await.unwrap();
    (stage, flaky)
}

/// Somebody who may record: a new process life with each call.
pub(crate) fn recorder_of(stage: &Stage, name: &str) -> Endpoint {
    let mut issue = stage.issue(name, Role::Keeper).unwrap();
    issue.roles.push(Role::Observer);
    let identity = Identity::issue(stage.account(), &issue, &SystemEntropy::new()).unwrap();
    stage.roster.admit(identity.certificate().token()).unwrap();
    stage.endpoint(identity).unwrap()
}

/// A worker whose live events are vouched for.
pub(crate) fn speaker(stage: &Stage, name: &str) -> Endpoint {
    let mut parts = stage.parts(stage.certified(name, Role::Worker).unwrap());
    parts.checkpoints = Some(CheckpointPolicy::default());
    Endpoint::new(parts).unwrap()
}

pub(crate) fn terminal(stage: &Stage) -> Subject {
    let (workspace, session) = (stage.workspace.clone(), stage.session.clone());
    Address::Terminal { workspace, session }.subject()
}

pub(crate) async fn say(speaker: &Endpoint, subject: &Subject, text: impl Into<Bytes>) {
    let draft = Draft::new(subject.clone(), "vak.terminal.stdout", text.into());
    speaker.publish(draft).await.unwrap();
}

/// Lets this much of the stopped clock pass, as soon as nobody has anything to do.
pub(crate) async fn pass(time: Duration) {
    let _over = tokio::time::timeout(time, std::future::pending::<()>()).await;
}

/// Records while `work` is done, and says what was recorded.
pub(crate) async fn recording(recorder: Recorder, work: impl Future<Output = ()>) -> Recorded {
    try_recording(recorder, work).await.unwrap()
}

pub(crate) async fn try_recording(
    recorder: Recorder,
    work: impl Future<Output = ()>,
) -> Result<Recorded> {
    let stop = Stop::default();
    let (recorded, ()) = tokio::join!(recorder.run(&stop), async {
        work.await;
        stop.drain.cancel();
    });
    recorded
}

pub(crate) async fn recorder(stage: &Stage, policy: RecordingPolicy) -> Recorder {
    let endpoint = recorder_of(stage, "rec");
    Recorder::start(endpoint, stage.session.clone(), policy).await.unwrap()
}

/// Records `texts` of the session's terminal, each on its own.
pub(crate) async fn recorded(stage: &Stage, texts: &[&str]) -> Recorded {
    let (ann, place) = (speaker(stage, "ann"), terminal(stage));
    let recorder = recorder(stage, RecordingPolicy::default()).await;
    recording(recorder, async {
        for text in texts {
            say(&ann, &place, (*text).to_owned()).await;
        }
        ann.finish_live(&place).await.unwrap();
    })
    .await
}

pub(crate) async fn viewer(stage: &Stage, window: Window) -> Viewer {
    let viewer = stage.agent("viewer", Role::Observer).unwrap();
    let wanted = (RecordingKinds::ALL, window);
    Viewer::open(viewer, stage.session.clone(), wanted).await.unwrap()
}

/// The next items, as words: the text of an event, behind a colon when it is of the past.
pub(crate) async fn shown(viewer: &mut Viewer, count: usize) -> Vec<String> {
    let mut shown = Vec::new();
    for _ in 0..count {
        shown.push(match viewer.next().await.unwrap() {
            Viewed::Message { opened, is_past } => {
                let text = String::from_utf8_lossy(&opened.payload);
                if is_past { format!(":{text}") } else { text.into_owned() }
            }
            Viewed::Gap { missed } => format!("gap {missed}"),
            Viewed::Refused(error) => format!("refused: {error}"),
        });
    }
    shown
}

/// The batches that are stored of the session, all kinds.
pub(crate) async fn batches(stage: &Stage) -> Vec<Frame> {
    stage.stored(planes::recordings_stream(&stage.workspace).unwrap()).await.unwrap()
}

pub(crate) fn envelope(frame: &Frame) -> MessageEnvelope {
    wire::decode(&frame.headers, &frame.body).unwrap()
}
