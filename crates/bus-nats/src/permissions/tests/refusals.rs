//! What no permissions are made for.

use bus_subjects::{AclPolicy, RuleSet};

use super::{agent, compiled, filter, layout, permissions, workspace};
use crate::permissions::PermissionsError;

fn rules(allow: &[&str], deny: &[&str]) -> RuleSet {
    let filters = |texts: &[&str]| texts.iter().map(|text| filter(text)).collect();
    RuleSet { allow: filters(allow), deny: filters(deny) }
}

fn publishing(allow: &[&str], deny: &[&str]) -> AclPolicy {
    AclPolicy { publish: rules(allow, deny), ..AclPolicy::default() }
}

fn hearing(allow: &[&str], deny: &[&str]) -> AclPolicy {
    AclPolicy { subscribe: rules(allow, deny), ..AclPolicy::default() }
}

fn is_unrepresentable(policy: &AclPolicy) -> bool {
    matches!(compiled(policy), Err(PermissionsError::Unrepresentable { .. }))
}

fn is_refused(policy: &AclPolicy) -> bool {
    matches!(compiled(policy), Err(PermissionsError::Refused { .. }))
}

#[test]
fn a_star_beside_a_part_of_what_lies_below_it_cannot_be_granted() {
    let error = compiled(&hearing(&["t.*", "t.a.b"], &[])).unwrap_err();
    let text = "a server cannot keep 'allow subscribe t.*' apart from 'allow subscribe t.a.b'";
    assert_eq!(error.to_string(), text);
    assert!(compiled(&hearing(&["t.*", "t.*.>"], &[])).is_ok());
    assert!(compiled(&hearing(&["t.*", "u.a.b"], &[])).is_ok());
}

#[test]
fn a_right_to_stored_messages_with_a_part_of_it_denied_cannot_be_granted() {
    let deny = ["vak.receipts.w1.s1.completed"];
    assert!(is_unrepresentable(&hearing(&["vak.receipts.w1.*.completed"], &deny)));
    let mut policy = hearing(&[], &deny);
    policy.publish = rules(&["vak.receipts.w1.*.completed"], &[]);
    assert!(is_unrepresentable(&policy));
    assert!(is_unrepresentable(&hearing(&["$KV.VAK_CLAIMS_w1.*"], &["$KV.VAK_CLAIMS_w1.a"])));
    assert!(is_unrepresentable(&publishing(&["$O.B.M.*"], &["$O.B.M.a"])));
    let pauses = ["$JS.API.CONSUMER.PAUSE.VAK_WORK_w1.*"];
    let one = ["$JS.API.CONSUMER.PAUSE.VAK_WORK_w1.worker_coder"];
    assert!(is_unrepresentable(&publishing(&pauses, &one)));
}

#[test]
fn a_star_over_keys_of_several_levels_cannot_be_granted() {
    for rule in ["$KV.VAK_AGENTS_w1.*", "$KV.OTHER.*", "$O.OTHER.M.*"] {
        assert!(is_refused(&hearing(&[rule], &[])), "{rule}");
    }
    for rule in ["$KV.VAK_AGENTS_w1.>", "$KV.OTHER.>", "$O.OTHER.M.>", "$O.VAK_RESULTS_w1.M.*"] {
        assert!(compiled(&hearing(&[rule], &[])).is_ok(), "{rule}");
    }
}

#[test]
fn live_subjects_may_be_denied_in_part() {
    let live = compiled(&hearing(&["vak.events.w1.>"], &["vak.events.w1.s1.tokens"])).unwrap();
    assert_eq!(live.subscribe.deny, ["vak.events.w1.s1.tokens"]);
    let live = compiled(&publishing(&["t.>"], &["t.a.>"])).unwrap();
    assert_eq!(live.publish.deny, ["t.a.>"]);
}

#[test]
fn what_reaches_the_servers_or_the_buss_own_subjects_is_refused() {
    for place in [
        ">",
        "*",
        "*.a",
        "*.>",
        "$SYS.>",
        "$SYS.REQ.SERVER.PING",
        "$JS.>",
        "$JS.ACK.>",
        "$JS.API.>",
        "$KV.>",
        "$KV.*.a",
        "$KV.B",
        "$O.>",
        "$O.*.M.*",
        "$O.B.C.x",
        "_INBOX.>",
        "_INBOX.a2.>",
        "_INBOX.*.>",
        "_INBOX.a1",
        "_R_.a",
        "_GR_.a",
        "vakp.>",
        "vakq.>",
        "vakqr.>",
        "vakj.>",
        "vakblob.>",
        "vakl.fence",
        "vak.work.w2.coder.task",
        "vak.events.w2.>",
    ] {
        assert!(is_refused(&publishing(&[place], &[])), "publish {place}");
        assert!(is_refused(&hearing(&[place], &[])), "subscribe {place}");
    }
    for place in [">", "*", "*.a"] {
        assert!(is_refused(&publishing(&[], &[place])), "deny publish {place}");
        assert!(is_refused(&hearing(&[], &[place])), "deny subscribe {place}");
    }
}

#[test]
fn what_only_the_holder_of_a_workspace_does_is_refused() {
    for verb in [
        "STREAM.CREATE.VAK_WORK_w1",
        "STREAM.UPDATE.VAK_WORK_w1",
        "STREAM.DELETE.VAK_WORK_w1",
        "STREAM.PURGE.VAK_WORK_w1",
        "STREAM.MSG.GET.VAK_WORK_w1",
        "STREAM.NAMES",
        "STREAM.LIST",
        "STREAM.INFO.*",
        "STREAM.INFO.OTHER",
        "STREAM.MSG.DELETE.VAK_WORK_w2",
        "STREAM.MSG.DELETE.*",
        "CONSUMER.PAUSE.*.*",
        "CONSUMER.PAUSE.VAK_WORK_w1.>",
        "CONSUMER.DELETE.VAK_WORK_w1.worker_coder",
        "CONSUMER.DELETE.VAK_WORK_w1.*",
        "CONSUMER.DELETE.VAK_DLQ.*",
        "CONSUMER.DELETE.VAK_OUTBOX_w1.other",
        "CONSUMER.DELETE.VAK_OUTBOX_w1.>",
        "CONSUMER.CREATE.VAK_WORK_w1",
        "INFO",
        ">",
    ] {
        let rule = format!("$JS.API.{verb}");
        assert!(is_refused(&publishing(&[&rule], &[])), "{verb}");
    }
}

#[test]
fn records_of_a_queue_are_for_who_may_read_the_queue() {
    for verb in ["STREAM.MSG.DELETE", "CONSUMER.LIST"] {
        let mut policy = publishing(&[&format!("$JS.API.{verb}.VAK_INBOX_w1")], &[]);
        assert!(is_refused(&policy), "{verb}");
        policy.subscribe = rules(&["vak.agent.w1.*.inbox"], &[]);
        assert!(compiled(&policy).is_ok(), "{verb}");
    }
    let letters = publishing(&["$JS.API.STREAM.MSG.DELETE.VAK_DLQ"], &[]);
    assert!(compiled(&letters).is_ok());
}

#[test]
fn outboxes_are_taken_over_by_who_may_read_them_all() {
    for consumer in ["*", "courier"] {
        let verb = format!("$JS.API.CONSUMER.DELETE.VAK_OUTBOX_w1.{consumer}");
        let mut policy = publishing(&[&verb], &[]);
        policy.subscribe = rules(&["vak.outbox.w1.a1.record"], &[]);
        assert!(is_refused(&policy), "{consumer}");
        policy.subscribe = rules(&["vak.outbox.w1.*.record"], &[]);
        assert!(compiled(&policy).is_ok(), "{consumer}");
    }
}

#[test]
fn keys_of_one_level_can_be_granted_only_of_a_bucket_that_has_no_deeper_ones() {
    assert!(is_refused(&hearing(&["$KV.OTHER.*"], &[])));
    assert!(compiled(&hearing(&["$KV.OTHER.>", "$KV.SOME.a.b"], &[])).is_ok());
    assert!(compiled(&hearing(&["$KV.VAK_CANCELS_w1.*"], &[])).is_ok());
}

#[test]
fn blobs_are_read_all_or_none() {
    assert!(is_refused(&hearing(&["$O.B.M.a"], &[])));
    assert!(compiled(&hearing(&["$O.B.M.>"], &[])).is_ok());
}

#[test]
fn more_than_a_token_holds_is_refused() {
    let many: Vec<_> = (0..2000).map(|n| format!("t.some.subject.{n}")).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    let refused = compiled(&hearing(&many, &[]));
    assert!(matches!(refused, Err(PermissionsError::TooLarge { .. })), "{refused:?}");
}

#[test]
fn ids_that_make_no_subject_are_refused() {
    let bucket = "b".repeat(251);
    let key = "k".repeat(740);
    let policy = hearing(&[&format!("$KV.{bucket}.{key}")], &[]);
    let refused = permissions(&policy, &agent(), &layout());
    assert!(matches!(refused, Err(PermissionsError::Subject(_))), "{refused:?} {}", workspace());
}
