//! The guide to settings: what it shows works, and what it lists is what there is.

use std::fs;

use serde_json::Value;

use crate::support::{Place, run};

const GUIDE: &str = include_str!("../../../../docs/guide/configuration.md");

/// The contents of the fenced blocks in this language.
fn blocks(language: &str) -> Vec<&'static str> {
    let begins = format!("```{language}\n");
    GUIDE.split(&begins).skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

#[test]
fn every_file_of_the_guide_is_right() {
    let files = blocks("toml");
    assert_eq!(files.len(), 1);
    for text in files {
        let place = Place::new();
        fs::create_dir_all(place.path("config/vakbus")).unwrap();
        place.write("config/vakbus/vakbus.toml", text);
        assert_eq!(place.run(&["config", "show"]).code, Some(0), "{text}");
    }
}

#[test]
fn every_command_of_the_guide_runs() {
    let sessions = blocks("console");
    assert_eq!(sessions.len(), 4);
    for session in sessions {
        let place = Place::new();
        assert_eq!(place.run(&["workspace", "ls"]).code, Some(0));
        for line in session.lines().filter_map(|line| line.strip_prefix("$ ")) {
            let outcome = run(place.shell(&line.replace("vakbus ", "\"$0\" ")), "");
            assert_eq!(outcome.code, Some(0), "{line}: {outcome:?}");
        }
    }
}

#[test]
fn the_guide_lists_exactly_the_settings_that_there_are() {
    let shown = Place::new().run(&["config", "show", "--json"]).stdout;
    let lines = shown.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let settings: Vec<Value> = lines.filter(|line| line["setting"].is_string()).collect();
    let section = GUIDE.split("## Settings").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows: Vec<&str> = section.lines().filter(|line| line.starts_with("| `")).collect();
    assert_eq!(rows.len(), settings.len());
    for (row, setting) in rows.iter().zip(&settings) {
        let cells: Vec<&str> = row.split(" | ").collect();
        let name = setting["setting"].as_str().unwrap();
        assert!(cells[0].starts_with(&format!("| `{name}`")), "{row}");
        let default = match &setting["value"] {
            Value::String(text) if setting["layer"] == "default" => format!("`{text}`"),
            Value::Number(number) => format!("`{number}`"),
            _ => continue,
        };
        assert_eq!(cells[1], default, "{row}");
    }
}

#[test]
fn the_help_names_the_settings_as_the_guide_does() {
    let help = Place::new().run(&["config", "--help"]).stdout;
    let rows = GUIDE.lines().filter(|line| line.starts_with("| `") && line.contains("`VAKBUS_"));
    for row in rows.filter(|row| row.matches(" | ").count() == 3) {
        let name = row.split('`').nth(1).unwrap();
        let mark = if row.starts_with(&format!("| `{name}` *")) { " *" } else { "  " };
        assert!(help.contains(&format!("{mark}{name}")), "{row}: {help}");
    }
}
