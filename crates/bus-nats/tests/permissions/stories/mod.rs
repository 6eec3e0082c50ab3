//! What agents do all day, each through an engine that has the rights of its role and no others.

mod letters;
mod queues;
mod reading;
mod stage;
mod talking;
mod working;
