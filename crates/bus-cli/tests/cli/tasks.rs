//! From a tasks file to commands: what they are given, and what is refused before they start.

use crate::support::{Place, run};

#[test]
fn a_bad_line_is_refused_with_its_number_before_anything_starts() {
    let place = Place::new();
    place.write("tasks", "good\n{\"id\": \"t\", \"payload\": 1\nbad\n");
    let outcome = place.run(&["swarm", "--tasks", "tasks", "--", "touch", "mark"]);
    outcome.is_wrong_call("tasks: line 2: ");
    assert!(!place.path("mark").exists());
}

#[test]
fn an_id_that_stands_twice_is_refused_with_both_lines() {
    let place = Place::new();
    let task = "{\"id\": \"t-1\", \"payload\": \"x\"}\n";
    place.write("tasks", &format!("{task}other\n{task}"));
    let outcome = place.run(&["swarm", "--tasks", "tasks", "--", "touch", "mark"]);
    outcome.is_wrong_call("line 3: the id t-1 is already used on line 1");
    assert!(!place.path("mark").exists());
}

#[test]
fn a_payload_that_no_message_holds_is_refused_with_its_line() {
    let place = Place::new();
    place.write("tasks", &format!("small\n{}\n", "x".repeat(1024 * 1024)));
    let outcome = place.run(&["swarm", "--tasks", "tasks", "--", "touch", "mark"]);
    outcome.is_wrong_call("line 2: ");
    assert!(!place.path("mark").exists());
}

#[test]
fn an_empty_file_is_a_run_without_tasks() {
    let place = Place::new();
    let (outcome, summary) = place.swarm("\n \n", &["--", "touch", "mark"]);
    assert_eq!((outcome.code, summary["tasks"].as_u64()), (Some(0), Some(0)));
    assert!(!place.path("mark").exists());
}

#[test]
fn an_empty_run_has_evidence_too() {
    let place = Place::new();
    let (outcome, _summary) = place.swarm("", &["--evidence", "run", "--", "true"]);
    assert_eq!((outcome.code, place.run(&["verify", "run"]).code), (Some(0), Some(0)));
}

#[test]
fn the_text_takes_the_place_of_the_braces_as_it_is() {
    let place = Place::new();
    let script = "printf '%s' \"$1\" >seen";
    place.swarm("a  b; $(touch mark) {} 'é\"\n", &["--", "sh", "-c", script, "sh", "<{}|{}>"]);
    let text = "a  b; $(touch mark) {} 'é\"";
    assert_eq!(place.read("seen"), format!("<{text}|{text}>"));
    assert!(!place.path("mark").exists());
}

#[test]
fn the_payload_is_the_input_of_the_command() {
    let place = Place::new();
    let payload = "{\"id\": \"t\", \"payload\": {\"b\":  [1, 2.50],\"a\": null}}\n";
    place.swarm(payload, &["--", "sh", "-c", "cat >seen"]);
    assert_eq!(place.read("seen"), "{\"b\":  [1, 2.50],\"a\": null}");
}

#[test]
fn a_payload_that_is_a_string_is_its_text() {
    let place = Place::new();
    let payload = "{\"id\": \"t\", \"payload\": \"a\\nb\"}\n";
    place.swarm(payload, &["--", "sh", "-c", "cat >seen"]);
    assert_eq!(place.read("seen"), "a\nb");
}

#[test]
fn the_command_is_told_its_task_its_run_and_its_trace() {
    let place = Place::new();
    let tasks = "{\"id\": \"t-1\", \"payload\": \"x\"}\n";
    let (_outcome, summary) = place.swarm(tasks, &["--", "sh", "-c", "env >seen"]);
    let seen = place.read("seen");
    let variable = |name: &str| {
        let value = seen.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        value.unwrap_or_else(|| panic!("no {name}")).to_owned()
    };
    assert_eq!(
        (variable("VAKBUS_TASK_ID"), variable("VAKBUS_ATTEMPT")),
        ("t-1".into(), "1".into())
    );
    assert_eq!(variable("VAKBUS_SESSION"), summary["session"].as_str().unwrap());
    assert_eq!(variable("VAKBUS_RUN_ID"), summary["run_id"].as_str().unwrap());
    is_traceparent(&variable("TRACEPARENT"));
}

#[test]
fn a_run_within_a_trace_goes_on_in_it() {
    let place = Place::new();
    let mut command = place.command();
    let trace_id = "0af7651916cd43dd8448eb211c80319c";
    command.env("TRACEPARENT", format!("00-{trace_id}-b7ad6b7169203331-00"));
    command.args(["swarm", "--", "sh", "-c", "printenv TRACEPARENT >seen"]);

    run(command, "x\n");

    let seen = place.read("seen");
    assert_eq!(seen.get(3..35), Some(trace_id));
    assert!(!seen.contains("b7ad6b7169203331"), "the span is not a new one: {seen}");
    assert!(seen.trim_end().ends_with("-00"), "the sampled flag is not the caller's: {seen}");
}

fn is_traceparent(text: &str) {
    let parts: Vec<&str> = text.split('-').collect();
    assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), [2, 32, 16, 2], "{text}");
    assert!(text.bytes().all(|byte| b"0123456789abcdef-".contains(&byte)), "{text}");
    assert_eq!(parts[0], "00");
    assert!(parts[1].bytes().any(|b| b != b'0') && parts[2].bytes().any(|b| b != b'0'), "{text}");
}

#[test]
fn every_task_runs_once() {
    let place = Place::new();
    let tasks: Vec<String> = (0..200).map(|number| format!("task-{number:03}")).collect();
    let args = ["--workers", "8", "--", "sh", "-c", "echo {} >>seen"];
    let (outcome, summary) = place.swarm(&tasks.join("\n"), &args);
    assert_eq!((outcome.code, summary["completed"].as_u64()), (Some(0), Some(200)));
    let seen = place.read("seen");
    let mut seen: Vec<&str> = seen.lines().collect();
    seen.sort_unstable();
    assert_eq!(seen, tasks);
}

#[test]
fn one_worker_takes_the_tasks_in_their_order() {
    let place = Place::new();
    place.swarm("c\nb\na\n", &["--workers", "1", "--", "sh", "-c", "echo {} >>seen"]);
    assert_eq!(place.read("seen"), "c\nb\na\n");
}

#[test]
fn a_run_that_went_well_is_told_in_two_lines() {
    let place = Place::new();
    let mut command = place.command();
    command.args(["swarm", "--workers", "1", "--", "true"]);
    let outcome = run(command, "a\nb\nc\n");
    let told = outcome.stdout.replace(|c: char| c.is_ascii_digit(), "9");
    insta::assert_snapshot!(told, @r"
    9 of 9 tasks completed in 9.99 s
    9 receipts, 9 chains verified, 9 broken; 9 live events, 9 missed
    ");
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
}

#[test]
fn a_summary_has_one_shape() {
    let place = Place::new();
    let (_outcome, mut summary) = place.swarm("a\nb\nc\n", &["--workers", "1", "--", "true"]);
    for name in ["seconds", "session", "run_id", "metrics", "live_events"] {
        assert!(!summary[name].is_null(), "{name}");
        summary[name] = "(varies)".into();
    }
    insta::assert_snapshot!(serde_json::to_string_pretty(&summary).unwrap(), @r#"
    {
      "chains_broken": 0,
      "chains_verified": 3,
      "completed": 3,
      "dead_lettered": 0,
      "dead_letters": [],
      "evidence": null,
      "interrupted": false,
      "live_events": "(varies)",
      "live_missed": 0,
      "live_refused": 0,
      "metrics": "(varies)",
      "not_run": 0,
      "receipts": 3,
      "retries": 0,
      "run_id": "(varies)",
      "seconds": "(varies)",
      "session": "(varies)",
      "tasks": 3,
      "troubles": []
    }
    "#);
}
