//! What is not carried, and where it goes.

use bus_core::Buckets;
use bus_subjects::{BucketName, SessionId};

use super::*;

/// A task signed by `name`, as it would stand in a queue elsewhere.
async fn signed(place: &Place, name: &str) -> Frame {
    let elsewhere = InMemoryBus::with_clock(Arc::clone(&place.home.clock));
    for stream in planes::workspace_streams(&place.home.workspace).unwrap() {
        elsewhere.declare(stream).await.unwrap();
    }
    let identity = place.home.certified(name, Role::Orchestrator).unwrap();
    let engine: Arc<dyn Engine> = Arc::new(elsewhere);
    let parts = bus_core::EndpointParts { engine, ..place.home.parts(identity) };
    let endpoint = Endpoint::new(parts).unwrap();
    endpoint.send(task(&place.home, "signed")).await.unwrap().frame
}

#[tokio::test(start_paused = true)]
async fn an_outbox_takes_tasks_and_letters_only() {
    let place = Place::new().await;
    let workspace = place.home.workspace.clone();
    let other = Address::Task { workspace: "w2".parse().unwrap(), role: place.home.queue.clone() };
    let session: SessionId = "s1".parse().unwrap();
    for subject in [
        place.home.receipts().subject(),
        Address::Tokens { workspace: workspace.clone(), session }.subject(),
        Address::Outbox { workspace, agent: "boss".parse().unwrap() }.subject(),
        other.subject(),
        "some.other.subject".parse().unwrap(),
    ] {
        let frame = Frame::new(subject.clone(), FrameId::parse("x").unwrap(), "");
        let refused = place.outbox().put(frame).await.unwrap_err();
        assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::Invalid, Outcome::NotDone));
        assert_eq!(refused.subject(), Some(subject.as_str()));
    }
    let subject = place.home.tasks().subject();
    let asks = Frame {
        reply: Some("_INBOX.boss.1".parse().unwrap()),
        ..Frame::new(subject.clone(), FrameId::parse("x").unwrap(), "")
    };
    assert_eq!(place.outbox().put(asks).await.unwrap_err().kind(), ErrorKind::Invalid);
    let large = Frame::new(subject, FrameId::parse("x").unwrap(), vec![0; Frame::BYTES_MAX]);
    assert_eq!(place.outbox().put(large).await.unwrap_err().kind(), ErrorKind::TooLarge);
    assert_eq!(place.flaky.calls(), []);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_expected_of_what_the_hub_holds() {
    let place = Place::new().await;
    let frame = Frame::new(place.home.tasks().subject(), FrameId::parse("x").unwrap(), "");
    let refused = place.outbox().append(frame, Expect::LastOfSubject(Seq(0))).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_for_the_hub_stays_at_home() {
    let place = Place::new().await;
    let worker = sender(&place.home, "coder-1", Role::Worker);
    let receipt = bus_envelope::Draft::new(place.home.receipts().subject(), "vak.done", "done");
    worker.record(receipt).await.unwrap();
    assert_eq!(place.home.stored(planes::receipts_stream().unwrap()).await.unwrap().len(), 1);
    let stream = planes::outbox_stream(&place.home.workspace).unwrap();
    assert_eq!(place.home.stored(stream).await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn who_may_not_fill_an_outbox_does_not() {
    let place = Place::new().await;
    let worker = sender(&place.home, "coder-1", Role::Worker);
    let refused = worker.send(task(&place.home, "x")).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Denied);
    let engine =
        Guarded::new(Arc::clone(&place.home.engine), place.boss.identity().certificate().policy());
    let other = Outbox::new(
        Arc::new(engine),
        place.home.workspace.clone(),
        AgentId::parse("someone").unwrap(),
    );
    let frame = Frame::new(place.home.tasks().subject(), FrameId::parse("x").unwrap(), "");
    assert_eq!(other.put(frame).await.unwrap_err().kind(), ErrorKind::Denied);
}

#[tokio::test(start_paused = true)]
async fn a_repeated_send_to_the_hub_is_kept_once() {
    let place = Place::new().await;
    place.flaky.fail(Op::Append, OUTBOX, Fault::LostAfter, 1);
    let ids = place.fill(&["a"]).await;
    place.drain().await;
    assert_eq!(place.flaky.appended(OUTBOX).len(), 2);
    assert_eq!(place.ids_at_hub().await, ids);
}

#[tokio::test(start_paused = true)]
async fn another_message_under_an_id_of_the_outbox_is_told_to_its_sender() {
    let place = Place::new().await;
    place.boss.send(task(&place.home, "a").id("t-1")).await.unwrap();
    let refused = place.boss.send(task(&place.home, "b").id("t-1")).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
}

#[tokio::test(start_paused = true)]
async fn a_record_moved_to_another_subject_is_not_carried() {
    let place = Place::new().await;
    // A worker's own message, put on another subject by whoever can write to the outbox.
    let inbox = Address::Inbox {
        workspace: place.home.workspace.clone(),
        agent: AgentId::parse("boss").unwrap(),
    };
    let parts = place.home.parts(place.home.certified("coder-1", Role::Worker).unwrap());
    let worker = Endpoint::new(parts).unwrap();
    let receipt = bus_envelope::Draft::new(place.home.receipts().subject(), "vak.x", "x");
    let Ok(bus_core::Recorded::Stored(sent)) = worker.record(receipt).await else {
        panic!("a worker may store a receipt")
    };
    let frame = Frame { subject: inbox.subject(), ..sent.frame };
    let id = frame.id.to_string();
    place.smuggle("boss", frame).await;
    place.drain().await;
    place.assert_refused(&id, "made for another subject").await;
}

#[tokio::test(start_paused = true)]
async fn a_record_its_author_may_not_publish_is_not_carried() {
    let place = Place::new().await;
    let frame = signed(&place, "boss-2").await;
    // At the courier's home this agent is known as an observer only.
    let courier = place.home.certified("courier", Role::Keeper).unwrap();
    let roster = bus_core::Roster::new(*place.home.account().public());
    let signer = bus_envelope::wire::decode(&frame.headers, &frame.body).unwrap();
    let nkey = place.home.roster.get(&signer.signature.unwrap().signer).unwrap().nkey;
    let issue = place.home.issue("boss-2", Role::Observer).unwrap();
    roster.admit(&bus_core::certify(place.home.account(), &nkey, &issue).unwrap()).unwrap();
    let parts = bus_core::EndpointParts { roster: Arc::new(roster), ..place.home.parts(courier) };
    let id = frame.id.to_string();
    place.smuggle("boss-2", frame).await;
    let courier =
        Courier::new(Endpoint::new(parts).unwrap(), Arc::clone(&place.hub) as Arc<dyn Engine>);
    let stop = CancellationToken::new();
    tokio::select! {
        ended = place.run(&courier, &stop) => ended.unwrap(),
        () = place.is_empty() => {}
    }
    assert_eq!(place.at_hub().await, []);
    let states = place.states().await;
    let RecordState::Refused { reason, .. } = &states[0].state else { panic!("{states:?}") };
    assert_eq!(states[0].id.as_str(), id);
    assert!(reason.contains("no role of the signer may publish to this subject"), "{reason}");
}

#[tokio::test(start_paused = true)]
async fn a_record_in_the_outbox_of_another_agent_is_not_carried() {
    let place = Place::new().await;
    let frame = signed(&place, "boss-2").await;
    let id = frame.id.to_string();
    place.smuggle("boss", frame).await;
    place.drain().await;
    place.assert_refused(&id, "signed by boss-2 and put into the outbox of boss").await;
}

#[tokio::test(start_paused = true)]
async fn a_record_of_a_revoked_agent_is_not_carried() {
    let place = Place::new().await;
    let ids = place.fill(&["a"]).await;
    let certificate = place.boss.identity().certificate();
    let now = place.home.clock.now();
    let line = Revocation::of(certificate, now).sign(place.home.account()).unwrap();
    let account = place.home.account().public();
    place.home.roster.revoke(&Revocation::parse(&line, account).unwrap()).unwrap();
    place.drain().await;
    place.assert_refused(&ids[0], "the signing key is revoked").await;
}

#[tokio::test(start_paused = true)]
async fn a_damaged_record_is_not_carried_and_keeps_nobody_waiting() {
    let place = Place::new().await;
    let subject = Address::Outbox {
        workspace: place.home.workspace.clone(),
        agent: AgentId::parse("boss").unwrap(),
    };
    let damaged = Frame::new(subject.subject(), FrameId::parse("x").unwrap(), "no frame");
    place.home.engine.append(damaged, Expect::Any).await.unwrap();
    let large = vec![0; Frame::BYTES_MAX];
    let large = Frame::new(subject.subject(), FrameId::parse("y").unwrap(), large);
    place.home.engine.append(large, Expect::Any).await.unwrap();
    let ids = place.fill(&["good"]).await;
    place.drain().await;
    assert_eq!(place.ids_at_hub().await, ids);
    for id in ["x", "y"] {
        let state = place.state(id).await;
        assert!(matches!(state, RecordState::Refused { .. }), "{id}: {state:?}");
    }
    // The other one is too large for a letter.
    assert_eq!(place.home.letters().await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_subject_that_the_hub_denies_is_refused_and_the_others_are_carried() {
    let place = Place::new().await;
    let to = AgentId::parse("coder-1").unwrap();
    let letter = place.boss.send_to(&to, task(&place.home, "letter")).await.unwrap().id;
    let ids = place.fill(&["a"]).await;
    let mut policy = place.boss.identity().certificate().policy();
    policy.publish.deny.push(Filter::parse("vak.agent.>").unwrap());
    let hub = Guarded::new(Arc::clone(&place.hub) as Arc<dyn Engine>, policy);
    let (courier, stop) = (place.courier_to(Arc::new(hub)), CancellationToken::new());
    tokio::select! {
        ended = place.run(&courier, &stop) => ended.unwrap(),
        () = place.is_empty() => {}
    }
    assert_eq!(place.ids_at_hub().await, ids);
    assert!(matches!(place.state(&letter).await, RecordState::Refused { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_courier_that_the_hub_does_not_let_in_leaves_all_where_it_is() {
    let place = Place::new().await;
    place.fill(&["a", "b"]).await;
    // A refusal that is about no subject.
    place.hub.fail(Op::Append, WORK, Fault::Refused(ErrorKind::Denied), 99);
    let stop = CancellationToken::new();
    let ended = place.run(&place.courier(), &stop).await.unwrap_err();
    assert_eq!(ended.kind(), ErrorKind::Denied);
    assert_eq!(place.outbox().counts().await.unwrap().waiting, 2);
    assert_eq!(place.home.letters().await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn something_else_under_the_same_id_at_the_hub_is_no_arrival() {
    let place = Place::new().await;
    let other = Frame::new(place.home.tasks().subject(), FrameId::parse("t-1").unwrap(), "other");
    place.hub.append(other, Expect::Any).await.unwrap();
    place.boss.send(task(&place.home, "mine").id("t-1")).await.unwrap();
    // A courier that may see what the hub holds.
    let hub = Arc::clone(&place.hub) as Arc<dyn Engine>;
    let (courier, stop) = (place.courier_to(hub), CancellationToken::new());
    tokio::select! {
        ended = place.run(&courier, &stop) => ended.unwrap(),
        () = place.is_empty() => {}
    }
    let RecordState::Refused { reason, .. } = place.state("t-1").await else {
        panic!("it is taken for its own")
    };
    assert_eq!(reason, "something else is stored at the hub under its id");
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_that_cannot_be_stored_keeps_its_record() {
    let place = Place::new().await;
    let forged = Frame::new(place.home.tasks().subject(), FrameId::parse("x").unwrap(), "forged");
    place.smuggle("boss", forged).await;
    place.flaky.fail(Op::Append, "vak.dlq.", Fault::Refused(ErrorKind::Full), 4);
    place.drain().await;
    place.assert_refused("x", "").await;
}

#[tokio::test(start_paused = true)]
async fn a_home_that_is_full_for_good_sends_nothing_twice() {
    let place = Place::new().await;
    place.fill(&["a", "b"]).await;
    place.flaky.fail(Op::Put, "VAK_OUTBOX_", Fault::Refused(ErrorKind::Full), 999);
    place.drain().await;
    assert_eq!(place.at_hub().await.len(), 2);
    assert_eq!(place.hub.appended(WORK).len(), 2, "each is asked for once");
}

#[tokio::test(start_paused = true)]
async fn a_home_that_does_not_answer_is_not_taken_for_a_full_one() {
    let place = Place::new().await;
    place.boss.send(task(&place.home, "t")).await.unwrap();
    place.flaky.fail(Op::Put, "VAK_OUTBOX_", Fault::Refused(ErrorKind::Unavailable), 4);
    place.flaky.fail(Op::Put, "VAK_OUTBOX_", Fault::Refused(ErrorKind::Full), 1);
    place.drain().await;
    let states = place.states().await;
    assert!(states.iter().all(|record| is_at_hub(&record.state)), "{states:?}");
    assert_eq!(states.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_full_mailbox_at_the_hub_holds_up_nobody_else() {
    let place = Place::new().await;
    place.hub.fail(Op::Append, "vak.agent.", Fault::Refused(ErrorKind::Full), 99);
    let (workspace, agent) = (place.home.workspace.clone(), "nobody".parse().unwrap());
    let inbox = Address::Inbox { workspace, agent }.subject();
    let letter = bus_envelope::Draft::new(inbox, "vak.letter", "read me");
    place.boss.send(letter).await.unwrap();
    let ids = place.fill(&["a", "b"]).await;
    place.run_for(Duration::from_secs(20)).await;
    assert_eq!(place.ids_at_hub().await, ids);
}

#[tokio::test(start_paused = true)]
async fn a_refused_record_that_is_redriven_goes_to_the_hub() {
    let place = Place::new().await;
    let ids = place.fill(&["a"]).await;
    let mut policy = place.boss.identity().certificate().policy();
    policy.publish.deny.push(Filter::parse("vak.work.>").unwrap());
    let hub = Guarded::new(Arc::clone(&place.hub) as Arc<dyn Engine>, policy);
    let (courier, stop) = (place.courier_to(Arc::new(hub)), CancellationToken::new());
    tokio::select! {
        ended = place.run(&courier, &stop) => ended.unwrap(),
        () = place.is_empty() => {}
    }
    place.assert_refused(&ids[0], "the hub refuses it").await;
    let operator = place.home.agent("ann", Role::Operator).unwrap();
    let redriven = DeadLetters::new(operator).redrive(Seq(1), &Redrive::default()).await.unwrap();
    place.drain().await;
    assert_eq!(place.ids_at_hub().await, [format!("{}.r1", ids[0])]);
    assert_eq!(redriven.frame_id.as_str(), format!("{}.r1", ids[0]));
    let worker = place.home.agent("coder-1", Role::Worker).unwrap();
    assert_eq!(&*worker.open(&place.at_hub().await[0]).unwrap().payload, b"a");
    assert_eq!(place.home.lag().await.unwrap().pending, 0);
    // It is settled: nobody has to look at it for a week.
    let counts = place.outbox().counts().await.unwrap();
    assert_eq!((counts.waiting, counts.at_hub, counts.refused), (0, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_signer_that_cannot_be_looked_up_is_waited_for() {
    use std::sync::atomic::{AtomicU32, Ordering};

    let place = Place::new().await;
    let ids = place.fill(&["a"]).await;
    let certificate = place.boss.identity().certificate().token().to_owned();
    let looks = Arc::new(AtomicU32::new(0));
    let looked = Arc::clone(&looks);
    let roster =
        bus_core::Roster::new(*place.home.account().public()).finding(move |_| {
            match looked.fetch_add(1, Ordering::Relaxed) {
                0..3 => Err("the disk is away"),
                _ => Ok(Some(certificate.clone())),
            }
        });
    let mut parts = place.home.parts(place.home.certified("courier", Role::Keeper).unwrap());
    parts.roster = Arc::new(roster);
    let hub = Arc::clone(&place.hub) as Arc<dyn Engine>;
    let courier = Courier::new(Endpoint::new(parts).unwrap(), hub);
    let stop = CancellationToken::new();
    tokio::select! {
        ended = place.run(&courier, &stop) => ended.unwrap(),
        () = place.is_empty() => {}
    }
    assert_eq!(place.ids_at_hub().await, ids);
    assert!(is_at_hub(&place.state(&ids[0]).await));
    assert!(looks.load(Ordering::Relaxed) > 3);
}

#[tokio::test(start_paused = true)]
async fn what_is_no_frame_at_the_hub_is_not_asked_for_for_ever() {
    let place = Place::new().await;
    let ids = place.fill(&["a"]).await;
    // Stored, and its answer lost: asked again it is a duplicate, which is looked at.
    place.hub.fail(Op::Append, WORK, Fault::LostAfter, 1);
    place.hub.fail(Op::Read, "VAK_WORK_w1", Fault::Refused(ErrorKind::Corrupt), 99);
    let hub = Arc::clone(&place.hub) as Arc<dyn Engine>;
    let (courier, stop) = (place.courier_to(hub), CancellationToken::new());
    tokio::select! {
        ended = place.run(&courier, &stop) => ended.unwrap(),
        () = place.is_empty() => {}
    }
    assert!(matches!(place.state(&ids[0]).await, RecordState::Refused { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_damaged_state_costs_no_record() {
    let place = Place::new().await;
    let ids = place.fill(&["a"]).await;
    place.hub.fail(Op::Append, WORK, Fault::Refused(ErrorKind::Unavailable), 1);
    place.run_for(Duration::from_millis(100)).await;
    let key = place.flaky.calls().into_iter().rfind(|call| call.op == Op::Put).unwrap().at;
    let key = key.strip_prefix(STATES).unwrap().parse::<String>().unwrap();
    let bucket = BucketName::outbox(&place.home.workspace);
    let key = bus_subjects::BucketKey::parse(&key).unwrap();
    Buckets::put(&*place.flaky, bucket, key, bus_core::Put::new("damaged")).await.unwrap();
    place.drain().await;
    assert_eq!(place.ids_at_hub().await, ids);
}

#[tokio::test(start_paused = true)]
async fn what_stands_behind_a_record_without_room_waits_for_it_in_whatever_part_it_goes() {
    let place = Place { in_runs: true, ..Place::new().await };
    let ids = place.fill(&["a", "b", "c", "d", "e"]).await;
    // Five, then the first two of them, and then the first alone, for which there is no room.
    place.hub.fail(Op::AppendAll, WORK, Fault::LostBefore, 2);
    place.hub.fail(Op::Append, WORK, Fault::Refused(ErrorKind::Full), 1);
    place.drain().await;
    assert_eq!(place.ids_at_hub().await, ids);
}

#[tokio::test(start_paused = true)]
async fn a_slow_answer_to_others_brings_nothing_before_a_record_without_room() {
    let place = Place { in_runs: true, ..Place::new().await };
    let to = AgentId::parse("coder-1").unwrap();
    let first = place.boss.send(task(&place.home, "a")).await.unwrap().id;
    place.boss.send_to(&to, task(&place.home, "letter")).await.unwrap();
    let second = place.boss.send(task(&place.home, "b")).await.unwrap().id;
    place.hub.fail(Op::Append, WORK, Fault::Refused(ErrorKind::Full), 1);
    // Longer than what has no room rests.
    let slow = Fault::SlowBefore(Duration::from_secs(40));
    place.hub.fail(Op::Append, "vak.agent.", slow, 1);
    place.drain().await;
    assert_eq!(place.ids_at_hub().await, [first, second]);
}

#[tokio::test(start_paused = true)]
async fn a_courier_busy_for_minutes_brings_nothing_before_a_record_without_room() {
    let place = Place::new().await;
    let first = place.boss.send(task(&place.home, "a")).await.unwrap().id;
    for id in ["x", "y", "z"] {
        let frame_id = FrameId::parse(id).unwrap();
        place.smuggle("boss", Frame::new(place.home.tasks().subject(), frame_id, "forged")).await;
    }
    let second = place.boss.send(task(&place.home, "b")).await.unwrap().id;
    place.hub.fail(Op::Append, WORK, Fault::Refused(ErrorKind::Full), 1);
    place.flaky.fail(Op::Append, "vak.dlq.", Fault::SlowBefore(Duration::from_secs(30)), 3);
    place.drain().await;
    assert_eq!(place.ids_at_hub().await, [first, second]);
}
