//! Rules of tickets beside their form, which the golden vectors hold.

use bus_crypto::SystemEntropy;
use proptest::prelude::*;

use super::*;

fn account() -> SigningKey {
    SigningKey::generate(NkeyKind::Account, &SystemEntropy::new()).unwrap()
}

fn at(unix_s: i64) -> Timestamp {
    Timestamp::from_unix_ns(i128::from(unix_s) * NS)
}

fn issue(valid_s: u64) -> Issue {
    let (workspace, agent) = ("w1".parse().unwrap(), "screen".parse().unwrap());
    let valid_for = Some(Duration::from_secs(valid_s));
    Issue { valid_for, ..Issue::new(workspace, agent, vec![Role::Observer], at(1_000)) }
}

fn ticket(account: &SigningKey, issue: &Issue) -> Result<EntryTicket> {
    EntryTicket::new(issue, account.public(), &SystemEntropy::new())
}

fn refused(outcome: Result<impl Sized>) -> ErrorKind {
    outcome.err().expect("refused").kind()
}

#[test]
fn a_ticket_is_good_until_its_end() {
    let ticket = ticket(&account(), &issue(600)).unwrap();
    assert!(ticket.check_at(at(1_000)).is_ok());
    assert!(ticket.check_at(at(1_599)).is_ok());
    assert_eq!(refused(ticket.check_at(at(1_600))), ErrorKind::Denied);
}

#[test]
fn a_ticket_that_ends_later_than_any_may_is_refused() {
    let account = account();
    let ticket = EntryTicket { end: at(200_000), ..ticket(&account, &issue(600)).unwrap() };
    assert_eq!(refused(ticket.check_at(at(1_000))), ErrorKind::Denied);
    assert!(ticket.check_at(at(200_000 - 86_400)).is_ok());
}

#[test]
fn no_ticket_is_made_for_ever_for_too_long_or_for_nothing() {
    let account = account();
    let for_ever = Issue { valid_for: None, ..issue(1) };
    let nobody = Issue { roles: Vec::new(), ..issue(1) };
    for issue in [for_ever, nobody, issue(0), issue(86_401)] {
        assert_eq!(refused(ticket(&account, &issue)), ErrorKind::Invalid, "{issue:?}");
    }
    assert!(ticket(&account, &issue(86_400)).is_ok());
}

#[test]
fn two_tickets_for_the_same_are_two() {
    let account = account();
    let [one, other] = [(); 2].map(|()| ticket(&account, &issue(60)).unwrap().id);
    assert_ne!(one, other);
}

#[test]
fn roles_are_said_once_and_in_order() {
    let roles = vec![Role::View, Role::Worker, Role::View];
    let ticket = ticket(&account(), &Issue { roles, ..issue(60) }).unwrap();
    assert_eq!(ticket.roles, [Role::Worker, Role::View]);
}

#[test]
fn nobody_signs_a_ticket_of_another_account() {
    let ticket = ticket(&account(), &issue(60)).unwrap();
    assert_eq!(refused(ticket.sign(&account())), ErrorKind::Denied);
}

#[test]
fn a_ticket_gives_what_its_session_and_queue_give() {
    let bound = Issue {
        roles: vec![Role::Worker],
        session: Some("s1".parse().unwrap()),
        role_name: Some("coder".parse().unwrap()),
        ..issue(60)
    };
    assert_eq!(ticket(&account(), &bound).unwrap().policy(), bound.policy());
}

#[test]
fn the_text_of_a_ticket_is_in_no_error() {
    let (account, other) = (account(), *account().public());
    let text = ticket(&account, &issue(60)).unwrap().sign(&account).unwrap();
    let error = EntryTicket::parse(&text, |_| Ok(other)).unwrap_err();
    for part in text.split('.').skip(1) {
        assert!(!format!("{error:?} {error}").contains(part));
    }
}

proptest! {
    #[test]
    fn what_strangers_send_is_refused(text in "(vakt1\\.)?[A-Za-z0-9_.-]{0,400}") {
        let account = PublicKey::from_bytes(NkeyKind::Account, [7; 32]);
        prop_assert!(EntryTicket::parse(&text, |_| Ok(account)).is_err());
    }

    #[test]
    fn a_ticket_with_one_other_byte_is_refused(at: prop::sample::Index, to in 0_u8..128) {
        let account = account();
        let text = ticket(&account, &issue(60)).unwrap().sign(&account).unwrap();
        let mut bytes = text.as_bytes().to_vec();
        let at = at.index(bytes.len());
        prop_assume!(bytes[at] != to);
        bytes[at] = to;
        let changed = String::from_utf8(bytes).unwrap();
        prop_assert!(EntryTicket::parse(&changed, |_| Ok(*account.public())).is_err());
    }
}
