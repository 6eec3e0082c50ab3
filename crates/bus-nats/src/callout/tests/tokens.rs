//! What the token of an admitted user says.

use super::*;

#[tokio::test]
async fn a_token_is_the_workspaces_word_and_nobody_elses() {
    let mut site = Site::new();
    let identity = site.member(&[Role::Worker, Role::Observer], None);
    let request = site.asked(by_key(&identity));
    let decision = site.decide(&request).await.unwrap();
    let claims = decode_user(&decision.token().unwrap()).unwrap();
    assert_eq!(claims.issuer_account, Some(*site.account.public()));
    assert_ne!(claims.issuer, *site.account.public());
    assert_ne!(claims.issuer, site.keys.account);
    assert_eq!(claims.subject, request.user);
    assert_eq!(claims.name, "a1");
    assert_eq!(claims.tags, ["workspace:w1", "role:worker", "role:observer"]);
    assert!(!claims.is_bearer);
    assert_eq!(claims.connection_types, ["STANDARD"]);
}

#[tokio::test]
async fn a_token_is_no_certificate() {
    let mut site = Site::new();
    let identity = site.member(&[Role::Worker], None);
    let decision = site.decide(&site.asked(by_key(&identity))).await.unwrap();
    assert!(Certificate::parse(&decision.token().unwrap()).is_err());
}

#[tokio::test]
async fn a_token_says_by_which_door_it_is_good() {
    let site = Site::new();
    let asked = site.asked(by_ticket(&site.ticket(60)));
    let request = AuthRequest { client_type: "websocket".to_owned(), ..asked };
    let decision = site.decide(&request).await.unwrap();
    assert_eq!(decision.claims.connection_types, ["WEBSOCKET"]);
}

#[tokio::test]
async fn a_token_always_ends_and_never_after_the_certificate() {
    let now = question::unix_s(NOW);
    let hour = 3_600;
    for (valid_s, end) in [(None, now + hour), (Some(7_200), now + hour), (Some(90), now + 90)] {
        let mut site = Site::new();
        let identity = site.member(&[Role::Worker], valid_s.map(Duration::from_secs));
        let claims = site.claims(by_key(&identity)).await;
        assert_eq!(claims.expires_unix_s, Some(end), "{valid_s:?}");
    }
}

#[tokio::test]
async fn a_bearer_stays_ten_minutes_and_never_beyond_its_ticket() {
    let (site, now) = (Site::new(), question::unix_s(NOW));
    for (valid_s, end) in [(7_200, now + 600), (90, now + 90)] {
        let claims = site.claims(by_ticket(&site.ticket(valid_s))).await;
        assert_eq!(claims.expires_unix_s, Some(end), "{valid_s}");
    }
}

fn some_roles() -> impl Strategy<Value = Vec<Role>> {
    proptest::sample::subsequence(Role::ALL.to_vec(), 1..=Role::ALL.len()).prop_shuffle()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The socket gives what the admission says of the certificate, and the token what a server
    /// makes of the same; so does the certificate itself where it is a login.
    #[test]
    fn the_socket_the_callout_and_a_certificate_grant_the_same(
        roles in some_roles(),
        session in proptest::option::of("s[1-9]"),
        queue in proptest::option::of("coder|judge"),
    ) {
        let mut site = Site::new();
        let mut issue = Issue::new(w1(), "a1".parse().unwrap(), roles, NOW);
        issue.session = session.map(|session| session.parse().unwrap());
        issue.role_name = queue.map(|queue| queue.parse().unwrap());
        let identity = site.issued(&issue);
        let certificate = identity.certificate();
        let signature = identity.key().sign(b"challenge");
        let token = certificate.token();
        let proof = Proof::Certificate { token, signed: b"challenge", signature: &signature };
        let at_socket = site.admission.admit(&proof, Door::Link, NOW).unwrap();
        let layout = Layout::of(&certificate.workspace).unwrap();
        let wanted = permissions(&at_socket.policy, &certificate.agent, &layout).unwrap();
        let claims = site.claims(by_key(&identity)).now_or_never().expect("waits for nothing");
        prop_assert_eq!(&claims.permissions, &wanted);
        prop_assert!(claims.permissions.response.is_none());
        let by_token = permissions(&issue.policy(), &issue.agent, &layout).unwrap();
        prop_assert_eq!(&by_token, &wanted);
    }
}
