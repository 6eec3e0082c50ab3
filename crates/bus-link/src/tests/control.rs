//! What operators have the host do, and who may not.

use std::sync::{Arc, Mutex};

use bus_core::{BoxFuture, ErrorKind, Result};
use bus_subjects::Role;

use super::{common::People, support::Site};
use crate::{BACKUP, Control, LinkBus, LinkLimits};

/// Notes what it is asked.
#[derive(Default)]
struct Host(Mutex<Vec<String>>);

impl Control for Host {
    fn control(&self, verb: String, argument: String) -> BoxFuture<'_, Result<String>> {
        self.0.lock().unwrap().push(format!("{verb} {argument}"));
        Box::pin(async move { Ok(format!("did {argument}")) })
    }
}

impl Host {
    fn asked(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// A server with a host whose clients have the rights of their roles.
fn hosted() -> (Site, Arc<Host>) {
    let host = Arc::new(Host::default());
    let site = Site::with(People::admission, LinkLimits::default());
    let control: Arc<dyn Control> = host.clone();
    site.start_with(Some(control));
    (site, host)
}

async fn client(site: &Site, roles: &[Role]) -> LinkBus {
    site.try_client(site.people.identity("a1", roles.to_vec())).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_operator_has_the_host_do_it_and_hears_what_came_of_it() {
    let (site, host) = hosted();
    let said = client(&site, &[Role::Operator]).await.control(BACKUP, "/b").await.unwrap();
    assert_eq!((said.as_str(), host.asked()), ("did /b", vec!["backup /b".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn no_other_role_reaches_the_host() {
    let (site, host) = hosted();
    for role in Role::ALL.into_iter().filter(|role| *role != Role::Operator) {
        let error = client(&site, &[role]).await.control(BACKUP, "/b").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{role}: {error}");
    }
    assert!(host.asked().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_verb_that_nobody_knows_is_unsupported() {
    let (site, host) = hosted();
    let error = client(&site, &[Role::Operator]).await.control("format", "/").await.unwrap_err();
    assert_eq!((error.kind(), host.asked()), (ErrorKind::Unsupported, Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn a_server_without_a_host_says_so() {
    let site = Site::with(People::admission, LinkLimits::default());
    let error = client(&site, &[Role::Operator]).await.control(BACKUP, "/b").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

#[tokio::test(start_paused = true)]
async fn an_argument_that_is_no_path_any_more_is_too_large() {
    let (site, host) = hosted();
    let long = "/".repeat((64 << 10) + 1);
    let error = client(&site, &[Role::Operator]).await.control(BACKUP, &long).await.unwrap_err();
    assert_eq!((error.kind(), host.asked()), (ErrorKind::TooLarge, Vec::new()));
}
