//! Attacks that twist a right which an agent has into one that it does not have.

use bus_crypto::jwt::{Permissions, ResponsePermission};
use bus_nats::server::ServerConfig;
use bus_subjects::Role;
use serde_json::{Value, json};

use crate::world::{Admin, Shape, World, rights_of};

/// Consumers that are another's: stream, name, and what they hand out.
const OTHERS: [(&str, &str, &str); 2] = [
    ("VAK_INBOX_w1", "inbox_a2", "vak.agent.w1.a2.inbox"),
    ("VAK_WORK_w1", "worker_judge", "vak.work.w1.judge.task"),
];

/// The attacker's own.
const OWN: [(&str, &str, &str); 2] = [
    ("VAK_INBOX_w1", "inbox_a1", "vak.agent.w1.a1.inbox"),
    ("VAK_WORK_w1", "worker_coder", "vak.work.w1.coder.task"),
];

/// A server that knows the short form of acknowledgements alone, and one that knows both.
fn both_forms() -> [World; 2] {
    let linked = ServerConfig { domain: Some("hub".to_owned()), ..ServerConfig::default() };
    [ServerConfig::default(), linked].map(|config| {
        let world = World::start_with(Shape::Two, config);
        world.furnish();
        world
    })
}

/// Of each consumer of others one message is under way, and one waits. Gives out the replies of
/// those under way.
fn prepare(admin: &mut Admin) -> Vec<String> {
    for (stream, name, filter) in OWN {
        admin.consumer(stream, name, filter);
    }
    let hand_out = |(stream, name, subject): (&str, &str, &str)| {
        for body in ["under way", "secret"] {
            admin.store(subject, body);
        }
        let next = format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{name}");
        admin.0.ask(&next, r#"{"batch":1}"#).unwrap().reply.unwrap()
    };
    OTHERS.into_iter().map(hand_out).collect()
}

/// How far the consumers of others are, after all that was sent to them before.
fn state(admin: &mut Admin, replies: &[String]) -> Vec<Value> {
    let of_one = |((stream, name, _), reply): ((&str, &str, &str), &String)| {
        // Carried out after what came before it, and says nothing but that there is more to come.
        assert!(!admin.0.ask(reply, "+WPI").unwrap().is_from_nobody(), "{reply}");
        let info = admin.api(&format!("CONSUMER.INFO.{stream}.{name}"), &Value::Null);
        json!({
            "delivered": info["delivered"]["consumer_seq"],
            "floor": info["ack_floor"]["consumer_seq"],
            "held": info["num_ack_pending"],
            "again": info["num_redelivered"],
            "pulls": info["num_waiting"],
            "left": info["num_pending"],
        })
    };
    OTHERS.into_iter().zip(replies).map(of_one).collect()
}

/// Both forms of an acknowledgement of `other`, as long and as mixed with `own` as may be.
fn acknowledgements(other: (&str, &str, &str), own: (&str, &str, &str)) -> Vec<String> {
    let name = |(stream, name, _): (&str, &str, &str)| format!("{stream}.{name}");
    let (other, own) = (name(other), name(own));
    let starts = [
        other.clone(),
        format!("{other}.{own}"),
        format!("{own}.{other}"),
        format!("hub.h.{other}"),
    ];
    let longer = |start: &String| -> Vec<String> {
        (0..10).map(|levels| format!("$JS.ACK.{start}{}", ".1".repeat(levels))).collect()
    };
    starts.iter().flat_map(longer).collect()
}

/// Sends all acknowledgements of what others hold, and says what was heard of them.
fn acknowledge(world: &World, rights: Permissions, replies: &[String]) -> Vec<String> {
    let mut attacker = world.agent("a1", rights);
    let inbox = attacker.new_inbox();
    attacker.subscribe(&inbox);
    let mixed = OTHERS.into_iter().flat_map(|other| OWN.map(|own| acknowledgements(other, own)));
    for subject in mixed.flatten().chain(replies.iter().cloned()) {
        for body in [r#"+NXT {"batch":1}"#, "+NXT", "-NAK", "+TERM", "+ACK"] {
            attacker.publish(&subject, &inbox, body);
        }
    }
    attacker.fence();
    attacker.heard().into_iter().map(|heard| heard.body).collect()
}

#[test]
fn nobody_settles_or_takes_what_another_consumer_hands_out() {
    for world in both_forms() {
        let mut admin = world.admin();
        let replies = prepare(&mut admin);
        let before = state(&mut admin, &replies);
        for role in Role::ALL {
            let heard = acknowledge(&world, rights_of(role, "a1"), &replies);
            let is_theirs = |heard: &String| heard == "secret" || heard == "under way";
            assert!(!heard.iter().any(is_theirs), "{role}: {heard:?}");
            assert_eq!(before, state(&mut admin, &replies), "{role}");
        }
    }
}

/// That the attack above is seen, and why the lengths of acknowledgements are granted.
#[test]
fn with_acknowledgements_of_any_length_what_others_wait_for_is_taken() {
    for world in both_forms() {
        let mut admin = world.admin();
        let replies = prepare(&mut admin);
        let before = state(&mut admin, &replies);
        let mut rights = rights_of(Role::Worker, "a1");
        rights.publish.allow.push("$JS.ACK.*.*.VAK_INBOX_w1.inbox_a1.>".to_owned());
        acknowledge(&world, rights, &replies);
        assert_ne!(before, state(&mut admin, &replies));
    }
}

#[test]
fn both_forms_of_its_own_acknowledgements_are_an_agents_to_send() {
    for world in both_forms() {
        let mut admin = world.admin();
        prepare(&mut admin);
        let mut worker = world.agent_in(Role::Worker, "a1");
        for (stream, name, subject) in OWN {
            admin.store(subject, "own");
            let next = format!("vakj.CONSUMER.MSG.NEXT.{stream}.{name}");
            let own = worker.ask(&next, r#"{"batch":1}"#).unwrap();
            assert_eq!(own.body, "own");
            let reply = own.reply.unwrap();
            assert!(!worker.ask(&reply, "+ACK").unwrap().is_from_nobody(), "{reply}");
            let info = admin.api(&format!("CONSUMER.INFO.{stream}.{name}"), &Value::Null);
            assert_eq!(info["num_ack_pending"], 0, "{reply}");
        }
    }
}

/// What a worker might lend itself: denied, stored at others', or asked of the store.
const LENT: [&str; 9] = [
    "vak.work.w1.judge.task",
    "vakp.9._.vak.work.w1.judge.task",
    "vak.agent.w1.a2.inbox",
    "vak.receipts.w1.s2.completed",
    "$KV.VAK_CANCELS_w1.k",
    "vakq.VAK_INBOX_w1.inbox_a2.m._.1.state",
    "vakj.STREAM.MSG.DELETE.VAK_WORK_w1",
    "vakj.CONSUMER.MSG.NEXT.VAK_INBOX_w1.inbox_a2",
    "_INBOX.a2.k.1",
];

/// Has a message with each of these subjects as its reply delivered to the agent, by itself and by
/// a fellow that calls it. Gives out those that it may then publish to.
fn lend(world: &World, rights: Permissions) -> Vec<&'static str> {
    let mut fellow = world.agent_in(Role::Orchestrator, "o1");
    let mut agent = world.agent("a1", rights);
    let own = agent.new_inbox();
    let heard = [agent.subscribe(&own), agent.subscribe("vak.call.w1.coder.*")];
    agent.fence();
    let mut passed = Vec::new();
    for subject in LENT {
        agent.publish(&own, subject, "");
        fellow.publish("vak.call.w1.coder.go", subject, "");
        for subscription in heard {
            assert_eq!(agent.wait(subscription, "").unwrap().reply.as_deref(), Some(subject));
        }
        if agent.may_publish(subject, "") {
            passed.push(subject);
        }
    }
    passed
}

#[test]
fn nobody_lends_itself_or_another_a_right_by_a_reply_subject() {
    let world = World::furnished(Shape::Two);
    assert_eq!(lend(&world, rights_of(Role::Worker, "a1")), [""; 0]);
}

/// That the attack above is seen, and why no right to respond is granted.
#[test]
fn with_a_right_to_respond_every_right_is_lent() {
    let world = World::furnished(Shape::Two);
    let mut rights = rights_of(Role::Worker, "a1");
    rights.response = Some(ResponsePermission { answers_max: 8, ttl_ns: 60_000_000_000 });
    assert_eq!(lend(&world, rights), LENT);
}
