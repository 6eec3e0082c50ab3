//! The dead letters of a run as a person knows them: by the line and the text of their task.

use std::collections::HashMap;

use bus_runner::TaskLine;

use super::ledger::Dead;

/// A task that was given up.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(super) struct DeadLetter {
    /// The task's id.
    pub(super) task: String,
    /// The line of the tasks file, from 1; none for a task that is not of this file.
    pub(super) line: Option<usize>,
    /// The beginning of the task's text.
    pub(super) text: String,
    /// How often it was tried.
    pub(super) attempts: u32,
    /// Why it was given up.
    pub(super) reason: String,
}

/// How much of a task's text is shown, in characters.
const TEXT_CHARS_MAX: usize = 80;

/// Finds the line of each dead letter, in the order of the lines; `ids` are those of the first
/// tasks, as far as they were sent.
pub(super) fn find(dead: Vec<Dead>, ids: &[String], tasks: &[TaskLine]) -> Vec<DeadLetter> {
    let mut lines: HashMap<&str, Option<&TaskLine>> =
        dead.iter().map(|dead| (dead.task.as_str(), None)).collect();
    for (id, task) in ids.iter().zip(tasks) {
        if let Some(line) = lines.get_mut(id.as_str()) {
            *line = Some(task);
        }
    }
    let named = |dead: &Dead| {
        let task = lines.get(dead.task.as_str()).copied().flatten();
        let text = task.map_or("", |task| task.text.as_str());
        DeadLetter {
            task: dead.task.clone(),
            line: task.map(|task| task.line),
            text: text.chars().take(TEXT_CHARS_MAX).collect(),
            attempts: dead.attempts,
            reason: dead.reason.clone(),
        }
    };
    let mut letters: Vec<DeadLetter> = dead.iter().map(named).collect();
    letters.sort_by_key(|letter| letter.line);
    letters
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dead(task: &str) -> Dead {
        Dead { task: task.to_owned(), attempts: 4, reason: "exit code 1".to_owned() }
    }

    fn task(line: usize, text: &str) -> TaskLine {
        TaskLine { line, id: None, text: text.to_owned() }
    }

    #[test]
    fn dead_letters_are_named_by_their_lines_and_in_their_order() {
        let ids = ["a", "b", "c"].map(str::to_owned);
        let tasks = [task(1, "one"), task(3, "three"), task(4, "four"), task(5, "not sent")];
        let letters = find(vec![dead("c"), dead("b")], &ids, &tasks);
        let shown: Vec<_> = letters.iter().map(|l| (l.line, l.text.as_str())).collect();
        assert_eq!(shown, [(Some(3), "three"), (Some(4), "four")]);
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let tasks = [task(1, &"é".repeat(100))];
        let letters = find(vec![dead("a")], &["a".to_owned()], &tasks);
        assert_eq!(letters[0].text, "é".repeat(80));
    }

    #[test]
    fn a_dead_letter_of_an_unknown_task_keeps_its_id() {
        let letters = find(vec![dead("stranger")], &["a".to_owned()], &[task(1, "one")]);
        assert_eq!((letters[0].task.as_str(), letters[0].line), ("stranger", None));
    }
}
