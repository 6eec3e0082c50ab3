//! Tokens of accounts on real servers: what a push does to who is connected, and what is never
//! sent.
#![cfg(test)]

mod company;
mod life;
mod push;
mod revoked;
