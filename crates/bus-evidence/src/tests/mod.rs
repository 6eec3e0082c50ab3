//! Stories over whole bundles: honest ones, and every way to spoil one.

mod bundle;
mod certificates;
mod chains;
mod flips;
mod hostile;
mod kept;
mod receipts;
mod recorders;
mod revocations;
mod support;
