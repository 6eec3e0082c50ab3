//! A server that is kept running: it comes back, it is given up, it ends when it is told to.

use std::{fs, sync::Arc, time::Duration};

use bus_crypto::SystemEntropy;
use bus_nats::server::{
    NatsServer, RestartPolicy, ServerError, ServerOptions, ServerState, ServerStates, Supervised,
};
use bus_testserver::options;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tempfile::TempDir;

use crate::wire::Wire;

#[tokio::test]
async fn a_server_that_dies_comes_back_at_the_same_url() {
    let home = tempfile::tempdir().unwrap();
    let server = supervised(options(home.path()));
    let url = server.ready().await.unwrap();
    let mut states = server.states();
    let first = pid_in(&states.now());
    kill_process(first, Signal::KILL).unwrap();
    let second = running(&mut states, first).await;
    assert_ne!(second, first);
    assert_eq!(server.ready().await.unwrap(), url);
    Wire::to(&url).unwrap().ping().unwrap();
}

#[tokio::test]
async fn a_server_that_dies_again_and_again_is_given_up() {
    let home = tempfile::tempdir().unwrap();
    let server = supervised(broken(&home));
    let error = server.ready().await.unwrap_err();
    let ServerError::GaveUp { deaths: 3, last } = &*error else { panic!("{error}") };
    assert!(matches!(**last, ServerError::Ended { .. }), "{last}");
}

#[tokio::test]
async fn a_server_that_was_given_up_leaves_its_directory() {
    let home = tempfile::tempdir().unwrap();
    let options = broken(&home);
    let server = supervised(options.clone());
    server.ready().await.unwrap_err();
    fs::remove_file(options.dir.join("jetstream")).unwrap();
    NatsServer::start(options).unwrap();
}

#[tokio::test]
async fn two_supervisors_never_share_a_directory() {
    let home = tempfile::tempdir().unwrap();
    let _first = supervised(options(home.path()));
    let second = Supervised::start(options(home.path()), policy(), Arc::new(SystemEntropy::new()));
    assert!(matches!(second, Err(ServerError::InUse { .. })), "{second:?}");
}

#[tokio::test]
async fn a_stopped_server_is_gone_and_its_directory_free() {
    let home = tempfile::tempdir().unwrap();
    let server = supervised(options(home.path()));
    server.ready().await.unwrap();
    let mut states = server.states();
    let pid = pid_in(&states.now());
    server.stop().await;
    assert!(test_kill_process(pid).is_err());
    assert!(matches!(states.changed().await, ServerState::Stopped));
    NatsServer::start(options(home.path())).unwrap();
}

#[tokio::test]
async fn a_retired_server_is_gone() {
    let home = tempfile::tempdir().unwrap();
    let server = supervised(options(home.path()));
    server.ready().await.unwrap();
    let pid = pid_in(&server.state());
    server.retire().await;
    assert!(test_kill_process(pid).is_err());
}

#[tokio::test]
async fn a_dropped_server_is_gone() {
    let home = tempfile::tempdir().unwrap();
    let server = supervised(options(home.path()));
    server.ready().await.unwrap();
    let pid = pid_in(&server.state());
    drop(server);
    assert!(test_kill_process(pid).is_err());
}

#[tokio::test]
async fn a_server_can_be_stopped_while_it_waits_to_be_started_again() {
    let home = tempfile::tempdir().unwrap();
    let hour = Duration::from_secs(3_600);
    let patient = RestartPolicy { delay_first: hour, delay_max: hour, ..policy() };
    let server = Supervised::start(broken(&home), patient, Arc::new(SystemEntropy::new())).unwrap();
    let mut states = server.states();
    loop {
        if let ServerState::Restarting { deaths: 1, after, .. } = states.changed().await {
            assert!(after >= hour / 2);
            break;
        }
    }
    server.stop().await;
    assert!(matches!(states.changed().await, ServerState::Stopped));
}

#[tokio::test]
async fn a_server_can_be_stopped_while_it_starts() {
    let home = tempfile::tempdir().unwrap();
    let server = supervised(options(home.path()));
    let mut states = server.states();
    server.stop().await;
    assert!(matches!(states.changed().await, ServerState::Stopped));
    NatsServer::start(options(home.path())).unwrap();
}

/// Gives up after three deaths, quickly.
fn policy() -> RestartPolicy {
    let delay = Duration::from_millis(1);
    RestartPolicy { deaths_max: 3, delay_first: delay, ..RestartPolicy::default() }
}

fn supervised(options: ServerOptions) -> Supervised {
    Supervised::start(options, policy(), Arc::new(SystemEntropy::new())).unwrap()
}

/// A server that cannot open its store.
fn broken(home: &TempDir) -> ServerOptions {
    let options = options(home.path());
    fs::create_dir(&options.dir).unwrap();
    fs::write(options.dir.join("jetstream"), "no directory").unwrap();
    options
}

/// Waits until another process than `before` runs.
async fn running(states: &mut ServerStates, before: Pid) -> Pid {
    loop {
        let state = states.changed().await;
        if matches!(state, ServerState::Running { .. }) && pid_in(&state) != before {
            return pid_in(&state);
        }
        assert!(!matches!(state, ServerState::Failed(_)), "{state:?}");
    }
}

fn pid_in(state: &ServerState) -> Pid {
    let ServerState::Running { pid, .. } = state else { panic!("{state:?}") };
    Pid::from_raw(pid.cast_signed()).unwrap()
}
