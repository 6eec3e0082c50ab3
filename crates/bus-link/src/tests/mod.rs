//! Tests of client and server together, under a stopped clock where no socket is needed.

#[path = "../../tests/common/mod.rs"]
mod common;
mod control;
mod flow;
mod golden;
mod handshake;
mod hostile;
mod outgoing;
mod requests;
mod restart;
mod support;
mod wire;
