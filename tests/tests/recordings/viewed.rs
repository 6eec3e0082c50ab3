//! What a viewer sees who comes late: the last window, then what is live, as one.

use std::time::Duration;

use bus_runner::{Recorder, RecordingPolicy, Window};

use crate::{
    pass, recorded, recorder, recorder_of, recording, say, shown, speaker, stage, terminal, viewer,
};

fn newest(events: u64) -> Window {
    Window { events, bytes: u64::MAX, age: None }
}

#[tokio::test(start_paused = true)]
async fn the_past_comes_first_and_what_is_live_follows() {
    let stage = stage().await;
    recorded(&stage, &["one", "two"]).await;
    let mut viewer = viewer(&stage, Window::default()).await;
    assert_eq!((viewer.past_events(), viewer.has_recording()), (2, true));

    say(&speaker(&stage, "bob"), &terminal(&stage), "three").await;

    assert_eq!(shown(&mut viewer, 3).await, [":one", ":two", "three"]);
}

#[tokio::test(start_paused = true)]
async fn without_a_recording_there_is_no_past() {
    let stage = stage().await;
    let (ann, place) = (speaker(&stage, "ann"), terminal(&stage));
    say(&ann, &place, "before").await;
    let mut viewer = viewer(&stage, Window::default()).await;
    assert_eq!((viewer.past_events(), viewer.has_recording()), (0, false));

    say(&ann, &place, "after").await;

    assert_eq!(shown(&mut viewer, 1).await, ["after"]);
}

#[tokio::test(start_paused = true)]
async fn what_was_dropped_before_the_first_event_is_told() {
    let stage = stage().await;
    let (ann, place) = (speaker(&stage, "ann"), terminal(&stage));
    let mut viewer = viewer(&stage, Window::default()).await;
    for number in 1..=600 {
        say(&ann, &place, format!("{number}")).await;
    }

    let seen = shown(&mut viewer, 2).await;

    let [gap, first] = &seen[..] else { panic!("{seen:?}") };
    let missed: u64 = gap.strip_prefix("gap ").unwrap().parse().unwrap();
    let first: u64 = first.parse().unwrap();
    // Checkpoints have places as well.
    assert!(first > 300 && missed >= first - 1, "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn what_the_recorder_had_not_stored_yet_is_not_missing() {
    let stage = stage().await;
    let (ann, place) = (speaker(&stage, "ann"), terminal(&stage));
    let recorder = recorder(&stage, RecordingPolicy::default()).await;
    recording(recorder, async {
        say(&ann, &place, "stored").await;
        pass(RecordingPolicy::FLUSH * 2).await;
        say(&ann, &place, "heard").await;
        tokio::task::yield_now().await;
        let mut viewer = viewer(&stage, Window::default()).await;
        say(&ann, &place, "live").await;

        // By then the last one is recorded as well.
        assert_eq!(shown(&mut viewer, 3).await, [":stored", ":heard", ":live"]);
        say(&ann, &place, "and more").await;
        assert_eq!(shown(&mut viewer, 1).await, ["and more"]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_viewer_who_gives_up_while_it_looks_again_loses_nothing() {
    let stage = stage().await;
    let (ann, place) = (speaker(&stage, "ann"), terminal(&stage));
    let recorder = recorder(&stage, RecordingPolicy::default()).await;
    recording(recorder, async {
        say(&ann, &place, "heard").await;
        tokio::task::yield_now().await;
        let mut viewer = viewer(&stage, Window::default()).await;
        say(&ann, &place, "live").await;
        let soon = Duration::from_millis(10);
        assert!(tokio::time::timeout(soon, viewer.next()).await.is_err());

        assert_eq!(shown(&mut viewer, 2).await, [":heard", ":live"]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_window_holds_the_newest_events_of_many_batches() {
    let stage = stage().await;
    let (ann, place) = (speaker(&stage, "ann"), terminal(&stage));
    let rec = recorder_of(&stage, "rec");
    let policy = RecordingPolicy::default();
    let other = Recorder::start(rec, "s2".parse().unwrap(), policy).await.unwrap();
    let own = recorder(&stage, policy).await;
    let elsewhere = "vak.events.w1.s2.terminal".parse().unwrap();
    let mut parts = stage.parts(stage.certified("eve", bus_subjects::Role::Worker).unwrap());
    parts.session = Some("s2".parse().unwrap());
    parts.engine = stage.engine.clone();
    let eve = bus_core::Endpoint::new(parts).unwrap();
    let work = async {
        for number in 0..40 {
            say(&ann, &place, format!("{number}")).await;
            for _ in 0..number % 3 {
                say(&eve, &elsewhere, "other").await;
                pass(RecordingPolicy::FLUSH * 2).await;
            }
            pass(RecordingPolicy::FLUSH * 2).await;
        }
    };
    let stop = bus_core::Stop::default();
    let (own, other, ()) = tokio::join!(own.run(&stop), other.run(&stop), async {
        work.await;
        stop.drain.cancel();
    });
    assert!(own.unwrap().batches >= 40 && other.unwrap().batches >= 39);

    for count in [1, 5, 39] {
        let mut viewer = viewer(&stage, newest(count)).await;
        let wanted: Vec<_> = (40 - count..40).map(|number| format!(":{number}")).collect();
        assert_eq!(shown(&mut viewer, count as usize).await, wanted);
    }
}

#[tokio::test(start_paused = true)]
async fn a_window_may_be_of_bytes_or_of_time() {
    let stage = stage().await;
    let (ann, place) = (speaker(&stage, "ann"), terminal(&stage));
    let recorder = recorder(&stage, RecordingPolicy::default()).await;
    recording(recorder, async {
        for text in ["1111", "2222", "3333"] {
            say(&ann, &place, text).await;
            pass(Duration::from_secs(60)).await;
        }
    })
    .await;

    let bytes = Window { bytes: 9, ..newest(u64::MAX) };
    assert_eq!(shown(&mut viewer(&stage, bytes).await, 2).await, [":2222", ":3333"]);
    let age = Some(Duration::from_secs(100));
    let minutes = Window { age, ..newest(u64::MAX) };
    assert_eq!(viewer(&stage, minutes).await.past_events(), 1);
}

#[tokio::test(start_paused = true)]
async fn tokens_and_terminal_of_the_past_are_told_by_time() {
    let stage = stage().await;
    let ann = speaker(&stage, "ann");
    let (terminal, tokens) = (terminal(&stage), stage.tokens().subject());
    let recorder = recorder(&stage, RecordingPolicy::default()).await;
    recording(recorder, async {
        for (place, text) in [(&terminal, "1"), (&tokens, "2"), (&tokens, "3"), (&terminal, "4")] {
            say(&ann, place, text).await;
            pass(Duration::from_millis(5)).await;
        }
    })
    .await;

    let mut viewer = viewer(&stage, newest(3)).await;

    assert_eq!(shown(&mut viewer, 3).await, [":2", ":3", ":4"]);
}

#[tokio::test(start_paused = true)]
async fn an_empty_window_asks_for_no_past() {
    let stage = stage().await;
    recorded(&stage, &["one"]).await;
    let mut viewer = viewer(&stage, newest(0)).await;
    say(&speaker(&stage, "bob"), &terminal(&stage), "two").await;
    assert_eq!(shown(&mut viewer, 1).await, ["two"]);
}
