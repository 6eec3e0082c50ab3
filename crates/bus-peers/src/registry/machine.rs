//! The registry as a pure machine: commands and the time go in, what ended and what is so come out.

mod adopted;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use bus_envelope::Timestamp;
use serde::{Deserialize, Serialize};

use super::{definition, limits::Limits, target::PeerTarget};
use crate::{BusError, SecretHash};

/// Who is registered, by instance and by definition, with leases.
///
/// It knows no clock and no randomness. Ids are never given out twice while it lives, whatever
/// became of their instances.
#[derive(Debug)]
pub struct Registry {
    limits: Limits,
    seq_last: u64,
    instances: BTreeMap<u64, Instance>,
    by_id: HashMap<String, u64>,
    by_definition: HashMap<String, Definition>,
    leases: BTreeSet<(Timestamp, u64)>,
    /// The suffixes of all ids ever given out.
    minted: HashSet<u32>,
}

/// What everybody may know of an instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceMeta {
    /// `<definition>~<8 hex>`.
    pub instance_id: String,
    /// What it is one of.
    pub definition_id: String,
    /// Where it works; recorded, never routed by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// When it was registered, RFC 3339 in UTC.
    pub registered_at: String,
    /// Its place in the order of registrations.
    pub seq: u64,
}

/// A live registration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveInstance {
    /// What everybody may know.
    pub meta: InstanceMeta,
    /// How many subscriptions listen for it at this bus.
    pub subscriptions: usize,
    /// The other buses at which somebody listens for it.
    pub holders: BTreeSet<String>,
    /// When its lease ends unless it is heard of.
    pub expires: Timestamp,
}

/// What is asked of the registry.
#[derive(Debug, Clone)]
pub enum Command {
    /// A new instance; `suffixes` are random, and the first that is free becomes its id.
    Register {
        /// What it is one of.
        definition_id: String,
        /// Where it works.
        project: Option<String>,
        /// Random numbers to make the id of.
        suffixes: [u32; MINTS_MAX],
        /// What is kept of its secret.
        secret: SecretHash,
    },
    /// The instance lives.
    Heartbeat {
        /// The instance.
        instance_id: String,
        /// Its proof.
        secret: SecretHash,
    },
    /// A subscription for the instance begins.
    Attach {
        /// The instance.
        instance_id: String,
        /// Its proof.
        secret: SecretHash,
    },
    /// A subscription of the instance ends; the bus knows, so there is no proof.
    Detach {
        /// The instance.
        instance_id: String,
    },
    /// A subscription of the instance was read from; the bus knows, so there is no proof.
    Seen {
        /// The instance.
        instance_id: String,
    },
    /// The instance goes.
    Deregister {
        /// The instance.
        instance_id: String,
        /// Its proof.
        secret: SecretHash,
    },
    /// Another bus registered the instance, or says who listens for it now.
    Adopt {
        /// The instance.
        meta: InstanceMeta,
        /// What is kept of its secret.
        secret: SecretHash,
        /// The other buses at which somebody listens for it.
        holders: BTreeSet<String>,
    },
    /// Another bus says that the instance is gone.
    Forget {
        /// The instance.
        instance_id: String,
    },
    /// Nothing but time has passed.
    Tick,
}

/// What a command led to.
#[derive(Debug)]
pub struct Effects {
    /// Instances that ended, by the time or by the command: their subscriptions have to end.
    pub ended: Vec<InstanceMeta>,
    /// What the command itself came to.
    pub done: Result<Done, BusError>,
}

/// What a command came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Done {
    /// A new instance is registered.
    Registered(InstanceMeta),
    /// The instance is live, with this lease.
    Live(LiveInstance),
    /// There was nothing to do.
    Nothing,
}

#[derive(Debug)]
struct Instance {
    live: LiveInstance,
    secret: SecretHash,
}

/// The live instances of a definition, by their seq.
#[derive(Debug, Default)]
struct Definition {
    live: BTreeSet<u64>,
    attached: BTreeSet<u64>,
}

impl Registry {
    /// An empty one.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            seq_last: 0,
            instances: BTreeMap::new(),
            by_id: HashMap::new(),
            by_definition: HashMap::new(),
            leases: BTreeSet::new(),
            minted: HashSet::new(),
        }
    }

    /// Carries out a command at `now`; leases that are over by then end first.
    pub fn apply(&mut self, command: Command, now: Timestamp) -> Effects {
        let mut ended = self.expire(now);
        let done = match command {
            Command::Register { definition_id, project, suffixes, secret } => {
                self.register(definition_id, project, &suffixes, secret, now).map(Done::Registered)
            }
            Command::Heartbeat { instance_id, secret } => {
                self.own(&instance_id, &secret).map(|seq| self.renew(seq, now))
            }
            Command::Attach { instance_id, secret } => {
                self.own(&instance_id, &secret).and_then(|seq| self.attach(seq, now))
            }
            Command::Detach { instance_id } => Ok(self.detach(&instance_id)),
            Command::Seen { instance_id } => Ok(match self.by_id.get(&instance_id) {
                Some(seq) => self.renew(*seq, now),
                None => Done::Nothing,
            }),
            Command::Deregister { instance_id, secret } => match self.own(&instance_id, &secret) {
                Ok(seq) => {
                    ended.extend(self.remove(seq));
                    Ok(Done::Nothing)
                }
                Err(error) => Err(error),
            },
            Command::Adopt { meta, secret, holders } => Ok(self.adopt(meta, secret, holders, now)),
            Command::Forget { instance_id } => {
                let seq = self.by_id.get(&instance_id).copied();
                ended.extend(seq.and_then(|seq| self.remove(seq)));
                Ok(Done::Nothing)
            }
            Command::Tick => Ok(Done::Nothing),
        };
        Effects { ended, done }
    }

    /// The one way by which an instance is looked up: alive at `now`, or gone.
    ///
    /// # Errors
    /// [`BusError::InstanceGone`].
    pub fn resolve_instance(
        &self,
        instance_id: &str,
        now: Timestamp,
    ) -> Result<&LiveInstance, BusError> {
        self.entry(instance_id, now).map(|instance| &instance.live)
    }

    /// The newest instance of a definition that somebody listens for; when nobody listens for any,
    /// the newest. So one that crashed before it listened never hides one that listens.
    ///
    /// # Errors
    /// [`BusError::NoLiveInstance`].
    pub fn resolve_definition(
        &self,
        definition_id: &str,
        now: Timestamp,
    ) -> Result<&LiveInstance, BusError> {
        let none = || BusError::NoLiveInstance { definition_id: definition_id.to_owned() };
        let definition = self.by_definition.get(definition_id).ok_or_else(none)?;
        let seqs = definition.attached.iter().rev().chain(definition.live.iter().rev());
        let mut live = seqs.filter_map(|seq| self.instances.get(seq)).map(|found| &found.live);
        live.find(|live| live.expires > now).ok_or_else(none)
    }

    /// Whom a target means. There is no way from one kind of address to the other.
    ///
    /// # Errors
    /// [`BusError::NoLiveInstance`] of a definition, [`BusError::InstanceGone`] of an instance.
    pub fn resolve(&self, target: &PeerTarget, now: Timestamp) -> Result<&LiveInstance, BusError> {
        match target {
            PeerTarget::Definition(definition) => self.resolve_definition(definition, now),
            PeerTarget::Instance(instance) => self.resolve_instance(instance, now),
        }
    }

    /// The live registration that a secret is of, looked up by what its owner claims to be.
    ///
    /// # Errors
    /// [`BusError::UnregisteredSender`], whatever does not fit.
    pub fn sender(
        &self,
        instance_id: &str,
        secret: &SecretHash,
        now: Timestamp,
    ) -> Result<&InstanceMeta, BusError> {
        match self.entry(instance_id, now) {
            Ok(instance) if instance.secret.is_same(secret) => Ok(&instance.live.meta),
            _ => Err(BusError::UnregisteredSender { instance_id: instance_id.to_owned() }),
        }
    }

    /// All that live at `now`, in the order of their registration.
    pub fn live(&self, now: Timestamp) -> impl Iterator<Item = &LiveInstance> {
        self.instances.values().map(|found| &found.live).filter(move |live| live.expires > now)
    }

    /// When the next lease ends.
    #[must_use]
    pub fn next_expiry(&self) -> Option<Timestamp> {
        self.leases.first().map(|(expires, _)| *expires)
    }

    fn entry(&self, instance_id: &str, now: Timestamp) -> Result<&Instance, BusError> {
        let found = self.by_id.get(instance_id).and_then(|seq| self.instances.get(seq));
        found
            .filter(|instance| instance.live.expires > now)
            .ok_or_else(|| BusError::InstanceGone { instance_id: instance_id.to_owned() })
    }

    /// The seq of an instance whose secret is shown; leases that are over have ended before.
    fn own(&self, instance_id: &str, secret: &SecretHash) -> Result<u64, BusError> {
        let found = self.by_id.get(instance_id).and_then(|seq| self.instances.get(seq));
        match found {
            None => Err(BusError::InstanceGone { instance_id: instance_id.to_owned() }),
            Some(instance) if !instance.secret.is_same(secret) => {
                Err(BusError::WrongSecret { instance_id: instance_id.to_owned() })
            }
            Some(instance) => Ok(instance.live.meta.seq),
        }
    }

    fn register(
        &mut self,
        definition_id: String,
        project: Option<String>,
        suffixes: &[u32],
        secret: SecretHash,
        now: Timestamp,
    ) -> Result<InstanceMeta, BusError> {
        definition::check(&definition_id)?;
        definition::check_project(project.as_deref())?;
        if self.instances.len() >= self.limits.instances_max {
            return Err(BusError::Full { what: "instances", max: self.limits.instances_max });
        }
        if self.minted.len() >= self.limits.minted_max {
            return Err(BusError::Full { what: "instance ids", max: self.limits.minted_max });
        }
        let free = suffixes.iter().find(|suffix| !self.minted.contains(suffix));
        let Some(suffix) = free.copied() else {
            return Err(BusError::InstanceIdCollision { definition_id, tries: suffixes.len() });
        };
        self.minted.insert(suffix);
        let (seq, instance_id) = (self.seq_last + 1, format!("{definition_id}~{suffix:08x}"));
        let registered_at = now.to_string();
        let meta = InstanceMeta { instance_id, definition_id, project, registered_at, seq };
        self.insert(meta.clone(), secret, now);
        Ok(meta)
    }

    fn insert(&mut self, meta: InstanceMeta, secret: SecretHash, now: Timestamp) {
        let (seq, expires) = (meta.seq, now.plus(self.limits.lease));
        self.seq_last = self.seq_last.max(seq);
        self.leases.insert((expires, seq));
        self.by_id.insert(meta.instance_id.clone(), seq);
        self.by_definition.entry(meta.definition_id.clone()).or_default().live.insert(seq);
        let live = LiveInstance { meta, subscriptions: 0, holders: BTreeSet::new(), expires };
        self.instances.insert(seq, Instance { live, secret });
    }

    fn renew(&mut self, seq: u64, now: Timestamp) -> Done {
        let Some(Instance { live, .. }) = self.instances.get_mut(&seq) else {
            return Done::Nothing;
        };
        let expires = now.plus(self.limits.lease).max(live.expires);
        // A lease that was renewed a moment ago is left: it costs two steps in a tree.
        if expires.since(live.expires) >= self.limits.lease / RENEWED_IN {
            self.leases.remove(&(live.expires, seq));
            self.leases.insert((expires, seq));
            live.expires = expires;
        }
        Done::Live(live.clone())
    }

    fn attach(&mut self, seq: u64, now: Timestamp) -> Result<Done, BusError> {
        let max = self.limits.subscriptions_max;
        if let Some(Instance { live, .. }) = self.instances.get_mut(&seq) {
            if live.subscriptions >= max {
                return Err(BusError::Full { what: "subscriptions", max });
            }
            live.subscriptions += 1;
        }
        self.mark(seq);
        Ok(self.renew(seq, now))
    }

    fn detach(&mut self, instance_id: &str) -> Done {
        let Some(seq) = self.by_id.get(instance_id).copied() else { return Done::Nothing };
        let Some(Instance { live, .. }) = self.instances.get_mut(&seq) else {
            return Done::Nothing;
        };
        live.subscriptions = live.subscriptions.saturating_sub(1);
        let live = live.clone();
        self.mark(seq);
        Done::Live(live)
    }

    fn remove(&mut self, seq: u64) -> Option<InstanceMeta> {
        let Instance { live, .. } = self.instances.remove(&seq)?;
        self.leases.remove(&(live.expires, seq));
        self.by_id.remove(&live.meta.instance_id);
        if let Some(definition) = self.by_definition.get_mut(&live.meta.definition_id) {
            definition.live.remove(&seq);
            definition.attached.remove(&seq);
            if definition.live.is_empty() {
                self.by_definition.remove(&live.meta.definition_id);
            }
        }
        Some(live.meta)
    }

    fn expire(&mut self, now: Timestamp) -> Vec<InstanceMeta> {
        let mut ended = Vec::new();
        while let Some((expires, seq)) = self.leases.first().copied()
            && expires <= now
        {
            // It is taken out here as well, so that the loop ends whatever `remove` finds.
            self.leases.remove(&(expires, seq));
            ended.extend(self.remove(seq));
        }
        ended
    }
}

/// How many ids are tried for a new instance.
pub const MINTS_MAX: usize = 8;

/// A lease is moved on when this part of it has gone by.
const RENEWED_IN: u32 = 16;
