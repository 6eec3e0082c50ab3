//! What the machines of one workspace tell each other through the bus: whom its account certified,
//! and whose keys it took back.
//!
//! Everything there is signed by the account, so that a stranger who writes into it is not
//! believed. It stands for the files of a data home where there are several of them.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

use bus_core::{
    Change, Engine, ErrorKind, ExpectRevision, Identity, KeyState, Put, Result, Revision,
    Revocation, Roster, Watch, WatchItem,
};
use bus_subjects::{BucketKey, BucketName, Filter, WorkspaceId};

use crate::{
    error::{CliError, Exit},
    home::Home,
    print,
    workspace::Workspace,
};

/// The directory of one workspace on a bus.
pub(super) struct Directory {
    bus: Arc<dyn Engine>,
    bucket: BucketName,
    /// The keys that are known to be there.
    known: Arc<Mutex<HashSet<String>>>,
}

/// What a roster learns from the directory.
struct Learning {
    roster: Arc<Roster>,
    /// Whose files keep the revocations too; nobody's where servers hear of them elsewhere.
    keeper: Option<(Home, WorkspaceId)>,
    known: Arc<Mutex<HashSet<String>>>,
}

/// Why there is no directory.
enum Closed {
    /// The engine says so.
    Engine(bus_core::Error),
    /// What is there, or here, is wrong.
    Wrong(CliError),
}

impl Directory {
    /// Reads it into `roster`, tells it what only this machine knows, and goes on reading for as
    /// long as `bus` is open. None for a login that may not use it. A `keeper`'s data home keeps
    /// what other machines revoked.
    ///
    /// # Errors
    /// When the workspace of this name on the bus is another account's: nobody there would believe
    /// anything that is signed here. When it cannot be read.
    pub(super) async fn open(
        bus: &Arc<dyn Engine>,
        workspace: &Workspace,
        roster: &Arc<Roster>,
        keeper: Option<&Home>,
    ) -> std::result::Result<Option<Self>, CliError> {
        match Self::try_open(bus, workspace, roster, keeper).await {
            Err(Closed::Engine(error)) if error.kind() == ErrorKind::Denied => {
                tracing::info!(%error, "this login may not use the directory of the workspace");
                Ok(None)
            }
            Err(Closed::Engine(error)) => Err(error.into()),
            Err(Closed::Wrong(error)) => Err(error),
            Ok(directory) => Ok(Some(directory)),
        }
    }

    async fn try_open(
        bus: &Arc<dyn Engine>,
        workspace: &Workspace,
        roster: &Arc<Roster>,
        keeper: Option<&Home>,
    ) -> std::result::Result<Self, Closed> {
        let bucket = BucketName::agents(workspace.name());
        let known = Arc::default();
        let directory = Self { bus: Arc::clone(bus), bucket, known };
        directory.check_account(workspace).await?;
        let filter = Filter::parse(">")?;
        let mut watch = bus.watch(directory.bucket.clone(), filter, Revision::START).await?;
        let learning = Learning {
            roster: Arc::clone(roster),
            keeper: keeper.map(|home| (home.clone(), workspace.name().clone())),
            known: Arc::clone(&directory.known),
        };
        while let Some(item) = watch.next().await {
            match item? {
                WatchItem::Current => break,
                WatchItem::Resync => {}
                WatchItem::Changed(change) => learning.learn(&change),
            }
        }
        match directory.tell_revocations(workspace).await {
            // Who may only read learns all the same.
            Err(Closed::Engine(error)) if error.kind() == ErrorKind::Denied => {
                tracing::info!(%error, "this login may not tell of revocations");
            }
            told => told?,
        }
        go_on(watch, learning);
        Ok(directory)
    }

    /// Refuses a workspace that another account has on this bus.
    async fn check_account(&self, workspace: &Workspace) -> std::result::Result<(), Closed> {
        let own = workspace.account().text();
        let key = BucketKey::parse(ACCOUNT)?;
        let mut put = Put::new(own.clone());
        put.expect = ExpectRevision::Absent;
        match self.bus.get(self.bucket.clone(), key.clone()).await? {
            None => match self.bus.put(self.bucket.clone(), key.clone(), put).await {
                Ok(_) => return Ok(()),
                // Somebody else was first.
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                Err(error) => return Err(error.into()),
            },
            Some(entry) if entry.value == own.as_bytes() => return Ok(()),
            Some(_) => {}
        }
        let there = self.bus.get(self.bucket.clone(), key).await?;
        if there.is_some_and(|entry| entry.value == own.as_bytes()) {
            return Ok(());
        }
        let (name, dir) = (workspace.name(), workspace.path().display());
        let what = format!(
            "the workspace {name} on this bus belongs to another account than the one in {dir}"
        );
        Err(Closed::Wrong(CliError::new(Exit::Refused, what).next(
            "copy DATA_DIR/workspaces from the machine where it was made, or use another name \
             (--workspace)",
        )))
    }

    /// Tells the bus whom the account certified, so that others know the signer.
    pub(super) async fn tell_certificate(&self, identity: &Identity) -> Result<()> {
        let certificate = identity.certificate();
        let key = format!("{CERTIFICATE}{}", certificate.nkey.text());
        self.tell(key, certificate.token().to_owned()).await
    }

    async fn tell_revocations(&self, workspace: &Workspace) -> std::result::Result<(), Closed> {
        for line in workspace.revocation_lines().map_err(Closed::Wrong)? {
            let revocation = Revocation::parse(&line, workspace.account())?;
            self.tell(format!("{REVOCATION}{}", revocation.nkey.text()), line).await?;
        }
        Ok(())
    }

    /// Writes what is not there yet.
    async fn tell(&self, key: String, value: String) -> Result<()> {
        if lock(&self.known).contains(&key) {
            return Ok(());
        }
        let mut put = Put::new(value);
        put.expect = ExpectRevision::Absent;
        match self.bus.put(self.bucket.clone(), BucketKey::parse(&key)?, put).await {
            // Another process told it at the same moment.
            Err(error) if error.kind() != ErrorKind::Conflict => return Err(error),
            _ => {}
        }
        lock(&self.known).insert(key);
        Ok(())
    }
}

impl<E: Into<bus_core::Error>> From<E> for Closed {
    fn from(error: E) -> Self {
        Self::Engine(error.into())
    }
}

impl Learning {
    /// Takes in what the account signed; anything else is passed over.
    fn learn(&self, change: &Change) {
        let key = change.key.as_str();
        let KeyState::Value(value) = &change.state else {
            lock(&self.known).remove(key);
            return;
        };
        lock(&self.known).insert(key.to_owned());
        let Ok(text) = std::str::from_utf8(value) else { return };
        let learnt = if key.starts_with(CERTIFICATE) {
            self.roster.admit(text)
        } else if key.starts_with(REVOCATION) {
            Revocation::parse(text.trim_end(), self.roster.account())
                .and_then(|revocation| self.roster.revoke(&revocation).map(|_| self.keep(text)))
        } else {
            return;
        };
        if let Err(error) = learnt {
            tracing::debug!(key, %error, "an entry of the directory is passed over");
        }
    }

    /// Puts a revocation where whoever tells the servers finds it.
    fn keep(&self, line: &str) {
        let Some((home, name)) = &self.keeper else { return };
        let kept = Workspace::open(home, name).and_then(|own| own.keep_revocation(line));
        if let Err(error) = kept {
            print::remark(&error.as_warning());
        }
    }
}

/// Reads on until the connection is closed.
#[expect(clippy::disallowed_methods, reason = "the command line is one of the places that spawn")]
fn go_on(mut watch: Watch, learning: Learning) {
    tokio::spawn(async move {
        while let Some(item) = watch.next().await {
            match item {
                Ok(WatchItem::Changed(change)) => learning.learn(&change),
                Ok(WatchItem::Current | WatchItem::Resync) => {}
                Err(error) => tracing::info!(%error, "the directory is not read for a while"),
            }
        }
    });
}

fn lock(known: &Mutex<HashSet<String>>) -> std::sync::MutexGuard<'_, HashSet<String>> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The key of the account's public key.
const ACCOUNT: &str = "account";

/// How the keys of certificates begin.
const CERTIFICATE: &str = "certificate.";

/// How the keys of revocations begin.
const REVOCATION: &str = "revocation.";
