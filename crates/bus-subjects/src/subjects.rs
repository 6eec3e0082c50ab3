//! The tests that the specification names.

mod tests;
