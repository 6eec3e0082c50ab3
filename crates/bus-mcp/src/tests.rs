//! Every tool on the embedded engine.
