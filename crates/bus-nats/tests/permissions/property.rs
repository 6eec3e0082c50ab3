//! One policy in three places: what it says itself, what the embedded engine's door lets through,
//! and what a server does with the permissions made of it.

use std::{collections::HashSet, sync::Arc};

use bus_core::{Bus, ErrorKind, Frame, FrameId, Guarded, Overflow};
use bus_crypto::jwt::Permissions;
use bus_mem::InMemoryBus;
use bus_nats::permissions::{PermissionsError, permissions};
use bus_subjects::{AclPolicy, Filter, Role, RuleSet, Subject};
use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};

use crate::{
    raw::Raw,
    world::{Shape, World, layout, policy_of},
};

/// What is asked of each of the three.
#[derive(Debug, Clone)]
struct Questions {
    publish: Vec<String>,
    hear: Vec<String>,
    filters: Vec<String>,
}

/// The answers of the server.
#[derive(Debug)]
struct Answers {
    refused_publish: HashSet<String>,
    refused_literal: HashSet<String>,
    refused_filters: HashSet<String>,
    /// By filter, what it heard of [`everything`].
    heard: Vec<(String, HashSet<String>)>,
}

/// Every subject of up to three levels below the root.
fn everything() -> Vec<String> {
    let levels = ["a", "b"];
    let deeper = |subjects: &[String]| -> Vec<String> {
        let below = |subject: &String| levels.map(|level| format!("{subject}.{level}"));
        subjects.iter().flat_map(below).collect()
    };
    let one = deeper(&["t".to_owned()]);
    let (two, three) = (deeper(&one), deeper(&deeper(&one)));
    let four = deeper(&three);
    [one, two, three, four].concat()
}

fn ask_server(
    world: &World,
    resident: &mut Raw,
    rights: &Permissions,
    questions: &Questions,
) -> Answers {
    let mut agent = world.agent("a1", rights.clone());
    for subject in &questions.publish {
        agent.publish(subject, "", "");
    }
    let refused_publish = agent.fence();
    for subject in &questions.hear {
        agent.subscribe(subject);
    }
    let refused_literal = agent.fence();
    // Another connection: what the literal subscriptions hear must not be mixed in.
    let mut agent = world.agent("a1", rights.clone());
    let numbers: Vec<_> = questions.filters.iter().map(|filter| agent.subscribe(filter)).collect();
    let refused_filters = agent.fence();
    for subject in everything() {
        resident.publish(&subject, "", "");
    }
    resident.fence();
    agent.fence();
    let all = agent.heard();
    let heard = questions.filters.iter().zip(numbers).map(|(filter, number)| {
        let heard = all.iter().filter(|heard| heard.subscription == number);
        (filter.clone(), heard.map(|heard| heard.subject.clone()).collect())
    });
    Answers { refused_publish, refused_literal, refused_filters, heard: heard.collect() }
}

/// Holds the server's answers to the policy.
fn compare(policy: &AclPolicy, questions: &Questions, answers: &Answers) -> Result<(), String> {
    let check = |is_good: bool, what: String| if is_good { Ok(()) } else { Err(what) };
    for text in &questions.publish {
        let (subject, taken) = (subject(text), !answers.refused_publish.contains(text));
        check(taken == policy.can_publish(&subject), format!("publish {text}: {taken}"))?;
    }
    for text in &questions.hear {
        let taken = !answers.refused_literal.contains(text);
        check(taken == policy.can_subscribe(&filter(text)), format!("subscribe {text}: {taken}"))?;
    }
    for (text, heard) in &answers.heard {
        let asked = filter(text);
        let may = |text: &&String| {
            let subject = subject(text);
            asked.matches(&subject) && policy.can_receive(&subject)
        };
        let all = everything();
        let most: HashSet<String> = all.iter().filter(may).cloned().collect();
        check(heard.is_subset(&most), format!("{text} hears {:?}", heard - &most))?;
        if policy.can_subscribe(&asked) {
            let is_taken = !answers.refused_filters.contains(text);
            check(is_taken, format!("{text} is not taken"))?;
            check(*heard == most, format!("{text} does not hear {:?}", &most - heard))?;
        }
    }
    Ok(())
}

/// What the embedded engine's door says must be what the policy says.
async fn compare_door(policy: &AclPolicy, questions: &Questions) -> Result<(), String> {
    let door = Guarded::new(Arc::new(InMemoryBus::new()), policy.clone());
    let is_denied = |kind: Option<ErrorKind>| kind == Some(ErrorKind::Denied);
    for text in &questions.publish {
        let frame = Frame::new(subject(text), FrameId::parse("f").unwrap(), "");
        let denied = is_denied(door.publish(frame).await.err().map(|error| error.kind()));
        if denied == policy.can_publish(&subject(text)) {
            return Err(format!("the door and publish {text}: denied {denied}"));
        }
    }
    for text in questions.hear.iter().chain(&questions.filters) {
        let asked = door.subscribe(filter(text), Overflow::DropOldest { capacity: ONE }).await;
        let denied = is_denied(asked.err().map(|error| error.kind()));
        if denied == policy.can_subscribe(&filter(text)) {
            return Err(format!("the door and subscribe {text}: denied {denied}"));
        }
    }
    Ok(())
}

fn some_filter() -> impl Strategy<Value = String> {
    "t(\\.(a|b|c|\\*|\\*)){1,4}|t(\\.(a|b|\\*)){0,3}\\.>"
}

fn some_policy() -> impl Strategy<Value = AclPolicy> {
    let list = |most| {
        proptest::collection::vec(some_filter(), 0..most)
            .prop_map(|texts| texts.iter().map(|text| filter(text)).collect::<Vec<_>>())
    };
    let rules = move || (list(4), list(3)).prop_map(|(allow, deny)| RuleSet { allow, deny });
    (rules(), rules()).prop_map(|(publish, subscribe)| AclPolicy { publish, subscribe })
}

fn some_questions() -> impl Strategy<Value = Questions> {
    let subjects = |most| proptest::collection::vec("t(\\.(a|b|c)){1,5}", most);
    (subjects(60), subjects(30), proptest::collection::vec(some_filter(), 12))
        .prop_map(|(publish, hear, filters)| Questions { publish, hear, filters })
}

fn granted(policy: &AclPolicy) -> Result<Permissions, PermissionsError> {
    permissions(policy, &"a1".parse().unwrap(), &layout())
}

#[test]
fn a_server_allows_what_the_policy_allows_and_nothing_is_heard_beyond_it() {
    let (world, door) = (World::start(Shape::Two), runtime());
    let mut resident = world.resident();
    let mut compared = 0;
    let mut runner = TestRunner::new(Config { max_global_rejects: 256, ..Config::with_cases(256) });
    let strategy = (some_policy(), some_questions());
    let result = {
        let cell = std::cell::RefCell::new((&mut resident, &mut compared));
        runner.run(&strategy, |(policy, questions)| {
            let rights = match granted(&policy) {
                Ok(rights) => rights,
                Err(PermissionsError::Unrepresentable { .. }) => {
                    return Err(TestCaseError::reject("cannot be said to a server"));
                }
                Err(error) => return Err(TestCaseError::fail(error.to_string())),
            };
            let (resident, compared) = &mut *cell.borrow_mut();
            let answers = ask_server(&world, resident, &rights, &questions);
            compare(&policy, &questions, &answers).map_err(TestCaseError::fail)?;
            door.block_on(compare_door(&policy, &questions)).map_err(TestCaseError::fail)?;
            **compared += 1;
            Ok(())
        })
    };
    result.unwrap_or_else(|error| panic!("{error}"));
    assert!(compared >= 256, "{compared}");
}

/// Rules of every role, with other ids, a level more, and a level less.
fn near_the_rules() -> Vec<String> {
    let mut found = HashSet::new();
    for role in Role::ALL {
        for rule in policy_of(role, "a1").rules() {
            let rule = rule.filter.as_str();
            if !rule.starts_with("vak.") {
                continue;
            }
            for (star, rest) in [("x", "y.z"), ("s1", "tokens"), ("coder", "go"), ("a1", "a")] {
                let literal = rule.replace('*', star).replace('>', rest);
                let levels: Vec<_> = literal.split('.').collect();
                found.insert(format!("{literal}.more"));
                found.insert(levels[..levels.len() - 1].join("."));
                for at in 1..levels.len() {
                    for other in ["x", "w2", "a2"] {
                        let mut changed = levels.clone();
                        changed[at] = other;
                        found.insert(changed.join("."));
                    }
                }
                found.insert(literal);
            }
        }
    }
    found.into_iter().collect()
}

#[test]
fn of_every_role_alone_and_with_a_workers_a_server_allows_exactly_what_the_policy_allows() {
    let world = World::start(Shape::Two);
    let near = near_the_rules();
    let mut verdicts = 0;
    let alone = Role::ALL.map(|role| vec![role]);
    let with_a_worker = Role::ALL.map(|role| vec![Role::Worker, role]);
    for roles in alone.into_iter().chain(with_a_worker) {
        let policy = AclPolicy::union(roles.iter().map(|role| policy_of(*role, "a1")));
        let rights = granted(&policy).unwrap();
        let filters = Vec::new();
        let questions = Questions { publish: near.clone(), hear: near.clone(), filters };
        let answers = ask_server(&world, &mut world.resident(), &rights, &questions);
        compare(&policy, &questions, &answers).unwrap_or_else(|what| panic!("{roles:?}: {what}"));
        verdicts += near.len() * 2;
    }
    assert!(verdicts > 5_000, "{verdicts}");
}

/// That the comparison sees a hole: without the denial below the star, `>` hears everything.
#[test]
fn a_grant_with_its_denials_left_out_is_caught() {
    let world = World::start(Shape::Two);
    let mut policy = AclPolicy::default();
    policy.subscribe.allow = vec![filter("t.a.*")];
    let questions = Questions {
        publish: Vec::new(),
        hear: Vec::new(),
        filters: vec!["t.a.>".to_owned(), "t.a.*".to_owned()],
    };
    let mut rights = granted(&policy).unwrap();
    let answers = ask_server(&world, &mut world.resident(), &rights, &questions);
    compare(&policy, &questions, &answers).unwrap();

    rights.subscribe.deny.clear();

    let answers = ask_server(&world, &mut world.resident(), &rights, &questions);
    let caught = compare(&policy, &questions, &answers).unwrap_err();
    assert!(caught.starts_with("t.a.> hears"), "{caught}");
}

/// That the comparison sees too much and too little.
#[test]
fn a_grant_that_is_wider_or_narrower_by_one_rule_is_caught() {
    let world = World::start(Shape::Two);
    let mut policy = AclPolicy::default();
    policy.publish.allow = vec![filter("t.a"), filter("t.b")];
    let questions = Questions {
        publish: ["t.a", "t.b", "t.c"].map(str::to_owned).to_vec(),
        hear: Vec::new(),
        filters: Vec::new(),
    };
    let rights = granted(&policy).unwrap();
    for change in ["wider", "narrower"] {
        let mut rights = rights.clone();
        match change {
            "wider" => rights.publish.allow.push("t.c".to_owned()),
            _ => rights.publish.allow.retain(|rule| rule != "t.b"),
        }
        let answers = ask_server(&world, &mut world.resident(), &rights, &questions);
        assert!(compare(&policy, &questions, &answers).is_err(), "{change}");
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn filter(text: &str) -> Filter {
    text.parse().unwrap()
}

fn subject(text: &str) -> Subject {
    text.parse().unwrap()
}

const ONE: std::num::NonZeroUsize = std::num::NonZeroUsize::MIN;
