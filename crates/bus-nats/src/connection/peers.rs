//! The other servers of a cluster, and whether they know what this connection hears.
//!
//! A server that takes a subscription tells the others of it and waits for none of them, and what
//! is published there before they know is not delivered. So there is a connection to each of them,
//! beside the one that everything else uses: what is published on it comes back only when its
//! server knows where to. Servers tell each other everything about one account in order, so it
//! knows then of whatever was subscribed before.

use std::{
    collections::{HashMap, HashSet},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use async_nats::{Client, ServerAddr, Subscriber, connection::State};
use bus_core::Result;
use bytes::Bytes;
use futures_util::{StreamExt, future::join_all};
use tokio::{
    sync::Mutex,
    time::{Instant, timeout, timeout_at},
};

use super::{
    Connection,
    configure::{self, no_answer},
    fence::Rounds,
    refusals::Act,
    watcher::Watcher,
};
use crate::options::NatsOptions;

/// The connections to the other servers, made when they are needed.
#[derive(Default)]
pub(super) struct Peers {
    rounds: Rounds,
    found: Mutex<Found>,
}

#[derive(Default)]
struct Found {
    peers: HashMap<String, Peer>,
    /// The servers behind addresses that need no connection, as there is one to that server.
    twins: HashMap<String, String>,
    /// Addresses at which nothing was heard in time, and until when they are left alone.
    silent: HashMap<String, Instant>,
    used: Option<Instant>,
}

/// Another server.
struct Peer {
    client: Client,
    watcher: Arc<Watcher>,
    server: String,
    /// Whether it does not let us write to our own answers, so that nothing can come back.
    is_mute: bool,
}

impl Connection {
    /// Waits until every other server of the cluster knows what was subscribed before, and is in
    /// force at our own. Many at once share their round trips.
    ///
    /// A server that does not answer within [`PEER_WAIT`] is not waited for again for a while. Who
    /// asks and is polled no more holds up nobody: the round is a task of its own.
    #[expect(clippy::disallowed_methods, reason = "an engine starts its connection's tasks")]
    pub(crate) async fn be_known(self: &Arc<Self>, op: &'static str) {
        // One that stands alone names nobody.
        if self.client.server_info().connect_urls.len() < 2 {
            return;
        }
        let (own, wait) = (Arc::clone(self), self.options.answer_wait);
        let round = tokio::spawn(async move {
            let asked = timeout(wait, own.peers.rounds.share(wait / 2, own.ask_peers(op))).await;
            asked.unwrap_or_else(|_| Err(no_answer(op, wait)))
        });
        if let Ok(Err(error)) = round.await {
            tracing::info!(%error, "the other servers may not know of a subscription yet");
        }
    }

    async fn ask_peers(&self, op: &'static str) -> Result<()> {
        let own = self.client.server_info();
        let mut found = self.peers.found.lock().await;
        let end = Instant::now() + PEER_WAIT.min(self.options.answer_wait / 2);
        found.used = Some(Instant::now());
        found.meet(&self.options, (&own.connect_urls, &own.server_id), end).await;
        let inbox = self.new_inbox();
        let mut back = self.hear(op, inbox.clone().into()).await?;
        found.call(&inbox, &mut back, end).await;
        Ok(())
    }
}

impl Peers {
    /// Ends connections that were not needed for a while.
    pub(super) fn tidy(&self) {
        if let Ok(mut found) = self.found.try_lock()
            && found.used.is_some_and(|used| used.elapsed() > IDLE_MAX)
        {
            *found = Found::default();
        }
    }

    /// Ends all connections.
    pub(super) async fn leave(&self) {
        *self.found.lock().await = Found::default();
    }
}

impl Found {
    /// Connects to whoever is at `addresses` and not known yet, all at once.
    async fn meet(
        &mut self,
        options: &NatsOptions,
        (addresses, own): (&[String], &str),
        end: Instant,
    ) {
        let now = Instant::now();
        self.silent.retain(|_, until| *until > now);
        self.peers.retain(|_, peer| {
            peer.client.connection_state() == State::Connected && peer.server != own
        });
        let there: HashSet<&str> =
            self.peers.values().map(|peer| peer.server.as_str()).chain([own]).collect();
        self.twins.retain(|_, server| there.contains(server.as_str()));
        let is_new = |address: &&String| {
            !self.peers.contains_key(*address)
                && !self.twins.contains_key(*address)
                && !self.silent.contains_key(*address)
        };
        let new: Vec<&String> = addresses.iter().chain(&options.servers).filter(is_new).collect();
        let met = join_all(new.iter().map(|address| timeout_at(end, Peer::meet(options, address))));
        for (address, met) in new.iter().zip(met.await) {
            let address = (*address).clone();
            let Ok(Some(peer)) = met else {
                self.silent.insert(address, now + SILENT_FOR);
                continue;
            };
            let is_known =
                peer.server == own || self.peers.values().any(|known| known.server == peer.server);
            if is_known {
                self.twins.insert(address, peer.server);
            } else {
                self.peers.insert(address, peer);
            }
        }
    }

    /// Publishes to `inbox` at each of the others until all of it has come `back`.
    async fn call(&mut self, inbox: &str, back: &mut Subscriber, end: Instant) {
        let mut pause = PAUSE_MIN;
        let mut missing: HashSet<String> = self.peers.keys().cloned().collect();
        loop {
            missing.retain(|address| self.peers.get_mut(address).is_some_and(|it| it.may(inbox)));
            if missing.is_empty() {
                return;
            }
            if Instant::now() >= end {
                break;
            }
            for address in &missing {
                if let Some(peer) = self.peers.get(address) {
                    peer.say(inbox, address, end).await;
                }
            }
            // The first time it is known nearly always; else there is nothing to wait for.
            let heard = pin!(async {
                while let Some(message) = back.next().await {
                    missing.remove(&*String::from_utf8_lossy(&message.payload));
                    if missing.is_empty() {
                        break;
                    }
                }
            });
            let _over = timeout(pause, heard).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
        for address in missing {
            tracing::info!(%address, "another server of the cluster does not answer");
            self.peers.remove(&address);
            self.silent.insert(address, Instant::now() + SILENT_FOR);
        }
    }
}

impl Peer {
    async fn meet(options: &NatsOptions, address: &str) -> Option<Self> {
        let watcher = Arc::new(Watcher::new([String::new(), String::new()]));
        let at = address.parse::<ServerAddr>().ok()?;
        let connecting = configure::configure(options, &options.inbox_prefix, &watcher)
            .ignore_discovered_servers()
            // What a server says of the others names no scheme.
            .require_tls(options.tls.required || options.servers.iter().any(|it| is_tls(it)))
            // It is made anew when it is needed.
            .max_reconnects(1)
            .connect(at);
        match connecting.await {
            Ok(client) => {
                let server = client.server_info().server_id;
                Some(Self { client, watcher, server, is_mute: false })
            }
            Err(error) => {
                tracing::info!(%error, "another server of the cluster lets nobody in");
                None
            }
        }
    }

    /// Whether it lets us write to `inbox`, as far as is known.
    fn may(&mut self, inbox: &str) -> bool {
        self.is_mute = self.is_mute || self.watcher.refusals.has(Act::Publish, inbox, 0);
        !self.is_mute
    }

    async fn say(&self, inbox: &str, name: &str, end: Instant) {
        let saying = self.client.publish(inbox.to_owned(), Bytes::from(name.to_owned()));
        // One that cannot be written to has not answered in time.
        let _said = timeout_at(end, saying).await;
    }
}

fn is_tls(server: &str) -> bool {
    server.starts_with("tls://") || server.starts_with("wss://")
}

/// How long all of it may take.
const PEER_WAIT: Duration = Duration::from_secs(1);
/// How long a server that did not answer is left alone.
const SILENT_FOR: Duration = Duration::from_secs(10);
/// How long connections are kept that nobody needs.
const IDLE_MAX: Duration = Duration::from_secs(30);
const PAUSE_MIN: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_millis(50);
