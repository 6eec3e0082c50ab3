//! What `/healthz` and `/readyz` say.

use bus_core::ErrorKind;
use serde_json::{Value, json};

use crate::{Build, Standing};

/// The process answers: that is all.
pub(crate) fn healthy() -> Value {
    json!({ "ok": true })
}

/// Whether its engine answers as well.
pub(crate) fn ready(build: Build, standing: &Result<Standing, ErrorKind>) -> Value {
    let engine = build.engine;
    match standing {
        Ok(Standing { workspaces, .. }) => {
            json!({ "ready": true, "engine": engine, "workspaces": workspaces })
        }
        Err(kind) => json!({ "ready": false, "engine": engine, "why": why(*kind) }),
    }
}

/// What is wrong, in words of our own: what an engine says may name hosts and files.
fn why(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Timeout => "the engine does not answer in time",
        ErrorKind::Denied => "the engine refuses this process",
        ErrorKind::Closed => "this process is stopping",
        _ => "the engine cannot be reached",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUILD: Build = Build { version: "0.1.0", engine: "disk" };

    #[test]
    fn an_engine_that_answers_is_ready_and_says_for_how_many() {
        let standing = Standing { workspaces: 2, ..Standing::default() };
        let told = json!({ "ready": true, "engine": "disk", "workspaces": 2 });
        assert_eq!(ready(BUILD, &Ok(standing)), told);
    }

    #[test]
    fn each_reason_to_be_not_ready_is_told_apart() {
        let kinds =
            [ErrorKind::Timeout, ErrorKind::Denied, ErrorKind::Closed, ErrorKind::Unavailable];
        let told: std::collections::HashSet<_> = kinds.into_iter().map(why).collect();
        assert_eq!(told.len(), kinds.len());
        assert_eq!(ready(BUILD, &Err(ErrorKind::Timeout))["ready"], false);
    }
}
