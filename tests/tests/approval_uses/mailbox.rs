//! Verdicts come by the mailbox, which who waits for one shares with everybody else.

use bus_core::Mail;
use bus_envelope::Draft;

use super::*;

/// A message to the worker that is no verdict.
async fn steer(scene: &Scene, text: &str) {
    let boss = scene.stage.agent(&format!("boss-{text}"), Role::Orchestrator).unwrap();
    let workspace = scene.stage.workspace.clone();
    let agent = scene.worker.agent().clone();
    let subject = bus_subjects::Address::Inbox { workspace, agent }.subject();
    let draft = Draft::new(subject, "vak.message", text.to_owned());
    boss.send_to(scene.worker.agent(), draft).await.unwrap();
}

/// What is in the worker's mailbox, taken out: texts and which delivery each was.
async fn take_out(scene: &Scene) -> Vec<(String, u32)> {
    let mut mailbox = scene.worker.mailbox(LEASE).await.unwrap();
    let mut taken = Vec::new();
    for _ in 0..scene.waiting().await {
        let mail: Mail = mailbox.next().await.unwrap().unwrap();
        let opened = mail.content.as_ref().unwrap();
        let text = String::from_utf8(opened.payload.to_vec()).unwrap();
        taken.push((text, mail.attempt()));
        mail.ack().await.unwrap();
    }
    taken.sort();
    taken
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_verdict_takes_no_other_message() {
    let scene = Scene::new().await;
    for text in ["a", "b"] {
        steer(&scene, text).await;
    }
    let asked = scene.ask().await;
    let (used, ()) = tokio::join!(take(&scene.desk, &asked, Some(scene.in_a_minute())), async {
        for _ in 0..20 {
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        steer(&scene, "c").await;
        scene.answer(&asked, "yes").await;
    });
    used.unwrap();
    // What was handed back rests for a while; nothing of it counts as tried.
    tokio::time::advance(Duration::from_secs(30)).await;
    let all = ["a", "b", "c"].map(|text| (text.to_owned(), 1));
    assert_eq!(take_out(&scene).await, all);
}

#[tokio::test(start_paused = true)]
async fn a_look_for_a_verdict_that_is_not_there_leaves_the_mailbox_as_it_was() {
    let scene = Scene::new().await;
    for text in ["a", "b", "c"] {
        steer(&scene, text).await;
    }
    let asked = scene.ask().await;
    assert_eq!(code(scene.take(&asked).await), "decision-open");
    let all = ["a", "b", "c"].map(|text| (text.to_owned(), 1));
    assert_eq!(take_out(&scene).await, all);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_is_told_when_another_process_had_the_use() {
    for limit in [2, 3600] {
        let scene = Scene::new().await;
        let asked = scene.ask().await;
        let until = scene.stage.clock.now().plus(Duration::from_secs(limit));
        // The other one has the notice, and uses it, while this one waits.
        let mut mailbox = scene.worker.mailbox(LEASE).await.unwrap();
        scene.answer(&asked, "yes").await;
        let notice = mailbox.next().await.unwrap().unwrap();
        let (known, began) = (scene.known(&asked).await, tokio::time::Instant::now());
        let (waited, ()) = tokio::join!(take(&scene.desk, &asked, Some(until)), async {
            let more = tokio::time::timeout(Duration::from_secs(1), mailbox.next()).await;
            assert!(more.is_err(), "a second notice came");
            let there = scene.another();
            let ask = there.ask(ACTION, TARGET, None).unwrap();
            there.consume(&known, &ask).await.unwrap();
            notice.ack().await.unwrap();
        });
        assert_eq!(code(waited), "decision-consumed");
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn two_waiters_of_one_agent_both_get_theirs() {
    let scene = Scene::new().await;
    let (one, two) = (scene.ask().await, scene.ask().await);
    let (here, there) = (scene.another(), scene.another());
    let until = Some(scene.in_a_minute());
    let started = tokio::time::Instant::now();
    let (first, second, ()) =
        tokio::join!(take(&here, &one, until), take(&there, &two, until), async {
            scene.answer(&two, "yes").await;
            scene.answer(&one, "yes").await;
        });
    assert_eq!(first.unwrap().approval, one.approval);
    assert_eq!(second.unwrap().approval, two.approval);
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    assert_eq!(scene.waiting().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_at_its_time_as_open() {
    let scene = Scene::new().await;
    let asked = scene.ask().await;
    let until = scene.in_a_minute();
    assert_eq!(code(take(&scene.desk, &asked, Some(until)).await), "decision-open");
    assert!(scene.stage.clock.now() >= until);
    assert!(scene.stage.clock.now() < until.plus(Duration::from_secs(5)));
}

#[tokio::test(start_paused = true)]
async fn a_verdict_that_was_read_away_is_missing_and_can_be_sent_again() {
    let scene = Scene::new().await;
    let asked = scene.allowed().await;
    assert_eq!(take_out(&scene).await.len(), 1);
    assert_eq!(code(scene.take(&asked).await), "decision-open");
    // Mailboxes know ids for ten minutes; then the same verdict comes again.
    tokio::time::advance(Duration::from_secs(601)).await;
    scene.answer(&asked, "yes").await;
    scene.take(&asked).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_verdict_that_no_operator_signed_is_not_used() {
    let scene = Scene::new().await;
    let asked = scene.ask().await;
    let boss = scene.stage.agent("boss", Role::Orchestrator).unwrap();
    let verdict =
        bus_core::ApprovalVerdict::new(&asked.id, &request(), "yes", None, scene.stage.clock.now());
    let (workspace, agent) = (scene.stage.workspace.clone(), scene.worker.agent().clone());
    let subject = bus_subjects::Address::Inbox { workspace, agent }.subject();
    let json = verdict.unwrap().to_json().unwrap();
    let draft = Draft::new(subject, bus_core::ApprovalVerdict::EVENT_TYPE, json)
        .id(format!("{}.notice", "1".repeat(64)))
        .cause(asked.approval)
        .session(asked.session.clone());
    boss.send_to(scene.worker.agent(), draft).await.unwrap();
    assert_eq!(code(scene.take(&asked).await), "decision-open");
    assert!(scene.records().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_verdict_is_found_by_the_id_of_the_request() {
    let scene = Scene::new().await;
    let asked = scene.desk.request(Some("ask-1"), &request()).await.unwrap();
    // Whoever asked died here: the next life asks again, is told that the id is known, and waits.
    let again = scene.another();
    let known = again.request(Some("ask-1"), &request()).await.unwrap_err();
    assert_eq!(known.kind(), bus_core::ErrorKind::Conflict);
    let name = bus_authority::ApprovalName::new("ask-1");
    let ask = again.ask(ACTION, TARGET, None).unwrap();
    let (used, ()) = tokio::join!(
        again.take(&name, &ask, Some(scene.in_a_minute())),
        scene.answer(&asked, "yes")
    );
    assert_eq!(used.unwrap().approval, asked.approval);
    let spent = again.take(&name, &ask, Some(scene.in_a_minute())).await;
    assert_eq!(code(spent), "decision-consumed");
}
