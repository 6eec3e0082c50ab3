//! Does on the bus what the user of `vakbus top` asks for.

use std::time::Duration;

use bus_core::{DeadLetters, Redrive};
use bus_subjects::RoleName;
use tokio::time::timeout;

use super::{dialog::Action, model::Notice};
use crate::{commands::queue as queues, engine::Agent, error::CliError};

/// Does something, and says what came of it.
pub(super) async fn act(agent: Agent, action: Action) -> Notice {
    match timeout(ANSWERS_WITHIN, done(&agent, action)).await {
        Ok(Ok(text)) => Notice { text, is_failure: false },
        Ok(Err(error)) => Notice { text: error.to_string(), is_failure: true },
        Err(_late) => {
            let limit = humantime::format_duration(ANSWERS_WITHIN);
            let text = format!("no answer within {limit}: {IN_DOUBT}");
            Notice { text, is_failure: true }
        }
    }
}

async fn done(agent: &Agent, action: Action) -> Result<String, CliError> {
    let endpoint = &agent.endpoint;
    let letters = DeadLetters::new(endpoint.clone());
    Ok(match action {
        Action::Redrive(seq) => {
            let redriven = letters.redrive(seq, &Redrive::default()).await?;
            format!("dead letter {}: {} is in its queue again", seq.0, redriven.task_id)
        }
        Action::Discard { letter, reason } => {
            letters.discard(letter, &reason).await?;
            format!("dead letter {} is thrown away", letter.0)
        }
        Action::Resolve { session, approval, choice } => {
            endpoint.resolve_approval(&session, approval, &choice, None).await?;
            format!("answered with '{choice}'")
        }
        Action::Pause { role, is_paused } => {
            let role = RoleName::parse(&role)?;
            let until = endpoint.clock().now().plus(queues::FOR_EVER);
            queues::steer(agent, &role, (!is_paused).then_some(until)).await?;
            match is_paused {
                true => format!("queue {role} hands out its tasks"),
                false => format!("queue {role} is paused"),
            }
        }
    })
}

/// What is to be said of something whose end nobody knows.
pub(super) const IN_DOUBT: &str = "it may be done, look before you repeat it";

/// How long the bus has for an answer before the user is told that there is none.
pub(super) const ANSWERS_WITHIN: Duration = Duration::from_secs(5);
