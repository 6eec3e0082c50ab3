//! Buckets on real servers: races, ends, outages, and what is left behind.
#![cfg(test)]

mod common;
mod outage;
mod values;
mod watch;
