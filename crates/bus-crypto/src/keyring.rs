//! All secrets of a process, the keys derived from them, and which of them still count.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::cache::OpenKeyCache;
use crate::error::CryptoError;
use crate::kdf::derive_key;
use crate::key_id::{KeyId, check_part, is_under};
use crate::seal::{Algorithm, OpenKey, SEALS_MAX, SealKey};
use crate::secret::WorkspaceSecret;

/// The secrets of any number of workspaces, and the keys for sealing and opening (D11).
///
/// Every process life (incarnation) seals under its own key, so its seals are counted exactly;
/// opening keys are derived when a message asks for them and kept in a bounded cache. Share one
/// key ring behind an `Arc`; its lock is held for look-ups only, never while data is sealed.
///
/// ```
/// use bus_crypto::{Keyring, SystemEntropy, WorkspaceSecret};
///
/// let entropy = SystemEntropy::new();
/// let keyring = Keyring::new();
/// keyring.add_secret("shop", "k1", WorkspaceSecret::generate(&entropy)?)?;
///
/// let sealing = keyring.sealing_key("shop", "life-1")?;
/// assert_eq!(sealing.key_id(), "shop.k1.life-1");
///
/// let mut data = b"two apples".to_vec();
/// let nonce = sealing.seal_in_place(&entropy, b"order 7", &mut data)?;
/// keyring.opening_key("shop.k1.life-1")?.open_in_place(&nonce, b"order 7", &mut data)?;
/// assert_eq!(data, b"two apples");
/// # Ok::<(), bus_crypto::CryptoError>(())
/// ```
pub struct Keyring {
    seals_max: u64,
    state: RwLock<State>,
}

impl Keyring {
    /// How many opening keys are kept at once.
    pub const OPENING_KEYS_MAX: usize = 1024;

    /// How many sealing keys are counted; they are never forgotten, or their count would be lost.
    pub const SEALING_KEYS_MAX: usize = 65_536;

    /// Makes an empty key ring.
    #[must_use]
    pub fn new() -> Self {
        Self::with_cache(Self::OPENING_KEYS_MAX)
    }

    /// Makes an empty key ring that keeps at most `keys_max` opening keys (at least one).
    #[must_use]
    pub fn with_cache(keys_max: usize) -> Self {
        let state = State {
            workspaces: HashMap::new(),
            withdrawn: BTreeSet::new(),
            sealing: HashMap::new(),
            opening: OpenKeyCache::new(keys_max),
        };
        Self { seals_max: SEALS_MAX, state: RwLock::new(state) }
    }

    /// Lowers how many messages each sealing key may seal; 2^32 - 1 stays the ceiling.
    #[must_use]
    pub fn with_seal_limit(mut self, seals_max: u64) -> Self {
        self.seals_max = seals_max.min(SEALS_MAX);
        self
    }

    /// Adds a secret. The first of a workspace becomes its current one; later ones only open,
    /// until [`set_current`](Self::set_current). Adding the same secret again changes nothing.
    ///
    /// # Errors
    /// [`CryptoError::BadKeyId`] when workspace or name cannot be part of a key id,
    /// [`CryptoError::NameTaken`] when the name stands for another secret,
    /// [`CryptoError::WithdrawnKey`] when the name was withdrawn: it does not come back.
    pub fn add_secret(
        &self,
        workspace: &str,
        name: &str,
        secret: WorkspaceSecret,
    ) -> Result<(), CryptoError> {
        check_part(workspace)?;
        check_part(name)?;
        let prefix = format!("{workspace}.{name}");
        let mut state = self.write();
        state.check_not_withdrawn(&prefix)?;
        let known = state.workspaces.entry(workspace.to_owned()).or_default();
        if let Some(old) = known.secrets.get(name) {
            return if old.is_same(&secret) {
                Ok(())
            } else {
                Err(CryptoError::NameTaken { prefix })
            };
        }
        known.secrets.insert(name.to_owned(), Arc::new(secret));
        known.current.get_or_insert_with(|| name.to_owned());
        Ok(())
    }

    /// Makes `name` the secret that new sealing keys of `workspace` come from. Keys of the former
    /// one still open.
    ///
    /// # Errors
    /// [`CryptoError::UnknownKey`] when no such secret was added, [`CryptoError::WithdrawnKey`]
    /// when it was withdrawn.
    pub fn set_current(&self, workspace: &str, name: &str) -> Result<(), CryptoError> {
        let prefix = format!("{workspace}.{name}");
        let mut state = self.write();
        state.check_not_withdrawn(&prefix)?;
        match state.workspaces.get_mut(workspace) {
            Some(known) if known.secrets.contains_key(name) => {
                known.current = Some(name.to_owned());
                Ok(())
            }
            _ => Err(CryptoError::UnknownKey { key_id: prefix }),
        }
    }

    /// The name of the secret that `workspace` seals with now.
    #[must_use]
    pub fn current(&self, workspace: &str) -> Option<String> {
        self.read().workspaces.get(workspace)?.current.clone()
    }

    /// Withdraws every key under `prefix`: a workspace, `<workspace>.<name>` or a whole key id.
    ///
    /// Secrets under it are wiped as soon as nobody derives from them; sealing keys already handed
    /// out refuse from now on; new opening keys are refused. It cannot be undone in this key ring.
    /// A workspace whose current secret is withdrawn seals nothing until another is made current.
    ///
    /// # Errors
    /// [`CryptoError::BadKeyId`] when `prefix` is not one, two or three parts of a key id.
    pub fn withdraw(&self, prefix: &str) -> Result<(), CryptoError> {
        if prefix.split('.').count() > 3 {
            return Err(CryptoError::BadKeyId);
        }
        prefix.split('.').try_for_each(check_part)?;
        let mut state = self.write();
        state.withdrawn.insert(prefix.to_owned());
        for (workspace, known) in &mut state.workspaces {
            known.secrets.retain(|name, _| !is_under(&format!("{workspace}.{name}"), prefix));
        }
        for key in state.sealing.values().filter(|key| is_under(key.key_id(), prefix)) {
            key.withdraw();
        }
        state.opening.remove_if(|key_id| is_under(key_id, prefix));
        Ok(())
    }

    /// The key that `incarnation` seals with in `workspace`: of the current secret, and the very
    /// same key on every call, so that all its seals are counted together.
    ///
    /// # Errors
    /// [`CryptoError::UnknownKey`] when the workspace has no secret,
    /// [`CryptoError::WithdrawnKey`] when its current one was withdrawn,
    /// [`CryptoError::BadKeyId`] when the parts make no key id, [`CryptoError::KeyringFull`] beyond
    /// [`SEALING_KEYS_MAX`](Self::SEALING_KEYS_MAX) keys.
    pub fn sealing_key(
        &self,
        workspace: &str,
        incarnation: &str,
    ) -> Result<Arc<SealKey>, CryptoError> {
        let key_id = self.read().current_key_id(workspace, incarnation)?;
        if let Some(key) = self.read().known_sealing_key(&key_id)? {
            return Ok(key);
        }
        let mut state = self.write();
        // Looked up again under the exclusive lock: two keys of one id would count apart.
        if let Some(key) = state.known_sealing_key(&key_id)? {
            return Ok(key);
        }
        if state.sealing.len() >= Self::SEALING_KEYS_MAX {
            return Err(CryptoError::KeyringFull { keys_max: Self::SEALING_KEYS_MAX });
        }
        let secret = state.secret(&key_id)?;
        let bytes = derive_key(secret.expose(), key_id.as_str())?;
        let key = SealKey::new(Algorithm::Aes256Gcm, key_id.as_str(), &bytes)?;
        let key = Arc::new(key.with_limit(self.seals_max));
        state.sealing.insert(key_id, Arc::clone(&key));
        Ok(key)
    }

    /// The key that opens messages sealed under `key_id`. Ask for each message: what was withdrawn
    /// meanwhile is refused here.
    ///
    /// # Errors
    /// [`CryptoError::BadKeyId`] when `key_id` is malformed, [`CryptoError::UnknownKey`] when no
    /// such secret was added (the message may be intact and open later),
    /// [`CryptoError::WithdrawnKey`] when it was withdrawn.
    pub fn opening_key(&self, key_id: &str) -> Result<Arc<OpenKey>, CryptoError> {
        let secret = {
            let state = self.read();
            if let Some(key) = state.opening.get(key_id) {
                return Ok(key);
            }
            let key_id = KeyId::parse(key_id)?;
            state.check_not_withdrawn(key_id.as_str())?;
            state.secret(&key_id)?
        };
        let bytes = derive_key(secret.expose(), key_id)?;
        let key = Arc::new(OpenKey::new(Algorithm::Aes256Gcm, key_id, &bytes)?);
        let mut state = self.write();
        // A withdrawal may have come in between; it must not be undone by this insertion.
        state.check_not_withdrawn(key_id)?;
        Ok(state.opening.insert(key))
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Keyring {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.read();
        let mut workspaces: Vec<_> = state.workspaces.keys().collect();
        workspaces.sort();
        f.debug_struct("Keyring")
            .field("workspaces", &workspaces)
            .field("withdrawn", &state.withdrawn)
            .finish_non_exhaustive()
    }
}

struct State {
    workspaces: HashMap<String, Workspace>,
    withdrawn: BTreeSet<String>,
    sealing: HashMap<KeyId, Arc<SealKey>>,
    opening: OpenKeyCache,
}

#[derive(Default)]
struct Workspace {
    secrets: HashMap<String, Arc<WorkspaceSecret>>,
    current: Option<String>,
}

impl State {
    fn current_key_id(&self, workspace: &str, incarnation: &str) -> Result<KeyId, CryptoError> {
        let unknown = || CryptoError::UnknownKey { key_id: workspace.to_owned() };
        let known = self.workspaces.get(workspace).ok_or_else(unknown)?;
        let name = known.current.as_deref().ok_or_else(unknown)?;
        KeyId::new(workspace, name, incarnation)
    }

    fn known_sealing_key(&self, key_id: &KeyId) -> Result<Option<Arc<SealKey>>, CryptoError> {
        self.check_not_withdrawn(key_id.as_str())?;
        Ok(self.sealing.get(key_id).map(Arc::clone))
    }

    fn secret(&self, key_id: &KeyId) -> Result<Arc<WorkspaceSecret>, CryptoError> {
        self.workspaces
            .get(key_id.workspace())
            .and_then(|known| known.secrets.get(key_id.name()))
            .map(Arc::clone)
            .ok_or_else(|| CryptoError::UnknownKey { key_id: key_id.to_string() })
    }

    /// Looks for `text` and each shorter run of its whole parts: three look-ups at most.
    fn check_not_withdrawn(&self, text: &str) -> Result<(), CryptoError> {
        let ends = text.match_indices('.').map(|(end, _)| end).chain([text.len()]);
        for prefix in ends.filter_map(|end| text.get(..end)) {
            if self.withdrawn.contains(prefix) {
                return Err(CryptoError::WithdrawnKey { key_id: text.to_owned() });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
