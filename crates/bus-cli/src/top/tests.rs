//! What the screen shows, and what keys do to it.

use std::time::Duration;

use bus_core::Seq;
use bus_envelope::EventHash;
use bus_runner::{Probe, TelemetryKey, TelemetryRecord};
use bus_subjects::{AgentId, SessionId};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use uuid::Uuid;

use super::{
    agents::Agents,
    dialog::{Action, Dialog},
    look::Shelf,
    model::{AgentRow, ApprovalRow, LetterRow, QueueRow, ROWS_MAX, Rate},
    screen::{Asked, Pane},
    *,
};

fn now() -> Timestamp {
    Timestamp::parse("2026-11-30T12:04:31.000000000Z").unwrap()
}

/// A time up to four minutes before now.
fn ago(seconds: u64) -> Timestamp {
    let begun = Timestamp::parse("2026-11-30T12:00:31.000000000Z").unwrap();
    begun.plus(Duration::from_secs(240 - seconds))
}

fn queue(role: &str, waiting: u64) -> QueueRow {
    let oldest = Some(Duration::from_secs(31));
    QueueRow { role: role.to_owned(), waiting, running: 4, oldest, paused_until: None }
}

fn approval(target: &str) -> ApprovalRow {
    ApprovalRow {
        hash: EventHash::from_bytes([0x5f; 32]),
        session: SessionId::parse("cli").unwrap(),
        asker: "cli-worker".to_owned(),
        asked: ago(120),
        action: "deploy.production".to_owned(),
        target: target.to_owned(),
        question: Some("roll it out now?".to_owned()),
        run: None,
        choices: vec!["yes".to_owned(), "no".to_owned()],
        approving: "yes".to_owned(),
    }
}

fn letter(seq: u64, reason: &str) -> LetterRow {
    LetterRow {
        seq: Seq(seq),
        stored: ago(130),
        kind: "exhausted".to_owned(),
        agent: "ann".to_owned(),
        queue: "coder".to_owned(),
        task: format!("task-{seq}"),
        attempts: 4,
        redrives: 1,
        reason: reason.to_owned(),
    }
}

fn agent(name: &str, task: &str) -> AgentRow {
    AgentRow {
        agent: name.to_owned(),
        life: Uuid::nil(),
        session: "worker-1".to_owned(),
        task: task.to_owned(),
        cpu: Some(0.912),
        rss: Some(88_000_000),
        heard: Duration::ZERO,
        has_ended: false,
    }
}

fn shelf(letters: &[LetterRow], in_all: u64) -> Shelf {
    Shelf { letters: letters.iter().cloned().collect(), in_all }
}

fn screen() -> Screen {
    let mut screen = Screen::default();
    let model = screen.model();
    model.queues = vec![queue("coder", 12), queue("tester", 0)];
    model.approvals = vec![approval("web-1")];
    model.shelf = shelf(&[letter(18, "exit code 1"), letter(17, "exit code 2")], 2);
    model.agents = vec![agent("ann", "task-9")];
    model.receipts.note(31, Duration::from_secs(10));
    screen
}

fn heading() -> Heading {
    Heading { workspace: "default".to_owned(), bus: "daemon of this data directory".to_owned() }
}

fn shown(screen: &Screen, size: (u16, u16)) -> String {
    picture(screen, &heading(), now(), size).unwrap()
}

fn press(screen: &mut Screen, keys: &[KeyCode]) -> Vec<Asked> {
    keys.iter().map(|key| screen.key(KeyEvent::new(*key, KeyModifiers::NONE))).collect()
}

fn type_in(screen: &mut Screen, text: &str) -> Vec<Asked> {
    let keys: Vec<KeyCode> = text.chars().map(KeyCode::Char).collect();
    press(screen, &keys)
}

#[test]
fn a_screen_of_80_by_24_shows_all_panes() {
    insta::assert_snapshot!(shown(&screen(), (80, 24)));
}

#[test]
fn a_screen_without_a_bus_says_since_when() {
    let mut screen = screen();
    screen.model().away = Some((ago(5), "the daemon is gone".to_owned()));
    let shown = shown(&screen, (80, 24));
    assert!(shown.starts_with(" bus away since 12:04:26: the daemon is gone\n"), "{shown}");
    assert!(shown.contains("task-18"), "{shown}");
}

#[test]
fn too_small_says_so() {
    for size in [(59, 24), (80, 11), (1, 1), (20, 5)] {
        let shown = shown(&screen(), size);
        assert!(!shown.contains("queues"), "{shown}");
    }
    assert!(shown(&screen(), (59, 24)).starts_with("too small: 60×12 needed"));
    assert!(shown(&screen(), (60, 12)).contains("queues"));
}

#[test]
fn a_resize_redraws() {
    let screen = screen();
    let (wide, narrow) = (shown(&screen, (200, 50)), shown(&screen, (60, 12)));
    assert_eq!((wide.lines().count(), narrow.lines().count()), (50, 12));
    assert!(wide.lines().all(|line| line.chars().count() <= 200));
    assert!(narrow.lines().all(|line| line.chars().count() <= 60));
}

#[test]
fn an_escape_in_a_reason_steers_nothing() {
    let mut screen = screen();
    screen.model().shelf = shelf(&[letter(1, "\x1b]0;owned\x07\x1b[2Jno\u{9b}way")], 1);
    screen.pane = Pane::Letters;
    press(&mut screen, &[KeyCode::Enter]);
    let shown = shown(&screen, (100, 30));
    assert!(!shown.chars().any(|c| c.is_control() && c != '\n'), "{shown:?}");
    assert!(shown.contains("way"), "{shown}");
}

#[test]
fn letters_that_are_not_shown_are_counted() {
    let mut screen = screen();
    screen.model().shelf.in_all = 2_000;
    assert!(shown(&screen, (100, 30)).contains("dead letters (2000, the newest 2 shown)"));
}

#[test]
fn a_filter_shows_only_the_rows_with_its_text() {
    let mut screen = screen();
    type_in(&mut screen, "/cod");
    press(&mut screen, &[KeyCode::Enter]);
    let shown = shown(&screen, (100, 30));
    assert!(shown.contains("coder") && !shown.contains("tester"), "{shown}");
    assert!(shown.contains("only: cod"), "{shown}");
    press(&mut screen, &[KeyCode::Esc]);
    assert!(self::shown(&screen, (100, 30)).contains("tester"));
}

#[test]
fn a_screen_that_stands_still_learns_all_the_same() {
    let mut screen = screen();
    type_in(&mut screen, "f");
    screen.model().queues = vec![queue("writer", 1)];
    let still = shown(&screen, (100, 30));
    assert!(still.contains("coder") && still.contains("stands still"), "{still}");
    type_in(&mut screen, "f");
    assert!(shown(&screen, (100, 30)).contains("writer"));
}

#[test]
fn a_letter_is_sent_again_only_after_a_yes() {
    let mut screen = screen();
    screen.pane = Pane::Letters;
    press(&mut screen, &[KeyCode::Down]);
    type_in(&mut screen, "r");
    let question = shown(&screen, (100, 30));
    assert!(question.contains("redrive dead letter 17"), "{question}");
    assert!(question.contains("sent again 1× before"), "{question}");
    assert_eq!(type_in(&mut screen, "xy"), [Asked::Nothing, Asked::Do(Action::Redrive(Seq(17)))]);
    assert_eq!(screen.dialog, None);
    type_in(&mut screen, "r");
    assert_eq!(type_in(&mut screen, "ny"), [Asked::Nothing, Asked::Nothing]);
}

#[test]
fn a_letter_is_thrown_away_only_with_a_reason() {
    let mut screen = screen();
    screen.pane = Pane::Letters;
    type_in(&mut screen, "d");
    assert_eq!(press(&mut screen, &[KeyCode::Enter]), [Asked::Nothing]);
    type_in(&mut screen, "old ");
    type_in(&mut screen, "x");
    press(&mut screen, &[KeyCode::Backspace, KeyCode::Backspace]);
    let reason = "old".to_owned();
    let done = [Asked::Do(Action::Discard { letter: Seq(18), reason })];
    assert_eq!(press(&mut screen, &[KeyCode::Enter]), done);
}

#[test]
fn resolve_shows_the_target_and_needs_two_keys() {
    let mut screen = screen();
    screen.pane = Pane::Approvals;
    type_in(&mut screen, "v");
    let asked = shown(&screen, (100, 30));
    for text in ["deploy.production", "web-1", "cli-worker", "roll it out now?", "(yes approves)"] {
        assert!(asked.contains(text), "{text} in {asked}");
    }
    assert_eq!(type_in(&mut screen, "y39"), [Asked::Nothing, Asked::Nothing, Asked::Nothing]);
    assert_eq!(type_in(&mut screen, "1"), [Asked::Nothing]);
    assert!(shown(&screen, (100, 30)).contains("answer it with 'yes'? y/n"));
    assert_eq!(type_in(&mut screen, "n2"), [Asked::Nothing, Asked::Nothing]);
    let approval = approval("web-1");
    let (session, hash) = (approval.session, approval.hash);
    let no = Action::Resolve { session, approval: hash, choice: "no".to_owned() };
    assert_eq!(type_in(&mut screen, "y"), [Asked::Do(no)]);
}

#[test]
fn nobody_answers_what_was_not_shown() {
    for size in [(60, 12), (80, 24), (200, 50)] {
        let mut screen = screen();
        let long = |c: char| std::iter::repeat_n(c, 1024).collect::<String>();
        let asked = ApprovalRow {
            question: Some(long('q')),
            choices: (1..=16).map(|n| format!("choice-{n}")).collect(),
            ..approval(&(long('t') + "!!"))
        };
        screen.model().approvals = vec![asked];
        screen.pane = Pane::Approvals;
        type_in(&mut screen, "v1");
        let mut all = shown(&screen, size);
        if !screen.reading.is_read() {
            assert_eq!(type_in(&mut screen, "y"), [Asked::Nothing], "{size:?}");
            assert!(all.contains("read on with") && !all.contains("y/n"), "{all}");
        }
        while !screen.reading.is_read() {
            press(&mut screen, &[KeyCode::Down]);
            all.push_str(&shown(&screen, size));
        }
        assert!(all.contains("!!") && all.contains("choice-16"), "{all}");
        assert!(shown(&screen, size).contains("answer it with 'choice-1'? y/n"));
        press(&mut screen, &[KeyCode::Right; 20]);
        shown(&screen, size);
        let done = type_in(&mut screen, "y");
        let [Asked::Do(Action::Resolve { choice, .. })] = &done[..] else { panic!("{done:?}") };
        assert_eq!(choice, "choice-16");
    }
}

#[test]
fn a_text_that_gets_narrower_has_to_be_read_again() {
    let mut screen = screen();
    let question = Some("q".repeat(900));
    screen.model().approvals = vec![ApprovalRow { question, ..approval("web-1") }];
    screen.pane = Pane::Approvals;
    type_in(&mut screen, "v1");
    shown(&screen, (200, 50));
    assert!(screen.reading.is_read());
    shown(&screen, (60, 12));
    assert!(!screen.reading.is_read());
    assert_eq!(type_in(&mut screen, "y"), [Asked::Nothing]);
}

#[test]
fn a_request_that_goes_while_it_is_answered_does_not_change_the_question() {
    let mut screen = screen();
    screen.pane = Pane::Approvals;
    type_in(&mut screen, "v1");
    screen.model().approvals = vec![approval("web-2")];
    assert!(shown(&screen, (100, 30)).contains("web-1"));
    let asked = type_in(&mut screen, "y");
    assert!(matches!(&asked[..], [Asked::Do(Action::Resolve { .. })]), "{asked:?}");
}

#[test]
fn a_queue_is_paused_and_goes_on() {
    let mut screen = screen();
    type_in(&mut screen, "p");
    let pause = |is_paused| Action::Pause { role: "coder".to_owned(), is_paused };
    assert_eq!(type_in(&mut screen, "y"), [Asked::Do(pause(false))]);
    screen.model().queues[0].paused_until = Some(now().plus(Duration::from_secs(60)));
    type_in(&mut screen, "p");
    assert_eq!(type_in(&mut screen, "y"), [Asked::Do(pause(true))]);
}

#[test]
fn keys_of_another_pane_do_nothing() {
    let mut screen = screen();
    for (pane, keys) in [
        (Pane::Queues, "rdv"),
        (Pane::Agents, "rdvp"),
        (Pane::Approvals, "rdp"),
        (Pane::Letters, "vp"),
    ] {
        screen.pane = pane;
        type_in(&mut screen, keys);
        assert_eq!(screen.dialog, None, "{pane:?}");
    }
}

#[test]
fn panes_go_round() {
    let mut screen = screen();
    press(&mut screen, &[KeyCode::BackTab]);
    assert_eq!(screen.pane, Pane::Letters);
    press(&mut screen, &[KeyCode::Tab, KeyCode::Tab]);
    assert_eq!(screen.pane, Pane::Agents);
}

#[test]
fn q_and_ctrl_c_end_it_and_ctrl_c_does_so_in_a_dialog_too() {
    let mut screen = screen();
    assert_eq!(type_in(&mut screen, "q"), [Asked::Quit]);
    let ctrl_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    screen.dialog = Some(Dialog::Redrive(letter(1, "x")));
    assert_eq!(screen.key(ctrl_c), Asked::Quit);
}

#[test]
fn a_row_that_is_gone_is_not_picked() {
    let mut screen = screen();
    screen.pane = Pane::Letters;
    press(&mut screen, &[KeyCode::Down, KeyCode::Down]);
    screen.model().shelf.letters.clear();
    type_in(&mut screen, "r");
    assert_eq!(screen.dialog, None);
    shown(&screen, (100, 30));
}

/// A sample of task `t` of the agent `name`, with so many processor seconds a second.
fn sample(name: &str, cpu: f64, is_last: bool) -> (TelemetryKey, TelemetryRecord) {
    let key = TelemetryKey {
        agent: AgentId::parse(name).unwrap(),
        incarnation: Uuid::nil(),
        session: SessionId::parse("worker-1").ok(),
        task: "t".to_owned(),
        attempt: 1,
    };
    let sample = Probe::new(std::process::id()).sample(start()).unwrap();
    let record = TelemetryRecord::running("t", 1, &sample);
    (key, TelemetryRecord { cpu_rate: Some(cpu), is_last, ..record })
}

fn start() -> std::time::Instant {
    Instant::now().into_std()
}

#[test]
fn commands_that_ended_or_fell_silent_go() {
    let (begin, mut agents) = (start(), Agents::default());
    let all = [("quiet", 0, false), ("gone", 5, true), ("done", 10, true), ("new", 10, false)];
    for (name, at, is_last) in all {
        let (key, record) = sample(name, 0.5, is_last);
        agents.note(key, 1, record, begin + Duration::from_secs(at));
    }
    let rows = agents.rows(begin + Duration::from_secs(11));
    let names: Vec<&str> = rows.iter().map(|row| row.agent.as_str()).collect();
    assert_eq!(names, ["done", "new"]);
    assert_eq!((rows[0].has_ended, rows[1].heard), (true, Duration::from_secs(1)));
}

#[test]
fn a_sample_that_comes_late_does_not_replace_a_newer_one() {
    let (begin, mut agents) = (start(), Agents::default());
    for (seq, cpu) in [(2, 0.75), (1, 0.25)] {
        let (key, record) = sample("ann", cpu, false);
        agents.note(key, seq, record, begin);
    }
    let rows = agents.rows(begin);
    assert_eq!((rows.len(), rows[0].cpu), (1, Some(0.75)));
    assert_eq!(rows[0].session, "worker-1");
}

#[test]
fn the_panes_have_a_bound() {
    let (begin, mut agents, mut shelf) = (start(), Agents::default(), Shelf::default());
    for number in 0..2 * u64::try_from(ROWS_MAX).unwrap() {
        let (key, record) = sample(&format!("ann-{number}"), 0.5, false);
        agents.note(key, 1, record, begin);
        shelf.put(letter(number, "x"));
    }
    assert_eq!((agents.rows(begin).len(), shelf.letters.len()), (ROWS_MAX, ROWS_MAX));
    assert_eq!(shelf.in_all, 2 * u64::try_from(ROWS_MAX).unwrap());
}

#[test]
fn what_is_being_done_is_told_until_it_is_done() {
    let mut screen = screen();
    screen.model().working = Some(Action::Redrive(Seq(17)).told());
    let picture = shown(&screen, (100, 30));
    assert!(picture.contains("working… sending dead letter 17 again"), "{picture}");
    screen.model().working = None;
    assert!(!shown(&screen, (100, 30)).contains("working"));
}

#[test]
fn a_rate_forgets_what_was_long_ago() {
    let mut rate = Rate::default();
    assert!(rate.per_second().abs() < f64::EPSILON);
    for count in [1_000, 2, 2, 2, 2, 2] {
        rate.note(count, Duration::from_secs(1));
    }
    assert!((rate.per_second() - 2.0).abs() < 1e-9);
}

#[test]
fn ages_and_sizes_are_short() {
    let ages = [0, 1, 99, 100, 5_999, 6_000, 359_999, 360_000];
    let ages = ages.map(|secs| view::age(Duration::from_secs(secs)));
    assert_eq!(ages, ["now", "1s", "99s", "1m", "99m", "1h", "99h", "4d"]);
    let sizes = [9_999, 10_000, 88_000_000, u64::MAX].map(view::bytes);
    assert_eq!(sizes, ["9999 B", "9 KiB", "83 MiB", "17179869183 GiB"]);
}
