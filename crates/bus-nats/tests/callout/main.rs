//! The service that admits users, on a real server: who comes in, as what, and who does not.
#![cfg(test)]

mod admits;
mod cut_off;
mod impostor;
mod instances;
mod raw;
mod websocket;
mod works;
mod world;
