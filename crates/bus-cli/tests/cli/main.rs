//! The `vakbus` command as its users have it: the real program, real commands, files of its own.
#![cfg(test)]
#![cfg(unix)]

mod access;
mod calls;
mod evidence;
mod failures;
mod help;
mod readers;
mod secrets;
mod signals;
mod support;
mod tasks;
mod workspaces;
