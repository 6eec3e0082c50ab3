//! The operator of a data home, and the tokens that it makes.

use bus_crypto::jwt::{AccountClaims, decode_account, encode_account};
use bus_nats::claims::Held;
use bus_subjects::{AgentId, Role};

use super::*;
use crate::engine::Scope;

struct World {
    _dir: tempfile::TempDir,
    home: Home,
    operator: Operator,
    workspace: Workspace,
}

fn world() -> World {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::locate(Some(&dir.path().join("data"))).unwrap();
    let name = WorkspaceId::parse("w1").unwrap();
    let workspace = Workspace::open_or_new(&home, &name).unwrap();
    let operator = Operator::open_or_new(&home).unwrap();
    World { _dir: dir, home, operator, workspace }
}

impl World {
    /// The token of the agents' account, where servers hold these.
    fn token(&self, held: &[Held]) -> String {
        let [_, agents] = self.operator.workspace(&self.workspace).unwrap();
        self.operator.token_of(&agents, held).unwrap().token
    }

    fn claims(&self, held: &[Held]) -> AccountClaims {
        decode_account(&self.token(held)).unwrap()
    }

    /// What a server may hold of the agents' account.
    fn held(&self, edit: impl FnOnce(&mut AccountClaims)) -> Held {
        let mut claims = self.claims(&[]);
        edit(&mut claims);
        let token = encode_account(&claims, &self.operator.key).unwrap();
        Held { claims: decode_account(&token).unwrap(), token }
    }
}

fn user(fill: u8) -> PublicKey {
    PublicKey::from_bytes(NkeyKind::User, [fill; 32])
}

#[test]
fn an_operator_is_made_once() {
    let world = world();
    let again = Operator::open_or_new(&world.home).unwrap();
    assert_eq!(again.claims(), world.operator.claims());
    assert_eq!(again.token(), world.operator.token());
}

#[test]
fn a_token_that_says_the_same_is_not_made_again() {
    let world = world();
    assert_eq!(world.token(&[]), world.token(&[]));
}

#[test]
fn a_token_that_says_something_else_is_younger_than_the_last() {
    let world = world();
    let first = world.claims(&[]);
    let bob = AgentId::parse("bob").unwrap();
    let scope = Scope::default();
    let certificate =
        world.workspace.add_agent(bob.clone(), vec![Role::Worker], None, scope).unwrap();
    world.workspace.revoke(&bob).unwrap();
    let second = world.claims(&[]);
    assert!(second.issued_at_unix_s > first.issued_at_unix_s);
    let until = AccountClaims::FOR_EVER_UNIX_S;
    assert_eq!(second.revocations, [(certificate.nkey.text(), until)].into());
}

#[test]
fn a_login_is_bound_to_what_the_certificate_is_bound_to() {
    let world = world();
    let bob = AgentId::parse("bob").unwrap();
    let scope = |queue: &str| Scope { queue: Some(queue.parse().unwrap()), session: None };
    let added = world.workspace.add_agent(bob.clone(), vec![Role::Worker], None, scope("coder"));
    let certificate = added.unwrap();
    for asked in [Scope::default(), scope("coder"), scope("judge")] {
        let login = world.workspace.login(&bob, &asked).unwrap();
        assert_eq!(login.jwt(), certificate.token(), "{asked:?}");
    }
}

#[test]
fn whoever_any_server_keeps_out_is_kept_out_by_the_next_token() {
    let world = world();
    let later = |fill, by: i64| {
        world.held(|claims| {
            claims.revoke(&user(fill));
            claims.issued_at_unix_s += by;
        })
    };
    let held = [later(1, 1_000), later(2, 2_000)];
    let next = world.claims(&held);
    assert_eq!(next.revocations.len(), 2);
    assert!(next.issued_at_unix_s > held[1].claims.issued_at_unix_s);
    // Also when those servers are away the next time.
    assert_eq!(world.claims(&[]).revocations.len(), 2);
}

#[test]
fn a_server_that_has_missed_a_revocation_is_noticed() {
    let world = world();
    let is_missed = |held: &[Held]| {
        let [_, agents] = world.operator.workspace(&world.workspace).unwrap();
        world.operator.is_missed(&agents, held).unwrap()
    };
    let (old, new) = (world.held(|_| {}), world.held(|claims| claims.revoke(&user(1))));
    assert!(!is_missed(&[]) && !is_missed(&[old.clone(), old.clone()]));
    assert!(!is_missed(&[new.clone(), new.clone()]));
    assert!(is_missed(&[new.clone(), old.clone()]) && is_missed(&[old.clone(), new.clone()]));
    // Also when nobody who knows of it answers.
    world.claims(&[new]);
    assert!(is_missed(&[old]));
}

#[test]
fn another_token_of_the_same_second_is_outdone() {
    let world = world();
    let other = world.held(|claims| claims.description = Some("of another machine".to_owned()));
    let next = world.claims(std::slice::from_ref(&other));
    assert!(next.issued_at_unix_s > other.claims.issued_at_unix_s);
}

#[test]
fn what_a_server_begins_with_takes_the_place_of_nothing_that_was_pushed_since() {
    let world = world();
    let begins = || {
        let all = world.operator.accounts(std::slice::from_ref(&world.workspace)).unwrap();
        decode_account(&all.into_iter().find(|one| one.name == "w1").unwrap().token).unwrap()
    };
    let pushed = world.claims(&[]);
    let bob = AgentId::parse("bob").unwrap();
    world.workspace.add_agent(bob.clone(), vec![Role::Worker], None, Scope::default()).unwrap();
    world.workspace.revoke(&bob).unwrap();
    let begun = begins();
    assert_eq!(begun.issued_at_unix_s, pushed.issued_at_unix_s);
    assert_eq!(begun.revocations.len(), 1);
    // The next push is younger all the same.
    assert!(world.claims(&[]).issued_at_unix_s > pushed.issued_at_unix_s);
}

#[test]
fn the_callout_may_place_agents_and_nobody_else() {
    let world = world();
    let accounts = world.operator.accounts(std::slice::from_ref(&world.workspace)).unwrap();
    let callout = accounts.iter().find(|one| one.name == "callout").unwrap();
    let claims = decode_account(&callout.token).unwrap();
    let allowed = claims.authorization.allowed_accounts;
    assert_eq!(allowed, [world.workspace.account().text()]);
    assert!(claims.authorization.xkey.is_some());
}

#[test]
fn a_store_keeps_and_its_agents_only_ask_it() {
    let world = world();
    let accounts = world.operator.accounts(std::slice::from_ref(&world.workspace)).unwrap();
    let claims = |name| {
        let one = accounts.iter().find(|one| one.name == name).unwrap();
        decode_account(&one.token).unwrap()
    };
    let (store, agents) = (claims("w1 (store)"), claims("w1"));
    assert_ne!(store.limits.jetstream.disk_bytes_max, 0);
    assert_eq!(agents.limits.jetstream.disk_bytes_max, 0);
    assert!(agents.imports.iter().all(|import| import.account == store.subject));
}

#[test]
fn a_damaged_key_is_told_and_not_replaced() {
    let world = world();
    let dir = world.home.below(DIR);
    dir.replace(SYSTEM_FILE, &world.workspace.store().unwrap().seed_text()).unwrap();
    let told = Operator::open_or_new(&world.home).err().unwrap();
    assert!(told.what().contains("is damaged"), "{told}");
}
