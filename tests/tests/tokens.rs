//! Streams of tokens, as whoever hears them puts them together.

#![expect(clippy::unwrap_used, reason = "the helpers of a story that cannot be told fail it")]

use std::time::Duration;

use bus_core::{Endpoint, ErrorKind, EventFeed, Incoming, Opened, Overflow};
use bus_runner::{
    EndReason, EventPlace, TOKENS_BYTES_MAX, TOKENS_END, TOKENS_TEXT, TokenKind, TokenStream,
};
use bus_stories::{Fault, Op, Stage};
use bus_subjects::{Address, Role};
use proptest::prelude::*;
use tokio::runtime::Builder;

/// A stream of the stage's session, and who hears it.
async fn stream(stage: &Stage) -> (TokenStream, EventFeed, Endpoint) {
    let observer = stage.agent("observer", Role::Observer).unwrap();
    let filter = Address::filter_session_events(&stage.workspace, &stage.session);
    let overflow = Overflow::DropOldest { capacity: 4096.try_into().unwrap() };
    let feed = observer.subscribe(filter, overflow).await.unwrap();
    let worker = stage.agent("w", Role::Worker).unwrap();
    let place = EventPlace::of_session(stage.session.clone());
    (TokenStream::start(worker, place, "main").unwrap(), feed, observer)
}

async fn next(feed: &mut EventFeed) -> Opened {
    loop {
        if let Incoming::Message(opened) = feed.next().await.unwrap() {
            return *opened;
        }
    }
}

fn text(opened: &Opened) -> &str {
    std::str::from_utf8(&opened.payload).unwrap()
}

fn offset(opened: &Opened) -> usize {
    opened.envelope.extensions.get("offset").unwrap().parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn tokens_that_come_together_share_an_event() {
    let stage = Stage::new().await.unwrap();
    let (stream, mut feed, _observer) = stream(&stage).await;
    for token in ["a", "b", "c"] {
        stream.text(token).await.unwrap();
    }
    assert_eq!(text(&next(&mut feed).await), "abc");
}

#[tokio::test(start_paused = true)]
async fn a_token_does_not_wait_for_one_that_comes_late() {
    let stage = Stage::new().await.unwrap();
    let (stream, mut feed, _observer) = stream(&stage).await;
    let begin = tokio::time::Instant::now();
    stream.text("a").await.unwrap();
    assert_eq!(text(&next(&mut feed).await), "a");
    assert!(begin.elapsed() < Duration::from_millis(50), "{:?}", begin.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_stream_says_how_it_ended_and_how_long_it_was() {
    let stage = Stage::new().await.unwrap();
    let (stream, mut feed, _observer) = stream(&stage).await;
    stream.thinking("hm").await.unwrap();
    stream.text("yes").await.unwrap();
    stream.end(EndReason::Stop).await.unwrap();
    assert_eq!(text(&next(&mut feed).await), "hm");
    assert_eq!(text(&next(&mut feed).await), "yes");
    let end = next(&mut feed).await;
    assert_eq!(end.envelope.event_type, TOKENS_END);
    assert_eq!(text(&end), r#"{"reason":"stop","text_bytes":3,"thinking_bytes":2}"#);
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_published_is_told_once_and_seen_by_its_gap() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    let (stream, mut feed, _observer) = stream(&stage).await;
    flaky.fail(Op::Publish, "vak.events", Fault::Refused(ErrorKind::Unavailable), 1);
    stream.text("lost").await.unwrap();
    assert_eq!(stream.flush().await.unwrap_err().kind(), ErrorKind::Unavailable);
    stream.text("heard").await.unwrap();
    stream.flush().await.unwrap();
    let heard = next(&mut feed).await;
    assert_eq!((text(&heard), offset(&heard)), ("heard", 4));
}

#[tokio::test(start_paused = true)]
async fn a_bus_that_does_not_answer_holds_up_nobody_and_what_is_lost_of_it_is_counted() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    let (stream, mut feed, _observer) = stream(&stage).await;
    flaky.fail(Op::Publish, "vak.events", Fault::SlowBefore(Duration::from_secs(3600)), 1);
    let (begin, piece, count) = (tokio::time::Instant::now(), "x".repeat(1024), 2048);
    for _ in 0..count {
        stream.text(&piece).await.unwrap();
    }
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());

    // The newest of it is there when the bus answers again.
    let told = stream.flush().await.unwrap_err();
    let (mut heard, mut last) = (0, 0);
    while last < count * piece.len() {
        let event = next(&mut feed).await;
        heard += event.payload.len();
        last = offset(&event) + event.payload.len();
    }
    let lost = count * piece.len() - heard;
    assert!(lost > 0 && heard > 200 * 1024, "{lost} lost, {heard} heard");
    assert!(told.to_string().contains(&format!("{lost} bytes of tokens")), "{told}");
    stream.text("more").await.unwrap();
    stream.flush().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_bus_that_is_away_refuses_nothing_that_comes_next() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    let (stream, mut feed, _observer) = stream(&stage).await;
    flaky.fail(Op::Publish, "vak.events", Fault::Refused(ErrorKind::Unavailable), 1);
    stream.text("lost").await.unwrap();
    // It goes out, and is refused, before the next one comes.
    let _passed = tokio::time::timeout(Duration::from_secs(1), feed.next()).await;
    stream.text("heard").await.unwrap();
    assert_eq!(stream.flush().await.unwrap_err().kind(), ErrorKind::Unavailable);
    let heard = next(&mut feed).await;
    assert_eq!((text(&heard), offset(&heard)), ("heard", 4));
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_the_end_of_a_stream_does_not_wait_for_each_piece_of_it() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    let (stream, _feed, _observer) = stream(&stage).await;
    flaky.fail(Op::Publish, "vak.events", Fault::Refused(ErrorKind::Unavailable), 3);
    for _ in 0..20 {
        stream.text(&"x".repeat(4096)).await.unwrap();
    }
    let told = stream.end(EndReason::Stop).await.unwrap_err();
    assert!(told.to_string().contains("81920 bytes of tokens"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_no_token_is_refused() {
    let stage = Stage::new().await.unwrap();
    let worker = stage.agent("w", Role::Worker).unwrap();
    let place = EventPlace::of_session(stage.session.clone());
    let error = TokenStream::start(worker, place, "a.b").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn what_is_heard_is_what_was_said_in_whole_characters(
        pieces in proptest::collection::vec("[a-z\u{e9}\u{20ac}\u{1f44d}]{0,9000}", 1..6),
    ) {
        let runtime = Builder::new_current_thread().enable_all().start_paused(true).build();
        let said = pieces.concat();
        let events = runtime.unwrap().block_on(async {
            let stage = Stage::new().await.unwrap();
            let (stream, mut feed, _observer) = stream(&stage).await;
            for piece in &pieces {
                stream.push(TokenKind::Text, piece).await.unwrap();
            }
            stream.end(EndReason::Stop).await.unwrap();
            let mut events = Vec::new();
            loop {
                let opened = next(&mut feed).await;
                if opened.envelope.event_type != TOKENS_TEXT {
                    break events;
                }
                events.push(opened);
            }
        });
        let mut heard = String::new();
        for event in &events {
            prop_assert_eq!(offset(event), heard.len());
            prop_assert!((1..=TOKENS_BYTES_MAX).contains(&event.payload.len()));
            heard.push_str(text(event));
        }
        prop_assert_eq!(heard, said);
    }
}
