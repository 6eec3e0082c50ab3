//! Agents that come, go and come back under their name while a process goes on.

use std::{fs, os::unix::fs::PermissionsExt};

use super::*;
use crate::error::Exit;

fn workspace() -> (tempfile::TempDir, Workspace) {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::locate(Some(&dir.path().join("data"))).unwrap();
    let name = WorkspaceId::parse("w").unwrap();
    (dir, Workspace::new(&home, &name).unwrap())
}

fn alice() -> AgentId {
    AgentId::parse("alice").unwrap()
}

fn add(workspace: &Workspace) -> String {
    workspace.add_agent(alice(), vec![Role::Worker], None, Scope::default()).unwrap().nkey.text()
}

#[test]
fn the_new_key_of_an_agent_that_was_revoked_is_found() {
    let (_dir, workspace) = workspace();
    let agents = workspace.dir.below("agents");
    let known = Mutex::new(Known::new());
    let old = add(&workspace);
    assert!(find(&agents, &known, &old).unwrap().is_some());
    workspace.revoke(&alice()).unwrap();
    let new = add(&workspace);
    assert!(find(&agents, &known, &new).unwrap().is_some());
    assert!(find(&agents, &known, &old).unwrap().is_none());
}

#[test]
fn nobody_is_unknown_while_a_file_cannot_be_read() {
    let (_dir, workspace) = workspace();
    let (agents, known) = (workspace.dir.below("agents"), Mutex::new(Known::new()));
    let key = add(&workspace);
    let file = agents.below("alice.creds");
    fs::set_permissions(file.path(), fs::Permissions::from_mode(0o644)).unwrap();
    assert!(find(&agents, &known, &key).is_err());
    fs::set_permissions(file.path(), fs::Permissions::from_mode(0o600)).unwrap();
    assert!(find(&agents, &known, &key).unwrap().is_some());
}

#[test]
fn nobody_acts_while_revocations_cannot_be_looked_at() {
    let (_dir, workspace) = workspace();
    add(&workspace);
    fs::write(workspace.revocations_dir().path(), "no directory").unwrap();
    assert_eq!(workspace.identity(&alice()).err().unwrap().code(), Exit::Failed);
}

#[test]
fn of_those_who_revoke_one_key_at_the_same_moment_one_does() {
    let (_dir, workspace) = workspace();
    for _ in 0..20 {
        add(&workspace);
        let start = std::sync::Barrier::new(4);
        let revoked = std::thread::scope(|scope| {
            let revoke = || {
                start.wait();
                workspace.revoke(&alice()).is_ok()
            };
            let all: Vec<_> = (0..4).map(|_| scope.spawn(revoke)).collect();
            all.into_iter().map(|one| one.join().unwrap()).filter(|done| *done).count()
        });
        assert_eq!(revoked, 1);
    }
}
