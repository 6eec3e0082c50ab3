//! The law: whatever fails and is killed in between, every record arrives once and has a state.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// One thing that goes wrong.
#[derive(Debug, Clone, Copy)]
enum Mishap {
    Hub(Op, Fault, u32),
    Home(Op, &'static str, Fault, u32),
    /// The courier runs for so many milliseconds and is dropped.
    Kill(u64),
    /// The same, but it is told to stop.
    Stop(u64),
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        Just(Fault::LostBefore),
        Just(Fault::LostAfter),
        Just(Fault::StuckAfter),
        Just(Fault::Refused(ErrorKind::Unavailable)),
        Just(Fault::Refused(ErrorKind::Timeout)),
        Just(Fault::Refused(ErrorKind::Full)),
        (1_u64..40_000).prop_map(|ms| Fault::SlowBefore(Duration::from_millis(ms))),
    ]
}

/// At home a call that never ends would end nowhere: engines answer there within their time.
fn home_fault() -> impl Strategy<Value = Fault> {
    fault().prop_filter("it answers", |fault| !matches!(fault, Fault::StuckAfter))
}

fn mishap() -> impl Strategy<Value = Mishap> {
    prop_oneof![
        4 => (prop_oneof![Just(Op::Append), Just(Op::AppendAll)], fault(), 1_u32..4)
            .prop_map(|(op, fault, times)| Mishap::Hub(op, fault, times)),
        4 => (
            prop_oneof![
                Just((Op::Put, STATES)),
                Just((Op::Get, STATES)),
                Just((Op::Settle, OUTBOX)),
                Just((Op::Append, "vak.dlq.")),
                Just((Op::RemoveConsumer, "VAK_OUTBOX_")),
            ],
            home_fault(),
            1_u32..3,
        )
            .prop_map(|((op, at), fault, times)| Mishap::Home(op, at, fault, times)),
        3 => (0_u64..3_000).prop_map(Mishap::Kill),
        1 => (0_u64..3_000).prop_map(Mishap::Stop),
    ]
}

/// What is sent: tasks and letters in turn, and here and there something forged.
async fn send(place: &Place, kinds: &[u8]) -> (Vec<String>, BTreeSet<String>) {
    let (mut good, mut forged) = (Vec::new(), BTreeSet::new());
    let to = AgentId::parse("coder-1").unwrap();
    for (at, kind) in kinds.iter().enumerate() {
        match kind {
            0 => good.push(place.boss.send(task(&place.home, "t")).await.unwrap().id),
            1 => good.push(place.boss.send_to(&to, task(&place.home, "l")).await.unwrap().id),
            _ => {
                let id = format!("forged-{at}");
                let frame_id = FrameId::parse(&id).unwrap();
                let frame = Frame::new(place.home.tasks().subject(), frame_id, "forged");
                place.smuggle("boss", frame).await;
                forged.insert(id);
            }
        }
    }
    (good, forged)
}

/// Everything at the hub, tasks and letters, by their ids.
async fn arrived(place: &Place) -> Vec<String> {
    let workspace = &place.home.workspace;
    let mut ids = Vec::new();
    for stream in [planes::work_stream(workspace), planes::inbox_stream(workspace)] {
        let mut replay = place.hub.replay(stream.unwrap(), Filter::all(), Seq(1)).await.unwrap();
        while let Some(stored) = replay.next().await {
            ids.push(stored.unwrap().frame.id.to_string());
        }
    }
    ids
}

async fn holds(in_runs: bool, kinds: Vec<u8>, mishaps: Vec<Mishap>) -> Result<(), TestCaseError> {
    let place = Place { in_runs, ..Place::new().await };
    let (good, forged) = send(&place, &kinds).await;
    // A home that says four times that it is full is taken at its word, and the state is untold.
    let mut full_left = 3;
    for mishap in &mishaps {
        match *mishap {
            Mishap::Home(Op::Put, at, fault @ Fault::Refused(ErrorKind::Full), times) => {
                let times = times.min(full_left);
                full_left -= times;
                if times > 0 {
                    place.flaky.fail(Op::Put, at, fault, times);
                }
            }
            Mishap::Hub(op, fault, times) => place.hub.fail(op, "vak.", fault, times),
            Mishap::Home(op, at, fault, times) => place.flaky.fail(op, at, fault, times),
            Mishap::Kill(ms) => place.run_for(Duration::from_millis(ms)).await,
            Mishap::Stop(ms) => {
                let (courier, stop) = (place.courier(), CancellationToken::new());
                let soon = async {
                    pass(Duration::from_millis(ms)).await;
                    stop.cancel();
                };
                let (ended, ()) = tokio::join!(place.run(&courier, &stop), soon);
                prop_assert!(ended.is_ok(), "{ended:?}");
            }
        }
    }
    place.drain().await;

    let ids = arrived(&place).await;
    let distinct: BTreeSet<&String> = ids.iter().collect();
    prop_assert_eq!(distinct.len(), ids.len(), "something is there twice");
    prop_assert_eq!(distinct, good.iter().collect::<BTreeSet<_>>());
    // Per stream in the order in which they were sent.
    let tasks = place.ids_at_hub().await;
    let sent: Vec<&String> = good.iter().filter(|id| tasks.contains(id)).collect();
    prop_assert_eq!(tasks.iter().collect::<Vec<_>>(), sent);
    // Each has a state, which is true.
    let states = place.states().await;
    prop_assert_eq!(states.len(), kinds.len());
    for record in states {
        let is_forged = forged.contains(record.id.as_str());
        prop_assert_eq!(is_at_hub(&record.state), !is_forged);
        prop_assert_eq!(matches!(record.state, RecordState::Refused { .. }), is_forged);
    }
    let letters = place.home.letters().await.unwrap();
    let lettered: Vec<&str> = letters.iter().map(|letter| letter.original.id.as_str()).collect();
    prop_assert_eq!(lettered.len(), forged.len());
    prop_assert!(lettered.iter().all(|id| forged.contains(*id)));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn whatever_fails_and_is_killed_every_record_arrives_once_and_has_a_state(
        in_runs: bool,
        kinds in proptest::collection::vec(0_u8..3, 1..12),
        mishaps in proptest::collection::vec(mishap(), 0..10),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(holds(in_runs, kinds, mishaps))?;
    }
}
