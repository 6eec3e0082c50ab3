//! A real nats-server as our child: configured, started, killed, supervised.
#![cfg(test)]

mod config;
mod linked;
mod one;
mod orphan;
mod supervised;
mod tokens;
mod wire;
