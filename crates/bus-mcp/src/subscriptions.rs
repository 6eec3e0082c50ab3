//! The resources, and what tells a client that one of them changed.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use bus_core::{Endpoint, ErrorKind, Follow, Seq, planes};
use bus_subjects::{Address, Filter, RoleName};
use rmcp::{
    RoleServer,
    model::{ResourceUpdatedNotificationParam, SubscriptionFilter},
    service::{Peer, SubscriptionContext},
};
use serde_json::json;
use tokio::{sync::watch, time::sleep};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use crate::{
    answer::{Answer, Refused},
    inbox::{Inbox, Standing},
};

/// A resource of this server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// The agent's mailbox.
    Inbox,
    /// The queue of a role.
    Queue(RoleName),
}

impl Place {
    pub(crate) const INBOX: &'static str = "vakbus://inbox";
    pub(crate) const QUEUES: &'static str = "vakbus://queue/";

    pub(crate) fn parse(uri: &str) -> Option<Self> {
        if uri == Self::INBOX {
            return Some(Self::Inbox);
        }
        RoleName::parse(uri.strip_prefix(Self::QUEUES)?).ok().map(Self::Queue)
    }
}

/// What the resources are read from.
#[derive(Debug, Clone)]
pub(crate) struct Sources {
    pub inbox: Inbox,
    /// Who may look into the queues, if anybody here may.
    pub queues: Option<Endpoint>,
}

impl Sources {
    /// What a resource holds now.
    pub(crate) async fn read(&self, place: &Place) -> Answer {
        match place {
            Place::Inbox => self.inbox.list().await,
            Place::Queue(role) => self.queue(role).await,
        }
    }

    async fn queue(&self, role: &RoleName) -> Answer {
        let mut waiting = 0_usize;
        let counted = self.follow(role)?.look_some(COUNTED_MAX, |_| waiting += 1).await;
        let tasks = match counted {
            // Nobody has sent anything yet.
            Err(error) if error.kind() == ErrorKind::NotFound => 0,
            counted => counted?,
        };
        Ok(json!({
            "role": role.as_str(),
            "tasks": tasks,
            "is_more": tasks >= COUNTED_MAX,
        }))
    }

    fn follow(&self, role: &RoleName) -> Result<Follow, Refused> {
        let queues = self.queues.as_ref().ok_or_else(|| {
            Refused::new("denied", format!("nobody here may look into the queue of {role}"))
                .next(TAKE_INSTEAD)
        })?;
        let workspace = queues.workspace().clone();
        let stream = planes::work_stream(&workspace)?;
        let subject = Address::Task { workspace, role: role.clone() }.subject();
        Ok(Follow::new(queues.clone(), stream, Filter::from(&subject), Seq(1)))
    }

    /// Refuses what this agent may not follow, before anybody waits for it in vain.
    async fn check(&self, place: &Place) -> Result<(), Refused> {
        let Place::Queue(role) = place else { return Ok(()) };
        match self.follow(role)?.look_some(1, |_| {}).await {
            Err(error) if error.kind() == ErrorKind::Denied => {
                Err(Refused::from(error).next(TAKE_INSTEAD))
            }
            // What is not there yet may be later.
            _ => Ok(()),
        }
    }

    /// Begins to follow a resource; what is there already is its first change.
    fn changes(&self, place: &Place) -> Result<Changes, Refused> {
        Ok(match place {
            Place::Inbox => Changes::Inbox { standing: self.inbox.changes(), told: 0 },
            Place::Queue(role) => Changes::Queue(Box::new(self.follow(role)?)),
        })
    }
}

/// The changes of one resource.
enum Changes {
    Inbox { standing: watch::Receiver<Standing>, told: u64 },
    Queue(Box<Follow>),
}

impl Changes {
    /// Returns when there is something new; false when nothing ever will be.
    async fn next(&mut self) -> bool {
        match self {
            Self::Inbox { standing, told } => match standing.wait_for(|now| now.came > *told).await
            {
                Ok(now) => {
                    *told = now.came;
                    true
                }
                Err(_) => false,
            },
            Self::Queue(follow) => loop {
                match follow.look_some(COUNTED_MAX, |_| {}).await {
                    Ok(new) if new > 0 => return true,
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::Denied => {
                        tracing::warn!(%error, "a queue cannot be followed");
                        return false;
                    }
                    // It may be there the next time.
                    Err(error) => tracing::debug!(%error, "a queue cannot be looked at now"),
                }
                sleep(LOOK_EVERY).await;
            },
        }
    }
}

/// The subscriptions of a client that has the older way of it, one a resource.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    running: Mutex<HashMap<String, DropGuard>>,
    tasks: TaskTracker,
}

impl Subscriptions {
    /// Tells `peer` of changes of `uri` until it wants no more. A second one takes its place.
    pub(crate) async fn add(
        &self,
        sources: &Sources,
        uri: &str,
        peer: Peer<RoleServer>,
    ) -> Result<(), Refused> {
        let place = place(uri)?;
        sources.check(&place).await?;
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.len() >= SUBSCRIPTIONS_MAX && !running.contains_key(uri) {
            let reason = format!("{SUBSCRIPTIONS_MAX} resources are subscribed to already");
            return Err(Refused::new("full", reason));
        }
        let mut changes = sources.changes(&place)?;
        let (stop, param) = (CancellationToken::new(), updated(uri));
        running.insert(uri.to_owned(), stop.clone().drop_guard());
        self.tasks.spawn(async move {
            let telling = async {
                while changes.next().await {
                    if peer.notify_resource_updated(param.clone()).await.is_err() {
                        return;
                    }
                }
            };
            tokio::select! {
                () = telling => {}
                () = stop.cancelled() => {}
            }
        });
        Ok(())
    }

    /// Ends one; ending what is not there is fine.
    pub(crate) fn remove(&self, uri: &str) {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).remove(uri);
    }

    pub(crate) async fn end(&self) {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// What of a subscription this server can follow.
pub(crate) fn accepted(requested: &SubscriptionFilter) -> SubscriptionFilter {
    let uris = requested.resource_subscriptions.iter().flatten();
    let ours = uris.filter(|uri| Place::parse(uri).is_some()).take(SUBSCRIPTIONS_MAX);
    SubscriptionFilter::builder().resource_subscriptions(ours).build()
}

/// Tells of changes until the subscription ends.
pub(crate) async fn listen(
    sources: &Sources,
    context: &SubscriptionContext,
) -> Result<(), Refused> {
    let mut telling = tokio::task::JoinSet::new();
    for uri in context.accepted().resource_subscriptions.iter().flatten() {
        let place = place(uri)?;
        sources.check(&place).await?;
        let mut changes = sources.changes(&place)?;
        let (sink, uri) = (context.sink().clone(), uri.clone());
        telling.spawn(async move {
            while changes.next().await {
                if sink.notify_resource_updated(uri.clone()).await.is_err() {
                    return;
                }
            }
        });
    }
    context.cancelled().await;
    Ok(())
}

fn updated(uri: &str) -> ResourceUpdatedNotificationParam {
    ResourceUpdatedNotificationParam::new(uri)
}

fn unknown(uri: &str) -> Refused {
    Refused::new("not-found", format!("there is no resource {uri}"))
}

/// The resource of this URI.
pub(crate) fn place(uri: &str) -> Result<Place, Refused> {
    Place::parse(uri).ok_or_else(|| unknown(uri))
}

/// What to do where a queue cannot be followed.
const TAKE_INSTEAD: &str = "wait for a task with task_claim";

/// How many tasks of a queue are counted.
const COUNTED_MAX: u64 = 100;

/// How many resources a client may subscribe to.
const SUBSCRIPTIONS_MAX: usize = 64;

/// How often a queue is looked at that somebody subscribed to.
const LOOK_EVERY: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_are_the_mailbox_and_the_queues_of_roles() {
        assert_eq!(Place::parse("vakbus://inbox"), Some(Place::Inbox));
        let role = RoleName::parse("reviewer").unwrap();
        assert_eq!(Place::parse("vakbus://queue/reviewer"), Some(Place::Queue(role)));
        for other in ["vakbus://queue/", "vakbus://queue/a.b", "vakbus://inbox/x", "file:///x", ""]
        {
            assert_eq!(Place::parse(other), None, "{other}");
        }
    }
}
