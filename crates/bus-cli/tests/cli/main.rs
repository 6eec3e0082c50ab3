//! The `vakbus` command as its users have it: the real program, real commands, files of its own.
#![cfg(test)]
#![cfg(unix)]

mod access;
mod backup;
mod calls;
mod comfort;
mod comfort_streams;
mod config;
mod daemon;
mod daemon_support;
mod evidence;
mod failures;
mod guide;
mod help;
mod keys;
mod keys_at_work;
mod nats;
mod nats_support;
mod nats_swarm;
mod nats_up;
mod readers;
mod requests;
mod restarts;
mod revocations;
mod secrets;
mod secrets_daemon;
mod secrets_file;
mod signals;
mod support;
mod talk;
mod tasks;
mod trust;
mod work;
mod workspaces;
