//! Dead letters on the command line: listed, shown, sent again, thrown away.

use bus_testserver::TestServer;
use serde_json::{Value, json};

use crate::{
    daemon_support::{Daemon, ids, lines},
    nats_support::Machine,
    support::{Lines, Outcome, Place, run},
};

/// A daemon, and tasks that were given up: each text of the queue `r` fails with itself.
struct Scene {
    place: Place,
    daemon: Daemon,
}

impl Scene {
    /// Gives up these tasks, called `t-1`, `t-2` and so on.
    fn new(texts: &[&str]) -> Self {
        let place = Place::new();
        let daemon = Daemon::start(&place);
        for (at, text) in texts.iter().enumerate() {
            let id = format!("t-{}", at + 1);
            assert_eq!(
                place.run(&["task", "send", "--role", "r", "--id", &id, text]).code,
                Some(0)
            );
        }
        let scene = Self { place, daemon };
        if !texts.is_empty() {
            scene.give_up();
        }
        scene
    }

    /// Has a worker fail at all that waits.
    fn give_up(&self) {
        let args = ["worker", "--role", "r", "--until-empty", "--max-retries", "0"];
        let script = ["--", "sh", "-c", "cat >&2; exit 3"];
        let worked = self.place.run(&[args.as_slice(), &script].concat());
        assert_eq!(worked.code, Some(3), "{worked:?}");
    }

    fn dlq(&self, args: &[&str]) -> Outcome {
        self.place.run(&[&["dlq"], args].concat())
    }

    /// The tasks of the letters that are listed with these filters, the oldest first.
    fn listed(&self, args: &[&str]) -> Vec<String> {
        ids(&self.dlq(&[&["ls", "--json", "--oldest-first"], args].concat()))
    }

    fn end(self) {
        assert_eq!(self.daemon.stop().code, Some(0));
    }
}

#[test]
fn a_letter_is_listed_with_its_kind_its_queue_its_task_and_the_reason() {
    let scene = Scene::new(&["no way"]);
    let listed = scene.dlq(&["ls"]);
    let line = listed.stdout.trim_end();
    let (number, rest) = line.split_once("  ").unwrap();
    assert_eq!(number, "1", "{listed:?}");
    let (_age, rest) = rest.split_once("  ").unwrap();
    let expected = "exhausted  r  t-1  1 attempt by cli-worker  retries exhausted after 1 attempts: \
                    exit code 3: no way";
    assert_eq!(rest, expected);
    let line = scene.dlq(&["ls", "--json"]).json();
    let told = |name: &str| line[name].clone();
    assert_eq!((told("letter"), told("kind")), (json!(1), json!("exhausted")), "{line}");
    assert_eq!((told("queue"), told("task")), (json!("r"), json!("t-1")), "{line}");
    assert_eq!((told("agent"), told("worker")), (json!("cli-worker"), json!("cli-worker")));
    assert_eq!((told("attempts"), told("redrives")), (json!(1), json!(0)), "{line}");
    assert_eq!((told("unreadable"), told("age_ms").is_u64()), (Value::Null, true), "{line}");
    scene.end();
}

#[test]
fn what_is_meant_is_chosen_by_agent_kind_failure_queue_and_age() {
    let scene = Scene::new(&["red", "blue"]);
    let cancelled = ["task", "send", "--role", "q", "--id", "t-3", "x"];
    assert_eq!(scene.place.run(&cancelled).code, Some(0));
    assert_eq!(scene.place.run(&["task", "cancel", "t-3"]).code, Some(0));
    let all = ["t-1", "t-2", "t-3"];
    let cases: [(&[&str], &[&str]); 9] = [
        (&[], &all),
        (&["--kind", "cancelled"], &all[2..]),
        (&["--kind", "exhausted"], &all[..2]),
        (&["--failed-with", "blue"], &all[1..2]),
        (&["--queue", "q"], &all[2..]),
        (&["--queue", "r", "--failed-with", "red"], &all[..1]),
        (&["--agent", "cli"], &all[2..]),
        (&["--older", "1h"], &[]),
        (&["--newer", "1h", "--limit", "2"], &all[..2]),
    ];
    for (filters, expected) in cases {
        assert_eq!(scene.listed(filters), expected, "{filters:?}");
    }
    // The newest first, and word of those that are left out.
    let newest = scene.dlq(&["ls", "--json", "--limit", "1"]);
    assert_eq!(ids(&newest), ["t-3"]);
    assert!(newest.stderr.contains("there are more than these 1"), "{newest:?}");
    scene.end();
}

#[test]
fn where_nothing_was_given_up_nothing_is_listed() {
    let place = Place::new();
    let listed = place.run(&["dlq", "ls"]);
    assert_eq!((listed.code, listed.stdout.as_str()), (Some(0), ""), "{listed:?}");
    assert!(listed.stderr.contains("no dead letter"), "{listed:?}");
}

#[test]
fn a_letter_is_shown_whole_and_its_payload_alone() {
    let scene = Scene::new(&["no\tway"]);
    let shown = scene.dlq(&["show", "1"]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    for part in ["kind         exhausted", "task         t-1", "traceparent  00-", "sealed under w"]
    {
        let part = part.strip_suffix(" w").unwrap_or(part);
        assert!(shown.stdout.contains(part), "{part}: {}", shown.stdout);
    }
    let json = scene.dlq(&["show", "1", "--json"]).json();
    assert_eq!((&json["task"], &json["from"]), (&json!("t-1"), &json!("cli")), "{json}");
    assert!(json["headers"].is_array() && json["traceparent"].is_string(), "{json}");
    assert_eq!(json["sealed_bytes"], 6 + 16, "{json}");
    assert_eq!(json.get("payload"), None, "the payload is shown unasked: {json}");
    let payload = scene.dlq(&["show", "1", "--payload"]);
    assert_eq!((payload.stdout.as_str(), payload.stderr.as_str()), ("no\tway", ""));
    let json = scene.dlq(&["show", "1", "--payload", "--json"]).json();
    assert_eq!(json["payload"], "no\tway", "{json}");
    scene.dlq(&["show", "9"]).failed_with("there is no dead letter at 9", "vakbus dlq ls");
    scene.end();
}

#[test]
fn what_could_steer_a_terminal_is_not_shown_of_a_reason() {
    let scene = Scene::new(&["a\u{1b}[2Jb"]);
    for args in [["ls"].as_slice(), &["show", "1"]] {
        let shown = scene.dlq(args);
        assert!(!shown.stdout.contains('\u{1b}'), "{shown:?}");
    }
    scene.end();
}

#[test]
fn a_redriven_task_keeps_headers_trace_and_seal() {
    let scene = Scene::new(&["x"]);
    let before = scene.dlq(&["show", "1", "--json"]).json();

    let redriven = scene.dlq(&["redrive", "1", "--json"]);

    let told = json!({ "letter": 1, "redriven": true, "task": "t-1", "frame": "t-1.r1" });
    assert_eq!((redriven.code, redriven.json()), (Some(0), told));
    assert!(scene.listed(&[]).is_empty(), "the letter is still there");
    scene.give_up();
    let after = scene.dlq(&["show", "2", "--json"]).json();
    for same in ["task", "headers", "traceparent", "sealed_under", "sealed_bytes", "from", "sent"] {
        assert_eq!(before[same], after[same], "{same}");
    }
    assert_eq!((&before["redrives"], &after["redrives"]), (&json!(0), &json!(1)));
    assert_eq!((&before["frame"], &after["frame"]), (&json!("t-1"), &json!("t-1.r1")));
    scene.end();
}

#[test]
fn what_came_back_too_often_is_sent_again_by_force_only() {
    let scene = Scene::new(&["x"]);
    let refused = scene.dlq(&["redrive", "1", "--max-redrives", "0"]);
    refused.failed_with("came back", "vakbus dlq show 1");
    assert!(refused.stderr.contains("--force"), "{refused:?}");
    assert_eq!(scene.listed(&[]), ["t-1"]);
    let forced = scene.dlq(&["redrive", "1", "--force"]);
    assert_eq!(forced.stdout, "letter 1: task t-1 is in its queue again as t-1.r1\n", "{forced:?}");
    scene.end();
}

#[test]
fn the_exit_code_tells_all_some_and_none() {
    let scene = Scene::new(&["x", "y"]);
    let none = scene.dlq(&["redrive", "8", "9"]);
    assert_eq!((none.code, none.stdout.as_str()), (Some(1), ""), "{none:?}");
    assert!(none.stderr.contains("letter 8 stays") && none.stderr.contains("letter 9 stays"));
    let some = scene.dlq(&["redrive", "1", "9", "1", "--json"]);
    assert_eq!(some.code, Some(3), "{some:?}");
    let told = lines(&some);
    assert_eq!((&told[0]["redriven"], &told[1]["redriven"]), (&json!(true), &json!(false)));
    assert_eq!((&told[1]["kind"], told.len()), (&json!("not-found"), 2), "{told:?}");
    assert_eq!(scene.dlq(&["redrive", "2"]).code, Some(0));
    scene.end();
}

#[test]
fn many_are_counted_before_they_are_asked_for() {
    let scene = Scene::new(&["x", "y", "z"]);
    let asked = scene.dlq(&["redrive", "--all", "--failed-with", "y"]);
    asked.is_wrong_call("1 would go again, 0 came back as often as is allowed");
    assert!(asked.stderr.contains("redrive 1?") && asked.stderr.contains("--yes"), "{asked:?}");
    assert_eq!(scene.listed(&[]).len(), 3, "something was sent");

    let done = scene.dlq(&["redrive", "--all", "--failed-with", "y", "--yes", "--json"]);

    assert_eq!(done.code, Some(0), "{done:?}");
    let told = lines(&done);
    assert_eq!((&told[0]["letter"], &told[0]["redriven"]), (&json!(2), &json!(true)));
    assert_eq!(told[1], json!({ "redriven": 1, "kept": 0 }));
    assert_eq!(scene.listed(&[]), ["t-1", "t-3"]);
    scene.end();
}

#[test]
fn where_none_of_many_can_go_nobody_is_asked() {
    let scene = Scene::new(&["x"]);
    let none = scene.dlq(&["redrive", "--all", "--max-redrives", "0", "--json"]);
    assert_eq!((none.code, none.json()), (Some(3), json!({ "redriven": 0, "kept": 1 })));
    assert!(none.stderr.contains("1 came back as often as is allowed"), "{none:?}");
    let nothing = scene.dlq(&["discard", "--all", "--older", "1h", "--reason", "old", "--json"]);
    assert_eq!((nothing.code, nothing.json()), (Some(0), json!({ "discarded": 0, "kept": 0 })));
    scene.end();
}

#[test]
fn without_a_terminal_nothing_is_discarded() {
    let scene = Scene::new(&["x", "y"]);
    let mut command = scene.place.command();
    command.args(["dlq", "discard", "--all", "--reason", "no use"]);
    let asked = run(command, "y\n");
    asked.is_wrong_call("2 letters would be thrown away with the tasks in them: discard 2?");
    assert_eq!(scene.listed(&[]).len(), 2);

    let done = scene.dlq(&["discard", "--all", "--reason", "no use", "-y"]);

    let told = "letter 1: thrown away, with task t-1\nletter 2: thrown away, with task t-2\n\
                2 discarded, 0 kept\n";
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), told), "{done:?}");
    assert!(scene.listed(&[]).is_empty());
    scene.end();
}

#[test]
fn a_letter_is_discarded_by_its_number_and_for_a_reason() {
    let scene = Scene::new(&["x", "y"]);
    scene.dlq(&["discard", "1"]).is_wrong_call("--reason");
    scene.dlq(&["discard", "1", "--reason", ""]).is_wrong_call("expected 1 to 1024");
    let gone = scene.dlq(&["discard", "1", "--reason", "done by hand", "--json"]);
    assert_eq!(gone.json(), json!({ "letter": 1, "discarded": true, "task": "t-1" }), "{gone:?}");
    assert_eq!(scene.listed(&[]), ["t-2"]);
    scene.dlq(&["discard", "1", "--reason", "again"]).failed_with("no dead letter", "dlq ls");
    scene.end();
}

#[test]
fn a_choice_that_says_two_things_is_a_wrong_call() {
    let place = Place::new();
    for args in [
        ["redrive"].as_slice(),
        &["redrive", "1", "--all"],
        &["redrive", "1", "--queue", "r"],
        &["redrive", "1", "--yes"],
        &["redrive", "first"],
        &["redrive", "0"],
        &["redrive", "1", "--force", "--max-redrives", "9"],
        &["redrive", "1", "--as", "ann", "--agent", "bob"],
        &["ls", "--limit", "0"],
        &["ls", "--kind", "sad"],
    ] {
        place.run(&[&["dlq"], args].concat()).is_wrong_call("");
    }
    assert!(!place.path("data").exists(), "a wrong call made something");
}

#[test]
fn who_may_not_treat_letters_is_refused() {
    let place = Place::new();
    assert_eq!(place.run(&["agent", "add", "ann", "--role", "auditor"]).code, Some(0));
    let daemon = Daemon::start(&place);
    assert_eq!(place.run(&["task", "send", "--role", "r", "--id", "t-1", "x"]).code, Some(0));
    let scene = Scene { place, daemon };
    scene.give_up();
    // An auditor reads letters; it neither sends nor throws away.
    let seen = scene.place.run(&["--as", "ann", "dlq", "ls", "--json"]);
    assert_eq!(ids(&seen), ["t-1"]);
    for args in [["redrive", "1"].as_slice(), &["discard", "1", "--reason", "mine"]] {
        let refused = scene.place.run(&[&["--as", "ann", "dlq"], args].concat());
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(4), ""), "{refused:?}");
    }
    assert_eq!(scene.listed(&[]), ["t-1"]);
    scene.end();
}

#[test]
fn whoever_listens_hears_that_a_task_was_given_up() {
    let scene = Scene::new(&[]);
    let mut listening =
        scene.place.start(&["sub", "vak.events.default.*.alert", "--count", "1", "--json"]);
    let heard = Lines::of(listening.take_stdout());
    listening.says("listening");
    assert_eq!(scene.place.run(&["task", "send", "--role", "r", "--id", "t-1", "x"]).code, Some(0));
    scene.give_up();
    let line: Value = serde_json::from_str(&heard.next().unwrap()).unwrap();
    assert_eq!(
        (&line["type"], &line["standing"]),
        (&json!("vak.alert.dead-letter"), &json!("signed"))
    );
    let alert: Value = serde_json::from_str(line["payload"].as_str().unwrap()).unwrap();
    let expected =
        json!({ "letter": 1, "task": "t-1", "kind": "exhausted", "attempts": 1, "queue": "r" });
    assert_eq!(alert, expected);
    assert_eq!(listening.ended().code, Some(0));
    scene.end();
}

#[test]
fn letters_on_a_server_are_treated_from_any_machine() {
    let server = TestServer::start();
    let here = Machine::new(&server);
    here.does(&["task", "send", "--role", "r", "--id", "t-1", "x"]);
    let args = ["worker", "--role", "r", "--until-empty", "--max-retries", "0", "--", "false"];
    assert_eq!(here.run(&args).code, Some(3));
    let there = here.copy();
    assert_eq!(ids(&there.run(&["dlq", "ls", "--json", "--kind", "exhausted"])), ["t-1"]);
    assert_eq!(there.does(&["dlq", "show", "1", "--payload"]), "x");
    let tail = lines(&there.run(&["tail", "--json"]));
    assert_eq!((tail.len(), &tail[0]["kind"]), (1, &json!("dead-letters")), "{tail:?}");
    let traced = lines(&there.run(&["trace", "t-1", "--json"]));
    assert_eq!((&traced[0]["id"], &traced[1]["kind"]), (&json!("t-1"), &json!("dead letter")));

    there.does(&["dlq", "redrive", "1"]);

    assert_eq!(ids(&here.run(&["task", "ls", "--json"])), ["t-1"]);
    assert!(ids(&here.run(&["dlq", "ls", "--json"])).is_empty());
}

#[test]
fn a_server_that_is_away_is_told_with_what_to_do() {
    let mut server = TestServer::start();
    let machine = Machine::new(&server);
    machine.does(&["dlq", "ls"]);
    server.kill();
    for args in [
        ["dlq", "ls"].as_slice(),
        &["dlq", "show", "1"],
        &["dlq", "redrive", "--all", "--yes"],
        &["dlq", "discard", "1", "--reason", "x"],
        &["tail"],
        &["trace", "t-1"],
    ] {
        let away = machine.run(args);
        assert_eq!((away.code, away.stdout.as_str()), (Some(5), ""), "{args:?}: {away:?}");
        assert!(away.stderr.contains("\n  next: "), "{args:?}: {away:?}");
    }
}
