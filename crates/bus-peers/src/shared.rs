//! The registry that several buses share: a bucket, and calls between its buses.

mod entry;
mod serving;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bus_core::{
    CallOutcome, Endpoint, Engine, Error, ErrorKind, ExpectRevision, Outcome, Put, Revision,
};
use bus_envelope::{Draft, Timestamp};
use bus_subjects::{Address, BucketKey, BucketName, ModuleName, Subject, VerbName};
use tokio::sync::Notify;

use self::entry::{Answer, Entry, Handed};
pub use self::serving::Serving;
use crate::{
    BusEnvelope, BusError, DeliveryState, InstanceMeta, LiveInstance, PeerTarget, Recipient,
    SecretHash,
    core::{Core, Told},
    registry::{definition, machine::Command},
};

/// What a bus knows of the others.
pub(crate) struct Shared {
    pub(crate) endpoint: Endpoint,
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) bucket: BucketName,
    core: Arc<Core>,
    dirty: Arc<Dirty>,
    lease: Duration,
    instances_max: usize,
    /// When each entry was written last by this bus.
    written: Mutex<BTreeMap<String, Timestamp>>,
    /// The instances that are known here, by the keys of their entries.
    names: Mutex<BTreeMap<BucketKey, String>>,
    /// Those that ended here and whose entries the watch has not told the end of: what it still
    /// tells of them is older.
    ended: Mutex<BTreeSet<String>>,
}

/// Instances of which the shared registry has to be told something.
#[derive(Debug, Default)]
pub(crate) struct Dirty {
    ids: Mutex<BTreeSet<String>>,
    added: Notify,
}

/// What the other buses made of a message.
pub(crate) enum Elsewhere {
    /// They are not concerned.
    Here,
    Told(Told),
    /// Nobody knows.
    Unsure(BusError),
}

impl Shared {
    pub(crate) fn new(
        endpoint: Endpoint,
        engine: Arc<dyn Engine>,
        core: Arc<Core>,
        dirty: Arc<Dirty>,
        (lease, instances_max): (Duration, usize),
    ) -> Self {
        let bucket = BucketName::peers(endpoint.workspace());
        let (written, names, ended) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { endpoint, engine, bucket, core, dirty, lease, instances_max, written, names, ended }
    }

    /// Registers an instance under the next number, of which its id is made.
    pub(crate) async fn register(
        &self,
        definition_id: &str,
        project: Option<&str>,
        secret: SecretHash,
    ) -> Result<InstanceMeta, BusError> {
        definition::check(definition_id)?;
        definition::check_project(project)?;
        if self.core.count() >= self.instances_max {
            return Err(BusError::Full { what: "instances", max: self.instances_max });
        }
        let seq = self.next_seq().await?;
        let number = u32::try_from(seq)
            .map_err(|_| BusError::Full { what: "instance ids", max: u32::MAX as usize })?;
        let meta = InstanceMeta {
            instance_id: format!("{definition_id}~{:08x}", mixed(number)),
            definition_id: definition_id.to_owned(),
            project: project.map(str::to_owned),
            registered_at: self.core.now().to_string(),
            seq,
        };
        let entry = Entry::new(meta.clone(), secret);
        let put = Put::new(entry.json()?).expect(ExpectRevision::Absent).ttl(self.lease);
        let key = entry::key(&meta.instance_id)?;
        match self.engine.put(self.bucket.clone(), key, put).await {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Conflict => {
                let definition_id = definition_id.to_owned();
                return Err(BusError::InstanceIdCollision { definition_id, tries: 1 });
            }
            Err(error) => return Err(away(&error)),
        }
        self.adopt(&entry);
        self.wrote(&meta.instance_id);
        Ok(meta)
    }

    /// Has the instance known here, if another bus registered it a moment ago.
    pub(crate) async fn look_up(&self, instance_id: &str) -> Result<(), BusError> {
        let target = PeerTarget::Instance(instance_id.to_owned());
        if self.core.resolve(&target).is_err()
            && let Some((entry, _)) = self.entry(instance_id).await?
        {
            self.adopt(&entry);
        }
        Ok(())
    }

    /// Writes into the bucket that the instance lives, and whether somebody listens for it here.
    /// `false` when it is not registered any more.
    pub(crate) async fn tell(&self, instance_id: &str, is_forced: bool) -> Result<bool, BusError> {
        for _ in 0..TRIES_MAX {
            let Some((mut entry, revision)) = self.entry(instance_id).await? else {
                self.lock().remove(instance_id);
                let instance_id = instance_id.to_owned();
                self.core.learn(Command::Forget { instance_id });
                return Ok(false);
            };
            let own = self.endpoint.agent().to_string();
            let is_other = if self.core.is_attached(instance_id) {
                entry.holders.insert(own)
            } else {
                entry.holders.remove(&own)
            };
            if !is_other && !is_forced && self.is_fresh(instance_id) {
                return Ok(true);
            }
            let expect = ExpectRevision::Exactly(revision);
            let put = Put::new(entry.json()?).expect(expect).ttl(self.lease);
            match self.engine.put(self.bucket.clone(), entry::key(instance_id)?, put).await {
                Ok(_) => {
                    self.wrote(instance_id);
                    return Ok(true);
                }
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                Err(error) => return Err(away(&error)),
            }
        }
        Err(contended())
    }

    /// Ends a registration whose secret was shown.
    pub(crate) async fn remove(&self, instance_id: &str) -> Result<(), BusError> {
        let key = entry::key(instance_id)?;
        if self.names.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&key) {
            self.ended().insert(instance_id.to_owned());
        }
        let deleted = self.engine.delete(self.bucket.clone(), key, ExpectRevision::Any).await;
        if let Err(error) = deleted {
            self.ended().remove(instance_id);
            return Err(away(&error));
        }
        self.lock().remove(instance_id);
        Ok(())
    }

    /// Hands a message to the other buses at which somebody listens for its receiver. One that
    /// turns out to have nobody is passed over, and for a definition the next instance is meant.
    pub(crate) async fn hand_on(
        &self,
        envelope: &mut BusEnvelope,
        target: &PeerTarget,
    ) -> Result<Elsewhere, BusError> {
        if let PeerTarget::Instance(instance_id) = target {
            self.look_up(instance_id).await?;
        }
        for _ in 0..TRIES_MAX {
            let Ok(live) = self.core.resolve(target) else { return Ok(Elsewhere::Here) };
            let LiveInstance { meta, holders, .. } = live;
            if holders.is_empty() {
                return Ok(Elsewhere::Here);
            }
            envelope.to = Recipient {
                instance_id: Some(meta.instance_id.clone()),
                definition_id: Some(meta.definition_id.clone()),
            };
            envelope.delivery_state = DeliveryState::Delivered;
            envelope.ts = self.core.now().to_string();
            let (mut is_accepted, mut losses_unrecorded) = (false, false);
            for holder in holders {
                match self.hand_to(&holder, &meta.instance_id, envelope).await {
                    Ok(Some(answer)) => {
                        is_accepted = true;
                        losses_unrecorded |= answer.losses_unrecorded;
                    }
                    Ok(None) => self.core.miss(&meta.instance_id, &holder),
                    // Another one has it: that this one may have it too changes nothing.
                    Err(_) if is_accepted => {}
                    Err(error) => return Ok(Elsewhere::Unsure(error)),
                }
            }
            if is_accepted || self.core.is_attached(&meta.instance_id) {
                return Ok(Elsewhere::Told(Told { meta, is_accepted, losses_unrecorded }));
            }
        }
        Ok(Elsewhere::Here)
    }

    /// Asks one bus to take a message in; none when it has nobody who listens, or is gone.
    async fn hand_to(
        &self,
        holder: &str,
        instance_id: &str,
        envelope: &BusEnvelope,
    ) -> Result<Option<Answer>, BusError> {
        let Ok(subject) = call_of(&self.endpoint, holder) else { return Ok(None) };
        let handed = Handed { instance_id: instance_id.to_owned(), envelope: envelope.clone() };
        let draft =
            Draft::new(subject, DELIVER, entry::json(&handed)?).content_type("application/json");
        match self.endpoint.ask(draft, ANSWERED_IN).await {
            Ok(CallOutcome::Answered(opened)) => {
                let answer: Answer = serde_json::from_slice(&opened.payload).map_err(|error| {
                    let reason = format!("the answer of {holder} cannot be read: {error}");
                    BusError::Unavailable { reason, outcome: Outcome::Unknown }
                })?;
                Ok(Some(answer).filter(|answer| answer.accepted))
            }
            Ok(CallOutcome::Failed(_)) => Ok(None),
            Err(error) if error.kind() == ErrorKind::NoRecipient => Ok(None),
            Err(error) => Err(away(&error)),
        }
    }

    pub(crate) fn adopt(&self, entry: &Entry) {
        let mut holders = entry.holders.clone();
        holders.remove(self.endpoint.agent().as_str());
        let instance_id = &entry.meta.instance_id;
        let (Some(secret), Ok(key)) = (entry.secret(), entry::key(instance_id)) else { return };
        // Held to the end of this: who ends it meanwhile does so after it is known, not before.
        let ended = self.ended();
        if ended.contains(instance_id) {
            return;
        }
        // A watch may tell the end of an entry of which it never told the beginning.
        self.names.lock().unwrap_or_else(PoisonError::into_inner).insert(key, instance_id.clone());
        self.core.learn(Command::Adopt { meta: entry.meta.clone(), secret, holders });
        drop(ended);
    }

    /// The instance whose entry is gone, if it was known here.
    pub(crate) fn name_gone(&self, key: &BucketKey) -> Option<String> {
        let name = self.names.lock().unwrap_or_else(PoisonError::into_inner).remove(key)?;
        self.ended().remove(&name);
        Some(name)
    }

    fn ended(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn next_seq(&self) -> Result<u64, BusError> {
        let key = entry::counter()?;
        for _ in 0..SEQ_TRIES_MAX {
            let found = self.engine.get(self.bucket.clone(), key.clone()).await;
            let (last, expect) = match found.map_err(|error| away(&error))? {
                Some(found) => {
                    (entry::number(&found.value)?, ExpectRevision::Exactly(found.revision))
                }
                None => (0, ExpectRevision::Absent),
            };
            let next = last + 1;
            let put = Put::new(next.to_string()).expect(expect);
            match self.engine.put(self.bucket.clone(), key.clone(), put).await {
                Ok(_) => return Ok(next),
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                Err(error) => return Err(away(&error)),
            }
        }
        Err(contended())
    }

    async fn entry(&self, instance_id: &str) -> Result<Option<(Entry, Revision)>, BusError> {
        let Ok(key) = entry::key(instance_id) else { return Ok(None) };
        let found = self.engine.get(self.bucket.clone(), key).await.map_err(|e| away(&e))?;
        Ok(found.and_then(|found| Some((Entry::parse(&found.value)?, found.revision))))
    }

    fn wrote(&self, instance_id: &str) {
        self.lock().insert(instance_id.to_owned(), self.core.now());
    }

    fn is_fresh(&self, instance_id: &str) -> bool {
        let written = self.lock().get(instance_id).copied();
        written.is_some_and(|time| self.core.now().since(time) < self.lease / RENEWED_IN)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Timestamp>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("bucket", &self.bucket).finish_non_exhaustive()
    }
}

impl Dirty {
    pub(crate) fn add(&self, instance_id: &str) {
        let mut ids = self.lock();
        if !ids.contains(instance_id) {
            ids.insert(instance_id.to_owned());
        }
        drop(ids);
        self.added.notify_one();
    }

    fn take(&self) -> BTreeSet<String> {
        std::mem::take(&mut self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The subject on which the bus of `agent` takes messages in.
fn call_of(endpoint: &Endpoint, agent: &str) -> Result<Subject, BusError> {
    let invalid = |error: bus_subjects::SubjectError| away(&Error::from(error));
    let module = ModuleName::parse(MODULE).map_err(invalid)?;
    let verb = VerbName::parse(agent).map_err(invalid)?;
    let workspace = endpoint.workspace().clone();
    Ok(Address::Call { workspace, module, verb }.subject())
}

/// A number for each number, and none for two, that does not look like the one before it.
const fn mixed(number: u32) -> u32 {
    // The last steps of MurmurHash3: each can be undone.
    let number = (number ^ (number >> 16)).wrapping_mul(0x85eb_ca6b);
    let number = (number ^ (number >> 13)).wrapping_mul(0xc2b2_ae35);
    number ^ (number >> 16)
}

#[cfg(test)]
pub(crate) fn key_of(instance_id: &str) -> BucketKey {
    entry::key(instance_id).unwrap()
}

fn away(error: &Error) -> BusError {
    BusError::Unavailable { reason: error.to_string(), outcome: error.outcome() }
}

fn contended() -> BusError {
    let reason = "others wrote the shared registry each time it was tried".to_owned();
    BusError::Unavailable { reason, outcome: Outcome::NotDone }
}

/// The module under which buses call each other, and the queue that their certificates name.
const MODULE: &str = "peers";

/// The type of a message that is handed on.
const DELIVER: &str = "vak.peers.deliver";

/// How long a bus waits for another one.
const ANSWERED_IN: Duration = Duration::from_secs(5);

/// How often a write is tried that others got in between, or a receiver is looked for.
const TRIES_MAX: usize = 16;

/// The same for the one counter that all who register want.
const SEQ_TRIES_MAX: usize = 256;

/// An entry is written anew when this part of its lease has gone by.
const RENEWED_IN: u32 = 4;
