//! Where sockets may be, who may serve them, and what is left behind.

use std::{
    fs::Permissions,
    os::unix::{fs::PermissionsExt as _, fs::symlink, net::UnixListener},
    path::Path,
    sync::Arc,
};

use bus_core::{Bus as _, Error, ErrorKind, SystemClock};
use bus_link::{LinkBus, LinkLimits, LinkOptions, LinkServer};
use bus_mem::InMemoryBus;
use bus_subjects::{Role, Subject};

#[cfg(test)]
mod common;

use common::{Home, People};

fn people() -> People {
    People::new(Arc::new(SystemClock::new()))
}

async fn serve(people: &People, path: &Path) -> Result<LinkServer, Error> {
    let (admission, limits) = (people.open_admission(), LinkLimits::default());
    LinkServer::bind(path, Arc::new(InMemoryBus::new()), admission, limits).await
}

async fn connect(people: &People, path: &Path) -> Result<LinkBus, Error> {
    let identity = people.identity("a1", vec![Role::Operator]);
    LinkBus::connect(path, identity, LinkOptions::default()).await
}

#[cfg(test)]
async fn refused(path: &Path, kind: ErrorKind) {
    let error = serve(&people(), path).await.unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
}

#[tokio::test]
async fn a_socket_is_closed_to_others() {
    let home = Home::new();
    let _server = serve(&people(), &home.socket()).await.unwrap();
    let mode = std::fs::symlink_metadata(home.socket()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn the_lock_beside_a_socket_is_closed_to_others_also_where_an_older_one_was_not() {
    let home = Home::new();
    let lock = home.path().join("bus.sock.lock");
    let mode = || std::fs::symlink_metadata(&lock).unwrap().permissions().mode() & 0o777;
    drop(serve(&people(), &home.path().join("bus.sock")).await.unwrap());
    assert_eq!(mode(), 0o600);
    std::fs::set_permissions(&lock, Permissions::from_mode(0o644)).unwrap();
    drop(serve(&people(), &home.path().join("bus.sock")).await.unwrap());
    assert_eq!(mode(), 0o600);
}

#[tokio::test]
async fn a_second_server_is_refused() {
    let home = Home::new();
    let people = people();
    let server = serve(&people, &home.socket()).await.unwrap();
    refused(&home.socket(), ErrorKind::Conflict).await;
    let serving = server.serve(std::future::pending());
    let asking = async {
        connect(&people, &home.socket()).await.unwrap();
    };
    tokio::select! { () = serving => {}, () = asking => {} }
}

#[tokio::test]
async fn a_living_server_without_the_lock_is_refused_as_well() {
    let home = Home::new();
    let _other = UnixListener::bind(home.socket()).unwrap();
    refused(&home.socket(), ErrorKind::Conflict).await;
    assert!(home.socket().exists());
}

#[tokio::test]
async fn a_socket_that_was_left_behind_is_replaced() {
    let home = Home::new();
    drop(UnixListener::bind(home.socket()).unwrap());
    assert!(home.socket().exists());
    let _server = serve(&people(), &home.socket()).await.unwrap();
}

#[tokio::test]
async fn a_file_in_the_sockets_place_stays_there() {
    let home = Home::new();
    std::fs::write(home.socket(), "precious").unwrap();
    refused(&home.socket(), ErrorKind::Conflict).await;
    assert_eq!(std::fs::read_to_string(home.socket()).unwrap(), "precious");
}

#[tokio::test]
async fn a_directory_that_others_can_look_into_is_refused() {
    let home = Home::new();
    std::fs::set_permissions(home.path(), Permissions::from_mode(0o750)).unwrap();
    refused(&home.socket(), ErrorKind::Invalid).await;
}

#[tokio::test]
async fn a_directory_behind_a_symbolic_link_is_refused() {
    let (home, elsewhere) = (Home::new(), Home::new());
    let link = home.path().join("link");
    symlink(elsewhere.path(), &link).unwrap();
    refused(&link.join("bus.sock"), ErrorKind::Invalid).await;
}

#[tokio::test]
async fn a_path_that_no_socket_can_have_is_refused() {
    let home = Home::new();
    refused(&home.path().join("s".repeat(120)), ErrorKind::Invalid).await;
}

#[tokio::test]
async fn a_closed_server_leaves_no_socket_and_its_place_is_free() {
    let home = Home::new();
    serve(&people(), &home.socket()).await.unwrap().close().await;
    assert!(!home.socket().exists());
    drop(serve(&people(), &home.socket()).await.unwrap());
    assert!(!home.socket().exists());
}

#[tokio::test]
async fn nobody_there_is_told_at_once() {
    let home = Home::new();
    assert_eq!(
        connect(&people(), &home.socket()).await.unwrap_err().kind(),
        ErrorKind::Unavailable
    );
}

#[tokio::test]
async fn a_client_trusts_no_socket_that_others_could_have_put_there() {
    let home = Home::new();
    let people = people();
    let _server = serve(&people, &home.socket()).await.unwrap();
    std::fs::set_permissions(home.path(), Permissions::from_mode(0o777)).unwrap();
    assert_eq!(connect(&people, &home.socket()).await.unwrap_err().kind(), ErrorKind::Invalid);
}

#[tokio::test]
async fn a_client_comes_back_to_a_server_that_was_started_anew() {
    let home = Home::new();
    let (people, path) = (people(), home.socket());
    let first = serve(&people, &home.socket()).await.unwrap();
    let bus = tokio::select! {
        () = first.serve(std::future::pending()) => unreachable!("it serves for ever"),
        bus = connect(&people, &path) => bus.unwrap(),
    };
    drop(first);
    let second = serve(&people, &home.socket()).await.unwrap();
    let subject = Subject::parse("vak.work.w1.coder.task").unwrap();
    let last = tokio::select! {
        () = second.serve(std::future::pending()) => unreachable!("it serves for ever"),
        last = bus.last(subject) => last,
    };
    assert_eq!(last.unwrap_err().kind(), ErrorKind::NotFound, "the new server answered");
}
