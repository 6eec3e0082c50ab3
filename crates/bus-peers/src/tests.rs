//! Tests of the peer bus: its promises, and the cases C17 and C18.

mod envelope;
mod fault;
mod impostors;
mod inbox;
mod laws;
mod many;
mod minting;
mod over;
mod over_engine;
mod publish;
mod registry;
mod support;
mod two_buses;
