//! Requests from one client, answered by another: each under the policy of its roles.

use std::{num::NonZeroUsize, time::Duration};

use bus_core::{Bus as _, ErrorKind, FeedItem, Frame, FrameId, Outcome, Overflow, Subscription};
use bus_subjects::{Filter, Role, Subject};

use super::{
    common::People,
    support::{Site, settle_down, subject},
};
use crate::{LinkBus, LinkLimits};

const WAIT: Duration = Duration::from_secs(10);

fn frame(on: &Subject, text: &str) -> Frame {
    Frame::new(on.clone(), FrameId::parse(text).unwrap(), text.to_owned())
}

/// A site where everybody has the rights of their roles, with an asker and someone who hears it.
struct Scene {
    site: Site,
    boss: LinkBus,
    coder: LinkBus,
    heard: Subscription,
}

impl Scene {
    async fn new() -> Self {
        let site = Site::with(People::admission, LinkLimits::default());
        let boss = site.people.identity("boss", vec![Role::Orchestrator]);
        let boss = site.try_client(boss).await.unwrap();
        let coder = site.client("coder-1").await;
        let heard = listen(&coder).await;
        Self { site, boss, coder, heard }
    }

    /// Asks, and has `work` do with the request's reply subject what it wants.
    async fn ask<T>(
        &mut self,
        work: impl AsyncFnOnce(&LinkBus, Subject) -> T,
    ) -> (bus_core::Result<Frame>, T) {
        let Self { boss, coder, heard, .. } = self;
        tokio::join!(boss.request(frame(&review(), "q1"), WAIT), async {
            let Some(FeedItem::Frame(asked)) = heard.next().await else { unreachable!("no frame") };
            work(coder, asked.reply.clone().unwrap()).await
        })
    }
}

fn review() -> Subject {
    subject("vak.call.w1.coder.review")
}

async fn listen(bus: &LinkBus) -> Subscription {
    let overflow = Overflow::DropOldest { capacity: NonZeroUsize::new(16).unwrap() };
    bus.subscribe(Filter::parse("vak.call.w1.*.*").unwrap(), overflow).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_request_of_one_client_is_answered_by_another() {
    let mut scene = Scene::new().await;
    let (answer, sent) =
        scene.ask(async |coder, reply| coder.publish(frame(&reply, "a1")).await).await;
    sent.unwrap();
    assert_eq!(&answer.unwrap().body[..], b"a1");
}

#[tokio::test(start_paused = true)]
async fn a_second_answer_is_refused_on_this_side_of_the_socket() {
    let mut scene = Scene::new().await;
    let (_, second) = scene
        .ask(async |coder, reply| {
            coder.publish(frame(&reply, "a1")).await.unwrap();
            coder.publish(frame(&reply, "a2")).await
        })
        .await;
    assert_eq!(second.unwrap_err().kind(), ErrorKind::Denied);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_did_not_hear_the_request_cannot_answer_it() {
    let mut scene = Scene::new().await;
    let other = scene.site.client("coder-2").await;
    let (answer, stolen) =
        scene.ask(async |_, reply| other.publish(frame(&reply, "a1")).await).await;
    assert_eq!(stolen.unwrap_err().kind(), ErrorKind::Denied);
    let error = answer.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Timeout, Outcome::Unknown));
}

#[tokio::test(start_paused = true)]
async fn a_server_does_not_take_its_clients_word_for_what_they_heard() {
    let mut scene = Scene::new().await;
    let mut liar = super::support::Raw::admitted(&scene.site, "liar").await;
    let (answer, ()) = scene
        .ask(async |_, reply| {
            let packet = crate::wire::Packet::new(&crate::wire::ToServer::Publish).unwrap();
            let packet = packet.with(crate::wire::frame_part(&frame(&reply, "lie"))).unwrap();
            liar.send_packet(&packet).await;
            settle_down().await;
        })
        .await;
    assert_eq!(answer.unwrap_err().kind(), ErrorKind::Timeout);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_nobody_hears_is_told_at_once() {
    let mut scene = Scene::new().await;
    let elsewhere = subject("vak.call.w1.judge.review");
    drop(std::mem::replace(&mut scene.heard, Subscription::new(futures_util::stream::empty())));
    settle_down().await;
    let error = scene.boss.request(frame(&elsewhere, "q1"), WAIT).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::NoRecipient, Outcome::NotDone));
}
