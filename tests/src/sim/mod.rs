//! The simulation: thousands of agents on the pure broker, one seed, and books that must balance.

mod agent;
mod command;
mod fault;
mod ledger;
mod letter;
mod live;
mod network;
mod options;
mod producer;
mod random;
mod report;
mod saboteur;
mod server;
mod task;
mod trace;
mod trouble;
mod violation;
mod worker;
mod world;

pub use self::{
    fault::Fault,
    options::Options,
    random::Random,
    report::{Report, simulate},
    violation::Violation,
};
