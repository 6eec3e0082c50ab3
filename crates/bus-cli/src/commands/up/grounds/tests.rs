//! Revocations that a running daemon notices, whatever else is wrong beside them.

use std::{
    fs::{File, Permissions, set_permissions},
    os::unix::fs::PermissionsExt as _,
    path::Path,
};

use bus_core::{Certificate, SystemClock};
use bus_mem::InMemoryBus;
use bus_subjects::{AgentId, Role};

use super::*;

struct World {
    dir: tempfile::TempDir,
    home: Home,
    admission: Admission,
    grounds: Grounds,
}

fn world() -> World {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::locate(Some(&dir.path().join("data"))).unwrap();
    home.create().unwrap();
    let admission = Admission::new(Arc::new(SystemClock::new()));
    let site = Site::Own(Arc::new(InMemoryBus::new()), admission.clone());
    let grounds = Grounds::new(home.clone(), site);
    World { dir, home, admission, grounds }
}

impl World {
    fn workspace(&self, name: &str) -> Workspace {
        Workspace::open_or_new(&self.home, &WorkspaceId::parse(name).unwrap()).unwrap()
    }

    fn is_refused(&self, certificate: &Certificate) -> bool {
        self.admission.check(certificate).is_err()
    }

    fn revoked_dir(&self, workspace: &str) -> std::path::PathBuf {
        self.dir.path().join("data/workspaces").join(workspace).join("revoked")
    }
}

fn add(workspace: &Workspace, name: &str) -> Certificate {
    workspace
        .add_agent(
            AgentId::parse(name).unwrap(),
            vec![Role::Worker],
            None,
            crate::engine::Scope::default(),
        )
        .unwrap()
}

fn revoke(workspace: &Workspace, certificate: &Certificate) {
    workspace.revoke(&certificate.agent).unwrap();
}

/// Gives a directory the time `at`, as if its last change came in the same tick of the clock.
fn set_time(dir: &Path, at: SystemTime) {
    File::open(dir).unwrap().set_modified(at).unwrap();
}

#[tokio::test]
async fn a_revocation_in_the_same_tick_of_the_clock_as_another_is_noticed() {
    let mut world = world();
    let workspace = world.workspace("a");
    let (alice, bob) = (add(&workspace, "alice"), add(&workspace, "bob"));
    let now = std::fs::metadata(world.dir.path()).unwrap().modified().unwrap();
    for agent in [&alice, &bob] {
        revoke(&workspace, agent);
        set_time(&world.revoked_dir("a"), now);
        world.grounds.refresh().await.unwrap();
        assert!(world.is_refused(agent), "{}", agent.agent);
    }
}

#[tokio::test]
async fn a_damaged_revocation_hides_no_other_of_its_workspace() {
    let mut world = world();
    let workspace = world.workspace("a");
    let alice = add(&workspace, "alice");
    world.grounds.refresh().await.unwrap();
    revoke(&workspace, &alice);
    std::fs::write(world.revoked_dir("a").join("A-damaged"), "damaged").unwrap();
    assert!(world.grounds.refresh().await.is_err());
    assert!(world.is_refused(&alice));
}

#[tokio::test]
async fn a_damaged_revocation_hides_none_of_another_workspace() {
    let mut world = world();
    let (first, second) = (world.workspace("a"), world.workspace("b"));
    let (alice, bob) = (add(&first, "alice"), add(&second, "bob"));
    world.grounds.refresh().await.unwrap();
    revoke(&first, &alice);
    std::fs::write(world.revoked_dir("a").join("A-damaged"), "damaged").unwrap();
    revoke(&second, &bob);
    assert!(world.grounds.refresh().await.is_err());
    assert!(world.is_refused(&bob));
}

#[tokio::test]
async fn revocations_that_cannot_be_looked_at_are_told_and_not_taken_for_none() {
    let mut world = world();
    drop(world.workspace("a"));
    world.grounds.refresh().await.unwrap();
    std::os::unix::fs::symlink("elsewhere", world.revoked_dir("a")).unwrap();
    assert!(world.grounds.refresh().await.is_err());
}

#[tokio::test]
async fn a_workspace_that_was_made_again_is_served_under_its_new_account() {
    let mut world = world();
    let old = add(&world.workspace("a"), "alice");
    world.grounds.refresh().await.unwrap();
    assert!(!world.is_refused(&old));
    std::fs::remove_dir_all(world.dir.path().join("data/workspaces/a")).unwrap();
    let new = add(&world.workspace("a"), "alice");
    world.grounds.refresh().await.unwrap();
    assert!(world.is_refused(&old) && !world.is_refused(&new));
}

#[tokio::test]
async fn a_workspace_whose_key_can_be_read_again_is_served_again_by_itself() {
    let mut world = world();
    let alice = add(&world.workspace("a"), "alice");
    world.grounds.refresh().await.unwrap();
    let key = world.dir.path().join("data/workspaces/a/account.nk");
    let text = std::fs::read(&key).unwrap();
    // Put back from a copy, as another file that others can read.
    std::fs::remove_file(&key).unwrap();
    std::fs::write(&key, text).unwrap();
    set_permissions(&key, Permissions::from_mode(0o640)).unwrap();
    for _ in 0..2 {
        world.grounds.refresh().await.unwrap();
        assert!(world.grounds.names().is_empty() && world.is_refused(&alice));
    }
    set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    world.grounds.refresh().await.unwrap();
    assert_eq!(world.grounds.names(), ["a"]);
    assert!(!world.is_refused(&alice));
}

#[tokio::test]
async fn certificates_of_agents_that_were_made_before_they_were_kept_are_kept_from_the_start() {
    let mut world = world();
    let alice = add(&world.workspace("a"), "alice");
    // As an older version left it.
    let kept = world.dir.path().join("data/workspaces/a/certificates");
    std::fs::remove_dir_all(&kept).unwrap();
    world.grounds.refresh().await.unwrap();
    std::fs::remove_file(world.dir.path().join("data/workspaces/a/agents/alice.creds")).unwrap();
    let roster = world.workspace("a").living_roster().unwrap();
    let (found, _) = roster.find_kept(&alice.nkey.text()).unwrap();
    assert_eq!(found.agent, alice.agent);
}
