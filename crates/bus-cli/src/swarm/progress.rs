//! The live progress line on a terminal.

use std::{io::IsTerminal, sync::Arc, time::Duration};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::{task::JoinHandle, time::sleep};

use super::{fleet::Backlog, ledger::Ledger, signals::PATIENCE, tokio_spawn};
use crate::{args::Global, print};

/// The progress line; silent where stderr is no terminal or the user asked for quiet.
pub(super) struct Progress {
    bar: ProgressBar,
    drawing: Option<JoinHandle<()>>,
}

/// How often the line is drawn.
const INTERVAL: Duration = Duration::from_millis(100);

impl Progress {
    /// Begins to draw, unless what the tasks write is shown in the same place.
    pub(super) fn start(
        ledger: &Arc<Ledger>,
        backlog: Backlog,
        follow: bool,
        global: &Global,
    ) -> Self {
        let tasks = ledger.tasks() as u64;
        if global.quiet || follow || !std::io::stderr().is_terminal() {
            return Self { bar: ProgressBar::hidden(), drawing: None };
        }
        let bar = ProgressBar::with_draw_target(Some(tasks), ProgressDrawTarget::stderr());
        // A template that cannot be read leaves the plain bar.
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} {elapsed}") {
            bar.set_style(style);
        }
        let (shown, ledger) = (bar.clone(), Arc::clone(ledger));
        let drawing = tokio_spawn(async move {
            let mut ticks = tokio::time::interval(INTERVAL);
            loop {
                ticks.tick().await;
                let state = ledger.state();
                shown.set_position(state.settled() as u64);
                let (retries, dead) = (state.retries, state.dead.len());
                let mut message = format!("retries {retries}, dead letters {dead}");
                if let Some(lag) = backlog.read().await {
                    message.push_str(&format!(", queued {lag}"));
                }
                shown.set_message(message);
            }
        });
        Self { bar, drawing: Some(drawing) }
    }

    /// Says something to the user above the line; gives up when nobody reads it.
    pub(super) async fn say(&self, text: &str) {
        let (bar, text) = (self.bar.clone(), text.to_owned());
        let say = move || bar.suspend(|| print::remark(&text));
        let _said = print::until(sleep(PATIENCE), say).await;
    }

    /// Wipes the line.
    pub(super) fn finish(self) {
        if let Some(drawing) = self.drawing {
            drawing.abort();
        }
        self.bar.finish_and_clear();
    }
}
