//! Asks before something that cannot be undone.

use std::io::{self, IsTerminal};

use crate::{
    error::{CliError, Exit},
    print,
};

/// Goes on when the caller said `--yes`, or says so on the terminal now.
///
/// # Errors
/// When the answer is not yes, or there is nobody to ask.
pub(super) fn confirm(yes: bool, question: &str) -> Result<(), CliError> {
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(CliError::usage(format!("{question} There is no terminal to ask on"))
            .next("say --yes when you mean it"));
    }
    print::talk(&format!("{question} [y/N]"));
    let mut answer = String::new();
    let read = io::stdin().read_line(&mut answer);
    match read.map(|_| answer.trim().to_lowercase()).as_deref() {
        Ok("y" | "yes") => Ok(()),
        _ => Err(CliError::new(Exit::Failed, "nothing was changed").next("answer y, or say --yes")),
    }
}
