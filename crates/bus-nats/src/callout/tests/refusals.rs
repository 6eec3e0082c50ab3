//! Who is not admitted.

use super::*;

#[tokio::test]
async fn a_signature_over_nothing_is_refused() {
    let mut site = Site::new();
    let identity = site.member(&[Role::Worker], None);
    let signature = BASE64URL_NOPAD.encode(&identity.key().sign(b""));
    let connect = ConnectOptions { signature: Some(signature), ..by_key(&identity) };
    let request = AuthRequest { nonce: String::new(), ..site.asked(connect) };
    assert_eq!(refusal(site.decide(&request).await), ErrorKind::Denied);
}

#[tokio::test]
async fn a_signature_over_another_connections_nonce_is_refused() {
    let mut site = Site::new();
    let identity = site.member(&[Role::Worker], None);
    let request = AuthRequest { nonce: "another".to_owned(), ..site.asked(by_key(&identity)) };
    assert_eq!(refusal(site.decide(&request).await), ErrorKind::Denied);
}

#[tokio::test]
async fn whoever_shows_nothing_or_more_than_one_proof_is_refused() {
    let mut site = Site::new();
    let identity = site.member(&[Role::Worker], None);
    let ticket = || Some(Zeroizing::new(site.ticket(60).to_string()));
    let shown = [
        ConnectOptions::default(),
        ConnectOptions { token: ticket(), ..by_key(&identity) },
        ConnectOptions { signature: None, ..by_key(&identity) },
        ConnectOptions { nkey: None, ..by_key(&identity) },
        ConnectOptions { user: Some("ann".to_owned()), ..by_key(&identity) },
        ConnectOptions { password: ticket(), ..ConnectOptions::default() },
        by_ticket("s3cret"),
    ];
    for connect in shown {
        let what = format!("{connect:?}");
        let refused = refusal(site.decide(&site.asked(connect)).await);
        assert!(matches!(refused, ErrorKind::Denied | ErrorKind::Invalid), "{what}");
    }
    assert!(site.decide(&site.asked(by_key(&identity))).await.is_ok());
}

#[tokio::test]
async fn leaf_nodes_and_things_are_not_admitted() {
    let mut site = Site::new();
    let identity = site.member(&[Role::View], None);
    let kinds = [
        ("Leafnode", "nats"),
        ("Client", "mqtt"),
        ("Router", "nats"),
        ("", "nats"),
        ("Client", ""),
    ];
    for (kind, door) in kinds {
        let (client_kind, client_type) = (kind.to_owned(), door.to_owned());
        let asked = site.asked(by_key(&identity));
        let request = AuthRequest { client_kind, client_type, ..asked };
        assert_eq!(refusal(site.decide(&request).await), ErrorKind::Denied, "{kind} {door}");
    }
}

#[tokio::test]
async fn a_websocket_takes_no_agent_key() {
    let mut site = Site::new();
    let identity = site.member(&[Role::Worker], None);
    let asked =
        |connect| AuthRequest { client_type: "websocket".to_owned(), ..site.asked(connect) };
    let by_key = site.decide(&asked(by_key(&identity))).await;
    assert_eq!(refusal(by_key), ErrorKind::Denied);
    assert!(site.decide(&asked(by_ticket(&site.ticket(60)))).await.is_ok());
}

#[tokio::test]
async fn a_revoked_key_is_not_admitted() {
    let mut site = Site::new();
    let identity = site.member(&[Role::Worker], None);
    site.admission.revoke(&w1(), *identity.key().public());
    let decided = site.decide(&site.asked(by_key(&identity))).await;
    assert_eq!(refusal(decided), ErrorKind::Denied);
}

#[tokio::test]
async fn nobody_is_admitted_into_a_workspace_that_is_not_served() {
    let mut site = Site::new();
    let identity = site.member(&[Role::Worker], None);
    site.workspaces.remove(&w1());
    let decided = site.decide(&site.asked(by_key(&identity))).await;
    assert_eq!(refusal(decided), ErrorKind::Denied);
}

#[tokio::test]
async fn nobody_is_admitted_into_another_account_than_the_one_that_vouches() {
    let mut site = Site::new();
    let identity = site.member(&[Role::Worker], None);
    let served = site.served(Arc::new(InMemoryBus::new()));
    let other = CalloutWorkspace { account: *key(NkeyKind::Account).public(), ..served };
    site.workspaces.insert(w1(), other).unwrap();
    let decided = site.decide(&site.asked(by_key(&identity))).await;
    assert_eq!(refusal(decided), ErrorKind::Denied);
}

#[tokio::test]
async fn a_ticket_is_used_once() {
    let site = Site::new();
    let text = site.ticket(60);
    assert!(site.decide(&site.asked(by_ticket(&text))).await.is_ok());
    let again = site.decide(&site.asked(by_ticket(&text))).await;
    assert_eq!(refusal(again), ErrorKind::Denied);
}

#[tokio::test]
async fn a_ticket_that_cannot_be_noted_as_used_lets_nobody_in() {
    let site = Site::new();
    let buckets = InMemoryBus::new();
    bus_core::Bus::close(&buckets).await.unwrap();
    site.workspaces.insert(w1(), site.served(Arc::new(buckets))).unwrap();
    let decided = site.decide(&site.asked(by_ticket(&site.ticket(60)))).await;
    assert_eq!(refusal(decided), ErrorKind::Unavailable);
}

#[tokio::test]
async fn a_refused_ticket_is_not_used_up() {
    let site = Site::new();
    let text = site.ticket(60);
    let leaf = AuthRequest { client_kind: "Leafnode".to_owned(), ..site.asked(by_ticket(&text)) };
    assert!(site.decide(&leaf).await.is_err());
    assert!(site.decide(&site.asked(by_ticket(&text))).await.is_ok());
}

#[test]
fn a_refusal_says_nothing_but_that() {
    let site = Site::new();
    let question = site.open(&site.asked(ConnectOptions::default())).unwrap();
    let answer = Answer { question: &question, token: None, now: NOW };
    let sealed = answer.seal(&site.keys, &SystemEntropy::new()).unwrap();
    let opened = site.server_xkey.open(&site.keys.xkey.public(), &sealed).unwrap();
    let response = decode_auth_response(std::str::from_utf8(&opened).unwrap()).unwrap();
    assert_eq!(response.verdict, Err("not admitted".to_owned()));
}

#[test]
fn the_accounts_own_key_signs_no_users() {
    let site = Site::new();
    let served = |account: &SigningKey, signer: SigningKey| CalloutWorkspace {
        account: *account.public(),
        signer,
        tickets: Arc::new(InMemoryBus::new()),
    };
    let own = SigningKey::from_seed_text(&site.account.seed_text()).unwrap();
    let workspaces = Workspaces::default();
    assert_eq!(refusal(workspaces.insert(w1(), served(&site.account, own))), ErrorKind::Invalid);
    let user = key(NkeyKind::User);
    assert_eq!(refusal(workspaces.insert(w1(), served(&site.account, user))), ErrorKind::Invalid);
}

#[tokio::test]
async fn more_users_than_can_be_cut_off_are_not_admitted() {
    let mut site = Site::new();
    let identity = site.member(&[Role::Worker], None);
    let users = AdmittedUsers::new(CalloutLimits { admitted_max: 1, ..site.limits });
    let [one, other] = [(); 2].map(|()| site.asked(by_key(&identity)));
    let one = site.decide(&one).await.unwrap().user;
    let other = site.decide(&other).await.unwrap().user;
    let end = one.until;
    users.note(one, NOW).unwrap().keep();
    assert_eq!(refusal(users.note(other.clone(), NOW)), ErrorKind::Full);
    users.note(other, end).unwrap().keep();
}

#[tokio::test]
async fn whose_right_ends_is_told_once() {
    let mut site = Site::new();
    let identity = site.member(&[Role::Worker], None);
    let user = site.decide(&site.asked(by_key(&identity))).await.unwrap().user;
    let users = AdmittedUsers::new(site.limits);
    users.note(user.clone(), NOW).unwrap().keep();
    assert!(users.take_ended(&site.admission, NOW).is_empty());
    site.admission.revoke(&w1(), *identity.key().public());
    assert_eq!(users.take_ended(&site.admission, NOW), [user]);
    assert!(users.take_ended(&site.admission, NOW).is_empty());
}

#[tokio::test]
async fn one_key_takes_the_places_of_nobody_else() {
    let mut site = Site::new();
    let identity = site.member(&[Role::Worker], None);
    let limits = CalloutLimits { admitted_max: 4, admitted_each_max: 2, ..site.limits };
    let users = AdmittedUsers::new(limits);
    let mut gone = Vec::new();
    for _ in 0..20 {
        let user = site.decide(&site.asked(by_key(&identity))).await.unwrap().user;
        users.note(user.clone(), NOW).unwrap().keep();
        gone.extend(users.take_ended(&site.admission, NOW));
        assert!(!gone.contains(&user));
    }
    assert_eq!((gone.len(), users.count(NOW)), (18, 2));
    let other = site.member(&[Role::Worker], None);
    let user = site.decide(&site.asked(by_key(&other))).await.unwrap().user;
    users.note(user, NOW).unwrap().keep();
}

#[tokio::test]
async fn who_was_not_let_in_after_all_takes_no_place() {
    let mut site = Site::new();
    let identity = site.member(&[Role::Worker], None);
    let users = AdmittedUsers::new(site.limits);
    let user = site.decide(&site.asked(by_key(&identity))).await.unwrap().user;
    drop(users.note(user, NOW).unwrap());
    assert_eq!(users.count(NOW), 0);
}
