//! Live events and mailboxes between processes.

use serde_json::json;

use crate::{
    daemon_support::{Daemon, lines},
    support::Place,
};

#[test]
fn an_event_is_heard_by_who_listens() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let args = ["sub", "--count", "1", "--json", "vak.events.default.>"];
    let mut listener = place.start(&args);
    listener.says("listening on");
    let sent = place.run(&["pub", "--session", "s1", "tokens", "hello"]);
    assert_eq!(sent.code, Some(0), "{sent:?}");
    let heard = listener.ended();
    assert_eq!(heard.code, Some(0), "{heard:?}");
    let line = heard.json();
    assert_eq!(line["payload"], "hello");
    assert_eq!(line["subject"], "vak.events.default.s1.tokens");
    assert_eq!((line["from"].clone(), line["session"].clone()), (json!("cli-worker"), json!("s1")));
    daemon.stop();
}

#[test]
fn a_raw_listener_prints_payloads_alone() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let mut listener = place.start(&["sub", "--count", "2", "--raw", "vak.events.default.s1.*"]);
    listener.says("listening on");
    for text in ["one\n", "two\n"] {
        let sent = place.run(&["pub", "vak.events.default.s1.terminal", text]);
        assert_eq!(sent.code, Some(0), "{sent:?}");
    }
    assert_eq!(listener.ended().stdout, "one\ntwo");
    daemon.stop();
}

#[test]
fn a_durable_subject_is_not_published_to() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let refused = place.run(&["pub", "vak.work.default.r.task", "x"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""), "{refused:?}");
    daemon.stop();
}

#[test]
fn nobody_is_listened_for_without_a_daemon() {
    let place = Place::new();
    for args in
        [["sub", "vak.events.default.>"].as_slice(), &["pub", "vak.events.default.s.tokens", "x"]]
    {
        let refused = place.run(args);
        assert_eq!(refused.code, Some(5), "{refused:?}");
        assert!(refused.stderr.contains("vakbus up"), "{refused:?}");
    }
}

#[test]
fn a_message_waits_in_its_mailbox_until_it_is_taken() {
    let place = Place::new();
    assert_eq!(place.run(&["agent", "add", "ann", "--role", "orchestrator"]).code, Some(0));
    let daemon = Daemon::start(&place);
    for text in ["one", "two"] {
        let sent = place.run(&["inbox", "send", "ann", text]);
        assert_eq!(sent.code, Some(0), "{sent:?}");
    }
    let payloads = |args: &[&str]| {
        let read = place.run(&[&["--as", "ann", "inbox", "read", "--json"], args].concat());
        assert_eq!(read.code, Some(0), "{read:?}");
        lines(&read).iter().map(|line| line["payload"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(payloads(&["--keep"]), ["one", "two"]);
    assert_eq!(payloads(&[]), ["one", "two"]);
    assert!(payloads(&[]).is_empty());
    daemon.stop();
}
