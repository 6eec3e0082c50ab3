//! Live frames: published and heard.

use std::{collections::BTreeMap, num::NonZeroUsize};

use bus_core::{FeedItem, Frame, FrameId, Overflow, Subscription};
use bus_subjects::{Filter, Subject};
use tokio::time::{Instant, timeout, timeout_at};

use super::{AT_ONCE, NEVER, SOON, Side, add_headers, parsed, stored::told};
use crate::operation::Operation;

impl Side {
    pub(super) async fn play_live(&mut self, operation: &Operation, other: Option<&str>) -> String {
        match operation {
            Operation::Publish { subject, headers } => {
                let frame = self.live(self.event(*subject), *headers);
                told(self.engine.publish(frame).await, |()| "published".to_owned())
            }
            Operation::Subscribe { slot, subject, latest } => {
                let filter = match subject {
                    Some(subject) => Filter::from(&self.event(*subject)),
                    None => parsed(Filter::parse(&format!("vak.events.w{}.>", self.run))),
                };
                let (capacity, subjects) = (ROOM, ROOM);
                let overflow = if *latest {
                    Overflow::Latest { subjects }
                } else {
                    Overflow::DropOldest { capacity }
                };
                // The one before goes first, so that both engines have as many.
                self.subscriptions.remove(slot);
                let subscribed = self.engine.subscribe(filter, overflow).await;
                told(subscribed, |subscription| {
                    self.subscriptions.insert(*slot, (subscription, *latest));
                    "subscribed".to_owned()
                })
            }
            Operation::Hear { slot } => match self.subscriptions.get_mut(slot) {
                None => "no subscription".to_owned(),
                Some((subscription, true)) => newest(subscription, other).await,
                Some((subscription, false)) => all(subscription, other).await,
            },
            Operation::Leave { slot } => {
                format!("was there: {}", self.subscriptions.remove(slot).is_some())
            }
            Operation::Request { subject } => {
                let verb = format!("vak.call.w{}.nobody.v{subject}", self.run);
                let frame = self.live(parsed(Subject::parse(&verb)), 0);
                told(self.engine.request(frame, SOON).await, |answer| format!("{answer:?}"))
            }
            other => format!("{other:?} is nothing live"),
        }
    }

    fn event(&self, subject: u8) -> Subject {
        let kind = ["tokens", "terminal", "telemetry"][usize::from(subject)];
        parsed(Subject::parse(&format!("vak.events.w{}.s1.{kind}", self.run)))
    }

    fn live(&self, subject: Subject, headers: u8) -> Frame {
        let (id, body) = (format!("live-{}", self.steps), format!("step {}", self.steps));
        let mut frame = Frame::new(subject, parsed(FrameId::parse(&id)), body);
        add_headers(&mut frame, headers);
        frame
    }
}

/// Every frame that waits, in order; beside another engine as many as that one heard, and what
/// comes after them.
async fn all(subscription: &mut Subscription, other: Option<&str>) -> String {
    let mut heard: Vec<String> = Vec::new();
    loop {
        let next = match other {
            None => timeout(AT_ONCE, subscription.next()).await.ok(),
            Some(other) => {
                let wanted = heard.len() < other.lines().count();
                timeout(if wanted { SOON } else { NEVER }, subscription.next()).await.ok()
            }
        };
        match next {
            None => return heard.join("\n"),
            Some(None) => return "the end".to_owned(),
            Some(Some(item)) => heard.push(shown(&item)),
        }
    }
}

/// The newest frame of each subject; which older ones a reader sees is a matter of when it reads.
async fn newest(subscription: &mut Subscription, other: Option<&str>) -> String {
    let (mut heard, end) = (BTreeMap::new(), Instant::now() + SOON);
    let text =
        |heard: &BTreeMap<String, String>| heard.values().cloned().collect::<Vec<_>>().join("\n");
    while other.is_none_or(|other| text(&heard) != other) {
        let next = match other {
            None => timeout(AT_ONCE, subscription.next()).await.ok(),
            Some(_) => timeout_at(end, subscription.next()).await.ok(),
        };
        match next {
            None => break,
            Some(None) => return "the end".to_owned(),
            Some(Some(item)) => {
                let subject = match &item {
                    FeedItem::Frame(frame) => frame.subject.to_string(),
                    FeedItem::Gap { .. } => String::new(),
                };
                heard.insert(subject, shown(&item));
            }
        }
    }
    text(&heard)
}

fn shown(item: &FeedItem) -> String {
    match item {
        FeedItem::Frame(frame) => format!("{:?}", **frame),
        FeedItem::Gap { missed } => format!("{missed} missed"),
    }
}

/// Nobody here is too slow.
const ROOM: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();
