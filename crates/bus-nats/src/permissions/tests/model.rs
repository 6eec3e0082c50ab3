//! How a server judges, written down again, held to its own answers, and then used for laws.

use bus_subjects::{AclPolicy, RuleSet, Subject};
use proptest::prelude::*;

use super::{Permissions, PermissionsError, SubjectPermission, compiled, filter};

fn covers(outer: &str, inner: &str) -> bool {
    filter(outer).covers(&filter(inner))
}

/// Whether a subscription is taken: inside one allowance, where `*` at the end also admits `>` in
/// its place, and not inside a denial.
fn takes(rules: &SubjectPermission, asked: &str) -> bool {
    let widened = |rule: &str| rule.strip_suffix('*').map(|start| format!("{start}>"));
    let admits = |rule: &String| {
        // Only where the question itself says `>` at the place of the star.
        let levels = |text: &str| text.split('.').count();
        let is_open = asked.ends_with('>') && levels(asked) == levels(rule);
        covers(rule, asked) || is_open && widened(rule).is_some_and(|rule| covers(&rule, asked))
    };
    let is_allowed = rules.allow.is_empty() || rules.allow.iter().any(admits);
    is_allowed && !rules.deny.iter().any(admits)
}

/// Whether a message is brought to a subscription that was taken.
fn brings(rules: &SubjectPermission, asked: &str, subject: &str) -> bool {
    takes(rules, asked)
        && covers(asked, subject)
        && !rules.deny.iter().any(|deny| covers(deny, subject))
}

/// Whether a message is taken from a client.
fn publishes(rules: &SubjectPermission, subject: &str) -> bool {
    let matches = |rule: &String| covers(rule, subject);
    (rules.allow.is_empty() || rules.allow.iter().any(matches)) && !rules.deny.iter().any(matches)
}

/// The rules of one direction; `None` when some of them are about queue groups.
fn rules_of(value: &serde_json::Value) -> Option<SubjectPermission> {
    let list = |name: &str| {
        let rules = value[name].as_array().into_iter().flatten();
        let rules = rules.map(|rule| rule.as_str().unwrap().to_owned());
        let rules: Vec<_> = rules.collect();
        (!rules.iter().any(|rule| rule.contains(' '))).then_some(rules)
    };
    Some(SubjectPermission { allow: list("allow")?, deny: list("deny")? })
}

#[test]
fn the_model_judges_as_a_real_server_did() {
    let Some(file) = bus_testdata::json("nats-subjects/server_permissions.json") else { return };
    let mut walked = 0;
    for case in file["cases"].as_array().unwrap() {
        let named = case["permissions"].as_str();
        let rules = named.map_or(case, |name| &file["about"]["permissions"][name]);
        let (direction, judge): (_, fn(&SubjectPermission, &str) -> bool) =
            match case["op"].as_str().unwrap() {
                "sub" => ("subscribe", takes),
                "pub" => ("publish", publishes),
                _ => continue,
            };
        let Some(rules) = rules_of(&rules[direction]) else { continue };
        let subject = case["subject"].as_str().unwrap();
        if !case["queue"].is_null() || subject.parse::<bus_subjects::Filter>().is_err() {
            continue;
        }
        assert_eq!(Some(judge(&rules, subject)), case["allowed"].as_bool(), "{case}");
        walked += 1;
    }
    assert_eq!(walked, 676);
}

fn some_filter() -> impl Strategy<Value = String> {
    "t(\\.(a|b|\\*)){1,3}(\\.>)?"
}

fn some_policy() -> impl Strategy<Value = AclPolicy> {
    let list = |most| {
        proptest::collection::vec(some_filter(), 0..most)
            .prop_map(|texts| texts.iter().map(|text| filter(text)).collect::<Vec<_>>())
    };
    let rules = move || (list(4), list(3)).prop_map(|(allow, deny)| RuleSet { allow, deny });
    (rules(), rules()).prop_map(|(publish, subscribe)| AclPolicy { publish, subscribe })
}

fn granted(policy: &AclPolicy) -> Result<Permissions, TestCaseError> {
    match compiled(policy) {
        Ok(permissions) => Ok(permissions),
        Err(PermissionsError::Unrepresentable { .. }) => {
            Err(TestCaseError::reject("unrepresentable"))
        }
        Err(error) => panic!("{error}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_heard_that_the_policy_does_not_let_one_receive(
        policy in some_policy(),
        asked in some_filter(),
        heard in "t(\\.(a|b)){1,5}",
    ) {
        let rules = granted(&policy)?.subscribe;
        let subject: Subject = heard.parse().unwrap();
        prop_assert!(!brings(&rules, &asked, &heard) || policy.can_receive(&subject));
    }

    #[test]
    fn what_the_policy_lets_one_subscribe_is_taken_and_heard_whole(
        policy in some_policy(),
        asked in some_filter(),
        heard in "t(\\.(a|b)){1,5}",
    ) {
        let rules = granted(&policy)?.subscribe;
        if policy.can_subscribe(&filter(&asked)) {
            prop_assert!(takes(&rules, &asked));
            prop_assert_eq!(brings(&rules, &asked, &heard), covers(&asked, &heard));
        }
    }

    #[test]
    fn exactly_what_the_policy_lets_one_publish_is_taken(
        policy in some_policy(),
        subject in "t(\\.(a|b)){1,5}",
    ) {
        let rules = granted(&policy)?.publish;
        prop_assert_eq!(publishes(&rules, &subject), policy.can_publish(&subject.parse().unwrap()));
    }
}
