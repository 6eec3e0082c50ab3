#![doc = include_str!("../README.md")]

mod approval;
mod book;
mod desk;
mod name;
mod reading;

pub use approval::{Approval, Ask, Asked, Command, Effect, End, Event, Refusal, State, Verdict};
pub use book::Book;
pub use desk::{Approvals, NotUsed, Requested, Used};
pub use name::{ApprovalName, Found};
