//! The help texts, word for word.

use crate::support::Place;

fn help(args: &[&str]) -> String {
    let place = Place::new();
    let mut command = place.command();
    // The variables' values are shown too; the texts must not depend on them.
    command.args(args).env_remove("VAKBUS_DATA_DIR");
    let outcome = crate::support::run(command, "");
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
    outcome.stdout
}

#[test]
fn the_help_of_vakbus() {
    insta::assert_snapshot!(help(&["--help"]));
}

#[test]
fn the_help_of_swarm() {
    insta::assert_snapshot!(help(&["swarm", "--help"]));
}

#[test]
fn the_help_of_verify() {
    insta::assert_snapshot!(help(&["verify", "--help"]));
}

#[test]
fn the_help_of_backup() {
    insta::assert_snapshot!(help(&["backup", "--help"]));
}

#[test]
fn the_help_of_restore() {
    insta::assert_snapshot!(help(&["restore", "--help"]));
}

#[test]
fn the_version_is_that_of_the_package() {
    assert_eq!(help(&["--version"]), concat!("vakbus ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn the_help_of_mcp() {
    insta::assert_snapshot!(help(&["mcp", "--help"]));
}

#[test]
fn the_help_of_outbox() {
    insta::assert_snapshot!(help(&["outbox", "--help"]));
}

#[test]
fn the_help_of_receipts() {
    insta::assert_snapshot!(help(&["receipts", "--help"]));
}

#[test]
fn the_help_of_receipts_ls() {
    insta::assert_snapshot!(help(&["receipts", "ls", "--help"]));
}

#[test]
fn the_help_of_receipts_prove() {
    insta::assert_snapshot!(help(&["receipts", "prove", "--help"]));
}

#[test]
fn the_help_of_outbox_ls() {
    insta::assert_snapshot!(help(&["outbox", "ls", "--help"]));
}

#[test]
fn the_help_of_dlq() {
    insta::assert_snapshot!(help(&["dlq", "--help"]));
}

#[test]
fn the_help_of_dlq_ls() {
    insta::assert_snapshot!(help(&["dlq", "ls", "--help"]));
}

#[test]
fn the_help_of_dlq_show() {
    insta::assert_snapshot!(help(&["dlq", "show", "--help"]));
}

#[test]
fn the_help_of_dlq_redrive() {
    insta::assert_snapshot!(help(&["dlq", "redrive", "--help"]));
}

#[test]
fn the_help_of_dlq_discard() {
    insta::assert_snapshot!(help(&["dlq", "discard", "--help"]));
}

#[test]
fn the_help_of_tail() {
    insta::assert_snapshot!(help(&["tail", "--help"]));
}

#[test]
fn the_help_of_trace() {
    insta::assert_snapshot!(help(&["trace", "--help"]));
}

#[test]
fn the_help_of_record() {
    insta::assert_snapshot!(help(&["record", "--help"]));
}

#[test]
fn the_help_of_sub() {
    insta::assert_snapshot!(help(&["sub", "--help"]));
}

#[test]
fn the_help_of_approvals() {
    insta::assert_snapshot!(help(&["approvals", "--help"]));
}

#[test]
fn the_help_of_approvals_request() {
    insta::assert_snapshot!(help(&["approvals", "request", "--help"]));
}

#[test]
fn the_help_of_approvals_resolve() {
    insta::assert_snapshot!(help(&["approvals", "resolve", "--help"]));
}

#[test]
fn the_help_of_deploy_revoke() {
    insta::assert_snapshot!(help(&["deploy", "revoke", "--help"]));
}
