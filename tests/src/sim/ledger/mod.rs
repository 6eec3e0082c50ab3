//! The simulation's own books: what must be true of the broker after every answer it gave.

mod evidence;
mod ids;
mod queue;
mod records;
mod work;

pub(super) use self::{records::Ledger, work::End};
