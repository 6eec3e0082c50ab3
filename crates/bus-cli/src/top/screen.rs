//! Where the user is: which pane, which row, which dialog; and what a key does.

use std::cell::Cell;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::{
    dialog::{Action, Answer, Dialog},
    model::{AgentRow, ApprovalRow, LetterRow, Model, QueueRow},
};

/// The screen.
#[derive(Debug, Default)]
pub(crate) struct Screen {
    /// What is known now.
    model: Model,
    /// What is shown instead, while the user has it stand still.
    frozen: Option<Model>,
    pub(crate) pane: Pane,
    /// The row that is picked in each pane.
    rows: [usize; 4],
    pub(crate) dialog: Option<Dialog>,
    /// How far the dialog was read.
    pub(crate) reading: Reading,
    /// What a row has to hold to be shown.
    pub(crate) filter: String,
    /// Whether the filter is being typed.
    pub(crate) is_filtering: bool,
}

/// How far a text that may be longer than the screen was read; told while it is drawn.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    /// The first row that is shown.
    from: Cell<usize>,
    /// How many rows it has, and how many fit.
    rows: Cell<(usize, usize)>,
    /// How many rows from the first one on were on the screen.
    seen: Cell<usize>,
}

impl Reading {
    /// Notes that `room` of `rows` rows are drawn now, and says from which one on.
    pub(crate) fn shows(&self, rows: usize, room: usize) -> usize {
        if self.rows.get() != (rows, room) {
            // The rows are other ones: what is above the first that is shown counts no more.
            self.seen.set(0);
            self.from.set(0);
        }
        self.rows.set((rows, room));
        let from = self.from.get().min(rows.saturating_sub(room));
        self.from.set(from);
        if from <= self.seen.get() {
            self.seen.set(self.seen.get().max(from.saturating_add(room)));
        }
        from
    }

    /// Whether all rows were on the screen.
    pub(crate) fn is_read(&self) -> bool {
        self.seen.get() >= self.rows.get().0 && self.rows.get().1 > 0
    }

    /// Takes a key that moves the text; `false` when it is none.
    fn key(&self, key: KeyCode) -> bool {
        let (rows, room) = self.rows.get();
        let (from, last) = (self.from.get(), rows.saturating_sub(room));
        self.from.set(match key {
            KeyCode::Down => from.saturating_add(1).min(last),
            KeyCode::Up => from.saturating_sub(1),
            KeyCode::PageDown => from.saturating_add(room).min(last),
            KeyCode::PageUp => from.saturating_sub(room),
            _ => return false,
        });
        true
    }
}

/// A pane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Pane {
    /// The queues.
    #[default]
    Queues,
    /// The commands that run.
    Agents,
    /// The approvals that wait.
    Approvals,
    /// The dead letters.
    Letters,
}

/// What a key asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Asked {
    /// Nothing that leaves the screen.
    Nothing,
    /// To end.
    Quit,
    /// To do something on the bus.
    Do(Action),
}

impl Pane {
    pub(crate) const ALL: [Self; 4] = [Self::Queues, Self::Agents, Self::Approvals, Self::Letters];

    fn step(self, by: usize) -> Self {
        let at = Self::ALL.iter().position(|pane| *pane == self).unwrap_or(0);
        let next = (at + by) % Self::ALL.len();
        Self::ALL.get(next).copied().unwrap_or_default()
    }
}

impl Screen {
    /// What is shown.
    pub(crate) fn shown(&self) -> &Model {
        self.frozen.as_ref().unwrap_or(&self.model)
    }

    /// What is known, for who learns more.
    pub(crate) fn model(&mut self) -> &mut Model {
        &mut self.model
    }

    /// Whether the screen stands still.
    pub(crate) fn is_frozen(&self) -> bool {
        self.frozen.is_some()
    }

    /// The row that is picked in `pane`, of `count`.
    pub(crate) fn picked(&self, pane: Pane, count: usize) -> Option<usize> {
        let picked = self.rows.get(pane as usize).copied().unwrap_or(0);
        (count > 0).then(|| picked.min(count - 1))
    }

    /// The queues that the filter lets through.
    pub(crate) fn queues(&self) -> Vec<&QueueRow> {
        self.shown().queues.iter().filter(|row| self.admits(&[&row.role])).collect()
    }

    /// The commands that the filter lets through.
    pub(crate) fn agents(&self) -> Vec<&AgentRow> {
        let fits = |row: &&AgentRow| self.admits(&[&row.agent, &row.task, &row.session]);
        self.shown().agents.iter().filter(fits).collect()
    }

    /// The approvals that the filter lets through.
    pub(crate) fn approvals(&self) -> Vec<&ApprovalRow> {
        let fits = |row: &&ApprovalRow| {
            let hash = row.hash.to_string();
            self.admits(&[&row.action, &row.target, &row.asker, row.session.as_str(), &hash])
        };
        self.shown().approvals.iter().filter(fits).collect()
    }

    /// The dead letters that the filter lets through.
    pub(crate) fn letters(&self) -> Vec<&LetterRow> {
        let fits = |row: &&LetterRow| {
            self.admits(&[&row.task, &row.agent, &row.queue, &row.kind, &row.reason])
        };
        self.shown().shelf.letters.iter().filter(fits).collect()
    }

    fn admits(&self, texts: &[&str]) -> bool {
        self.filter.is_empty() || texts.iter().any(|text| text.contains(&self.filter))
    }

    /// Takes a key.
    pub(crate) fn key(&mut self, key: KeyEvent) -> Asked {
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return Asked::Quit;
        }
        if let Some(dialog) = &mut self.dialog {
            if self.reading.key(key.code) {
                return Asked::Nothing;
            }
            let answer = dialog.key(key, self.reading.is_read());
            if answer != Answer::Stay {
                self.dialog = None;
            }
            return match answer {
                Answer::Do(action) => Asked::Do(action),
                Answer::Stay | Answer::Close => Asked::Nothing,
            };
        }
        if self.is_filtering {
            self.filter_key(key);
            return Asked::Nothing;
        }
        // What is opened herewith was not read yet.
        self.reading = Reading::default();
        self.pane_key(key)
    }

    fn filter_key(&mut self, key: KeyEvent) {
        match key.code {
            KeyCode::Enter => self.is_filtering = false,
            KeyCode::Esc => {
                self.is_filtering = false;
                self.filter.clear();
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(typed) if self.filter.len() < FILTER_BYTES_MAX => self.filter.push(typed),
            _ => {}
        }
    }

    fn pane_key(&mut self, key: KeyEvent) -> Asked {
        match key.code {
            KeyCode::Char('q') => return Asked::Quit,
            KeyCode::Tab | KeyCode::Right => self.pane = self.pane.step(1),
            KeyCode::BackTab | KeyCode::Left => self.pane = self.pane.step(Pane::ALL.len() - 1),
            KeyCode::Down | KeyCode::Char('j') => self.step(true),
            KeyCode::Up | KeyCode::Char('k') => self.step(false),
            KeyCode::Char('/') => self.is_filtering = true,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('f') => {
                self.frozen = match self.frozen.take() {
                    Some(_) => None,
                    None => Some(self.model.clone()),
                };
            }
            KeyCode::Char('?') => {
                let lines = HELP.iter().map(|line| (*line).to_owned()).collect();
                self.dialog = Some(Dialog::Text { title: "keys".to_owned(), lines });
            }
            KeyCode::Enter => self.dialog = self.opened(),
            KeyCode::Char('r') => self.dialog = self.letter().map(Dialog::Redrive),
            KeyCode::Char('d') => {
                let ask = |letter| Dialog::Discard { letter, reason: String::new() };
                self.dialog = self.letter().map(ask);
            }
            KeyCode::Char('v') => {
                let ask = |approval| Dialog::Resolve { approval, picked: None };
                self.dialog = self.approval().map(ask);
            }
            KeyCode::Char('p') => self.dialog = self.queue().map(Dialog::Pause),
            _ => {}
        }
        Asked::Nothing
    }

    fn step(&mut self, is_down: bool) {
        let count = match self.pane {
            Pane::Queues => self.queues().len(),
            Pane::Agents => self.agents().len(),
            Pane::Approvals => self.approvals().len(),
            Pane::Letters => self.letters().len(),
        };
        let picked = self.picked(self.pane, count).unwrap_or(0);
        let next = if is_down { picked + 1 } else { picked.saturating_sub(1) };
        if let Some(row) = self.rows.get_mut(self.pane as usize) {
            *row = next.min(count.saturating_sub(1));
        }
    }

    /// The letter that is picked, when that pane is.
    fn letter(&self) -> Option<LetterRow> {
        let letters = self.letters();
        let picked = self.picked(Pane::Letters, letters.len())?;
        letters.get(picked).filter(|_| self.pane == Pane::Letters).map(|row| (*row).clone())
    }

    fn approval(&self) -> Option<ApprovalRow> {
        let approvals = self.approvals();
        let picked = self.picked(Pane::Approvals, approvals.len())?;
        approvals.get(picked).filter(|_| self.pane == Pane::Approvals).map(|row| (*row).clone())
    }

    fn queue(&self) -> Option<QueueRow> {
        let queues = self.queues();
        let picked = self.picked(Pane::Queues, queues.len())?;
        queues.get(picked).filter(|_| self.pane == Pane::Queues).map(|row| (*row).clone())
    }

    /// What is known of the picked row, to read.
    fn opened(&self) -> Option<Dialog> {
        let (title, lines) = match self.pane {
            Pane::Queues => {
                let queue = self.queue()?;
                let paused = queue.paused_until.map(|until| format!("paused until {until}"));
                let waits = format!("{} waiting, {} running", queue.waiting, queue.running);
                (
                    format!("queue {}", queue.role),
                    [Some(waits), paused].into_iter().flatten().collect(),
                )
            }
            Pane::Agents => {
                let agents = self.agents();
                let row = *agents.get(self.picked(Pane::Agents, agents.len())?)?;
                let lines = vec![
                    format!("session  {}", row.session),
                    format!("task     {}", row.task),
                    format!("life     {}", row.life),
                ];
                (format!("agent {}", row.agent), lines)
            }
            Pane::Approvals => {
                let row = self.approval()?;
                (format!("approval {}", short(&row.hash.to_string())), about(&row))
            }
            Pane::Letters => {
                let row = self.letter()?;
                let lines = vec![
                    format!("stored    {}", row.stored),
                    format!("kind      {}", row.kind),
                    format!("queue     {}", row.queue),
                    format!("task      {}", row.task),
                    format!("attempts  {} by {}", row.attempts, row.agent),
                    format!("redrives  {}", row.redrives),
                    format!("reason    {}", row.reason),
                ];
                (format!("dead letter {}", row.seq.0), lines)
            }
        };
        Some(Dialog::Text { title, lines })
    }
}

/// What a request is for: a resolver sees all of it before it answers.
pub(crate) fn about(row: &ApprovalRow) -> Vec<String> {
    let mut lines = vec![
        format!("action    {}", row.action),
        format!("target    {}", row.target),
        format!("asker     {}", row.asker),
        format!("session   {}", row.session),
    ];
    lines.extend(row.run.iter().map(|run| format!("run       {run}")));
    lines.extend(row.question.iter().map(|question| format!("question  {question}")));
    lines.push(format!("choices   {}  ({} approves)", row.choices.join(", "), row.approving));
    lines
}

/// The first digits of a hash, which most often name it.
pub(crate) fn short(hash: &str) -> &str {
    hash.get(..8).unwrap_or(hash)
}

const FILTER_BYTES_MAX: usize = 100;

const HELP: [&str; 11] = [
    "Tab, Shift-Tab   the next pane, the one before",
    "Up, Down, j, k   another row",
    "Enter            all that is known of a row",
    "r                send the task of a dead letter again",
    "d                throw a dead letter away",
    "v                answer an approval",
    "p                pause a queue, or have it go on",
    "/                show rows that hold a text only (Esc: all)",
    "f                have the screen stand still, or go on",
    "q, Ctrl-C        quit",
    "Up, Down         read on in a long text; any other key closes it",
];
