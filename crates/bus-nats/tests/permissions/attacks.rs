//! Attacks of the first order, each refused by the server itself, role by role.

use bus_nats::permissions::Layout;
use bus_subjects::Role;

use crate::{
    raw::Raw,
    world::{Shape, World},
};

/// What no agent may hear: others' answers, the server's and the bus's own, whole planes.
const NOBODY_HEARS: &[&str] = &[
    ">",
    "*",
    "*.>",
    "vak.>",
    "vak.*.w1.>",
    "vak.*.*.>",
    "vak.agent.>",
    "vak.agent.w1.>",
    "vak.agent.w1.*.inbox",
    "vak.agent.w1.a2.inbox",
    "vak.agent.*.a2.inbox",
    "vak.agent.w1.a2.*",
    "vak.agent.w1.a2.>",
    "*.agent.w1.a2.inbox",
    "_INBOX.>",
    "_INBOX.*",
    "_INBOX.*.>",
    "_INBOX.a2.>",
    "_INBOX.a2.k.1",
    "_INBOX.*.k.1",
    "*.a2.k.1",
    "$JS.>",
    "$JS.API.>",
    "$JS.ACK.>",
    "$JS.EVENT.>",
    "$JS.EVENT.ADVISORY.>",
    "$JS.EVENT.ADVISORY.CONSUMER.DELETED.>",
    "$JS.EVENT.ADVISORY.CONSUMER.DELETED.VAK_INBOX_w1.inbox_a2",
    "$JS.FC.>",
    "$KV.>",
    "$KV.VAK_CLAIMS_w1.*",
    "$KV.VAK_CLAIMS_w1.>",
    "$O.>",
    "vakblob.>",
    "vakp.>",
    "vakp.*.*.vak.agent.w1.*.inbox",
    "vakp.*.*.vak.agent.w1.a2.inbox",
    "vakq.>",
    "vakqr.>",
    "vakj.>",
    "vakl.>",
    "$SYS.>",
    "$SYS.ACCOUNT.>",
    "$SYS.REQ.>",
    "_R_.>",
    "_GR_.>",
    "vak.keys.>",
    "vak.keys.w1.a2.grant",
    "vak.work.w2.coder.task",
    "vak.events.w2.>",
    "vak.events.*.>",
    "vak.work.>",
    "vak.call.>",
    "vak.call.w1.*.*",
    "vak.call.w1.judge.go",
];

/// What no agent may say. `API` stands for both names of the API.
const NOBODY_SAYS: &[&str] = &[
    "_INBOX.a2.k.1",
    "_INBOX.resident.raw.1",
    "$SYS.REQ.SERVER.PING",
    "$SYS.REQ.ACCOUNT.X.CONNZ",
    "$SYS.REQ.USER.PASS",
    "$JS.FC.VAK_BOARD.x.1",
    "_R_.abc",
    "_GR_.abc",
    "$JS.ACK.VAK_WORK_w1.worker_judge.1.1.1.1.0",
    "$JS.ACK.VAK_INBOX_w1.inbox_a2.1.1.1.1.0",
    "$JS.ACK.d.h.VAK_INBOX_w1.inbox_a2.1.1.1.1.0.x",
    "$JS.ACK.VAK_INBOX_w1.inbox_a2.VAK_INBOX_w1.inbox_a1.1.1.1",
    "$JS.ACK.VAK_WORK_w1.worker_judge.VAK_WORK_w1.worker_coder.1.1.1",
    "$JS.EVENT.ADVISORY.CONSUMER.DELETED.VAK_WORK_w1.worker_coder",
    "vak.keys.w1.a2.grant",
    "vak.room.w1.r.message",
    "vak.history.w1.k.x",
    "vak.state.w1.k.changed",
    "vak.work.w2.coder.task",
    "vak.agent.w2.a1.inbox",
    "vak.receipts.w2.s1.completed",
    "vak.receipts.w1.s2.completed",
    "vakp.9._.vak.receipts.w1.s1.completed",
    "vakq.VAK_WORK_w1.worker_judge.m._.1.turn2",
    "vakq.VAK_INBOX_w1.inbox_a2.m._.1.state",
    "vakqr.VAK_WORK_w1.worker_coder.m._.1.state",
    "vakl.fence",
    "vakj",
    "$KV.OTHER.k",
    "$KV.VAK_AGENTS_w1.account",
    "$KV.VAK_AGENTS_w1.certificate.U1",
    "$KV.VAK_CLAIMS_w1.k.deep",
    "$KV.VAK_CANCELS_w1.k.deep",
    "vakblob.OTHER.m.k",
    "vakblob.VAK_RESULTS_w1.m.k.deep",
    "$O.VAK_RESULTS_w1.M.k",
    "vak.events.w1.s2.tokens",
    "API.INFO",
    "API.ACCOUNT.PURGE.X",
    "API.META.LEADER.STEPDOWN",
    "API.STREAM.NAMES",
    "API.STREAM.LIST",
    "API.STREAM.CREATE.X",
    "API.STREAM.CREATE.VAK_WORK_w1",
    "API.STREAM.UPDATE.VAK_WORK_w1",
    "API.STREAM.DELETE.VAK_WORK_w1",
    "API.STREAM.DELETE.VAK_DLQ",
    "API.STREAM.PURGE.VAK_WORK_w1",
    "API.STREAM.PURGE.VAK_DLQ",
    "API.STREAM.PURGE.VAK_BOARD",
    "API.STREAM.SNAPSHOT.VAK_WORK_w1",
    "API.STREAM.RESTORE.X",
    "API.STREAM.MSG.GET.VAK_APPROVALS",
    "API.STREAM.MSG.GET.VAK_INBOX_w1",
    "API.STREAM.MSG.DELETE.VAK_RECEIPTS",
    "API.STREAM.MSG.DELETE.VAK_APPROVALS",
    "API.STREAM.MSG.DELETE.VAK_INBOX_w1",
    "API.STREAM.LEADER.STEPDOWN.VAK_WORK_w1",
    "API.STREAM.PEER.REMOVE.VAK_WORK_w1",
    "API.STREAM.INFO.VAK_INBOX_w1",
    "API.STREAM.INFO.VAK_RECEIPTS",
    "API.STREAM.INFO.VAK_BOARD",
    "API.CONSUMER.NAMES.VAK_WORK_w1",
    "API.CONSUMER.LIST.VAK_INBOX_w1",
    "API.CONSUMER.CREATE.VAK_INBOX_w1",
    "API.CONSUMER.CREATE.VAK_INBOX_w1.inbox_a2",
    "API.CONSUMER.CREATE.VAK_INBOX_w1.x.vak.agent.w1.a2.inbox",
    "API.CONSUMER.CREATE.VAK_INBOX_w1.inbox_a1.vak.agent.w1.a2.inbox",
    "API.CONSUMER.CREATE.VAK_INBOX_w1.inbox_a1.>",
    "API.CONSUMER.CREATE.VAK_WORK_w1",
    "API.CONSUMER.CREATE.VAK_WORK_w1.worker_coder",
    "API.CONSUMER.CREATE.VAK_BOARD.x",
    "API.CONSUMER.CREATE.VAK_BOARD.x.>",
    "API.CONSUMER.CREATE.VAK_BOARD.x.vakq.>",
    "API.CONSUMER.CREATE.VAK_BOARD.x.vakq.VAK_INBOX_w1.inbox_a2.>",
    "API.CONSUMER.CREATE.VAK_RECEIPTS.x.>",
    "API.CONSUMER.CREATE.VAK_RECEIPTS.x.vak.receipts.w2.s1.completed",
    "API.CONSUMER.CREATE.VAK_LATEST.x.vak.events.w1.*.telemetry",
    "API.CONSUMER.DURABLE.CREATE.VAK_WORK_w1.x",
    "API.CONSUMER.DELETE.VAK_WORK_w1.worker_coder",
    "API.CONSUMER.DELETE.VAK_INBOX_w1.inbox_a2",
    "API.CONSUMER.DELETE.VAK_OUTBOX_w1.x",
    "API.CONSUMER.PAUSE.VAK_INBOX_w1.inbox_a2",
    "API.CONSUMER.RESET.VAK_WORK_w1.worker_coder",
    "API.CONSUMER.UNPIN.VAK_WORK_w1.worker_coder",
    "API.CONSUMER.INFO.VAK_INBOX_w1.inbox_a2",
    "API.CONSUMER.LEADER.STEPDOWN.VAK_WORK_w1.worker_coder",
    "API.CONSUMER.MSG.NEXT.VAK_WORK_w1.worker_judge",
    "API.CONSUMER.MSG.NEXT.VAK_INBOX_w1.inbox_a2",
    "API.DIRECT.GET.VAK_INBOX_w1",
    "API.DIRECT.GET.VAK_INBOX_w1.vak.agent.w1.a2.inbox",
    "API.DIRECT.GET.VAK_INBOX_w1.vakp.9._.vak.agent.w1.a2.inbox",
    "API.DIRECT.GET.VAK_BOARD",
    "API.DIRECT.GET.VAK_BOARD.vakq.VAK_INBOX_w1.inbox_a2.m._.1.state",
    "API.DIRECT.GET.KV_VAK_CLAIMS_w1",
    "API.DIRECT.GET.KV_OTHER.$KV.OTHER.k",
];

/// What only keepers and, of the first two, operators may say.
const OUTBOXES: &[&str] = &[
    "vak.outbox.w1.a2.record",
    "API.DIRECT.GET.VAK_OUTBOX_w1",
    "$KV.VAK_OUTBOX_w1.k",
    "API.CONSUMER.DELETE.VAK_OUTBOX_w1.courier",
    "API.CONSUMER.CREATE.VAK_OUTBOX_w1.courier.vak.outbox.w1.*.record",
    "API.CONSUMER.CREATE.VAK_OUTBOX_w1.x.vak.outbox.w1.a1.record",
    "API.CONSUMER.MSG.NEXT.VAK_OUTBOX_w1.courier",
    "$JS.ACK.VAK_OUTBOX_w1.courier.1.1.1.1.0",
];
const TASKS: &[&str] =
    &["vak.work.w1.coder.task", "vakp.9._.vak.work.w1.coder.task", "vak.work.w1.*.task"];
const EVIDENCE: &[&str] = &["vak.receipts.w1.s1.completed", "vak.approvals.w1.s1.request"];
const RESULTS: &[&str] = &["$KV.VAK_RESULTS_w1.k", "vakblob.VAK_RESULTS_w1.m.k"];
const CLAIMS: &[&str] = &["$KV.VAK_CLAIMS_w1.k"];
const CANCELS: &[&str] = &["$KV.VAK_CANCELS_w1.k"];
const MAIL: &[&str] =
    &["vak.agent.w1.a2.inbox", "vak.agent.w1.a1.inbox", "vakp.9._.vak.agent.w1.a1.inbox"];
const STEERING: &[&str] = &[
    "vak.conditions.w1.a.b",
    "API.STREAM.MSG.DELETE.VAK_WORK_w1",
    "API.STREAM.INFO.VAK_WORK_w1",
    "API.CONSUMER.LIST.VAK_WORK_w1",
    "API.CONSUMER.PAUSE.VAK_WORK_w1.worker_coder",
];
const QUEUE: &[&str] = &[
    "API.CONSUMER.MSG.NEXT.VAK_WORK_w1.worker_coder",
    "$JS.ACK.VAK_WORK_w1.worker_coder.1.1.1.1.0",
    "$JS.ACK.d.h.VAK_WORK_w1.worker_coder.1.1.1.1.0.x",
    "vakq.VAK_WORK_w1.worker_coder.m._.1.other",
];
const READING: &[&str] = &[
    "API.DIRECT.GET.VAK_RECEIPTS",
    "API.DIRECT.GET.VAK_APPROVALS",
    "API.DIRECT.GET.VAK_APPROVALS.vak.approvals.w1.s1.request",
    "API.DIRECT.GET.VAK_DLQ",
    "API.DIRECT.GET.VAK_WORK_w1",
];
const EVENTS: &[&str] = &["vak.events.w1.s1.tokens"];
const LETTERS: &[&str] = &["vak.dlq.w1.a2.failed", "API.STREAM.MSG.DELETE.VAK_DLQ"];
const RECORDINGS: &[&str] = &["vak.history.w1.terminal.s1", "API.STREAM.MSG.DELETE.VAK_REC_w1"];
const CALLS: &[&str] = &["vak.call.w1.coder.go"];
const ANSWERS: &[&str] = &["_INBOX.a2.call.k"];

/// What this role may not say beyond that.
fn may_not_say(role: Role) -> Vec<&'static str> {
    let lists: &[&[&str]] = match role {
        Role::Worker => &[
            TASKS,
            CANCELS,
            MAIL,
            STEERING,
            READING,
            LETTERS,
            CALLS,
            OUTBOXES,
            RECORDINGS,
            &["API.DIRECT.GET.VAK_REC_w1", "API.DIRECT.GET.VAK_REC_w1.vak.history.w1.tokens.s1"],
        ],
        Role::Orchestrator => &[
            EVIDENCE,
            RESULTS,
            CLAIMS,
            CANCELS,
            STEERING,
            QUEUE,
            EVENTS,
            LETTERS,
            OUTBOXES,
            ANSWERS,
            RECORDINGS,
            &["API.DIRECT.GET.VAK_APPROVALS", "API.DIRECT.GET.VAK_WORK_w1"],
        ],
        Role::Operator => {
            &[&EVIDENCE[..1], RESULTS, CLAIMS, QUEUE, EVENTS, &OUTBOXES[2..], ANSWERS, RECORDINGS]
        }
        Role::Keeper => &[
            TASKS,
            EVIDENCE,
            RESULTS,
            CANCELS,
            MAIL,
            &STEERING[1..],
            QUEUE,
            EVENTS,
            CALLS,
            &READING[..3],
            &OUTBOXES[..1],
            ANSWERS,
        ],
        Role::Observer | Role::View => &[
            TASKS, EVIDENCE, RESULTS, CLAIMS, CANCELS, MAIL, STEERING, QUEUE, READING, EVENTS,
            LETTERS, CALLS, OUTBOXES, ANSWERS, RECORDINGS,
        ],
        Role::Auditor => &[
            TASKS,
            EVIDENCE,
            RESULTS,
            CLAIMS,
            CANCELS,
            MAIL,
            STEERING,
            QUEUE,
            EVENTS,
            LETTERS,
            CALLS,
            OUTBOXES,
            ANSWERS,
            RECORDINGS,
            &["API.DIRECT.GET.VAK_WORK_w1"],
        ],
    };
    lists.iter().copied().flatten().copied().collect()
}

/// What this role may not hear beyond that.
fn may_not_hear(role: Role) -> &'static [&'static str] {
    match role {
        Role::Worker => &[
            "vak.approvals.w1.s1.request",
            "vak.approvals.w1.*.request",
            "vak.approvals.>",
            "vak.work.w1.judge.task",
            "vak.work.w1.*.task",
            "vak.events.w1.s1.>",
            "vak.outbox.w1.a1.record",
            "vak.receipts.w1.s2.completed",
            "vak.receipts.w1.*.completed",
            "vak.dlq.w1.a1.failed",
        ],
        Role::Orchestrator => &[
            "vak.approvals.w1.s1.request",
            "vak.work.w1.coder.task",
            "vak.call.w1.coder.go",
            "vak.conditions.w1.a.b",
            "vak.outbox.w1.a2.record",
            "vak.outbox.w1.*.record",
        ],
        Role::Operator => &["vak.call.w1.coder.go", "vakp.*.*.vak.work.w1.coder.task"],
        Role::Keeper => &[
            "vak.receipts.w1.*.completed",
            "vak.approvals.w1.s1.request",
            "vak.events.w1.>",
            "vak.agent.w1.a1.inbox",
            "vak.dlq.w1.a1.failed",
            "vak.call.w1.coder.go",
        ],
        Role::Observer => &[
            "vak.receipts.w1.s1.completed",
            "vak.approvals.w1.s1.request",
            "vak.work.w1.coder.task",
            "vak.agent.w1.a1.inbox",
            "vak.dlq.w1.a1.failed",
            "vak.call.w1.coder.go",
        ],
        Role::Auditor => &[
            "vak.work.w1.coder.task",
            "vak.agent.w1.a1.inbox",
            "vak.call.w1.coder.go",
            "vak.conditions.w1.a.b",
        ],
        Role::View => &[
            "vak.events.w1.>",
            "vak.events.w1.s1.tokens",
            "vak.receipts.w1.s1.completed",
            "vak.work.w1.coder.task",
            "vak.agent.w1.a1.inbox",
            "vak.dlq.w1.a1.failed",
        ],
    }
}

fn both_names(subject: &str) -> Vec<String> {
    match subject.strip_prefix("API.") {
        Some(verb) => vec![format!("{}.{verb}", Layout::API_PREFIX), format!("$JS.API.{verb}")],
        None => vec![subject.to_owned()],
    }
}

/// Those of the attacks that the server did not refuse, and how many there were.
fn try_all(attacker: &mut Raw, role: Role) -> (Vec<String>, usize) {
    let own = may_not_say(role);
    let said: Vec<_> =
        NOBODY_SAYS.iter().chain(&own).flat_map(|subject| both_names(subject)).collect();
    let reply = attacker.new_inbox();
    let mut passed = Vec::new();
    for subject in &said {
        if attacker.may_publish(subject, &reply) {
            passed.push(format!("{role} says {subject}"));
        }
    }
    let heard: Vec<_> = NOBODY_HEARS.iter().chain(may_not_hear(role)).collect();
    for filter in &heard {
        if attacker.may_subscribe(filter) {
            passed.push(format!("{role} hears {filter}"));
        }
    }
    (passed, said.len() + heard.len())
}

#[test]
fn every_attack_of_every_role_is_refused_by_the_server() {
    let world = World::furnished(Shape::Two);
    let mut admin = world.admin();
    let before = admin.snapshot(&[]);
    let (mut passed, mut tried) = (Vec::new(), 0);
    for role in Role::ALL {
        let mut attacker = world.agent_in(role, "a1");
        let (of_role, number) = try_all(&mut attacker, role);
        passed.extend(of_role);
        tried += number;
    }
    assert!(passed.is_empty(), "{passed:#?}");
    assert!(tried > 1_500, "{tried}");
    assert_eq!(before, admin.snapshot(&[]));
}

/// That the suite sees a right that should not be there.
#[test]
fn a_right_too_many_is_seen() {
    let world = World::furnished(Shape::Two);
    let mut rights = crate::world::rights_of(Role::Observer, "a1");
    rights.publish.allow.push("vak.work.w1.coder.task".to_owned());
    rights.subscribe.allow.push("_INBOX.a2.>".to_owned());
    let (passed, _) = try_all(&mut world.agent("a1", rights), Role::Observer);
    let wanted = [
        "observer says vak.work.w1.coder.task",
        "observer hears _INBOX.a2.>",
        "observer hears _INBOX.a2.k.1",
    ];
    assert_eq!(passed, wanted);
}
