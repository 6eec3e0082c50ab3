//! The limits of what is written, and that it is read back as it was.

use std::time::Duration;

use super::*;

const NOW: &str = "2026-05-01T12:00:00.000000000Z";

fn request() -> ApprovalRequest {
    ApprovalRequest::new("deploy.production", "web", &["yes", "no"]).unwrap()
}

fn now() -> Timestamp {
    Timestamp::parse(NOW).unwrap()
}

fn full() -> ApprovalRequest {
    ApprovalRequest::new("deploy.production", "web", &["ship it", "no"])
        .unwrap()
        .approval_choice("ship it")
        .unwrap()
        .question("Ship build 17?")
        .unwrap()
        .run("r-1")
        .unwrap()
        .valid_for(Duration::from_secs(600))
        .unwrap()
        .answer_until(now())
        .supersedes(EventHash::from_bytes([7; 32]))
}

fn text_of(json: Result<Vec<u8>>) -> String {
    String::from_utf8(json.unwrap()).unwrap()
}

#[test]
fn a_request_of_the_first_form_has_the_same_bytes() {
    let text = r#"{"action":"deploy.production","target":"web","choices":["yes","no"]}"#;
    assert_eq!(text_of(request().to_json()), text);
    assert_eq!(ApprovalRequest::from_json(text.as_bytes()).unwrap(), request());
}

#[test]
fn a_request_with_everything_is_written_in_order_and_read_back() {
    let text = format!(
        "{{\"action\":\"deploy.production\",\"target\":\"web\",\"choices\":[\"ship it\",\"no\"],\
         \"approval_choice\":\"ship it\",\"question\":\"Ship build 17?\",\"run\":\"r-1\",\
         \"valid_s\":600,\"answer_until\":\"{NOW}\",\"supersedes\":\"{}\"}}",
        "07".repeat(32)
    );
    assert_eq!(text_of(full().to_json()), text);
    assert_eq!(ApprovalRequest::from_json(text.as_bytes()).unwrap(), full());
}

#[test]
fn what_is_at_its_default_is_not_written() {
    let spelt = r#"{"action":"a","target":"t","choices":["yes","no"],"approval_choice":"yes",
        "question":null,"run":null,"valid_s":3600,"answer_until":null,"supersedes":null}"#;
    let written = text_of(ApprovalRequest::from_json(spelt.as_bytes()).unwrap().to_json());
    assert_eq!(written, r#"{"action":"a","target":"t","choices":["yes","no"]}"#);
}

#[test]
fn a_reader_of_the_first_form_passes_new_requests_over() {
    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "what is read is the form")]
    struct FirstForm {
        action: String,
        target: String,
        choices: Vec<String>,
    }
    assert!(serde_json::from_slice::<FirstForm>(&request().to_json().unwrap()).is_ok());
    assert!(serde_json::from_slice::<FirstForm>(&full().to_json().unwrap()).is_err());
}

#[test]
fn a_verdict_says_what_it_is_for_and_until_when() {
    let verdict = ApprovalVerdict::new("ask-1", &full(), "no", Some("later"), now()).unwrap();
    let text = "{\"request_id\":\"ask-1\",\"choice\":\"no\",\"note\":\"later\",\"authorization\":\
                {\"action\":\"deploy.production\",\"target\":\"web\",\"approval_choice\":\
                \"ship it\",\"run\":\"r-1\"},\"valid_until\":\"2026-05-01T12:10:00.000000000Z\"}";
    assert_eq!(text_of(verdict.to_json()), text);
    assert_eq!(ApprovalVerdict::from_json(text.as_bytes()).unwrap(), verdict);
}

#[test]
fn a_verdict_of_the_first_form_is_read_and_says_not_what_it_is_for() {
    let text = r#"{"request_id":"ask-1","choice":"yes","note":"go"}"#;
    let verdict = ApprovalVerdict::from_json(text.as_bytes()).unwrap();
    assert_eq!(text_of(verdict.to_json()), text);
    assert_eq!((verdict.authorization(), verdict.valid_until()), (None, None));
}

#[test]
fn verdicts_given_at_different_times_say_the_same() {
    let given = |choice, at| ApprovalVerdict::new("ask-1", &request(), choice, None, at).unwrap();
    let later = now().plus(Duration::from_secs(1));
    assert!(given("yes", now()).says_the_same(&given("yes", later)));
    assert!(!given("yes", now()).says_the_same(&given("no", now())));
}

#[test]
fn each_end_is_written_in_order_and_read_back() {
    let approval = EventHash::from_bytes([1; 32]);
    let verdict = EventHash::from_bytes([2; 32]);
    let what_for = Authorization::of(&request());
    let (one, two) = ("01".repeat(32), "02".repeat(32));
    let cases = [
        (
            ApprovalEnd::consumed(approval, "ask-1", verdict, what_for, "yes").unwrap(),
            format!(
                "{{\"approval\":\"{one}\",\"request_id\":\"ask-1\",\"verdict\":\"{two}\",\
                 \"authorization\":{{\"action\":\"deploy.production\",\"target\":\"web\",\
                 \"approval_choice\":\"yes\"}},\"choice\":\"yes\"}}"
            ),
        ),
        (ApprovalEnd::withdrawn(approval), format!("{{\"approval\":\"{one}\"}}")),
        (
            ApprovalEnd::superseded(approval, "ask-2").unwrap(),
            format!("{{\"approval\":\"{one}\",\"by\":\"ask-2\"}}"),
        ),
    ];
    for (end, text) in cases {
        assert_eq!(text_of(end.to_json()), text);
        assert_eq!(ApprovalEnd::from_json(end.kind(), text.as_bytes()).unwrap(), end);
    }
}

#[test]
fn an_end_with_the_members_of_another_kind_is_not_read() {
    let approval = EventHash::from_bytes([1; 32]);
    let consumed = {
        let what_for = Authorization::of(&request());
        ApprovalEnd::consumed(approval, "ask-1", approval, what_for, "yes").unwrap()
    };
    let withdrawn = ApprovalEnd::withdrawn(approval);
    let superseded = ApprovalEnd::superseded(approval, "ask-2").unwrap();
    for end in [consumed, withdrawn, superseded] {
        for kind in EndKind::ALL.into_iter().filter(|kind| *kind != end.kind()) {
            let refused = ApprovalEnd::from_json(kind, &end.to_json().unwrap()).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Corrupt, "{end:?} as {kind:?}");
        }
    }
}

#[test]
fn a_request_keeps_its_limits() {
    let long = "x".repeat(1025);
    let many: Vec<String> = (0..17).map(|n| n.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let cases: [(&str, &str, &[&str]); 9] = [
        ("", "t", &["y", "n"]),
        (&long[..129], "t", &["y", "n"]),
        ("a", &long, &["y", "n"]),
        ("a", "t", &["y"]),
        ("a", "t", &many),
        ("a", "t", &["y", "y"]),
        ("a", "t", &["y", ""]),
        ("a", "t", &["y", &long[..65]]),
        ("a\u{1b}[2J", "t", &["y", "n"]),
    ];
    for (action, target, choices) in cases {
        let refused = ApprovalRequest::new(action, target, choices).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{choices:?}");
    }
}

#[test]
fn what_is_added_to_a_request_keeps_its_limits() {
    let long = "x".repeat(1025);
    let day = Duration::from_secs(24 * 3600);
    let refused = [
        request().approval_choice("perhaps"),
        request().question(""),
        request().question(&long),
        request().question("\u{1b}[2J"),
        request().run(""),
        request().run(&long[..129]),
        request().valid_for(Duration::from_millis(999)),
        request().valid_for(7 * day + Duration::from_secs(1)),
    ];
    for refused in refused {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
    }
    assert_eq!(request().valid_for(7 * day).unwrap().validity(), 7 * day);
}

#[test]
fn a_request_that_no_answer_allows_is_read_and_cannot_be_used() {
    let bare = ApprovalRequest::new("a", "t", &["blue", "red"]).unwrap();
    assert!(!bare.can_be_used());
    assert!(bare.clone().approval_choice("red").unwrap().can_be_used());
    let text = r#"{"action":"a","target":"t","choices":["y","n"],"approval_choice":"z"}"#;
    assert!(!ApprovalRequest::from_json(text.as_bytes()).unwrap().can_be_used());
}

#[test]
fn a_request_is_expired_from_that_very_moment() {
    let request = request().answer_until(now());
    assert!(!request.is_expired_at(Timestamp::from_unix_ns(now().unix_ns() - 1)));
    assert!(request.is_expired_at(now()));
}

#[test]
fn the_largest_request_is_read_back() {
    let choices: Vec<String> = (0..16).map(|n| format!("{n:\"<64}")).collect();
    let choices: Vec<&str> = choices.iter().map(String::as_str).collect();
    let (action, target) = ("\"".repeat(128), "\"".repeat(1024));
    let request = ApprovalRequest::new(&action, &target, &choices)
        .unwrap()
        .approval_choice(choices[15])
        .unwrap()
        .question(&target)
        .unwrap()
        .run(&action)
        .unwrap();
    assert_eq!(ApprovalRequest::from_json(&request.to_json().unwrap()).unwrap(), request);
}

#[test]
fn the_largest_verdict_is_read_back() {
    let note = "\u{1}".repeat(ApprovalVerdict::NOTE_BYTES_MAX);
    let (id, target) = ("\"".repeat(128), "\"".repeat(1024));
    let request = ApprovalRequest::new(&id, &target, &["yes", "no"]).unwrap().run(&id).unwrap();
    let verdict = ApprovalVerdict::new(&id, &request, "yes", Some(&note), now()).unwrap();
    assert_eq!(ApprovalVerdict::from_json(&verdict.to_json().unwrap()).unwrap(), verdict);
}

#[test]
fn a_choice_that_was_not_offered_is_refused() {
    let refused = ApprovalVerdict::new("ask-1", &request(), "maybe", None, now()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
}

#[test]
fn what_breaks_a_limit_or_adds_a_member_is_not_read() {
    let plain = r#""action":"a","target":"t","choices":["y","n"]"#;
    let bad = [
        r#"{"action":"","target":"t","choices":["y","n"]}"#.to_owned(),
        r#"{"action":"a","target":"t","choices":["y"]}"#.to_owned(),
        r#"{"action":"a","choices":["y","n"]}"#.to_owned(),
        format!("{{{plain},\"more\":1}}"),
        format!("{{\"action\":\"a\",{plain}}}"),
        format!("{{{plain},\"valid_s\":0}}"),
        format!("{{{plain},\"valid_s\":604801}}"),
        format!("{{{plain},\"run\":\"\"}}"),
        format!("{{{plain},\"answer_until\":\"2026-05-01T12:00:00Z\"}}"),
        format!("{{{plain},\"supersedes\":\"07\"}}"),
        format!("{}{{{plain}}}", " ".repeat(JSON_BYTES_MAX)),
    ];
    for json in bad {
        let refused = ApprovalRequest::from_json(json.as_bytes()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corrupt, "{json}");
    }
    let what_for = r#""authorization":{"action":"a","target":"t","approval_choice":"y"}"#;
    for json in [
        r#"{"request_id":"","choice":"y"}"#.to_owned(),
        r#"{"request_id":"a","choice":"y","note":""}"#.to_owned(),
        r#"{"request_id":"a","choice":"y","by":"ann"}"#.to_owned(),
        format!("{{\"request_id\":\"a\",\"choice\":\"y\",{what_for}}}"),
        format!("{{\"request_id\":\"a\",\"choice\":\"y\",\"valid_until\":\"{NOW}\"}}"),
    ] {
        let refused = ApprovalVerdict::from_json(json.as_bytes()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corrupt, "{json}");
    }
}
