//! `vakbus dlq redrive` and `discard`: some letters by number, or all that are meant, once counted.

use bus_core::{
    DeadLetter, DeadLetters, DiscardSurvey, ErrorKind, LetterCount, Outcome, Redrive, Redriven,
    Result as BusResult, Seq,
};
use bus_subjects::WorkspaceId;
use serde_json::{Value, json};

use super::{NOTHING_MEANT, filter, untreated};
use crate::{
    args::{Chosen, DlqDiscardArgs, DlqRedriveArgs, Global},
    commands::confirm::confirm,
    error::{CliError, Exit},
    print as out,
};

/// Refuses a choice that says two things.
pub(super) fn check(chosen: &Chosen) -> Result<(), CliError> {
    if chosen.all {
        return Ok(());
    }
    if chosen.yes {
        return Err(CliError::usage("nobody asks about letters that are named by number")
            .next("leave --yes out, or say --all instead of numbers"));
    }
    if !chosen.meant.is_any() {
        return Ok(());
    }
    let what = "letters are named by number, and --agent, --kind, --failed-with, --queue, --older \
                and --newer choose among all";
    Err(CliError::usage(what).next("say --all instead of numbers, or leave the others out"))
}

/// Puts tasks into their queues again.
pub(super) async fn redrive(
    letters: &DeadLetters,
    args: DlqRedriveArgs,
    workspace: &WorkspaceId,
    global: &Global,
) -> Result<Exit, CliError> {
    let DlqRedriveArgs { chosen, max_redrives, force } = args;
    let how = Redrive { redrives_max: max_redrives, is_forced: force };
    let mut told = Told::new(&chosen, "redriven", global);
    let positions = if chosen.all {
        let survey = letters.survey(filter(&chosen.meant, workspace), &how).await?;
        if survey.letters.is_empty() {
            return told.nothing();
        }
        let LetterCount { ready, spent, unreadable, denied } = survey.count;
        let counted = format!(
            "{ready} would go again, {spent} came back as often as is allowed, {unreadable} cannot \
             be opened, {denied} are not yours to send"
        );
        if ready == 0 {
            return told.none(&counted, survey.letters.len() as u64);
        }
        confirm(chosen.yes, &format!("{counted}: redrive {ready}?"))?;
        survey.letters
    } else {
        once(chosen.letters)
    };
    let report = |seq: Seq, result: &BusResult<Redriven>| match result {
        Ok(Redriven { task_id, frame_id, .. }) => {
            let words = format!("task {task_id} is in its queue again as {frame_id}");
            told.done(seq, &words, json!({ "task": task_id, "frame": frame_id.as_str() }));
        }
        Err(error) => told.stays(seq, error),
    };
    let ended = letters.redrive_these(positions, &how, report).await;
    told.end(ended.map(drop))
}

/// Throws letters away.
pub(super) async fn discard(
    letters: &DeadLetters,
    args: DlqDiscardArgs,
    workspace: &WorkspaceId,
    global: &Global,
) -> Result<Exit, CliError> {
    let DlqDiscardArgs { chosen, reason } = args;
    let mut told = Told::new(&chosen, "discarded", global);
    let positions = if chosen.all {
        let survey = letters.survey_discard(filter(&chosen.meant, workspace)).await?;
        let DiscardSurvey { letters: meant, unknown } = survey;
        let (count, stay) = (
            meant.len(),
            match unknown {
                0 => String::new(),
                unknown => format!(", {unknown} cannot be opened and stay"),
            },
        );
        match (count, unknown) {
            (0, 0) => return told.nothing(),
            (0, unknown) => return told.none(&format!("none would go{stay}"), unknown),
            _ => {}
        }
        let letters = out::counted(count as u64, "letter", "letters");
        let question = format!(
            "{letters} would be thrown away with the tasks in them{stay}: discard {count}?"
        );
        confirm(chosen.yes, &question)?;
        told.kept = unknown;
        meant
    } else {
        once(chosen.letters)
    };
    let report = |seq: Seq, result: &BusResult<DeadLetter>| match result {
        Ok(letter) => {
            let task = letter.task_id();
            let words = match task {
                Some(task) => format!("thrown away, with task {task}"),
                None => "thrown away".to_owned(),
            };
            told.done(seq, &words, json!({ "task": task }));
        }
        Err(error) => told.stays(seq, error),
    };
    let ended = letters.discard_these(positions, &reason, report).await;
    told.end(ended.map(drop))
}

/// Each number once, in the order in which they were given.
fn once(letters: Vec<Seq>) -> Vec<Seq> {
    let mut seen = std::collections::BTreeSet::new();
    letters.into_iter().filter(|seq| seen.insert(*seq)).collect()
}

/// What was told of each letter, and what the whole comes to.
struct Told {
    /// What happens to letters, as JSON names it.
    deed: &'static str,
    is_json: bool,
    /// Whether they were chosen by what they are, and not by number.
    is_all: bool,
    /// Whether one letter alone was named: then its failure is that of the command.
    is_one: bool,
    done: u64,
    kept: u64,
    denied: u64,
    is_unknown: bool,
    failure: Option<CliError>,
    unwritten: Option<CliError>,
}

impl Told {
    fn new(chosen: &Chosen, deed: &'static str, global: &Global) -> Self {
        Self {
            deed,
            is_json: global.json,
            is_all: chosen.all,
            is_one: chosen.letters.len() == 1,
            done: 0,
            kept: 0,
            denied: 0,
            is_unknown: false,
            failure: None,
            unwritten: None,
        }
    }

    /// A letter was treated.
    fn done(&mut self, seq: Seq, words: &str, more: Value) {
        self.done += 1;
        let line = json!({ "letter": seq.0, self.deed: true });
        self.say(&format!("letter {}: {}", seq.0, out::harmless(words)), out::with(line, more));
    }

    /// A letter stays as it is, or nobody knows.
    fn stays(&mut self, seq: Seq, error: &bus_core::Error) {
        self.kept += 1;
        self.denied += u64::from(error.kind() == ErrorKind::Denied);
        let is_unknown = error.outcome() == Outcome::Unknown;
        self.is_unknown |= is_unknown;
        let failure = untreated(error, seq.0);
        if self.is_json {
            let (kind, error) = (error.kind().as_str(), error.to_string());
            let line = json!({ "letter": seq.0, self.deed: false, "kind": kind, "error": error });
            let more = if is_unknown { json!({ "outcome": "unknown" }) } else { json!({}) };
            self.say("", out::with(line, more));
        } else if !self.is_one {
            out::talk(&format!("letter {} stays: {}", seq.0, out::harmless(failure.what())));
        }
        self.failure.get_or_insert(failure);
    }

    /// A line of data; whether it could be written is told at the end.
    fn say(&mut self, line: &str, json: Value) {
        let written = if self.is_json { out::json(&json) } else { out::line(line) };
        if let Err(error) = written {
            self.unwritten.get_or_insert(error);
        }
    }

    /// No letter is meant.
    fn nothing(mut self) -> Result<Exit, CliError> {
        out::remark(NOTHING_MEANT);
        self.sum();
        self.unwritten.map_or(Ok(Exit::Done), Err)
    }

    /// Letters are meant, and none can be treated.
    fn none(mut self, counted: &str, kept: u64) -> Result<Exit, CliError> {
        out::talk(counted);
        self.kept = kept;
        self.sum();
        self.unwritten.map_or(Ok(Exit::Partly), Err)
    }

    /// The last line of those that were chosen by what they are.
    fn sum(&mut self) {
        if self.is_all {
            let (done, kept) = (self.done, self.kept);
            let line = format!("{done} {}, {kept} kept", self.deed);
            self.say(&line, json!({ self.deed: done, "kept": kept }));
        }
    }

    /// The exit code of the whole; `ended` is an error that ended it early.
    fn end(mut self, ended: bus_core::Result<()>) -> Result<Exit, CliError> {
        self.sum();
        if let Some(error) = self.unwritten {
            return Err(error);
        }
        if let Err(error) = ended {
            // Of several letters the one that ended it was told last, and there is no number here.
            let whole = || untreated(&error, 0);
            return Err(self.failure.filter(|_| self.is_one).unwrap_or_else(whole));
        }
        match (self.failure, self.done) {
            // Letters of which nobody knows whether they are meant.
            (None, _) if self.kept > 0 => Ok(Exit::Partly),
            (None, _) => Ok(Exit::Done),
            (Some(failure), _) if self.is_one => Err(failure),
            (Some(_), _) if self.is_unknown => Ok(Exit::Unknown),
            (Some(_), done) if done > 0 || self.is_all => Ok(Exit::Partly),
            (Some(_), _) if self.denied == self.kept => Ok(Exit::Refused),
            (Some(_), _) => Ok(Exit::Failed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_that_cannot_be_opened_and_stay_make_the_whole_partly_done() {
        let told = |kept| Told {
            deed: "discarded",
            is_json: true,
            is_all: true,
            is_one: false,
            done: 2,
            kept,
            denied: 0,
            is_unknown: false,
            failure: None,
            unwritten: None,
        };
        assert!(matches!(told(1).end(Ok(())), Ok(Exit::Partly)));
        assert!(matches!(told(0).end(Ok(())), Ok(Exit::Done)));
    }
}
