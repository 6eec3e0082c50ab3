//! A tasks file: plain lines and JSON lines.

use std::collections::HashSet;
use std::io::BufReader;

use bus_runner::{ID_CHARACTERS_MAX, TaskLine, parse_tasks};

use crate::laws;

/// What is read is written and read again as the same tasks, and where the reader's buffers end
/// makes no difference.
pub fn body(data: &[u8]) -> bool {
    let read = laws::bounded(data, || parse_tasks(data));
    let pieces = parse_tasks(BufReader::with_capacity(1 + data.len() % 7, data));
    match (&read, &pieces) {
        (Ok(whole), Ok(pieces)) => assert_eq!(whole, pieces, "a buffer's end changes a task"),
        (Err(whole), Err(pieces)) => assert_eq!(whole.to_string(), pieces.to_string()),
        _ => panic!("a buffer's end decides whether the file is taken"),
    }
    match read {
        Ok(tasks) => {
            keeps_rules(&tasks, data);
            let written = write(&tasks);
            let again = parse_tasks(written.as_slice()).expect("tasks that were written are read");
            let without_lines = |tasks: &[TaskLine]| -> Vec<(Option<String>, String)> {
                tasks.iter().map(|task| (task.id.clone(), task.text.clone())).collect()
            };
            assert_eq!(without_lines(&again), without_lines(&tasks), "a task is written otherwise");
            !tasks.is_empty()
        }
        Err(error) => {
            laws::error_is_brief(&error);
            assert!((1..=data.len()).contains(&error.line()), "a line that is not there");
            false
        }
    }
}

fn keeps_rules(tasks: &[TaskLine], data: &[u8]) {
    let bytes: usize = tasks.iter().map(|task| task.text.len()).sum();
    assert!(bytes <= data.len(), "more text than the file has");
    assert!(tasks.is_sorted_by(|a, b| a.line < b.line), "the order of the lines is lost");
    let mut ids = HashSet::new();
    for task in tasks {
        assert!(!task.text.contains('\0'), "a NUL, which no argument can carry");
        if let Some(id) = &task.id {
            assert!((1..=ID_CHARACTERS_MAX).contains(&id.len()), "an id of a wrong length");
            assert!(ids.insert(id), "an id stands twice");
        }
    }
}

/// Lines end with CRLF, so that a carriage return at the end of a text stays there.
fn write(tasks: &[TaskLine]) -> Vec<u8> {
    let mut file = b"\xef\xbb\xbf".to_vec();
    for TaskLine { id, text, .. } in tasks {
        let line = id.as_ref().map_or_else(
            || text.clone(),
            |id| serde_json::json!({ "id": id, "payload": text }).to_string(),
        );
        file.extend_from_slice(line.as_bytes());
        file.extend_from_slice(b"\r\n");
    }
    file
}
