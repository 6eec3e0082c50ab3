//! What servers say of themselves: the promises of a profile are held against it.

use std::collections::BTreeMap;

use super::wire::Stats;

/// The servers that answer, and those that do not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Servers {
    /// Those that answer, by name.
    pub answered: Vec<ServerFacts>,
    /// Those of a cluster that do not. One whose name nobody knows is called after its cluster.
    pub away: Vec<String>,
    /// The clusters whose JetStream nobody leads: until they have elected one, no login that asks
    /// for it gets through, and nothing is made.
    pub leaderless: Vec<String>,
}

/// What a server says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFacts {
    /// Its name.
    pub name: String,
    /// Its id, `N…`; another one with each start.
    pub id: String,
    /// Its version.
    pub version: String,
    /// The cluster that it belongs to.
    pub cluster: Option<String>,
    /// The domain of its JetStream.
    pub domain: Option<String>,
    /// Whether it has JetStream.
    pub has_jetstream: bool,
    /// Whether what is acknowledged is on its disk.
    pub syncs_always: bool,
    /// Whether acknowledgements name the domain that they are for; without it those of another
    /// domain settle tasks of this one.
    pub acks_name_domain: bool,
    /// Whether a stream may have any number of consumers; unless it is told so, a server sets a
    /// limit.
    pub has_any_number_of_consumers: bool,
}

impl ServerFacts {
    /// What it lacks of what a bus with the profile `Synced` or `Replicated` promises, in words.
    #[must_use]
    pub fn shortcomings(&self) -> Vec<&'static str> {
        if !self.has_jetstream {
            return vec!["it has no JetStream"];
        }
        let is_linked = self.cluster.is_some() || self.domain.is_some();
        let checks = [
            (self.syncs_always, "sync_interval is not always: a power cut loses what it keeps"),
            (
                self.acks_name_domain || !is_linked,
                "feature_flags.js_ack_fc_v2 is off: acknowledgements of another domain settle \
                 tasks of this one",
            ),
            (
                self.has_any_number_of_consumers,
                "jetstream.limits.default_max_consumers is not -1: each mailbox is a consumer",
            ),
        ];
        checks.into_iter().filter(|(is_met, _)| !is_met).map(|(_, what)| what).collect()
    }
}

pub(super) fn of(answers: Vec<Stats>) -> Servers {
    let mut servers = Servers::default();
    // Names that a leader tells, how many there should be, and whether one leads, by cluster.
    let mut clusters: BTreeMap<String, (Vec<String>, usize, bool)> = BTreeMap::new();
    for Stats { server, statsz } in answers {
        let jetstream = statsz.jetstream;
        if let (Some(cluster), Some(meta)) =
            (&server.cluster, jetstream.as_ref().and_then(|jetstream| jetstream.meta.as_ref()))
        {
            let (names, size, is_led) = clusters.entry(cluster.clone()).or_default();
            names.extend(meta.replicas.iter().map(|peer| peer.name.clone()));
            *size = meta.cluster_size.max(*size);
            // Its own word alone: the others go on naming a leader for a while after it is gone.
            *is_led |= meta.leader.as_ref().is_some_and(|leader| *leader == server.name);
        }
        let limits = jetstream.as_ref().and_then(|jetstream| jetstream.limits.as_ref());
        servers.answered.push(ServerFacts {
            name: server.name,
            id: server.id,
            version: server.ver,
            cluster: server.cluster,
            domain: server.domain,
            has_jetstream: jetstream.is_some(),
            syncs_always: jetstream.as_ref().is_some_and(|jetstream| jetstream.config.sync_always),
            acks_name_domain: server.feature_flags.js_ack_fc_v2,
            has_any_number_of_consumers: limits
                .is_some_and(|limits| limits.default_max_consumers == Some(-1)),
        });
    }
    for (cluster, (mut names, size, is_led)) in clusters {
        let there: Vec<&str> = (servers.answered.iter())
            .filter(|facts| facts.cluster.as_deref() == Some(&cluster))
            .map(|facts| facts.name.as_str())
            .collect();
        names.retain(|name| !there.contains(&name.as_str()));
        // While nobody leads, nobody tells who is missing.
        let unnamed = size.saturating_sub(there.len() + names.len());
        servers.away.extend(names);
        servers.away.extend((0..unnamed).map(|_| format!("a server of {cluster}")));
        servers.leaderless.extend((!is_led).then_some(cluster));
    }
    servers.answered.sort_by(|a, b| a.name.cmp(&b.name));
    servers.away.sort();
    servers
}
