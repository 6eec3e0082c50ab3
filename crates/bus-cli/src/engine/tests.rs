//! What a process that goes on reads again.

use std::{fs, os::unix::fs::PermissionsExt};

use bus_subjects::Role;
use clap::Parser;

use super::*;
use crate::args::Cli;

#[tokio::test]
async fn a_secret_that_cannot_be_read_keeps_no_revocation_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut global = Cli::parse_from(["vakbus", "workspace", "ls", "--memory"]).global;
    global.data_dir = Some(dir.path().join("data"));
    let session = Session::open(&global).await.unwrap();
    let alice = AgentId::parse("alice").unwrap();
    let certificate = session
        .workspace
        .add_agent(alice.clone(), vec![Role::Worker], None, Scope::default())
        .unwrap();
    session.workspace.revoke(&alice).unwrap();
    let file = session.secrets.file();
    fs::write(file, "").unwrap();
    fs::set_permissions(file, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(session.secrets.workspace_secret().is_err());
    session.renew();
    assert!(session.roster.revoked(&certificate.nkey.text()).is_some());
    session.close().await.unwrap();
}
