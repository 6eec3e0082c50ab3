//! The command line as a whole.

use std::collections::BTreeSet;

use clap::{Command, CommandFactory as _};

use super::Cli;

fn walk(command: &Command, path: &str, global: &BTreeSet<String>, shared: &mut Vec<String>) {
    let path = format!("{path} {}", command.get_name());
    let own = command.get_arguments().filter(|arg| !arg.is_global_set());
    let taken = own.filter(|arg| global.contains(arg.get_id().as_str()));
    shared.extend(taken.map(|arg| format!("{path}: {}", arg.get_id())));
    for below in command.get_subcommands() {
        walk(below, &path, global, shared);
    }
}

#[test]
fn no_option_of_one_command_is_filled_by_an_option_of_all() {
    let root = Cli::command();
    let global = root.get_arguments().filter(|arg| arg.is_global_set());
    let global: BTreeSet<String> = global.map(|arg| arg.get_id().to_string()).collect();
    assert!(global.contains("agent"), "{global:?}");
    let mut shared = Vec::new();
    walk(&root, "", &global, &mut shared);
    assert!(shared.is_empty(), "{shared:#?}");
}
