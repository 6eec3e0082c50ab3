//! Who is admitted, with which rights, and how fast.

use std::{collections::HashSet, future::pending, sync::Arc, time::Duration};

use bus_core::{
    BoxFuture, Buckets, Door, Entry, ExpectRevision, Identity, Proof, Put, Result, Revision, Watch,
};
use bus_nats::callout::CalloutLimits;
use bus_subjects::{AclPolicy, BucketKey, BucketName, Filter, Role, Subject};
use tokio::time::Instant;

use crate::{
    raw::{Raw, Shown},
    world::{World, beside},
};

/// Every rule of `policy` with other ids, a level more and a level less.
fn near(policy: &AclPolicy) -> Vec<String> {
    let mut found = HashSet::new();
    for rule in policy.rules() {
        let rule = rule.filter.as_str();
        if !rule.starts_with("vak.") {
            continue;
        }
        let literal = rule.replace('*', "x").replace('>', "y.z");
        let levels: Vec<_> = literal.split('.').collect();
        found.insert(format!("{literal}.more"));
        found.insert(levels[..levels.len() - 1].join("."));
        for at in 1..levels.len() {
            for other in ["w2", "a2", "task"] {
                let mut changed = levels.clone();
                changed[at] = other;
                found.insert(changed.join("."));
            }
        }
        found.insert(literal);
    }
    found.into_iter().collect()
}

/// Holds what a server lets `identity` do to what the socket of a machine would.
async fn compare(world: &World, identity: &Identity) -> usize {
    let signature = identity.key().sign(b"challenge");
    let token = identity.certificate().token();
    let proof = Proof::Certificate { token, signed: b"challenge", signature: &signature };
    let now = world.admission.clock().now();
    let policy = world.admission.admit(&proof, Door::Link, now).unwrap().policy;
    let mut raw = Raw::login(world.url(), Shown::Key(identity.key())).await.unwrap();
    let everybody = AclPolicy::union([policy.clone(), worker()]);
    let subjects = near(&everybody);
    let publish: Vec<_> = subjects.iter().map(|text| format!("PUB {text} 0\r\n\r\n")).collect();
    let refused = raw.refused(&publish).await;
    for text in &subjects {
        let subject: Subject = text.parse().unwrap();
        assert_eq!(!refused.contains(text), policy.can_publish(&subject), "publish {text}");
    }
    let hear = subjects.iter().enumerate().map(|(at, text)| format!("SUB {text} {at}\r\n"));
    let refused = raw.refused(&hear.collect::<Vec<_>>()).await;
    for text in &subjects {
        let filter: Filter = text.parse().unwrap();
        assert_eq!(!refused.contains(text), policy.can_subscribe(&filter), "subscribe {text}");
    }
    subjects.len() * 2
}

/// Something to differ from.
fn worker() -> AclPolicy {
    let scope = bus_subjects::AclScope {
        workspace: "w1".parse().unwrap(),
        agent: "a1".parse().unwrap(),
        session: None,
        role_name: None,
    };
    AclPolicy::for_role(Role::Worker, &scope)
}

#[tokio::test]
async fn an_agent_with_its_key_alone_is_let_in_with_exactly_its_policy() {
    let world = World::start();
    let callout = world.instance().await;
    let identity = world.member("a1", &[Role::Worker]);
    let verdicts = beside(&callout, compare(&world, &identity)).await;
    assert!(verdicts > 100, "{verdicts}");
}

#[tokio::test]
async fn a_bound_agent_with_its_key_alone_is_let_in_with_exactly_its_policy() {
    let world = World::start();
    let callout = world.instance().await;
    let identity = world.bound("a1", "s1", "coder");
    let verdicts = beside(&callout, compare(&world, &identity)).await;
    assert!(verdicts > 100, "{verdicts}");
}

#[tokio::test]
async fn every_role_gets_what_the_socket_gives_it() {
    let world = World::start();
    let callout = world.instance().await;
    let verdicts = beside(&callout, async {
        let mut verdicts = 0;
        for role in Role::ALL {
            for roles in [vec![role], vec![Role::Worker, role]] {
                verdicts += compare(&world, &world.member("a1", &roles)).await;
            }
        }
        verdicts
    });
    let verdicts = verdicts.await;
    assert!(verdicts > 2_000, "{verdicts}");
    assert_eq!(callout.stats().admitted, 14);
}

#[tokio::test]
async fn whoever_shows_nothing_or_something_forged_stays_out() {
    let world = World::start();
    let callout = world.instance().await;
    let (member, stranger) = (world.member("a1", &[Role::Worker]), crate::world::key(USER));
    beside(&callout, async {
        let shown = [
            Shown::Nothing,
            Shown::Forged(member.key()),
            Shown::Key(&stranger),
            Shown::Ticket("vakt1.AAAA.AAAA"),
            Shown::Ticket("s3cret"),
        ];
        for shown in shown {
            let refused = Raw::login(world.url(), shown).await.err();
            assert_eq!(refused.as_deref(), Some(VIOLATION));
        }
        assert!(Raw::login(world.url(), Shown::Key(member.key())).await.is_ok());
    })
    .await;
    let stats = callout.stats();
    assert_eq!((stats.asked, stats.refused, stats.admitted), (6, 5, 1));
}

#[tokio::test]
async fn a_ticket_lets_in_once() {
    let world = World::start();
    let callout = world.instance().await;
    let ticket = world.ticket(&[Role::Observer]);
    beside(&callout, async {
        let mut first = Raw::login(world.url(), Shown::Ticket(&ticket)).await.unwrap();
        let again = Raw::login(world.url(), Shown::Ticket(&ticket)).await.err();
        assert_eq!(again.as_deref(), Some(VIOLATION));
        assert!(first.is_let_in().await);
    })
    .await;
}

#[tokio::test]
async fn fifty_logins_take_less_than_a_second() {
    let world = World::start();
    let callout = world.instance().await;
    let identity = world.member("a1", &[Role::Worker]);
    let mut each = Vec::new();
    let all = beside(&callout, async {
        let begun = Instant::now();
        for _ in 0..50 {
            let begun = Instant::now();
            drop(Raw::login(world.url(), Shown::Key(identity.key())).await.unwrap());
            each.push(begun.elapsed());
        }
        begun.elapsed()
    });
    let all = all.await;
    each.sort_unstable();
    // A busy machine is slower; else they take a quarter of a second, 4 ms each, unoptimized.
    assert!(all < Duration::from_secs(5), "{all:?}");
    assert!(each[25] < Duration::from_millis(100), "{each:?}");
}

/// Buckets that never answer.
struct Silent;

impl Buckets for Silent {
    fn get(&self, _: BucketName, _: BucketKey) -> BoxFuture<'_, Result<Option<Entry>>> {
        Box::pin(pending())
    }

    fn put(&self, _: BucketName, _: BucketKey, _: Put) -> BoxFuture<'_, Result<Revision>> {
        Box::pin(pending())
    }

    fn delete(&self, _: BucketName, _: BucketKey, _: ExpectRevision) -> BoxFuture<'_, Result<()>> {
        Box::pin(pending())
    }

    fn watch(&self, _: BucketName, _: Filter, _: Revision) -> BoxFuture<'_, Result<Watch>> {
        Box::pin(pending())
    }
}

#[tokio::test]
async fn one_question_more_than_are_thought_about_is_refused_and_a_late_one_lets_nobody_in() {
    let world = World::start();
    let limits = CalloutLimits { questions_max: 1, ..CalloutLimits::default() };
    let callout = world.instance_with(Arc::new(Silent), limits).await;
    let ticket = world.ticket(&[Role::Observer]);
    let identity = world.member("a1", &[Role::Worker]);
    beside(&callout, async {
        let (url, shown) = (world.url(), Shown::Ticket(&ticket));
        let stuck = async {
            let refused = Raw::login(url, shown).await.err();
            assert_eq!(refused.as_deref(), Some(VIOLATION));
        };
        let another = async {
            while callout.stats().asked == 0 {
                tokio::task::yield_now().await;
            }
            Raw::login(url, Shown::Key(identity.key())).await.err()
        };
        let (another, ()) = tokio::join!(another, stuck);
        assert_eq!(another.as_deref(), Some(VIOLATION));
        assert!(Raw::login(url, Shown::Key(identity.key())).await.is_ok(), "there is room again");
    })
    .await;
    let stats = callout.stats();
    assert_eq!((stats.crowded, stats.late, stats.admitted), (1, 1, 1));
}

const USER: bus_crypto::NkeyKind = bus_crypto::NkeyKind::User;
pub(crate) const VIOLATION: &str = "-ERR 'Authorization Violation'";
