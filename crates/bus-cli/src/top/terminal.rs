//! The user's terminal: made ready, read from, and given back whatever happens.

use std::{
    io::{self, IsTerminal, Stdout},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use ratatui::{
    Terminal,
    backend::CrosstermBackend,
    crossterm::{
        cursor::Show,
        event::{self, Event, KeyEvent, KeyEventKind},
        execute,
        terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode},
    },
};
use tokio::sync::mpsc;

use crate::error::{CliError, Exit};

/// The terminal while the screen has it. It is given back when this is dropped.
pub(super) struct Held {
    pub(super) terminal: Terminal<CrosstermBackend<Stdout>>,
    pub(super) keys: mpsc::Receiver<Typed>,
    is_over: Arc<AtomicBool>,
}

/// What comes from the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Typed {
    /// A key.
    Key(KeyEvent),
    /// It has another size.
    Resized,
}

impl Held {
    /// Takes the terminal.
    ///
    /// # Errors
    /// When stdin or stdout is none.
    pub(super) fn take() -> Result<Self, CliError> {
        if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
            return Err(CliError::usage("vakbus top needs a terminal")
                .next("--once prints one picture of it, --once --json the data"));
        }
        let failed = |error: io::Error| {
            CliError::new(Exit::Failed, format!("cannot use the terminal: {error}"))
        };
        enable_raw_mode().map_err(failed)?;
        let is_over = Arc::new(AtomicBool::new(false));
        let (tell, keys) = mpsc::channel(64);
        let begun = Terminal::new(CrosstermBackend::new(io::stdout()));
        let terminal = match begun {
            Ok(terminal) => terminal,
            Err(error) => {
                let _raw = disable_raw_mode();
                return Err(failed(error));
            }
        };
        let mut held = Self { terminal, keys, is_over: Arc::clone(&is_over) };
        held.enter().map_err(failed)?;
        // It ends with `is_over`, or with the process.
        thread::spawn(move || read(&tell, &is_over));
        Ok(held)
    }

    /// Shows the screen in the place of what the terminal showed.
    pub(super) fn enter(&mut self) -> io::Result<()> {
        enable_raw_mode()?;
        execute!(io::stdout(), EnterAlternateScreen)?;
        self.terminal.clear()
    }

    /// Gives the terminal back as it was.
    pub(super) fn leave() -> io::Result<()> {
        let left = execute!(io::stdout(), LeaveAlternateScreen, Show);
        disable_raw_mode().and(left)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // There is nobody left to tell.
        let _left = Self::leave();
    }
}

/// Hands on what is typed until nobody listens.
fn read(tell: &mpsc::Sender<Typed>, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        match event::poll(LOOK_EVERY) {
            Ok(true) => {}
            Ok(false) => continue,
            Err(_) => return,
        }
        let typed = match event::read() {
            Ok(Event::Key(key)) if key.kind != KeyEventKind::Release => Typed::Key(key),
            Ok(Event::Resize(..)) => Typed::Resized,
            Ok(_) => continue,
            Err(_) => return,
        };
        if tell.blocking_send(typed).is_err() {
            return;
        }
    }
}

/// How soon the reader notices that nobody listens any more.
const LOOK_EVERY: Duration = Duration::from_millis(100);
