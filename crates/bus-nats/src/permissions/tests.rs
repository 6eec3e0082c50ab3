//! Rules of compiled permissions: exactly these grants, nothing that no import carries, no hole.

mod model;
mod refusals;

use bus_crypto::{
    NkeyKind, PublicKey, SigningKey,
    jwt::{
        AccountClaims, Answers, Export, ExportKind, Import, Permissions, SubjectPermission,
        UserClaims, encode_account, encode_user,
    },
};
use bus_subjects::{AclPolicy, AclScope, AgentId, Filter, Role, WorkspaceId};

use super::{Layout, PermissionsError, leaf_denies, permissions, store_exports, workspace_imports};

fn scope_of(fill: &str) -> AclScope {
    let id = |short: &str| if fill.is_empty() { short.to_owned() } else { fill.repeat(64) };
    AclScope {
        workspace: id("w1").parse().unwrap(),
        agent: id("a1").parse().unwrap(),
        session: Some(id("s1").parse().unwrap()),
        role_name: Some(id("coder").parse().unwrap()),
    }
}

fn scope() -> AclScope {
    scope_of("")
}

fn layout() -> Layout {
    Layout::of(&scope().workspace).unwrap()
}

fn compiled(policy: &AclPolicy) -> Result<Permissions, PermissionsError> {
    permissions(policy, &scope().agent, &layout())
}

fn of_role(role: Role) -> Permissions {
    compiled(&AclPolicy::for_role(role, &scope())).unwrap()
}

fn listed(permissions: &Permissions) -> String {
    let SubjectPermission { allow, deny } = &permissions.publish;
    let SubjectPermission { allow: hear, deny: ignore } = &permissions.subscribe;
    let lists = [("publish", allow), ("not", deny), ("subscribe", hear), ("not", ignore)];
    lists
        .into_iter()
        .flat_map(|(word, rules)| rules.iter().map(move |rule| format!("{word} {rule}\n")))
        .collect()
}

fn filter(text: &str) -> Filter {
    text.parse().unwrap()
}

fn is_covered(rules: &[String], text: &str) -> bool {
    rules.iter().any(|rule| filter(rule).covers(&filter(text)))
}

#[test]
fn each_role_gets_exactly_these_grants() {
    let roles = Role::ALL.into_iter().map(|role| format!("[{role}]\n{}", listed(&of_role(role))));
    let found: String = roles.collect();
    assert!(found == include_str!("tests/roles.txt"), "{found}");
}

#[test]
fn a_denial_of_one_role_is_kept_whatever_another_allows() {
    let roles = [Role::Worker, Role::Operator].map(|role| AclPolicy::for_role(role, &scope()));
    let both = compiled(&AclPolicy::union(roles)).unwrap();
    for denied in [
        "vakj.DIRECT.GET.VAK_APPROVALS",
        "vakj.DIRECT.GET.VAK_APPROVALS.vak.approvals.w1.s1.request",
        "vak.work.w1.coder.task",
        "vakp.9._.vak.work.w1.coder.task",
    ] {
        let SubjectPermission { allow, deny } = &both.publish;
        assert!(!is_covered(allow, denied) || is_covered(deny, denied), "{denied}");
    }
    let SubjectPermission { allow, deny } = &both.subscribe;
    let approvals = "vak.approvals.w1.s1.request";
    assert!(!is_covered(allow, approvals) || is_covered(deny, approvals));
}

#[test]
fn whoever_has_two_roles_can_be_let_in() {
    for one in Role::ALL {
        for other in Role::ALL {
            let both = [one, other].map(|role| AclPolicy::for_role(role, &scope()));
            let both = compiled(&AclPolicy::union(both));
            assert!(both.is_ok(), "{one} and {other}: {both:?}");
        }
    }
}

#[test]
fn a_policy_that_allows_nothing_denies_everything_to_hear() {
    let nothing = compiled(&AclPolicy::default()).unwrap();
    assert_eq!(nothing.subscribe.deny, [">"]);
    assert!(nothing.subscribe.allow.is_empty());
    assert_eq!(nothing.publish.allow, ["$SYS.REQ.USER.INFO", "_INBOX.a1.>"]);
}

#[test]
fn no_list_is_ever_empty_on_the_side_of_what_is_allowed_without_a_denial_of_everything() {
    for role in Role::ALL {
        let Permissions { publish, subscribe, .. } = of_role(role);
        for SubjectPermission { allow, deny } in [publish, subscribe] {
            assert!(!allow.is_empty() || deny == [">"], "{role}");
        }
    }
}

#[test]
fn only_workers_may_answer_calls_and_nobody_whatever_it_hears() {
    for role in Role::ALL {
        let rights = of_role(role);
        let may_answer = is_covered(&rights.publish.allow, "_INBOX.o1.call.k");
        assert_eq!(may_answer, role == Role::Worker, "{role}");
        assert_eq!(rights.response, None, "{role}");
    }
}

fn names_here(imports: &[Import]) -> Vec<Filter> {
    let name = |import: &Import| {
        let name = import.local_subject.as_ref().unwrap_or(&import.subject);
        let levels = name.split('.').map(|level| match level.strip_prefix('$') {
            Some(star) if star.parse::<u8>().is_ok() => "*",
            _ => level,
        });
        filter(&levels.collect::<Vec<_>>().join("."))
    };
    imports.iter().map(name).collect()
}

#[test]
fn whatever_a_role_may_ask_the_store_is_imported() {
    let imports = names_here(&workspace_imports(&layout(), &store()));
    let is_of_store = |rule: &Filter| {
        let first = rule.as_str().split('.').next().unwrap();
        first != "vak" && !rule.as_str().starts_with("$SYS") && first != "_INBOX"
    };
    for role in Role::ALL {
        for rule in of_role(role).publish.allow {
            let rule = filter(&rule);
            let is_imported = imports.iter().any(|import| import.covers(&rule));
            assert!(!is_of_store(&rule) || is_imported, "{role} {rule}");
        }
    }
}

#[test]
fn every_part_of_the_api_that_is_imported_is_needed_by_some_role() {
    let imports = names_here(&workspace_imports(&layout(), &store()));
    let granted: Vec<_> =
        Role::ALL.into_iter().flat_map(|role| of_role(role).publish.allow).collect();
    for import in imports.iter().filter(|import| import.as_str().starts_with("vakj.")) {
        assert!(granted.iter().any(|rule| import.covers(&filter(rule))), "{import}");
    }
}

#[test]
fn no_way_to_make_change_empty_or_remove_a_stream_is_imported() {
    let imports = names_here(&workspace_imports(&layout(), &store()));
    for verb in [
        "STREAM.CREATE.X",
        "STREAM.UPDATE.X",
        "STREAM.DELETE.X",
        "STREAM.PURGE.X",
        "STREAM.SNAPSHOT.X",
        "STREAM.RESTORE.X",
        "STREAM.MSG.GET.X",
        "STREAM.NAMES",
        "CONSUMER.CREATE.X",
        "CONSUMER.CREATE.X.y",
        "CONSUMER.DURABLE.CREATE.X.y",
        "CONSUMER.DELETE.X.y",
        "CONSUMER.DELETE.VAK_WORK_w1.worker_coder",
        "META.LEADER.STEPDOWN",
        "INFO",
    ] {
        for asked in [format!("vakj.{verb}"), format!("$JS.API.{verb}")] {
            assert!(!imports.iter().any(|import| import.covers(&filter(&asked))), "{asked}");
        }
    }
}

fn store() -> PublicKey {
    PublicKey::from_bytes(NkeyKind::Account, [1; 32])
}

#[test]
fn each_import_is_exported_and_each_export_imported() {
    let shown = |subject: &String, is_service: bool| format!("{is_service} {subject}");
    let exported = |export: &Export| shown(&export.subject, export.kind != ExportKind::Stream);
    let imported = |import: &Import| {
        shown(&import.subject, import.kind == bus_crypto::jwt::ImportKind::Service)
    };
    let (exports, imports) = (store_exports(&layout()), workspace_imports(&layout(), &store()));
    let exports: Vec<_> = exports.iter().map(exported).collect();
    assert_eq!(exports, imports.iter().map(imported).collect::<Vec<_>>());
}

#[test]
fn the_way_back_of_many_answers_is_forgotten() {
    for export in store_exports(&layout()) {
        let ExportKind::Service { answers, threshold } = export.kind else { continue };
        assert_eq!(threshold.is_some(), answers != Answers::One, "{}", export.subject);
    }
}

#[test]
fn exports_and_imports_are_ones_that_a_server_takes() {
    let operator = SigningKey::from_seed(NkeyKind::Operator, [7; 32].into()).unwrap();
    let mut claims = AccountClaims::new("w", store(), *operator.public(), 0);
    let long = Layout::of(&scope_of("~").workspace).unwrap();
    for layout in [layout(), long] {
        claims.exports = store_exports(&layout);
        claims.imports = workspace_imports(&layout, &store());
        let token = encode_account(&claims, &operator).unwrap();
        assert!(token.len() < 16 * 1024, "{}", token.len());
    }
}

#[test]
fn with_the_longest_ids_a_users_token_fits_into_a_line() {
    let scope = scope_of("~");
    let layout = Layout::of(&scope.workspace).unwrap();
    let account = SigningKey::from_seed(NkeyKind::Account, [7; 32].into()).unwrap();
    let user = PublicKey::from_bytes(NkeyKind::User, [1; 32]);
    for role in Role::ALL {
        let policy = AclPolicy::for_role(role, &scope);
        let mut claims = UserClaims::new(scope.agent.as_str(), user, *account.public(), 0);
        claims.permissions = permissions(&policy, &scope.agent, &layout).unwrap();
        let token = encode_user(&claims, &account).unwrap();
        assert!(token.len() + 1024 < 32 * 1024, "{role}: {}", token.len());
    }
}

#[test]
fn a_layout_knows_which_stream_keeps_a_subject_and_all_that_it_keeps() {
    let layout = layout();
    for (subject, stream) in [
        ("vak.work.w1.coder.task", Some("VAK_WORK_w1")),
        ("vak.agent.w1.a1.inbox", Some("VAK_INBOX_w1")),
        ("vak.outbox.w1.a1.record", Some("VAK_OUTBOX_w1")),
        ("vak.receipts.w1.s1.completed", Some("VAK_RECEIPTS")),
        ("vak.approvals.w1.s1.request", Some("VAK_APPROVALS")),
        ("vak.dlq.w1.a1.failed", Some("VAK_DLQ")),
        ("vak.history.w1.tokens.s1", Some("VAK_REC_w1")),
        ("vak.history.w1.terminal.s1", Some("VAK_REC_w1")),
        ("vak.history.w1.model.k", None),
        ("vak.events.w1.s1.telemetry", Some("VAK_LATEST")),
        ("vak.events.w1.s1.tokens", None),
        ("vak.work.w2.coder.task", None),
    ] {
        let subject = subject.parse().unwrap();
        let found = layout.stream_of(&subject);
        assert_eq!(found.map(|name| name.as_str()), stream, "{subject}");
        let keeps = |name| layout.whole(name).iter().any(|whole| whole.matches(&subject));
        assert!(found.is_none_or(keeps), "{subject}");
    }
    assert!(layout.whole(&"OTHER".parse().unwrap()).is_empty());
}

fn agent() -> AgentId {
    scope().agent
}

fn workspace() -> WorkspaceId {
    scope().workspace
}

#[test]
fn whatever_a_store_answers_to_crosses_no_link_of_a_leaf_node() {
    let store = PublicKey::from_bytes(NkeyKind::Account, [1; 32]);
    let denied = leaf_denies(&layout()).unwrap();
    for import in workspace_imports(&layout(), &store) {
        let name = import.local_subject.unwrap_or(import.subject);
        let levels = name.split('.').map(|it| if numbered(it) { "*" } else { it });
        let name = Filter::parse(&levels.collect::<Vec<_>>().join(".")).unwrap();
        assert!(denied.iter().any(|filter| filter.covers(&name)), "{name}");
    }
    for live in ["vak.events.w1.s1.tokens", "vak.call.w1.files.read", "_INBOX.a1.call.x"] {
        let live = live.parse().unwrap();
        assert!(!denied.iter().any(|filter| filter.matches(&live)), "{live}");
    }
}

#[test]
fn the_guide_lists_what_crosses_no_link_of_a_leaf_node() {
    let guide = include_str!("../../../../docs/guide/cluster.md");
    let (_, list) = guide.split_once("<!-- leaf-denies -->\n```text\n").unwrap();
    let (list, _) = list.split_once("```").unwrap();
    let denied = leaf_denies(&layout()).unwrap();
    let denied: Vec<_> = denied.iter().map(Filter::as_str).collect();
    assert_eq!(list.lines().collect::<Vec<_>>(), denied);
}

/// Whether a level stands for one of those that an import takes over.
fn numbered(level: &str) -> bool {
    level.strip_prefix('$').is_some_and(|number| number.parse::<u8>().is_ok())
}
