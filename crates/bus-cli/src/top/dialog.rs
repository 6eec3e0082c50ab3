//! Questions and texts over the panes: what a key does to them.

use bus_core::Seq;
use bus_envelope::EventHash;
use bus_subjects::SessionId;
use ratatui::crossterm::event::{KeyCode, KeyEvent};

use super::model::{ApprovalRow, LetterRow, QueueRow};

/// What stands over the panes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Dialog {
    /// A text to read.
    Text {
        /// What it is about.
        title: String,
        /// Its lines.
        lines: Vec<String>,
    },
    /// Whether a letter's task is to be sent again.
    Redrive(LetterRow),
    /// Whether a letter is to be thrown away, and why.
    Discard {
        /// The letter.
        letter: LetterRow,
        /// What was typed so far.
        reason: String,
    },
    /// How a request is to be answered.
    Resolve {
        /// The request.
        approval: ApprovalRow,
        /// Which choice was picked.
        picked: Option<usize>,
    },
    /// Whether a queue is to be paused, or is to go on.
    Pause(QueueRow),
}

/// Something to do on the bus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// To send the task of a letter again.
    Redrive(Seq),
    /// To throw a letter away.
    Discard {
        /// The letter.
        letter: Seq,
        /// Why.
        reason: String,
    },
    /// To answer a request.
    Resolve {
        /// Its session.
        session: SessionId,
        /// Its name.
        approval: EventHash,
        /// The answer.
        choice: String,
    },
    /// To hand out nothing of a queue, or to go on.
    Pause {
        /// The role of the queue.
        role: String,
        /// Whether it is paused now.
        is_paused: bool,
    },
}

impl Action {
    /// What it does, while it is being done.
    pub(crate) fn told(&self) -> String {
        match self {
            Self::Redrive(letter) => format!("sending dead letter {} again", letter.0),
            Self::Discard { letter, .. } => format!("throwing dead letter {} away", letter.0),
            Self::Resolve { choice, .. } => format!("answering with '{choice}'"),
            Self::Pause { role, is_paused: true } => format!("having queue {role} go on"),
            Self::Pause { role, is_paused: false } => format!("pausing queue {role}"),
        }
    }
}

/// What a key did to a dialog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It stays.
    Stay,
    /// It goes, and nothing is done.
    Close,
    /// It goes, and this is done.
    Do(Action),
}

impl Dialog {
    /// Takes a key; `is_read` says whether all of its text was on the screen.
    pub(crate) fn key(&mut self, key: KeyEvent, is_read: bool) -> Answer {
        if key.code == KeyCode::Esc {
            return Answer::Close;
        }
        match self {
            Self::Text { .. } => Answer::Close,
            Self::Redrive(letter) => match key.code {
                KeyCode::Char('y') => Answer::Do(Action::Redrive(letter.seq)),
                KeyCode::Char('n') => Answer::Close,
                _ => Answer::Stay,
            },
            Self::Discard { letter, reason } => match key.code {
                KeyCode::Enter if reason.trim().is_empty() => Answer::Stay,
                KeyCode::Enter => Answer::Do(Action::Discard {
                    letter: letter.seq,
                    reason: std::mem::take(reason),
                }),
                KeyCode::Backspace => {
                    reason.pop();
                    Answer::Stay
                }
                KeyCode::Char(typed) if reason.len() < REASON_BYTES_MAX => {
                    reason.push(typed);
                    Answer::Stay
                }
                _ => Answer::Stay,
            },
            Self::Resolve { approval, picked } => resolve(approval, picked, key, is_read),
            Self::Pause(queue) => match key.code {
                KeyCode::Char('y') => Answer::Do(Action::Pause {
                    role: queue.role.clone(),
                    is_paused: queue.paused_until.is_some(),
                }),
                KeyCode::Char('n') => Answer::Close,
                _ => Answer::Stay,
            },
        }
    }
}

/// A choice is picked by its number or by the arrows and confirmed with `y`: one key alone answers
/// nothing, and nobody answers what was not shown.
fn resolve(
    approval: &ApprovalRow,
    picked: &mut Option<usize>,
    key: KeyEvent,
    is_read: bool,
) -> Answer {
    let last = approval.choices.len().saturating_sub(1);
    match (key.code, *picked) {
        (KeyCode::Char('y'), Some(number)) if is_read => {
            if let Some(choice) = approval.choices.get(number) {
                return Answer::Do(Action::Resolve {
                    session: approval.session.clone(),
                    approval: approval.hash,
                    choice: choice.clone(),
                });
            }
        }
        (KeyCode::Char('n'), Some(_)) => *picked = None,
        (KeyCode::Right, before) => {
            *picked = Some(before.map_or(0, |before| before.saturating_add(1).min(last)));
        }
        (KeyCode::Left, before) => *picked = Some(before.map_or(0, |b| b.saturating_sub(1))),
        (KeyCode::Char(digit), _) => {
            let number = digit.to_digit(10).and_then(|digit| usize::try_from(digit).ok());
            if let Some(number) = number.and_then(|number| number.checked_sub(1))
                && number <= last
            {
                *picked = Some(number);
            }
        }
        _ => {}
    }
    Answer::Stay
}

/// The longest reason that is taken, in bytes; a little less than what a letter's may have.
const REASON_BYTES_MAX: usize = 1000;
