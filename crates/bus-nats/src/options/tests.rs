//! Who an agent connects as, and which prefixes are refused.

use bus_crypto::{
    NkeyKind, PublicKey, creds,
    jwt::{UserClaims, encode_user},
};

use super::*;

fn new_key(kind: NkeyKind) -> SigningKey {
    SigningKey::generate(kind, &SystemEntropy::new()).unwrap()
}

fn agent(name: &str) -> Result<NatsOptions> {
    let [account, user] = [NkeyKind::Account, NkeyKind::User].map(new_key);
    let public: PublicKey = *user.public();
    let token =
        encode_user(&UserClaims::new(name, public, *account.public(), 0), &account).unwrap();
    let credentials = Arc::new(creds::parse(&creds::render(&token, &user)).unwrap());
    NatsOptions::for_agent("nats://127.0.0.1:4222", credentials, "w1".parse().unwrap())
}

#[test]
fn an_agent_hears_below_its_own_name_and_asks_under_the_name_of_the_imports() {
    let options = agent("a1").unwrap();
    assert_eq!(options.inbox_prefix, "_INBOX.a1");
    assert_eq!(options.api_prefix, Layout::API_PREFIX);
    assert!(!options.keeps_itself());
    let [own, of_calls] = options.own_inboxes().unwrap();
    assert!(own.starts_with("_INBOX.a1.") && !own.starts_with("_INBOX.a1.call."), "{own}");
    assert!(of_calls.starts_with("_INBOX.a1.call."), "{of_calls}");
    assert_ne!(own.rsplit('.').next(), of_calls.rsplit('.').next());
}

#[test]
fn a_user_whose_name_is_no_agents_is_refused() {
    for name in ["", "a.b", "*", "a b"] {
        let refused = agent(name).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{name:?}: {refused}");
    }
}

#[test]
fn a_prefix_that_is_no_subject_is_refused_by_its_name() {
    let options = NatsOptions::new("nats://127.0.0.1:4222");
    for prefix in ["", "a.*", "a..b", ">", &"x".repeat(300)] {
        let api = NatsOptions { api_prefix: prefix.to_owned(), ..options.clone() };
        let refused = api.own_inboxes().unwrap_err();
        assert_eq!((refused.kind(), refused.op()), (ErrorKind::Invalid, "api_prefix"));
        let inbox = NatsOptions { inbox_prefix: prefix.to_owned(), ..options.clone() };
        let refused = inbox.own_inboxes().unwrap_err();
        assert_eq!((refused.kind(), refused.op()), (ErrorKind::Invalid, "inbox_prefix"));
    }
}
