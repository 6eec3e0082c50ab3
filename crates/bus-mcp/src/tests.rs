//! Every tool and every refusal, on the embedded engine under a stopped clock.

mod approvals;
mod inbox;
mod serve;
mod stage;
mod tasks;
mod tools;
