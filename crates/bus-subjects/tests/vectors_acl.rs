//! Access policies against the answers of a real nats-server.
//!
//! Where our answer is deliberately another, the case is counted under the reason.

use bus_subjects::{AclPolicy, Filter, RuleSet, Subject};
use serde_json::Value;

/// Why and how often our answer is not the server's.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    walked: usize,
    /// Deliveries compared.
    delivered: usize,
    /// Rules about queue groups, which the bus does not have: refused when they are read.
    queue_rules: usize,
    /// The server takes a subscription that a deny rule meets in part, and filters deliveries.
    partly_denied: usize,
}

#[test]
fn a_policy_answers_as_the_server_or_stricter_for_a_known_reason() {
    let Some(file) = bus_testdata::json("nats-subjects/server_permissions.json") else { return };
    let mut tally = Tally::default();
    for case in file["cases"].as_array().unwrap() {
        tally.walked += 1;
        let permissions = match case["permissions"].as_str() {
            Some(name) => file["about"]["permissions"][name].clone(),
            None => serde_json::json!({ "subscribe": case["subscribe"] }),
        };
        judge(&permissions, case, &mut tally);
    }
    let expected = Tally { walked: 847, delivered: 310, queue_rules: 168, partly_denied: 13 };
    assert_eq!(tally, expected);
}

#[test]
fn the_worker_of_the_server_is_our_worker_with_two_additions() {
    let Some(file) = bus_testdata::json("nats-subjects/server_permissions.json") else { return };
    let worker = AclPolicy::for_worker(
        "ws1".parse().unwrap(),
        "s1".parse().unwrap(),
        "a1".parse().unwrap(),
        "coder".parse().unwrap(),
    );
    let mut walked = 0;
    let mut additions = Vec::new();
    let cases = file["cases"].as_array().unwrap().iter();
    for case in cases.filter(|case| case["permissions"] == "worker") {
        walked += 1;
        let asked = Filter::parse(case["subject"].as_str().unwrap()).unwrap();
        let publish = case["op"] == "pub";
        let ours =
            if publish { worker.can_publish_filter(&asked) } else { worker.can_subscribe(&asked) };
        if ours != case["allowed"].as_bool().unwrap() {
            assert!(ours, "refused: {case}");
            additions.push(case["id"].as_str().unwrap());
        }
    }
    // A worker may ask for approval, and reads the head of the chain it shares with the other
    // workers of its session.
    let known =
        ["worker/sub/vak.receipts.ws1.s1.completed", "worker/pub/vak.approvals.ws1.s1.request"];
    assert_eq!((walked, additions), (36, known.into()));
}

fn judge(permissions: &Value, case: &Value, tally: &mut Tally) {
    let (Some(publish), Some(subscribe)) =
        (rules(permissions, "publish"), rules(permissions, "subscribe"))
    else {
        assert!(permissions.to_string().contains(' '), "refused without a queue: {permissions}");
        tally.queue_rules += 1;
        return;
    };
    let policy = AclPolicy { publish, subscribe };
    let expected = case.get("by_rule").unwrap_or(&case["allowed"]) == &Value::Bool(true);
    let asked = case["subject"].as_str().unwrap_or_default();
    let filter = Filter::parse(asked);
    if case["op"] == "pub" {
        let ours = filter.as_ref().is_ok_and(|filter| policy.can_publish_filter(filter));
        assert_eq!(ours, expected, "{case}");
        return;
    }
    let ours = filter.as_ref().is_ok_and(|filter| policy.can_subscribe(filter));
    if ours != expected {
        let met = |filter: &Filter| policy.subscribe.deny.iter().any(|deny| deny.overlaps(filter));
        assert!(!ours && filter.as_ref().is_ok_and(met), "{case}");
        tally.partly_denied += 1;
    }
    let Some(delivered) = case["delivered"].as_object().filter(|_| expected) else { return };
    for (subject, arrived) in delivered {
        tally.delivered += 1;
        let subject = Subject::parse(subject).ok();
        let hears = subject.is_some_and(|subject| {
            filter.as_ref().is_ok_and(|f| f.matches(&subject)) && policy.can_receive(&subject)
        });
        assert_eq!(Some(hears), arrived.as_bool(), "{case}");
    }
}

/// The rules of one action; `None` when one of them names a queue group. On the server a missing
/// allow list allows everything.
fn rules(permissions: &Value, action: &str) -> Option<RuleSet> {
    let list = |effect: &str| -> Option<Vec<Filter>> {
        let texts = permissions.get(action).and_then(|rules| rules.get(effect)?.as_array());
        texts.into_iter().flatten().map(|text| Filter::parse(text.as_str()?).ok()).collect()
    };
    let (mut allow, deny) = (list("allow")?, list("deny")?);
    if permissions.get(action).is_none_or(|rules| rules.get("allow").is_none()) {
        allow.extend(Filter::parse(">").ok());
    }
    Some(RuleSet { allow, deny })
}
