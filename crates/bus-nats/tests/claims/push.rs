//! What is pushed, and what is held back.

use std::{
    io::{BufRead, BufReader, ErrorKind as ErrorKindOfIo, Read},
    net::TcpStream,
    time::Duration,
};

use bus_core::ErrorKind;
use bus_nats::{
    claims::ServerClaims,
    server::{ServerConfig, SyncPolicy},
};
use bus_testserver::TestServer;

use crate::company::{Company, jwt, log_in};

#[tokio::test]
async fn a_pushed_account_lets_its_users_in_on_every_server() {
    let company = Company::new();
    let cluster = company.cluster().await;
    let urls = cluster.urls();
    let servers = company.servers(&urls[0]).await;
    let user = || company.user(|_| {});
    assert_eq!(log_in(&urls[2], jwt(user())).await.unwrap_err().kind(), ErrorKind::Denied);
    let pushed = servers.push(&company.token(0, &[]), &company.claims).await.unwrap();
    assert_eq!(pushed.taken, ["n1", "n2", "n3"]);
    assert!(pushed.is_everywhere(), "{pushed:?}");
    for url in &urls {
        log_in(url, jwt(user())).await.unwrap();
    }
}

#[tokio::test]
async fn a_server_that_is_away_is_named() {
    let company = Company::new();
    let mut cluster = company.cluster().await;
    cluster.kill(2);
    let servers = company.servers(&cluster.urls()[0]).await;
    // The others have to notice first: while they choose a leader nobody says how many there are.
    for _ in 0..100 {
        if !servers.servers().await.unwrap().away.is_empty() {
            break;
        }
    }
    let pushed = servers.push(&company.token(0, &[]), &company.claims).await.unwrap();
    assert_eq!(pushed.taken, ["n1", "n2"]);
    assert_eq!(pushed.silent.len(), 1, "{pushed:?}");
    assert!(["n3", "a server of vak"].contains(&pushed.silent[0].as_str()), "{pushed:?}");
}

async fn holding(company: &Company, token: &str) -> (TestServer, ServerClaims) {
    let server = company.server();
    let servers = company.servers(server.url()).await;
    assert!(servers.push(token, &company.claims).await.unwrap().is_everywhere());
    (server, servers)
}

#[tokio::test]
async fn an_older_account_token_is_never_pushed_over_a_newer_one() {
    let company = Company::new();
    let newer = company.token(2, &[]);
    let (_server, servers) = holding(&company, &newer).await;
    let refused = servers.push(&company.token(1, &[]), &company.claims).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
    let holdings = servers.lookup(company.account.public(), &company.claims).await.unwrap();
    assert_eq!(holdings.held[0].token, newer);
}

#[tokio::test]
async fn a_token_that_forgets_a_revocation_is_not_sent() {
    let company = Company::new();
    let revoked = *company.user(|_| {}).key().public();
    let (_server, servers) = holding(&company, &company.token(0, &[revoked])).await;
    let refused = servers.push(&company.token(1, &[]), &company.claims).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
    let with_it = company.token(1, &[revoked]);
    assert!(servers.push(&with_it, &company.claims).await.unwrap().is_everywhere());
}

#[tokio::test]
async fn a_token_of_another_operator_is_not_sent() {
    let (company, stranger) = (Company::new(), Company::new());
    let (_server, servers) = holding(&company, &company.token(0, &[])).await;
    let refused = servers.push(&stranger.token(1, &[]), &company.claims).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Denied, "{refused}");
}

#[tokio::test]
async fn the_same_token_may_be_pushed_again() {
    let company = Company::new();
    let token = company.token(0, &[]);
    let (_server, servers) = holding(&company, &token).await;
    assert_eq!(servers.push(&token, &company.claims).await.unwrap().taken, ["vakbus"]);
}

#[tokio::test]
async fn a_user_of_another_account_is_no_system_login() {
    let company = Company::new();
    let (server, _servers) = holding(&company, &company.token(0, &[])).await;
    let options = bus_nats::NatsOptions {
        auth: jwt(company.user(|_| {})),
        ..bus_nats::NatsOptions::new(server.url())
    };
    let refused = ServerClaims::open(options).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Denied, "{refused}");
}

#[tokio::test]
async fn the_profile_is_held_against_what_the_servers_say() {
    let company = Company::new();
    let server = company.server();
    let told = company.servers(server.url()).await.servers().await.unwrap();
    assert!(told.answered[0].shortcomings().is_empty(), "{told:?}");
    let sync = SyncPolicy::Every(Duration::from_secs(60));
    let lax = TestServer::start_with(ServerConfig { sync, ..company.config() });
    let told = company.servers(lax.url()).await.servers().await.unwrap();
    let lacks = told.answered[0].shortcomings();
    assert_eq!(lacks.len(), 1, "{lacks:?}");
    assert!(lacks[0].contains("sync_interval"), "{lacks:?}");
}

#[tokio::test]
async fn a_connection_is_ended_by_its_number() {
    let company = Company::new();
    // Nothing else ends a connection that proves nothing before the test does.
    let login_within = Duration::from_secs(60);
    let server = TestServer::start_with(ServerConfig { login_within, ..company.config() });
    let servers = company.servers(server.url()).await;
    let stream = TcpStream::connect(server.url().strip_prefix("nats://").unwrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut lines = BufReader::new(stream);
    let mut greeting = String::new();
    lines.read_line(&mut greeting).unwrap();
    let greeting: serde_json::Value =
        serde_json::from_str(greeting.strip_prefix("INFO ").unwrap()).unwrap();
    let id = servers.servers().await.unwrap().answered[0].id.clone();
    servers.kick(&id, greeting["client_id"].as_u64().unwrap()).await.unwrap();
    let rest = lines.read_to_string(&mut String::new());
    assert!(!rest.is_err_and(|error| error.kind() == ErrorKindOfIo::WouldBlock));
    let gone = servers.kick(&id, 9_999).await.unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NotFound, "{gone}");
}
