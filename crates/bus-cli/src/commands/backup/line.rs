//! The line on a terminal that shows how far a copy is.

use std::io::IsTerminal;

use bus_nats::BackupStep;
use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::{args::Global, print as out};

/// The line; silent where stderr is no terminal or the user asked for quiet.
pub(super) struct Line(ProgressBar);

impl Line {
    pub(super) fn new(global: &Global) -> Self {
        if global.quiet || !std::io::stderr().is_terminal() {
            return Self(ProgressBar::hidden());
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        // A template that cannot be read leaves the plain bar.
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
            bar.set_style(style);
        }
        Self(bar)
    }

    /// Shows how far it is.
    pub(super) fn show(&self, step: BackupStep<'_>) {
        self.0.set_message(told(step));
        self.0.tick();
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

fn told(step: BackupStep<'_>) -> String {
    let BackupStep { stream, number, streams, bytes } = step;
    out::harmless(&format!("{number} of {streams}: {stream}, {}", HumanBytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_which_stream_of_how_many() {
        let step = BackupStep { stream: "VAK_DLQ", number: 2, streams: 7, bytes: 3 << 20 };
        assert_eq!(told(step), "2 of 7: VAK_DLQ, 3.00 MiB");
    }
}
