//! What is a question, and what a server hears.

use super::*;

#[test]
fn a_question_that_is_sealed_and_signed_is_read() {
    let site = Site::new();
    let request = site.asked(ConnectOptions::default());
    let question = site.open(&request).unwrap();
    assert_eq!(question.request().user, request.user);
}

#[test]
fn a_question_in_the_clear_is_none() {
    let site = Site::new();
    let (header, _) = site.sealed(&site.asked(ConnectOptions::default()));
    let token = encode_auth_request(&site.asked(ConnectOptions::default()), &site.server).unwrap();
    let read = Question::open(&site.keys, Some(&header), token.as_bytes(), NOW);
    assert_eq!(refusal(read), ErrorKind::Corrupt);
}

#[test]
fn a_question_without_a_key_to_answer_to_is_none() {
    let site = Site::new();
    let (_, body) = site.sealed(&site.asked(ConnectOptions::default()));
    let user = key(NkeyKind::User).public().text();
    for header in [None, Some(""), Some("X"), Some(user.as_str())] {
        assert_eq!(refusal(Question::open(&site.keys, header, &body, NOW)), ErrorKind::Corrupt);
    }
}

#[test]
fn a_question_of_another_server_is_not_answered() {
    let site = Site::new();
    let other = XKey::generate(&SystemEntropy::new()).unwrap();
    // It holds the question of a server, and seals it with a key of its own.
    let token = encode_auth_request(&site.asked(ConnectOptions::default()), &site.server).unwrap();
    let to = site.keys.xkey.public();
    let body = other.seal(&SystemEntropy::new(), &to, token.as_bytes()).unwrap();
    let read = Question::open(&site.keys, Some(&other.public().text()), &body, NOW);
    assert_eq!(refusal(read), ErrorKind::Corrupt);
    // Or it leaves the server's key in the header.
    let read = Question::open(&site.keys, Some(&site.server_xkey.public().text()), &body, NOW);
    assert_eq!(refusal(read), ErrorKind::Corrupt);
}

#[test]
fn a_question_to_another_service_is_not_answered() {
    let site = Site::new();
    let asked = site.asked(ConnectOptions::default());
    let request = AuthRequest { subject: *site.account.public(), ..asked };
    assert_eq!(refusal(site.open(&request)), ErrorKind::Corrupt);
}

#[test]
fn a_question_that_was_asked_long_ago_is_not_answered() {
    let site = Site::new();
    let now = question::unix_s(NOW);
    let asked = |ago| AuthRequest {
        issued_at_unix_s: now - ago - 2,
        expires_unix_s: Some(now - ago),
        ..site.asked(ConnectOptions::default())
    };
    assert!(site.open(&asked(59)).is_ok(), "clocks may be apart");
    assert_eq!(refusal(site.open(&asked(61))), ErrorKind::Corrupt);
}

#[test]
fn a_server_alone_reads_what_it_is_told() {
    let site = Site::new();
    let question = site.open(&site.asked(ConnectOptions::default())).unwrap();
    let answer = Answer { question: &question, token: Some("t".to_owned()), now: NOW };
    let sealed = answer.seal(&site.keys, &SystemEntropy::new()).unwrap();
    let opened = site.server_xkey.open(&site.keys.xkey.public(), &sealed).unwrap();
    let response = decode_auth_response(std::str::from_utf8(&opened).unwrap()).unwrap();
    let request = question.request();
    assert_eq!((response.user, response.server), (request.user, request.server));
    assert_eq!(response.verdict, Ok("t".to_owned()));
    assert_eq!((response.issuer, response.issuer_account), (site.keys.account, None));
    let other = XKey::generate(&SystemEntropy::new()).unwrap();
    assert!(other.open(&site.keys.xkey.public(), &sealed).is_err());
}

#[test]
fn an_answer_by_a_signing_key_names_its_account() {
    let mut site = Site::new();
    site.keys.responder = key(NkeyKind::Account);
    let question = site.open(&site.asked(ConnectOptions::default())).unwrap();
    let answer = Answer { question: &question, token: None, now: NOW };
    let sealed = answer.seal(&site.keys, &SystemEntropy::new()).unwrap();
    let opened = site.server_xkey.open(&site.keys.xkey.public(), &sealed).unwrap();
    let response = decode_auth_response(std::str::from_utf8(&opened).unwrap()).unwrap();
    assert_eq!(response.issuer, *site.keys.responder.public());
    assert_eq!(response.issuer_account, Some(site.keys.account));
}

proptest! {
    #[test]
    fn what_strangers_send_is_no_question(
        header in "(X[A-Z2-7]{0,55})?",
        body in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let site = Site::new();
        let read = Question::open(&site.keys, Some(&header), &body, NOW);
        prop_assert!(read.is_err());
    }

    #[test]
    fn what_a_server_seals_is_a_question_only_if_it_is_one(
        text in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let site = Site::new();
        let header = site.server_xkey.public().text();
        let read = Question::open(&site.keys, Some(&header), &site.seal(&text), NOW);
        prop_assert!(read.is_err());
    }

    #[test]
    fn a_question_with_one_other_byte_is_none(at: prop::sample::Index, flip in 1_u8..=255) {
        let site = Site::new();
        let (header, mut body) = site.sealed(&site.asked(ConnectOptions::default()));
        let at = at.index(body.len());
        body[at] ^= flip;
        prop_assert!(Question::open(&site.keys, Some(&header), &body, NOW).is_err());
    }

    #[test]
    fn whatever_a_client_shows_beside_a_proof_lets_nobody_in(
        texts in proptest::collection::vec(proptest::option::of("[ -~]{0,90}"), 5),
        kind in "Client|Leafnode|Router|",
        door in "nats|websocket|mqtt|",
        nonce in "|[ -~]{1,20}",
    ) {
        let site = Site::new();
        let secret = |at: usize| texts[at].clone().map(Zeroizing::new);
        let connect = ConnectOptions {
            user: texts[0].clone(),
            password: secret(1),
            token: secret(2),
            nkey: texts[3].clone(),
            signature: texts[4].clone(),
            ..ConnectOptions::default()
        };
        let (client_kind, client_type) = (kind, door);
        let asked = site.asked(connect);
        let request = AuthRequest { client_kind, client_type, nonce, ..asked };
        let decided = site.decide(&request).now_or_never().expect("waits for nothing");
        prop_assert!(decided.is_err());
    }
}
