//! What a registry learns from others that share it.

use std::collections::BTreeSet;

use bus_envelope::Timestamp;

use super::{Done, InstanceMeta, Registry};
use crate::SecretHash;

impl Registry {
    /// Takes over what another bus says of an instance; its lease begins anew here.
    pub(super) fn adopt(
        &mut self,
        meta: InstanceMeta,
        secret: SecretHash,
        holders: BTreeSet<String>,
        now: Timestamp,
    ) -> Done {
        let seq = meta.seq;
        match self.by_id.get(&meta.instance_id) {
            None if self.instances.contains_key(&seq) => return Done::Nothing,
            None => self.insert(meta, secret, now),
            Some(own) if *own != seq => return Done::Nothing,
            Some(_) => {}
        }
        if let Some(instance) = self.instances.get_mut(&seq) {
            instance.live.holders = holders;
        }
        self.mark(seq);
        self.renew(seq, now)
    }

    /// How many instances there are, those included whose leases are over since the last command.
    pub(crate) fn count(&self) -> usize {
        self.instances.len()
    }

    /// One of the other buses has no listener for the instance after all.
    pub(crate) fn miss(&mut self, instance_id: &str, holder: &str) {
        let Some(seq) = self.by_id.get(instance_id).copied() else { return };
        if let Some(instance) = self.instances.get_mut(&seq) {
            instance.live.holders.remove(holder);
        }
        self.mark(seq);
    }

    /// Notes whether anybody listens for the instance, here or elsewhere.
    pub(super) fn mark(&mut self, seq: u64) {
        let Some(instance) = self.instances.get(&seq) else { return };
        let live = &instance.live;
        let Some(definition) = self.by_definition.get_mut(&live.meta.definition_id) else { return };
        if live.subscriptions > 0 || !live.holders.is_empty() {
            definition.attached.insert(seq);
        } else {
            definition.attached.remove(&seq);
        }
    }
}
