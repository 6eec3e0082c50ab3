//! The laws of access policies, held against brute force over a small alphabet.

use proptest::prelude::*;

use crate::{AclPolicy, Effect, Filter, RuleSet, Subject};

#[test]
fn an_empty_policy_allows_nothing() {
    let policy: AclPolicy = serde_json::from_str("{}").unwrap();
    assert!(!policy.can_publish(&Subject::parse("a").unwrap()));
    assert!(!policy.can_subscribe(&Filter::parse("a").unwrap()));
}

#[test]
fn a_policy_with_a_member_nobody_knows_is_refused() {
    let text = r#"{"publish":{"allow":["a"],"denied":["a.b"]}}"#;
    assert!(serde_json::from_str::<AclPolicy>(text).is_err());
}

#[test]
fn a_set_that_only_two_allow_rules_together_cover_is_refused() {
    let policy = reading(&["a.*", "a.*.>"], &[]);
    assert!(policy.can_subscribe(&filter("a.*")));
    assert!(policy.can_subscribe(&filter("a.*.>")));
    assert!(!policy.can_subscribe(&filter("a.>")));
}

#[test]
fn a_star_in_an_allow_rule_does_not_admit_a_tail() {
    let policy = reading(&["a.*", "*"], &[]);
    assert!(!policy.can_subscribe(&filter("a.>")));
    assert!(!policy.can_subscribe(&filter(">")));
}

#[test]
fn the_deciding_rule_is_named() {
    let policy = reading(&["a.>"], &["a.secret.>"]);
    let denied = policy.explain_subscribe(&filter("a.*.x"));
    assert_eq!(denied.rule.clone().map(|rule| rule.effect), Some(Effect::Deny));
    let texts = [
        denied,
        policy.explain_subscribe(&filter("a.secret.x")),
        policy.explain_subscribe(&filter("a.b")),
        policy.explain_subscribe(&filter("*.b")),
        policy.explain_subscribe(&filter("b")),
        policy.explain_publish(&filter("a.*")),
        policy.explain_publish(&filter("a.b")),
    ]
    .map(|decision| decision.to_string());
    let expected = [
        "refused: 'deny subscribe a.secret.>' matches a part of it",
        "refused: 'deny subscribe a.secret.>' matches it",
        "allowed: 'allow subscribe a.>' covers it and no deny rule matches",
        "refused: 'allow subscribe a.>' covers only a part of it",
        "refused: no rule allows to subscribe there",
        "refused: a.* holds a wildcard: frames go to one concrete subject",
        "refused: no rule allows to publish there",
    ];
    assert_eq!(texts, expected);
}

#[test]
fn every_rule_is_listed_denials_first() {
    let mut policy = reading(&["r"], &["s"]);
    policy.publish = rules(&["p"], &["q"]);
    let listed = "deny publish q\nallow publish p\ndeny subscribe s\nallow subscribe r\n";
    assert_eq!(policy.to_string(), listed);
}

#[test]
fn a_union_does_not_weaken_a_denial() {
    let strict = reading(&["a.>"], &["a.secret"]);
    let wide = reading(&[">"], &[]);
    let both = AclPolicy::union([wide, strict]);
    assert!(!both.can_subscribe(&filter("a.secret")));
    assert!(both.can_subscribe(&filter("b")));
}

#[test]
fn a_union_of_nothing_allows_nothing() {
    assert_eq!(AclPolicy::union([]), AclPolicy::default());
}

proptest! {
    #[test]
    fn publishing_needs_an_allow_rule_that_matches_and_no_deny_rule_that_does(
        policy in any_policy(),
    ) {
        for subject in small_subjects() {
            let matching = |rules: &[Filter]| rules.iter().any(|rule| rule.matches(&subject));
            let expected = matching(&policy.publish.allow) && !matching(&policy.publish.deny);
            prop_assert_eq!(policy.can_publish(&subject), expected);
            prop_assert_eq!(policy.can_publish_filter(&Filter::from(&subject)), expected);
        }
    }

    #[test]
    fn a_wildcard_is_never_published_to(policy in any_policy(), asked in any_filter()) {
        prop_assume!(!asked.is_literal());
        prop_assert!(!policy.can_publish_filter(&asked));
    }

    #[test]
    fn an_allowed_subscription_hears_only_what_some_rule_allows_and_none_denies(
        policy in any_policy(), asked in any_filter(),
    ) {
        if policy.can_subscribe(&asked) {
            let mut heard = small_subjects().into_iter().filter(|subject| asked.matches(subject));
            prop_assert!(heard.all(|subject| policy.can_receive(&subject)));
        }
    }

    #[test]
    fn a_subscription_inside_one_allow_rule_and_apart_from_every_deny_rule_is_allowed(
        policy in any_policy(), asked in any_filter(),
    ) {
        let subjects = small_subjects();
        let heard: Vec<_> = subjects.iter().filter(|subject| asked.matches(subject)).collect();
        let inside = |rule: &Filter| heard.iter().all(|subject| rule.matches(subject));
        let apart = |rule: &Filter| !heard.iter().any(|subject| rule.matches(subject));
        let expected = policy.subscribe.allow.iter().any(inside)
            && policy.subscribe.deny.iter().all(apart);
        prop_assert_eq!(policy.can_subscribe(&asked), expected);
    }

    #[test]
    fn the_explanation_gives_the_same_answer(policy in any_policy(), asked in any_filter()) {
        let publish = policy.explain_publish(&asked);
        prop_assert_eq!(publish.allowed, policy.can_publish_filter(&asked));
        let subscribe = policy.explain_subscribe(&asked);
        prop_assert_eq!(subscribe.allowed, policy.can_subscribe(&asked));
        if let Some(rule) = subscribe.rule {
            prop_assert_eq!(rule.effect == Effect::Allow, subscribe.allowed);
            prop_assert!(policy.rules().any(|listed| listed == rule));
        }
    }

    #[test]
    fn a_union_admits_what_a_part_admits_and_no_part_denies(
        a in any_policy(), b in any_policy(),
    ) {
        let both = AclPolicy::union([a.clone(), b.clone()]);
        for subject in small_subjects() {
            let matching = |rules: &[Filter]| rules.iter().any(|rule| rule.matches(&subject));
            let denied = matching(&a.publish.deny) || matching(&b.publish.deny);
            let allowed = matching(&a.publish.allow) || matching(&b.publish.allow);
            prop_assert_eq!(both.can_publish(&subject), allowed && !denied);
        }
    }

    #[test]
    fn a_policy_survives_being_written_and_read(policy in any_policy()) {
        let text = serde_json::to_string(&policy).unwrap();
        prop_assert_eq!(serde_json::from_str::<AclPolicy>(&text).unwrap(), policy);
    }
}

fn any_policy() -> impl Strategy<Value = AclPolicy> {
    let rules = || {
        let filters = |n| prop::collection::vec(any_filter(), 0..n);
        (filters(4), filters(3)).prop_map(|(allow, deny)| RuleSet { allow, deny })
    };
    (rules(), rules()).prop_map(|(publish, subscribe)| AclPolicy { publish, subscribe })
}

fn any_filter() -> impl Strategy<Value = Filter> {
    "([ab*](\\.[ab*]){0,2}(\\.>)?|>)".prop_map(|text| Filter::parse(&text).unwrap())
}

/// `c` stands in no rule, so it plays every level that no rule names.
fn small_subjects() -> Vec<Subject> {
    let mut last = vec![String::new()];
    let mut all = Vec::new();
    for _ in 0..4 {
        last = last.iter().flat_map(|w| ["a", "b", "c"].map(|l| format!("{w}.{l}"))).collect();
        all.extend(last.iter().map(|text| Subject::parse(&text[1..]).unwrap()));
    }
    all
}

fn reading(allow: &[&str], deny: &[&str]) -> AclPolicy {
    AclPolicy { publish: RuleSet::default(), subscribe: rules(allow, deny) }
}

fn rules(allow: &[&str], deny: &[&str]) -> RuleSet {
    let filters = |texts: &[&str]| texts.iter().map(|text| filter(text)).collect();
    RuleSet { allow: filters(allow), deny: filters(deny) }
}

fn filter(text: &str) -> Filter {
    Filter::parse(text).unwrap()
}
