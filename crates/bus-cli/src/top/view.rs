//! Draws the screen.

use std::time::Duration;

use bus_envelope::Timestamp;
use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Modifier, Style},
    text::{Line, Span},
    widgets::{Block, Clear, Paragraph, Row, Table, TableState, Wrap},
};

use super::{
    dialog::Dialog,
    model::{AgentRow, ApprovalRow, LetterRow, QueueRow},
    screen::{Pane, Screen, about, short},
};
use crate::print::harmless;

/// What the title says beside the time.
#[derive(Debug, Clone)]
pub(crate) struct Heading {
    pub(crate) workspace: String,
    pub(crate) bus: String,
}

/// Draws all of it. `now` is this machine's time.
pub(crate) fn draw(frame: &mut Frame<'_>, screen: &Screen, heading: &Heading, now: Timestamp) {
    let area = frame.area();
    if area.width < COLUMNS_MIN || area.height < ROWS_MIN {
        let text = format!("too small: {COLUMNS_MIN}×{ROWS_MIN} needed");
        frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), area);
        return;
    }
    let approvals = u16::try_from(screen.approvals().len()).unwrap_or(u16::MAX);
    let [title, upper, middle, lower, rates, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Fill(3),
        Constraint::Length(approvals.saturating_add(2).clamp(3, area.height / 4)),
        Constraint::Fill(2),
        Constraint::Length(1),
        Constraint::Length(1),
    ])
    .areas(area);
    let [left, right] = Layout::horizontal([Constraint::Fill(2), Constraint::Fill(3)]).areas(upper);
    frame.render_widget(title_of(screen, heading, now), title);
    queues(frame, left, screen, now);
    agents(frame, right, screen);
    self::approvals(frame, middle, screen, now);
    letters(frame, lower, screen, now);
    frame.render_widget(rates_of(screen), rates);
    frame.render_widget(foot_of(screen), foot);
    if let Some(dialog) = &screen.dialog {
        over(frame, area, screen, dialog);
    }
}

fn title_of(screen: &Screen, heading: &Heading, now: Timestamp) -> Line<'static> {
    let time = now.to_string();
    let clock = time.get(11..19).unwrap_or(&time);
    let Heading { workspace, bus } = heading;
    let frozen = if screen.is_frozen() { "   stands still (f)" } else { "" };
    let title = format!(" vakbus top   {workspace}   {bus}   {clock} UTC{frozen}");
    let style = Style::new().add_modifier(Modifier::REVERSED);
    if let Some((since, why)) = &screen.shown().away {
        let since = since.to_string();
        let since = since.get(11..19).unwrap_or_default().to_owned();
        return Line::styled(format!(" bus away since {since}: {}", harmless(why)), style);
    }
    Line::styled(title, style)
}

fn rates_of(screen: &Screen) -> Line<'static> {
    let model = screen.shown();
    let mut line = format!(
        " receipts {:.1}/s   given up {:.1}/s   samples {:.1}/s",
        model.receipts.per_second(),
        model.given_up.per_second(),
        model.samples.per_second(),
    );
    if model.missed > 0 {
        line.push_str(&format!(", {} missed", model.missed));
    }
    if !screen.filter.is_empty() || screen.is_filtering {
        line.push_str(&format!("   only: {}", harmless(&screen.filter)));
        if screen.is_filtering {
            line.push('_');
        }
    }
    Line::raw(line)
}

fn foot_of(screen: &Screen) -> Line<'static> {
    if let Some(working) = &screen.shown().working {
        return Line::raw(format!(" working… {}", harmless(working)));
    }
    match &screen.shown().notice {
        Some(notice) if notice.is_failure => {
            let text = format!(" failed: {}", harmless(&notice.text));
            Line::styled(text, Style::new().add_modifier(Modifier::BOLD))
        }
        Some(notice) => Line::raw(format!(" {}", harmless(&notice.text))),
        None => Line::raw(match screen.pane {
            Pane::Queues => " Tab pane  Enter open  p pause  / only  f stand still  ? keys  q quit",
            Pane::Agents => " Tab pane  Enter open  / only  f stand still  ? keys  q quit",
            Pane::Approvals => " Tab pane  Enter open  v answer  / only  ? keys  q quit",
            Pane::Letters => " Tab pane  Enter open  r redrive  d discard  / only  ? keys  q quit",
        }),
    }
}

fn queues(frame: &mut Frame<'_>, area: Rect, screen: &Screen, now: Timestamp) {
    let rows = screen.queues();
    let row = |row: &&QueueRow| {
        let state = match row.paused_until {
            Some(until) if until > now => "paused".to_owned(),
            _ => row.oldest.map(age).unwrap_or_default(),
        };
        Row::new([harmless(&row.role), row.waiting.to_string(), row.running.to_string(), state])
    };
    let widths =
        [Constraint::Fill(1), Constraint::Length(7), Constraint::Length(7), Constraint::Length(6)];
    let table = Table::new(rows.iter().map(row), widths)
        .header(head(["queue", "waiting", "running", "oldest"]));
    let title = titled("queues", rows.len(), rows.len());
    pane(frame, area, (table, title), screen, (Pane::Queues, rows.len()));
}

fn agents(frame: &mut Frame<'_>, area: Rect, screen: &Screen) {
    let rows = screen.agents();
    let row = |row: &&AgentRow| {
        let heard = if row.has_ended { "ended".to_owned() } else { age(row.heard) };
        Row::new([
            harmless(&row.agent),
            harmless(&row.task),
            row.cpu.map_or_else(String::new, |cpu| format!("{cpu:.2}")),
            row.rss.map_or_else(String::new, bytes),
            heard,
        ])
    };
    let widths = [
        Constraint::Fill(1),
        Constraint::Fill(1),
        Constraint::Length(5),
        Constraint::Length(8),
        Constraint::Length(5),
    ];
    let table = Table::new(rows.iter().map(row), widths)
        .header(head(["agent", "task", "cpu", "memory", "heard"]));
    let title = titled("agents at work", rows.len(), rows.len());
    pane(frame, area, (table, title), screen, (Pane::Agents, rows.len()));
}

fn approvals(frame: &mut Frame<'_>, area: Rect, screen: &Screen, now: Timestamp) {
    let rows = screen.approvals();
    let row = |row: &&ApprovalRow| {
        Row::new([
            short(&row.hash.to_string()).to_owned(),
            age(now.since(row.asked)),
            harmless(&row.action),
            harmless(&row.target),
            harmless(&row.asker),
        ])
    };
    let widths = [
        Constraint::Length(8),
        Constraint::Length(5),
        Constraint::Fill(1),
        Constraint::Fill(1),
        Constraint::Fill(1),
    ];
    let table = Table::new(rows.iter().map(row), widths);
    let in_all = screen.shown().approvals_in_all;
    let in_all = if screen.filter.is_empty() { in_all.max(rows.len()) } else { rows.len() };
    let title = match in_all > rows.len() {
        true => format!(" approvals waiting ({in_all}, the oldest {} shown) ", rows.len()),
        false => format!(" approvals waiting ({in_all}) "),
    };
    pane(frame, area, (table, title), screen, (Pane::Approvals, rows.len()));
}

fn letters(frame: &mut Frame<'_>, area: Rect, screen: &Screen, now: Timestamp) {
    let rows = screen.letters();
    let row = |row: &&LetterRow| {
        Row::new([
            row.seq.0.to_string(),
            age(now.since(row.stored)),
            harmless(&row.kind),
            harmless(&row.queue),
            harmless(&row.task),
            harmless(&row.reason),
        ])
    };
    let widths = [
        Constraint::Length(7),
        Constraint::Length(5),
        Constraint::Length(10),
        Constraint::Fill(1),
        Constraint::Fill(2),
        Constraint::Fill(3),
    ];
    let table = Table::new(rows.iter().map(row), widths);
    let in_all = usize::try_from(screen.shown().shelf.in_all).unwrap_or(usize::MAX);
    let in_all = if screen.filter.is_empty() { in_all.max(rows.len()) } else { rows.len() };
    let title = titled("dead letters", in_all, rows.len());
    pane(frame, area, (table, title), screen, (Pane::Letters, rows.len()));
}

/// One pane with the row that is picked in it.
fn pane(
    frame: &mut Frame<'_>,
    area: Rect,
    (table, title): (Table<'_>, String),
    screen: &Screen,
    (pane, count): (Pane, usize),
) {
    let is_here = screen.pane == pane;
    let style = match is_here {
        true => Style::new().add_modifier(Modifier::BOLD),
        false => Style::new(),
    };
    let mut state = TableState::new();
    state.select(screen.picked(pane, count).filter(|_| is_here));
    let block = Block::bordered().title(title).border_style(style);
    let dim = screen.shown().away.is_some();
    let rows = if dim { Style::new().add_modifier(Modifier::DIM) } else { Style::new() };
    let picked = Style::new().add_modifier(Modifier::REVERSED);
    let table = table.block(block).style(rows).row_highlight_style(picked);
    frame.render_stateful_widget(table, area, &mut state);
}

/// Draws a dialog: its text, as far as it fits, and what it asks for, which is always there.
fn over(frame: &mut Frame<'_>, area: Rect, screen: &Screen, dialog: &Dialog) {
    let Shown { title, lines, prompt } = shown(dialog);
    let text: Vec<String> = lines.iter().map(|line| harmless(line)).collect();
    let widths = text.iter().chain(&prompt).map(|line| Span::raw(line.as_str()).width());
    let widest = widths.max().unwrap_or(0).max(title.chars().count()).max(Span::raw(MORE).width());
    let width = u16::try_from(widest.saturating_add(2)).unwrap_or(u16::MAX).min(area.width - 4);
    let rows = wrapped(&text, usize::from(width.saturating_sub(2)).max(1));
    let below = u16::from(prompt.is_some());
    let room = area.height.saturating_sub(4 + below).max(1);
    let height = u16::try_from(rows.len()).unwrap_or(u16::MAX).clamp(1, room);
    let from = screen.reading.shows(rows.len(), usize::from(height));
    let mut lines: Vec<Line<'_>> =
        rows.into_iter().skip(from).take(usize::from(height)).map(Line::raw).collect();
    let is_read = screen.reading.is_read();
    lines.extend(prompt.map(|prompt| match (is_read, dialog) {
        (false, Dialog::Resolve { .. }) => Line::raw(MORE),
        _ => Line::raw(harmless(&prompt)),
    }));
    let height = height.saturating_add(2 + below);
    let place = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    let block = Block::bordered().title(harmless(&title));
    let block = if is_read { block } else { block.title_bottom(" ↓ more ") };
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(lines).block(block), place);
}

/// What a dialog says.
struct Shown {
    title: String,
    lines: Vec<String>,
    /// What it asks for, in its last row.
    prompt: Option<String>,
}

fn shown(dialog: &Dialog) -> Shown {
    match dialog {
        Dialog::Text { title, lines } => {
            Shown { title: title.clone(), lines: lines.clone(), prompt: None }
        }
        Dialog::Redrive(letter) => {
            let again = match letter.redrives {
                0 => String::new(),
                count => format!(" (it was sent again {count}× before)"),
            };
            Shown {
                title: format!("redrive dead letter {}", letter.seq.0),
                lines: vec![
                    format!("task    {}", letter.task),
                    format!("queue   {}", letter.queue),
                    format!("reason  {}", letter.reason),
                ],
                prompt: Some(format!("send it again{again}? y/n")),
            }
        }
        Dialog::Discard { letter, reason } => Shown {
            title: format!("discard dead letter {}", letter.seq.0),
            lines: vec![
                format!("task    {}", letter.task),
                format!("reason  {}", letter.reason),
                "it is thrown away with what it holds. Why? (Enter: do it, Esc: keep it)"
                    .to_owned(),
            ],
            prompt: Some(format!("> {}_", tail(reason))),
        },
        Dialog::Resolve { approval, picked } => resolving(approval, *picked),
        Dialog::Pause(queue) => {
            let (state, question) = match queue.paused_until {
                Some(_) => ("it is paused", "hand out its tasks again? y/n"),
                None => ("it hands out its tasks", "hand out none until it is resumed? y/n"),
            };
            Shown {
                title: format!("queue {}", queue.role),
                lines: vec![state.to_owned()],
                prompt: Some(question.to_owned()),
            }
        }
    }
}

fn resolving(approval: &ApprovalRow, picked: Option<usize>) -> Shown {
    let mut lines = about(approval);
    for (number, choice) in (0_usize..).zip(&approval.choices) {
        let mark = if Some(number) == picked { '>' } else { ' ' };
        lines.push(format!("{mark} {}  {choice}", number + 1));
    }
    let choice = picked.and_then(|picked| approval.choices.get(picked));
    Shown {
        title: format!("approval {}", short(&approval.hash.to_string())),
        lines,
        prompt: Some(match choice {
            Some(choice) => format!("answer it with '{choice}'? y/n"),
            None => "which? (its number, or ← →; Esc: none)".to_owned(),
        }),
    }
}

/// The end of what is being typed, which is what a person looks at.
fn tail(text: &str) -> String {
    let skipped = text.chars().count().saturating_sub(TYPED_MAX);
    text.chars().skip(skipped).collect()
}

/// The lines cut into rows of at most `width` cells; nothing of them is left out.
fn wrapped(lines: &[String], width: usize) -> Vec<String> {
    let mut rows = Vec::new();
    for line in lines {
        let (mut row, mut cells) = (String::new(), 0);
        for character in line.chars() {
            let its = Span::raw(character.to_string()).width();
            if cells + its > width && !row.is_empty() {
                rows.push(std::mem::take(&mut row));
                cells = 0;
            }
            row.push(character);
            cells += its;
        }
        rows.push(row);
    }
    rows
}

fn head<const N: usize>(names: [&'static str; N]) -> Row<'static> {
    Row::new(names).style(Style::new().add_modifier(Modifier::DIM))
}

fn titled(name: &str, in_all: usize, shown: usize) -> String {
    match in_all > shown {
        true => format!(" {name} ({in_all}, the newest {shown} shown) "),
        false => format!(" {name} ({in_all}) "),
    }
}

/// An age in at most four characters.
pub(crate) fn age(age: Duration) -> String {
    match age.as_secs() {
        0 => "now".to_owned(),
        secs @ 1..=99 => format!("{secs}s"),
        secs @ 100..=5_999 => format!("{}m", secs / 60),
        secs @ 6_000..=359_999 => format!("{}h", secs / 3_600),
        secs => format!("{}d", secs / 86_400),
    }
}

/// Bytes in at most seven characters.
pub(crate) fn bytes(count: u64) -> String {
    match count {
        0..10_000 => format!("{count} B"),
        10_000..10_240_000 => format!("{} KiB", count / 1_024),
        10_240_000..10_485_760_000 => format!("{} MiB", count / 1_048_576),
        _ => format!("{} GiB", count / 1_073_741_824),
    }
}

/// What stands in the place of a question that nobody may answer yet.
const MORE: &str = "read on with ↓ first: all of it is what you answer";

/// How much of what is being typed is shown.
const TYPED_MAX: usize = 50;

/// What a screen needs at least.
const COLUMNS_MIN: u16 = 60;
const ROWS_MIN: u16 = 12;
