//! A real nats-server as our child: configured, started, killed, supervised.
#![cfg(test)]

mod config;
mod one;
mod orphan;
mod supervised;
mod wire;
