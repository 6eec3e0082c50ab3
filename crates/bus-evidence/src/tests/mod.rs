//! Stories over whole bundles: honest ones, and every way to spoil one.

mod audit;
mod broken_lines;
mod bundle;
mod certificates;
mod chains;
mod flips;
mod hostile;
mod kept;
mod proofs;
mod receipts;
mod recorders;
mod records;
mod revocations;
mod support;
