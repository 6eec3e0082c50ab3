//! Tests of the tasks file.

use proptest::prelude::*;

use super::*;

fn tasks(file: &str) -> Vec<(usize, Option<String>, String)> {
    let tasks = parse(file.as_bytes()).unwrap();
    tasks.into_iter().map(|task| (task.line, task.id, task.text)).collect()
}

fn refused(file: impl AsRef<[u8]>) -> String {
    parse(file.as_ref()).unwrap_err().to_string()
}

fn plain_task(line: usize, text: &str) -> (usize, Option<String>, String) {
    (line, None, text.to_owned())
}

fn task(line: usize, id: &str, text: &str) -> (usize, Option<String>, String) {
    (line, Some(id.to_owned()), text.to_owned())
}

#[test]
fn plain_lines_are_their_own_text() {
    assert_eq!(tasks("one\n  two \n"), [plain_task(1, "one"), plain_task(2, "  two ")]);
}

#[test]
fn the_last_line_needs_no_end() {
    assert_eq!(tasks("one\ntwo"), [plain_task(1, "one"), plain_task(2, "two")]);
}

#[test]
fn blank_lines_are_skipped_and_counted() {
    assert_eq!(tasks("\n \t\r\na\n\n"), [plain_task(3, "a")]);
}

#[test]
fn an_empty_file_has_no_tasks() {
    assert_eq!(tasks(""), []);
}

#[test]
fn crlf_ends_a_line() {
    assert_eq!(
        tasks("a\r\n{\"id\":\"b\",\"payload\":\"c\"}\r\n"),
        [plain_task(1, "a"), task(2, "b", "c")]
    );
}

#[test]
fn a_byte_order_mark_hides_no_object() {
    assert_eq!(tasks("\u{feff}{\"id\":\"b\",\"payload\":\"c\"}"), [task(1, "b", "c")]);
}

#[test]
fn a_string_payload_is_its_text() {
    let file = r#"{"id":"a","payload":"x \"y\"\nz é"}"#;
    assert_eq!(tasks(file), [task(1, "a", "x \"y\"\nz é")]);
}

#[test]
fn any_other_payload_is_its_json_as_written() {
    let file =
        "{\"payload\": {\"n\": 1.50,  \"a\":[]} , \"id\":\"a\"}\n{\"id\":\"b\",\"payload\":null}";
    assert_eq!(tasks(file), [task(1, "a", "{\"n\": 1.50,  \"a\":[]}"), task(2, "b", "null")]);
}

#[test]
fn unknown_members_are_refused() {
    let text = refused("ok\n{\"id\":\"a\",\"payload\":1,\"x\":2}");
    assert!(text.starts_with("line 2: ") && text.contains("unknown field `x`"), "{text}");
}

#[test]
fn both_members_are_required() {
    assert!(refused(r#"{"id":"a"}"#).contains("missing field `payload`"));
    assert!(refused(r#"{"payload":1}"#).contains("missing field `id`"));
}

#[test]
fn a_member_given_twice_is_refused() {
    assert!(refused(r#"{"id":"a","id":"b","payload":1}"#).contains("duplicate field `id`"));
}

#[test]
fn broken_json_is_refused_with_its_column() {
    let text = refused("a\nb\n{\"id\": tru}");
    assert!(text.starts_with("line 3: ") && text.contains("at column"), "{text}");
    assert!(!text.contains("at line"), "{text}");
}

#[test]
fn a_refusal_quotes_the_file_escaped_and_cut() {
    let error = refused(r#"{"id":"a","\u001b[2K\n":1}"#);
    assert!(error.contains(r"`\u{1b}[2K\n`"), "{error}");
    for long in ["x".repeat(10_000), "\u{7f}".repeat(10_000)] {
        let error = refused(format!(r#"{{"{long}":1}}"#));
        assert!(error.len() < 400 && error.contains("… at column "), "{error}");
    }
}

#[test]
fn text_after_the_object_is_refused() {
    assert!(refused(r#"{"id":"a","payload":1} x"#).contains("trailing characters"));
}

#[test]
fn ids_are_tokens() {
    let long = "x".repeat(65);
    for id in ["", "a b", "a.b", "é", "*", long.as_str()] {
        let error = parse(format!(r#"{{"id":"{id}","payload":1}}"#).as_bytes()).unwrap_err();
        assert!(matches!(error, TasksError::BadId { line: 1 }), "{id}: {error}");
    }
    let longest = format!("{}_~-", "x".repeat(61));
    assert_eq!(tasks(&format!(r#"{{"id":"{longest}","payload":1}}"#)), [task(1, &longest, "1")]);
}

#[test]
fn a_duplicate_id_is_refused_with_both_lines() {
    let file = "{\"id\":\"a\",\"payload\":1}\n\n{\"id\":\"a\",\"payload\":2}\n";
    assert_eq!(refused(file), "line 3: the id a is already used on line 1");
}

#[test]
fn a_line_of_the_limit_is_taken() {
    for end in ["", "\n", "\r\n"] {
        let file = format!("{}{end}b", "x".repeat(LINE_BYTES_MAX));
        match end {
            "" => assert_eq!(refused(file), "line 1: longer than 1048576 bytes"),
            _ => assert_eq!(tasks(&file)[1], plain_task(2, "b")),
        }
    }
}

#[test]
fn a_line_over_the_limit_is_refused_with_its_number() {
    let file = format!("a\n{}\n", "x".repeat(LINE_BYTES_MAX + 1));
    assert_eq!(refused(file), "line 2: longer than 1048576 bytes");
}

#[test]
fn a_line_without_end_is_not_read_beyond_the_limit() {
    let endless = io::BufReader::new(io::repeat(b'x'));
    assert!(matches!(parse(endless), Err(TasksError::TooLong { line: 1 })));
}

#[test]
fn bytes_that_are_not_utf8_are_refused_with_their_line() {
    assert_eq!(refused(b"a\n\xff\n"), "line 2: not valid UTF-8");
}

#[test]
fn nul_is_refused_bare_and_escaped() {
    assert_eq!(refused("a\nb\0c"), "line 2: holds a NUL character");
    assert_eq!(refused(r#"{"id":"a","payload":"\u0000"}"#), "line 1: holds a NUL character");
}

#[test]
fn a_million_tasks_are_taken_and_one_more_is_refused() {
    let mut file = "x\n".repeat(TASKS_MAX);
    assert_eq!(parse(file.as_bytes()).unwrap().len(), TASKS_MAX);
    file.push_str("\ny\n");
    assert_eq!(refused(file), "line 1000002: more than 1000000 tasks");
}

#[test]
fn a_failing_reader_is_reported_with_the_line() {
    struct Failing;
    impl Read for Failing {
        fn read(&mut self, _buffer: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("gone"))
        }
    }
    let reader = io::BufReader::new(b"a\nb".chain(Failing));
    assert_eq!(parse(reader).unwrap_err().to_string(), "line 2: cannot be read: gone");
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _either = parse(bytes.as_slice());
    }

    #[test]
    fn no_object_like_line_makes_it_panic(line in r#"\{["idpayload:, {}\[\]\\u0-9\n\r]{0,60}"#) {
        let _either = parse(line.as_bytes());
    }

    #[test]
    fn what_is_written_is_read_back(
        entries in prop::collection::vec((any::<bool>(), "[^\0\r\n]{1,40}"), 0..20)
    ) {
        let mut file = String::new();
        let mut expected = Vec::new();
        for (at, (with_id, text)) in entries.iter().enumerate() {
            let line = at + 1;
            let is_plain = !with_id && !text.starts_with(['{', '\u{feff}']) && !text.trim().is_empty();
            if is_plain {
                file.push_str(text);
                expected.push(plain_task(line, text));
            } else {
                let id = format!("id-{at}");
                file.push_str(&serde_json::json!({ "id": id, "payload": text }).to_string());
                expected.push(task(line, &id, text));
            }
            file.push('\n');
        }
        prop_assert_eq!(tasks(&file), expected);
    }
}
