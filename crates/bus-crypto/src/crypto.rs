//! The three tests that the specification names, under the path it gives them (S0.94 to S0.96).

mod tests;
