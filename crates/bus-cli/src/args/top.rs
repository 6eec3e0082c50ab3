//! `vakbus top`: one screen to see it all.

use std::time::Duration;

use clap::Args;

use super::duration;

/// See it all on one screen.
#[derive(Debug, Args)]
#[command(after_help = TOP_HELP)]
pub(crate) struct TopArgs {
    /// How often it looks: 250ms to 1m.
    #[arg(long, value_name = "D", default_value = "1s", value_parser = interval)]
    pub(crate) interval: Duration,
    /// Print one picture and end; with --json its data as one object.
    #[arg(long)]
    pub(crate) once: bool,
    /// The size of that picture [default: 100x30].
    #[arg(long, value_name = "COLUMNSxROWS", value_parser = size, requires = "once")]
    pub(crate) size: Option<(u16, u16)>,
}

fn interval(text: &str) -> Result<Duration, String> {
    let time = duration(text)?;
    let fits = (Duration::from_millis(250)..=Duration::from_secs(60)).contains(&time);
    fits.then_some(time).ok_or_else(|| "expected 250ms to 1m".to_owned())
}

fn size(text: &str) -> Result<(u16, u16), String> {
    let expected = || "expected columns and rows such as 100x30, of 1 to 1000 each".to_owned();
    let (columns, rows) = text.split_once('x').ok_or_else(expected)?;
    let number = |text: &str| text.parse().ok().filter(|n| (1..=1000).contains(n));
    Ok((number(columns).ok_or_else(expected)?, number(rows).ok_or_else(expected)?))
}

const TOP_HELP: &str = "\
Four panes: the queues with what waits and runs and the oldest of it; the commands at work with
processor time and memory; the approvals that wait; the dead letters. It looks at what is stored and
hears samples of commands, no tokens and no terminals.

Keys: Tab for the next pane, arrows for a row, Enter to open it; r sends a dead letter's task again,
d throws the letter away, v answers an approval (its number, then y), p pauses a queue; / shows only
rows with a text, f has the screen stand still, ? lists the keys, q quits.

It acts as --as says, else as the operator cli. A bus that goes away is told on the screen and joined
again when it is back.

Examples:
  vakbus top
  vakbus top --once
  vakbus top --once --json | jq '.queues[] | select(.pending > 100)'";
