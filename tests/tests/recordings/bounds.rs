//! What a recording is bound by: its size, the stream's, and the recorder's pace.

use std::num::NonZeroU64;

use bus_core::{ErrorKind, planes};
use bus_runner::{Batch, Recorder, RecordingPolicy, Window};
use bus_stories::{Fault, Op, Stage};

use crate::{
    batches, flaky_stage, pass, recorded, recorder, recorder_of, recording, say, shown, speaker,
    stage, terminal, viewer,
};

#[tokio::test(start_paused = true)]
async fn a_recording_has_a_bound() {
    let stage = stage().await;
    let (ann, place) = (speaker(&stage, "ann"), terminal(&stage));
    let bytes_max = 1 << 20;
    let policy = RecordingPolicy { bytes_max, ..RecordingPolicy::default() };
    let chunk = vec![b'x'; 64 * 1024];
    let recorder = recorder(&stage, policy).await;

    let recorded = recording(recorder, async {
        for _ in 0..60 {
            say(&ann, &place, chunk.clone()).await;
            tokio::task::yield_now().await;
        }
    })
    .await;

    let kept = batches(&stage).await;
    let bytes: usize = kept.iter().map(bus_core::Frame::bytes).sum();
    assert!(bytes as u64 <= bytes_max && bytes > Batch::BYTES_MAX, "{bytes}");
    assert_eq!((recorded.missed, recorded.batches - recorded.discarded), (0, kept.len() as u64));
}

#[tokio::test(start_paused = true)]
async fn what_an_earlier_recorder_stored_counts_for_the_bound() {
    let stage = stage().await;
    let (ann, place) = (speaker(&stage, "ann"), terminal(&stage));
    for (bytes_max, kept) in [(1 << 20, 2), (1, 1)] {
        let policy = RecordingPolicy { bytes_max, ..RecordingPolicy::default() };
        let work = async {
            for _ in 0..2 {
                say(&ann, &place, "chunk").await;
                pass(RecordingPolicy::FLUSH * 2).await;
            }
        };
        recording(recorder(&stage, policy).await, work).await;
        assert_eq!(batches(&stage).await.len(), kept, "the newest stays");
    }
}

#[tokio::test(start_paused = true)]
async fn in_a_full_stream_the_oldest_of_all_sessions_goes() {
    let stage = Stage::new().await.unwrap();
    let mut spec = planes::recordings(&stage.workspace).unwrap();
    spec.messages_max = NonZeroU64::new(3).unwrap();
    stage.engine.declare(spec).await.unwrap();
    let ann = speaker(&stage, "ann");
    let work = async || {
        for _ in 0..3 {
            say(&ann, &stage.tokens().subject(), "token").await;
            say(&ann, &terminal(&stage), "chunk").await;
            pass(RecordingPolicy::FLUSH * 2).await;
        }
    };

    let recorded = recording(recorder(&stage, RecordingPolicy::default()).await, work()).await;

    assert_eq!((recorded.batches, recorded.missed), (6, 0));
    assert_eq!(recorded.discarded + batches(&stage).await.len() as u64, 6);
}

#[tokio::test(start_paused = true)]
async fn an_engine_without_room_costs_nobody_a_recording() {
    let (stage, flaky) = flaky_stage().await;
    let earlier = recorded(&stage, &["earlier"]).await;
    flaky.fail(Op::Append, "vak.history", Fault::Refused(ErrorKind::Full), 20);
    let (ann, place) = (speaker(&stage, "ann"), terminal(&stage));
    let other = recorder(&stage, RecordingPolicy::default()).await;

    let recorded = recording(other, async {
        say(&ann, &place, "one").await;
        pass(RecordingPolicy::FLUSH * 60).await;
    })
    .await;

    assert_eq!((recorded.events, recorded.missed, recorded.discarded), (1, 0, 0));
    assert_eq!(batches(&stage).await.len() as u64, earlier.batches + recorded.batches);
}

#[tokio::test(start_paused = true)]
async fn what_a_recorder_was_too_slow_for_is_told_where_it_is_missing() {
    let stage = stage().await;
    let (ann, place) = (speaker(&stage, "ann"), terminal(&stage));
    let recorder = recorder(&stage, RecordingPolicy::default()).await;
    for number in 1..=1500 {
        say(&ann, &place, format!("{number}")).await;
    }

    let recorded = recording(recorder, async {}).await;

    // Checkpoints are heard and missed as well.
    assert!(recorded.missed >= 1500 - 1024, "{recorded:?}");
    let all = Window { bytes: u64::MAX, events: u64::MAX, age: None };
    let mut viewer = viewer(&stage, all).await;
    let seen = shown(&mut viewer, 2).await;
    assert_eq!(seen.first().unwrap(), &format!("gap {}", recorded.missed));
    let first: u64 = seen.last().unwrap().trim_start_matches(':').parse().unwrap();
    assert!(first > 400, "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn an_event_that_no_batch_holds_is_a_gap() {
    let stage = stage().await;
    let (ann, place) = (speaker(&stage, "ann"), terminal(&stage));
    let recorder = recorder(&stage, RecordingPolicy::default()).await;

    let recorded = recording(recorder, async {
        say(&ann, &place, "before").await;
        say(&ann, &place, vec![b'x'; Batch::BYTES_MAX]).await;
        say(&ann, &place, "after").await;
    })
    .await;

    assert_eq!((recorded.events, recorded.missed), (2, 1));
    let mut viewer = viewer(&stage, Window::default()).await;
    assert_eq!(shown(&mut viewer, 3).await, [":before", "gap 1", ":after"]);
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_records_two_sessions_keeps_them_apart() {
    let stage = stage().await;
    let (ann, place) = (speaker(&stage, "ann"), terminal(&stage));
    let rec = recorder_of(&stage, "rec");
    let policy = RecordingPolicy { bytes_max: 1, ..RecordingPolicy::default() };
    let other = Recorder::start(rec.clone(), "s2".parse().unwrap(), policy).await.unwrap();
    let own = Recorder::start(rec, stage.session.clone(), policy).await.unwrap();

    let recorded = recording(own, say(&ann, &place, "one")).await;
    let nothing = recording(other, async {}).await;

    assert_eq!((recorded.events, nothing.events), (1, 0));
    assert_eq!(batches(&stage).await.len(), 1);
}
