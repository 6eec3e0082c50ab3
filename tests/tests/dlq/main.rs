//! S0.87 to S0.91: dead letters are listed, sent again, and thrown away by those who may.

#![expect(clippy::unwrap_used, reason = "the helpers of a story that cannot be told fail it")]

mod alerts;
mod discarded;
mod forged;
mod listed;
mod redriven;

use std::sync::{Arc, Mutex};

use bus_core::{DeadLetter, DeadLetters, Failure, Handled, LetterFilter, LetterOrder, TaskEvent};
use bus_stories::{Doing, Ran, Stage, Told, words, work};
use bus_subjects::Role;

/// Has a worker called `name` give up every task there is, each for its own text as the reason.
pub(crate) async fn give_up_all(stage: &Stage, name: &str) -> Vec<TaskEvent> {
    let tasks = stage.lag().await.unwrap().pending;
    let handler = Doing(|told: Told| -> Ran {
        Box::pin(
            async move { Err(Failure::Hopeless { reason: format!("cannot do {}", told.text) }) },
        )
    });
    let all = move |events: &[TaskEvent]| events.len() as u64 == tasks;
    work(&stage.worker(name).unwrap(), &handler, all).await.unwrap()
}

/// A stage on which these tasks were given up, and its dead letters for an operator.
pub(crate) async fn given_up(texts: &[&str]) -> (Stage, Vec<String>, DeadLetters) {
    let stage = Stage::new().await.unwrap();
    let ids = stage.fill(texts).await.unwrap();
    give_up_all(&stage, "coder-1").await;
    let letters = letters_of(&stage, "otto", Role::Operator);
    (stage, ids, letters)
}

pub(crate) fn letters_of(stage: &Stage, name: &str, role: Role) -> DeadLetters {
    DeadLetters::new(stage.agent(name, role).unwrap())
}

pub(crate) async fn list(
    letters: &DeadLetters,
    filter: LetterFilter,
    order: LetterOrder,
) -> Vec<DeadLetter> {
    let mut walk = letters.list(filter, order).await.unwrap();
    let mut all = Vec::new();
    while let Some(letter) = walk.next().await {
        all.push(letter.unwrap());
    }
    all
}

pub(crate) async fn all(letters: &DeadLetters) -> Vec<DeadLetter> {
    list(letters, LetterFilter::default(), LetterOrder::OldestFirst).await
}

/// What a worker sees of the tasks that wait: the id and the attempt of each.
pub(crate) async fn seen(stage: &Stage, name: &str) -> Vec<(String, u32)> {
    let lag = stage.lag().await.unwrap();
    let tasks = lag.pending + lag.in_flight;
    if tasks == 0 {
        return Vec::new();
    }
    let runs = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&runs);
    let handler = Doing(move |told: Told| -> Ran {
        noted.lock().unwrap().push((told.id, told.attempt));
        Box::pin(async { Ok(Handled) })
    });
    let all = move |events: &[TaskEvent]| events.len() as u64 == tasks;
    let events = work(&stage.worker(name).unwrap(), &handler, all).await.unwrap();
    assert!(words(&events).iter().all(|word| *word == "completed"), "{events:?}");
    runs.lock().unwrap().clone()
}

pub(crate) async fn tasks_of(
    letters: &DeadLetters,
    filter: LetterFilter,
    order: LetterOrder,
) -> Vec<String> {
    let listed = list(letters, filter, order).await;
    listed.iter().map(|letter| letter.task_id().unwrap().to_owned()).collect()
}
