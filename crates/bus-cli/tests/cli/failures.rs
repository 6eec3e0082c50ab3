//! Commands that fail, hang, flood or are not there: retries, dead letters, and the exit code 3.

use bus_core::Endpoint;
use serde_json::json;

use crate::support::{Gate, Held, Place, run};

#[test]
fn a_command_that_does_not_exist_is_given_up_at_once() {
    let place = Place::new();
    let (outcome, summary) = place.swarm("a\n", &["--", "no-such-command"]);
    assert_eq!(outcome.code, Some(3));
    let letter = &summary["dead_letters"][0];
    assert_eq!(letter["reason"], "command not found: no-such-command");
    assert_eq!((&letter["attempts"], &summary["retries"]), (&json!(1), &json!(0)));
}

#[test]
fn a_command_that_is_killed_has_failed() {
    let place = Place::new();
    let args = ["--max-retries", "0", "--", "sh", "-c", "kill -9 $$"];
    let (outcome, summary) = place.swarm("a\n", &args);
    assert_eq!(outcome.code, Some(3));
    let reason = summary["dead_letters"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("ended by signal 9"), "{reason}");
}

#[test]
fn a_command_past_its_time_ends_with_its_whole_group_though_it_ignores_sigterm() {
    let place = Place::new();
    let held = Held::through(&place.pipe("held"));
    let script = "trap '' TERM; exec 3>held; sleep 1000 & sleep 1000; sleep 1000";
    let args = ["--max-retries", "0", "--timeout", "300ms", "--", "sh", "-c", script];
    let (outcome, summary) = place.swarm("a\n", &args);
    assert_eq!(outcome.code, Some(3));
    let reason = summary["dead_letters"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("time limit of 300ms reached"), "{reason}");
    held.released();
}

#[test]
fn what_a_command_leaves_running_ends_with_it() {
    let place = Place::new();
    let held = Held::through(&place.pipe("held"));
    let script = "exec 3>held; sleep 1000 >&3 2>&3 &";
    let (outcome, _summary) = place.swarm("a\n", &["--", "sh", "-c", script]);
    assert_eq!(outcome.code, Some(0));
    held.released();
}

#[test]
fn processes_that_are_killed_for_holding_the_output_are_told() {
    let place = Place::new();
    let (outcome, summary) = place.swarm("a\n", &["--", "sh", "-c", "sleep 1000 &"]);
    assert_eq!((outcome.code, &summary["completed"]), (Some(0), &json!(1)));
    assert!(outcome.stderr.contains("the command left processes that held"), "{outcome:?}");
}

#[test]
#[cfg(target_os = "linux")]
fn output_that_is_not_read_to_its_end_is_told() {
    let place = Place::new();
    let mut gate = Gate::at(&place.pipe("gate"));
    // It leaves the process group, so it is not killed with it.
    let args = ["--", "sh", "-c", "setsid sh -c 'read x <gate' &"];
    let (outcome, summary) = place.swarm("a\n", &args);
    gate.open_for(1);
    assert_eq!((outcome.code, &summary["completed"]), (Some(0), &json!(1)));
    assert!(outcome.stderr.contains("the output was not read to its end"), "{outcome:?}");
}

#[test]
fn a_task_that_works_on_its_third_attempt_has_two_retries() {
    let place = Place::new();
    let script = "echo $VAKBUS_ATTEMPT >>seen; [ $VAKBUS_ATTEMPT -eq 3 ]";
    let (outcome, summary) = place.swarm("a\n", &["--backoff", "10ms", "--", "sh", "-c", script]);
    assert_eq!((outcome.code, &summary["retries"]), (Some(0), &json!(2)));
    assert_eq!(place.read("seen"), "1\n2\n3\n");
}

#[test]
fn the_delay_between_attempts_grows() {
    let place = Place::new();
    let script = "date +%s%N >>seen; exit 1";
    let args = ["--max-retries", "2", "--backoff", "100ms", "--", "sh", "-c", script];
    place.swarm("a\n", &args);
    let seen = place.read("seen");
    let times: Vec<u64> = seen.lines().map(|line| line.parse().unwrap()).collect();
    let rests: Vec<u64> = times.windows(2).map(|pair| (pair[1] - pair[0]) / 1_000_000).collect();
    // A tenth of jitter; a busy machine makes them longer, never shorter.
    assert!(rests[0] >= 90 && rests[1] >= 450, "{rests:?}");
}

#[test]
fn a_dead_letter_names_the_line_the_text_the_attempts_and_the_reason() {
    let place = Place::new();
    let long = "ä".repeat(100);
    let tasks = format!("good\n\n{{\"id\": \"t-2\", \"payload\": \"{long}\"}}\n");
    let script = "[ {} = good ] || { echo why >&2; exit 7; }";
    let args = ["--max-retries", "1", "--backoff", "1ms", "--", "sh", "-c", script];
    let (outcome, summary) = place.swarm(&tasks, &args);
    assert_eq!(outcome.code, Some(3));
    let expected = json!([{
        "task": "t-2",
        "line": 3,
        "text": "ä".repeat(80),
        "attempts": 2,
        "reason": "retries exhausted after 2 attempts: exit code 7: why",
    }]);
    assert_eq!(summary["dead_letters"], expected);
}

#[test]
fn dead_letters_are_listed_for_people() {
    let place = Place::new();
    let tasks = "{\"id\": \"t-1\", \"payload\": \"first\"}\n{\"id\": \"t-2\", \"payload\": \"a\\u001b[2Jb\"}";
    let mut command = place.command();
    command.args(["swarm", "--workers", "1", "--max-retries", "0", "--", "sh", "-c", "exit 1"]);
    let outcome = run(command, tasks);
    let told = outcome.stdout.replace(|c: char| c.is_ascii_digit(), "9");
    insta::assert_snapshot!(told, @r"
    9 of 9 tasks completed, 9 dead-lettered in 9.99 s
    9 receipts, 9 chains verified, 9 broken; 9 live events, 9 missed
    dead letter: line 9, 9 attempt, task t-9: first
      retries exhausted after 9 attempts: exit code 9
    dead letter: line 9, 9 attempt, task t-9: a [9Jb
      retries exhausted after 9 attempts: exit code 9
    ");
    // The dead letters are the result; nothing of them is noise on stderr.
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(3), ""));
}

#[test]
fn a_task_whose_text_is_too_long_for_an_argument_is_given_up_at_once() {
    let place = Place::new();
    let (outcome, summary) = place.swarm(&"x".repeat(200_000), &["--", "true", "{}"]);
    assert_eq!(outcome.code, Some(3));
    let reason = &summary["dead_letters"][0]["reason"];
    assert_eq!(reason, "arguments too long for this system: true");
}

#[test]
fn the_largest_task_can_be_given_up_whole() {
    let place = Place::new();
    let text = "x".repeat(Endpoint::PAYLOAD_BYTES_MAX);
    let args = ["--max-retries", "0", "--evidence", "run", "--", "false"];
    let (outcome, summary) = place.swarm(&text, &args);
    assert_eq!((outcome.code, &summary["troubles"]), (Some(3), &json!([])));
    assert_eq!(place.run(&["verify", "run"]).code, Some(0));
}

#[test]
#[cfg(target_os = "linux")]
fn a_flood_of_output_needs_no_memory() {
    let place = Place::new();
    let bytes = if cfg!(debug_assertions) { 200_000_000 } else { 1_000_000_000 };
    // The second task looks at the peak of the process that carried the output of the first.
    let script = "case {} in
        measure) grep VmHWM /proc/$PPID/status >seen ;;
        *) head -c {} /dev/zero ;;
    esac";
    let args = ["--workers", "1", "--", "sh", "-c", script];
    let (outcome, summary) = place.swarm(&format!("{bytes}\nmeasure\n"), &args);
    assert_eq!((outcome.code, &summary["completed"]), (Some(0), &json!(2)));
    let seen = place.read("seen");
    let peak_kib: u64 = seen.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(peak_kib < 300 * 1024, "{peak_kib} KiB");
    // All of it was read, or the first task had not ended. What is shown of it is what can be
    // shown in time: the command does not wait for that.
    let published = summary["metrics"]["bytes_published"].as_u64().unwrap();
    assert!(published > 1024 * 1024, "{published}");
}
