//! What each role may do, and what no role may do.

use crate::{AclPolicy, AclScope, Action, Address, AddressKind, Filter, Role, WorkspaceId};

#[test]
fn the_policies_of_all_roles_are_as_listed() {
    let listed: String = Role::ALL
        .iter()
        .map(|role| format!("[{role}]\n{}", AclPolicy::for_role(*role, &scope())))
        .collect();
    assert_eq!(listed, LISTED);
}

#[test]
fn a_role_is_written_and_read_by_its_lower_case_name() {
    for role in Role::ALL {
        assert_eq!(role.as_str().parse(), Ok(role));
        let json = serde_json::to_string(&role).unwrap();
        assert_eq!(json, format!("\"{role}\""));
        assert_eq!(serde_json::from_str::<Role>(&json).unwrap(), role);
    }
    let refused = "Worker".parse::<Role>().unwrap_err().to_string();
    assert_eq!(refused, format!("\"Worker\" is not a role: expected one of {}", super::ROLES));
}

#[test]
fn no_role_reaches_another_workspace() {
    for other in ["w2", "w", "w10"] {
        let other = Address::filter_workspace(&WorkspaceId::parse(other).unwrap());
        for role in Role::ALL {
            for rule in AclPolicy::for_role(role, &scope()).rules() {
                assert!(!rule.filter.overlaps(&other), "{role}: {rule}");
            }
        }
    }
}

#[test]
fn no_role_reads_another_agents_mailbox_keys_or_replies() {
    for role in Role::ALL {
        let policy = AclPolicy::for_role(role, &scope());
        for asked in ["vak.agent.w1.a2.inbox", "vak.agent.w1.*.inbox", "vak.keys.w1.a2.grant"] {
            assert!(!policy.can_subscribe(&Filter::parse(asked).unwrap()), "{role}: {asked}");
        }
        assert!(!policy.can_subscribe(&Filter::parse("_INBOX.a2.>").unwrap()), "{role}");
        assert!(policy.can_subscribe(&Filter::parse("_INBOX.a1.>").unwrap()), "{role}");
    }
}

#[test]
fn observers_auditors_and_views_publish_nothing() {
    for role in [Role::Observer, Role::Auditor, Role::View] {
        let policy = AclPolicy::for_role(role, &scope());
        assert!(policy.rules().all(|rule| rule.action == Action::Subscribe), "{role}");
    }
}

#[test]
fn a_worker_that_is_an_orchestrator_as_well_still_forges_no_task() {
    let policies = [Role::Orchestrator, Role::Worker].map(|r| AclPolicy::for_role(r, &scope()));
    let both = AclPolicy::union(policies);
    assert!(!both.can_publish_filter(&Filter::parse("vak.work.w1.coder.task").unwrap()));
    assert!(both.can_publish_filter(&Filter::parse("vak.agent.w1.a2.inbox").unwrap()));
}

#[test]
fn a_scope_without_session_and_role_stands_for_any() {
    let scope = AclScope { session: None, role_name: None, ..scope() };
    let policy = AclPolicy::for_role(Role::Worker, &scope);
    for session in ["s1", "s2"] {
        let text = format!("vak.receipts.w1.{session}.completed");
        assert!(policy.can_publish_filter(&Filter::parse(&text).unwrap()), "{text}");
    }
    assert!(policy.can_subscribe(&AddressKind::Task.filter(Some(&scope.workspace))));
}

#[test]
fn only_operators_and_keepers_discard_dead_letters() {
    let discard = Filter::parse("$JS.API.STREAM.MSG.DELETE.VAK_DLQ").unwrap();
    for role in Role::ALL {
        let may = AclPolicy::for_role(role, &scope()).can_publish_filter(&discard);
        assert_eq!(may, matches!(role, Role::Operator | Role::Keeper), "{role}");
    }
}

#[test]
fn nobody_discards_evidence() {
    for stream in ["VAK_RECEIPTS", "VAK_APPROVALS", "VAK_INBOX_w1"] {
        let discard = Filter::parse(&format!("$JS.API.STREAM.MSG.DELETE.{stream}")).unwrap();
        for role in Role::ALL {
            let policy = AclPolicy::for_role(role, &scope());
            assert!(!policy.can_publish_filter(&discard), "{role}: {stream}");
        }
    }
}

#[test]
fn keepers_record_and_whoever_hears_events_reads_what_was_recorded() {
    let discard = Filter::parse("$JS.API.STREAM.MSG.DELETE.VAK_REC_w1").unwrap();
    let events = Filter::parse("vak.events.w1.s2.terminal").unwrap();
    for role in Role::ALL {
        let policy = AclPolicy::for_role(role, &scope());
        assert_eq!(policy.can_publish_filter(&discard), role == Role::Keeper, "{role}");
        for kind in ["tokens", "terminal"] {
            let recorded = Filter::parse(&format!("vak.history.w1.{kind}.s2")).unwrap();
            assert_eq!(policy.can_publish_filter(&recorded), role == Role::Keeper, "{role}");
            let reads = policy.can_subscribe(&events) || role == Role::Keeper;
            assert_eq!(policy.can_subscribe(&recorded), reads, "{role}");
        }
        let other = Filter::parse("vak.history.w1.model.k").unwrap();
        assert!(!policy.can_subscribe(&other) && !policy.can_publish_filter(&other), "{role}");
    }
}

#[test]
fn only_operators_take_a_task_out_of_its_queue() {
    let discard = Filter::parse("$JS.API.STREAM.MSG.DELETE.VAK_WORK_w1").unwrap();
    for role in Role::ALL {
        let may = AclPolicy::for_role(role, &scope()).can_publish_filter(&discard);
        assert_eq!(may, role == Role::Operator, "{role}");
    }
}

#[test]
fn an_outbox_is_filled_by_its_own_agent_and_by_operators_and_emptied_by_keepers() {
    for role in Role::ALL {
        let policy = AclPolicy::for_role(role, &scope());
        let [own, other] = ["vak.outbox.w1.a1.record", "vak.outbox.w1.a2.record"]
            .map(|text| Filter::parse(text).unwrap());
        let fills = matches!(role, Role::Orchestrator | Role::Operator);
        assert_eq!(policy.can_publish_filter(&own), fills, "{role}");
        assert_eq!(policy.can_publish_filter(&other), role == Role::Operator, "{role}");
        let state = Filter::parse("$KV.VAK_OUTBOX_w1.k").unwrap();
        assert_eq!(policy.can_publish_filter(&state), role == Role::Keeper, "{role}");
        let take = Filter::parse("$JS.API.CONSUMER.DELETE.VAK_OUTBOX_w1.courier").unwrap();
        assert_eq!(policy.can_publish_filter(&take), role == Role::Keeper, "{role}");
    }
}

#[test]
fn a_worker_cancels_nothing_and_an_operator_forges_no_result() {
    let may = |role, text: &str| {
        AclPolicy::for_role(role, &scope()).can_publish_filter(&Filter::parse(text).unwrap())
    };
    assert!(!may(Role::Worker, "$KV.VAK_CANCELS_w1.k"));
    assert!(!may(Role::Operator, "$KV.VAK_RESULTS_w1.k"));
    assert!(!may(Role::Operator, "$O.VAK_RESULTS_w1.M.k"));
}

#[test]
fn calls_are_asked_by_orchestrators_and_operators_and_heard_by_workers_of_the_module() {
    for role in Role::ALL {
        let policy = AclPolicy::for_role(role, &scope());
        let ours = Filter::parse("vak.call.w1.coder.review").unwrap();
        let asks = matches!(role, Role::Orchestrator | Role::Operator);
        assert_eq!(policy.can_publish_filter(&ours), asks, "{role}");
        assert_eq!(policy.can_subscribe(&ours), role == Role::Worker, "{role}");
        for wider in ["vak.call.w1.judge.review", "vak.call.w1.>", "vak.call.w1.*.review"] {
            assert!(!policy.can_subscribe(&Filter::parse(wider).unwrap()), "{role}: {wider}");
        }
    }
}

#[test]
fn every_role_reads_the_directory_of_its_workspace_and_none_writes_there() {
    for role in Role::ALL {
        let policy = AclPolicy::for_role(role, &scope());
        let [own, other] = ["$KV.VAK_AGENTS_w1.certificate.U1", "$KV.VAK_AGENTS_w2.account"]
            .map(|text| Filter::parse(text).unwrap());
        assert!(policy.can_subscribe(&own), "{role}");
        assert!(!policy.can_subscribe(&other), "{role}");
        assert!(!policy.can_publish_filter(&own), "{role}");
    }
}

#[test]
fn no_role_publishes_on_a_reply_subject() {
    for role in Role::ALL {
        for reply in ["_INBOX.a1.1", "_INBOX.a2.1", "_INBOX.=mem.1"] {
            let policy = AclPolicy::for_role(role, &scope());
            assert!(!policy.can_publish_filter(&Filter::parse(reply).unwrap()), "{role}: {reply}");
        }
    }
}

fn scope() -> AclScope {
    AclScope {
        workspace: "w1".parse().unwrap(),
        agent: "a1".parse().unwrap(),
        session: Some("s1".parse().unwrap()),
        role_name: Some("coder".parse().unwrap()),
    }
}

const LISTED: &str = "\
[worker]
deny publish vak.work.w1.>
allow publish vak.events.w1.s1.>
allow publish vak.receipts.w1.s1.completed
allow publish vak.approvals.w1.s1.request
allow publish vak.dlq.w1.a1.failed
allow publish $KV.VAK_CLAIMS_w1.*
allow publish $KV.VAK_RESULTS_w1.*
allow publish $O.VAK_RESULTS_w1.M.*
deny subscribe vak.approvals.w1.>
allow subscribe vak.agent.w1.a1.inbox
allow subscribe vak.work.w1.coder.task
allow subscribe vak.receipts.w1.s1.completed
allow subscribe $KV.VAK_CLAIMS_w1.*
allow subscribe $KV.VAK_RESULTS_w1.*
allow subscribe $KV.VAK_CANCELS_w1.*
allow subscribe vak.call.w1.coder.*
allow subscribe _INBOX.a1.>
allow subscribe $KV.VAK_AGENTS_w1.>
[orchestrator]
allow publish vak.work.w1.*.task
allow publish vak.agent.w1.*.inbox
allow publish vak.call.w1.*.*
allow publish vak.outbox.w1.a1.record
allow subscribe vak.agent.w1.a1.inbox
allow subscribe vak.events.w1.>
allow subscribe vak.receipts.w1.*.completed
allow subscribe vak.dlq.w1.*.failed
allow subscribe $KV.VAK_RESULTS_w1.*
allow subscribe $O.VAK_RESULTS_w1.M.*
allow subscribe vak.outbox.w1.a1.record
allow subscribe $KV.VAK_OUTBOX_w1.*
allow subscribe vak.history.w1.tokens.*
allow subscribe vak.history.w1.terminal.*
allow subscribe _INBOX.a1.>
allow subscribe $KV.VAK_AGENTS_w1.>
[observer]
allow subscribe vak.events.w1.>
allow subscribe vak.history.w1.tokens.*
allow subscribe vak.history.w1.terminal.*
allow subscribe _INBOX.a1.>
allow subscribe $KV.VAK_AGENTS_w1.>
[operator]
allow publish vak.work.w1.*.task
allow publish vak.agent.w1.*.inbox
allow publish vak.call.w1.*.*
allow publish vak.outbox.w1.a1.record
allow publish vak.dlq.w1.*.failed
allow publish vak.conditions.w1.*.*
allow publish vak.approvals.w1.*.request
allow publish $JS.API.STREAM.MSG.DELETE.VAK_DLQ
allow publish $KV.VAK_CANCELS_w1.*
allow publish $JS.API.STREAM.MSG.DELETE.VAK_WORK_w1
allow publish $JS.API.STREAM.INFO.VAK_WORK_w1
allow publish $JS.API.CONSUMER.LIST.VAK_WORK_w1
allow publish $JS.API.CONSUMER.PAUSE.VAK_WORK_w1.*
allow publish $JS.API.STREAM.SNAPSHOT.VAK_WORK_w1
allow publish vak.outbox.w1.*.record
allow publish $JS.API.STREAM.INFO.VAK_OUTBOX_w1
allow subscribe vak.agent.w1.a1.inbox
allow subscribe vak.events.w1.>
allow subscribe vak.receipts.w1.*.completed
allow subscribe vak.dlq.w1.*.failed
allow subscribe $KV.VAK_RESULTS_w1.*
allow subscribe $O.VAK_RESULTS_w1.M.*
allow subscribe vak.outbox.w1.a1.record
allow subscribe $KV.VAK_OUTBOX_w1.*
allow subscribe vak.history.w1.tokens.*
allow subscribe vak.history.w1.terminal.*
allow subscribe vak.approvals.w1.*.request
allow subscribe vak.conditions.w1.*.*
allow subscribe vak.work.w1.*.task
allow subscribe $KV.VAK_CLAIMS_w1.*
allow subscribe $KV.VAK_CANCELS_w1.*
allow subscribe vak.outbox.w1.*.record
allow subscribe _INBOX.a1.>
allow subscribe $KV.VAK_AGENTS_w1.>
[auditor]
allow subscribe vak.receipts.w1.*.completed
allow subscribe vak.approvals.w1.*.request
allow subscribe vak.dlq.w1.*.failed
allow subscribe vak.events.w1.>
allow subscribe vak.history.w1.tokens.*
allow subscribe vak.history.w1.terminal.*
allow subscribe _INBOX.a1.>
allow subscribe $KV.VAK_AGENTS_w1.>
[keeper]
allow publish vak.dlq.w1.*.failed
allow publish vak.conditions.w1.*.*
allow publish $KV.VAK_CLAIMS_w1.*
allow publish $JS.API.STREAM.MSG.DELETE.VAK_DLQ
allow publish $KV.VAK_OUTBOX_w1.*
allow publish $JS.API.CONSUMER.DELETE.VAK_OUTBOX_w1.*
allow publish $JS.API.STREAM.MSG.DELETE.VAK_REC_w1
allow publish vak.history.w1.tokens.*
allow publish vak.history.w1.terminal.*
allow subscribe vak.work.w1.*.task
allow subscribe vak.conditions.w1.*.*
allow subscribe $KV.VAK_CLAIMS_w1.*
allow subscribe vak.outbox.w1.*.record
allow subscribe $KV.VAK_OUTBOX_w1.*
allow subscribe vak.history.w1.tokens.*
allow subscribe vak.history.w1.terminal.*
allow subscribe _INBOX.a1.>
allow subscribe $KV.VAK_AGENTS_w1.>
[view]
allow subscribe _INBOX.a1.>
allow subscribe $KV.VAK_AGENTS_w1.>
";
