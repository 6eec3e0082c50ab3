//! How far each hook was told, kept over the ends of daemons.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

use bus_core::{Endpoint, Seq};
use serde::{Deserialize, Serialize};

use super::Topic;
use crate::{error::CliError, home::Home, print as out};

/// Where the cursors of one hook are kept.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) run: Home,
    pub(super) topic: Topic,
    /// The bus whose positions they are: its servers, in any order, or a word for one kept here.
    pub(super) bus: String,
}

/// How far each workspace was told, for all who tell; what they say is kept at once.
#[derive(Debug)]
pub(super) struct Ledger {
    place: Place,
    cursors: Mutex<Cursors>,
}

/// How far each workspace was told.
#[derive(Debug, Default)]
struct Cursors {
    /// As they were kept by an earlier daemon; each counts until it is looked at.
    kept: Vec<Cursor>,
    /// As this one has them.
    now: Vec<Cursor>,
    /// Those of other buses, kept for the daemon that comes back to them.
    others: Vec<Cursor>,
    /// What was said last is not in the file: it is written when it is said again, whatever it is.
    is_unkept: bool,
}

/// How far one workspace was told on one bus.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Cursor {
    workspace: String,
    /// The workspace's account: a later one of its name begins anew.
    account: String,
    bus: String,
    /// The first position that was not told.
    next: u64,
}

/// The file.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    cursors: Vec<Cursor>,
}

impl Ledger {
    /// The cursors as an earlier daemon kept them; none, and a warning, when they cannot be read.
    pub(super) fn open(place: Place) -> Self {
        let cursors = place.load().unwrap_or_else(|error| {
            out::remark(&error.as_warning());
            Cursors::default()
        });
        Self { place, cursors: Mutex::new(cursors) }
    }

    /// What an earlier daemon would have told next in the workspace of `endpoint`, or this one.
    pub(super) fn kept(&self, endpoint: &Endpoint) -> Option<Seq> {
        let (workspace, account) = name_of(endpoint);
        let cursors = self.cursors.lock().unwrap_or_else(PoisonError::into_inner);
        cursors.next(&workspace, &account)
    }

    /// Keeps what is told next in the workspace of `endpoint`.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn told(&self, endpoint: &Endpoint, next: Seq) -> Result<(), CliError> {
        let (workspace, account) = name_of(endpoint);
        self.note(&workspace, &account, next)
    }

    fn note(&self, workspace: &str, account: &str, next: Seq) -> Result<(), CliError> {
        let mut cursors = self.cursors.lock().unwrap_or_else(PoisonError::into_inner);
        if cursors.is_kept(workspace, account, next) {
            return Ok(());
        }
        cursors.told((workspace, account, &self.place.bus), next);
        let kept = self.place.keep(&cursors);
        cursors.is_unkept = kept.is_err();
        kept
    }
}

impl Cursors {
    /// Those of `kept` that are of `bus`, and the others.
    fn of(kept: Vec<Cursor>, bus: &str) -> Self {
        let is_ours = |cursor: &Cursor| is_same(&cursor.bus, bus);
        let (kept, others) = kept.into_iter().partition(is_ours);
        Self { kept, others, ..Self::default() }
    }

    /// What is told next in a workspace, by this daemon's word or else an earlier one's.
    fn next(&self, workspace: &str, account: &str) -> Option<Seq> {
        found(&self.now, workspace, account).or_else(|| found(&self.kept, workspace, account))
    }

    /// Whether this daemon said `next` last, and all that it said is in the file.
    fn is_kept(&self, workspace: &str, account: &str, next: Seq) -> bool {
        !self.is_unkept && found(&self.now, workspace, account) == Some(next)
    }

    /// Notes what is told next on `bus`.
    fn told(&mut self, (workspace, account, bus): (&str, &str, &str), next: Seq) {
        let is_it = |cursor: &Cursor| cursor.workspace == workspace && cursor.account == account;
        self.kept.retain(|cursor| !is_it(cursor));
        self.now.retain(|cursor| !is_it(cursor));
        self.now.push(Cursor {
            workspace: workspace.to_owned(),
            account: account.to_owned(),
            bus: bus.to_owned(),
            next: next.0,
        });
    }

    /// All of them, as they are kept.
    fn all(&self) -> Vec<Cursor> {
        [&self.others, &self.kept, &self.now].into_iter().flatten().cloned().collect()
    }
}

impl Place {
    /// The cursors as an earlier daemon kept them; those of other buses do not count.
    ///
    /// # Errors
    /// When they cannot be read.
    fn load(&self) -> Result<Cursors, CliError> {
        let name = self.topic.file();
        if !self.run.below(name).exists() {
            return Ok(Cursors::default());
        }
        let text = self.run.read_long(name)?;
        let kept: Kept = serde_json::from_str(&text).map_err(|error| {
            let what = format!("{} is damaged: {error}", self.run.path().join(name).display());
            CliError::usage(what).next("it is written anew; nothing that was kept is told again")
        })?;
        Ok(Cursors::of(kept.cursors, &self.bus))
    }

    /// Keeps the cursors, those of other buses and of workspaces that were not looked at yet among
    /// them.
    ///
    /// # Errors
    /// When they cannot be written.
    fn keep(&self, cursors: &Cursors) -> Result<(), CliError> {
        let kept = Kept { cursors: cursors.all() };
        let text = serde_json::to_string(&kept).map_err(|error| {
            CliError::usage(format!("cannot write how far hooks were told: {error}"))
        })?;
        self.run.replace(self.topic.file(), &text)
    }
}

/// The workspace of an auditor, and its account.
fn name_of(endpoint: &Endpoint) -> (String, String) {
    let (workspace, account) = super::name_of(endpoint);
    (workspace.to_string(), account)
}

fn found(cursors: &[Cursor], workspace: &str, account: &str) -> Option<Seq> {
    let is_it = |cursor: &&Cursor| cursor.workspace == workspace && cursor.account == account;
    cursors.iter().find(is_it).map(|cursor| Seq(cursor.next))
}

/// Whether two lists of servers name one bus: they have a server in common.
fn is_same(one: &str, other: &str) -> bool {
    let servers = |list: &str| -> BTreeSet<String> {
        let named = list.split(',').map(|server| server.trim().trim_end_matches('/'));
        named.filter(|server| !server.is_empty()).map(str::to_ascii_lowercase).collect()
    };
    !servers(one).is_disjoint(&servers(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    const AB: &str = "nats://a:4222,nats://b:4222";

    #[test]
    fn what_could_not_be_kept_is_kept_when_it_is_said_again() {
        let dir = tempfile::tempdir().unwrap();
        let run = Home::locate(Some(dir.path())).unwrap().below("run");
        let topic = Topic::DeadLetter;
        let ledger = Ledger::open(Place { run: run.clone(), topic, bus: "own".to_owned() });
        assert!(ledger.note("w", "A", Seq(7)).is_err(), "there is no such folder yet");
        run.create().unwrap();
        ledger.note("w", "A", Seq(7)).unwrap();
        let kept = ledger.place.load().unwrap();
        assert_eq!(kept.next("w", "A"), Some(Seq(7)));
    }

    fn reloaded(cursors: &Cursors, bus: &str) -> Cursors {
        Cursors::of(cursors.all(), bus)
    }

    #[test]
    fn a_list_of_servers_that_changes_is_the_same_bus() {
        let mut cursors = Cursors::default();
        cursors.told(("w", "A", AB), Seq(7));
        for bus in ["nats://b:4222,nats://a:4222", "nats://b:4222/", "nats://c:1,NATS://A:4222"] {
            assert_eq!(reloaded(&cursors, bus).next("w", "A"), Some(Seq(7)), "{bus}");
        }
        assert_eq!(reloaded(&cursors, "nats://c:4222").next("w", "A"), None);
    }

    #[test]
    fn a_bus_that_is_left_and_come_back_to_goes_on_where_it_was() {
        let mut cursors = Cursors::default();
        cursors.told(("w", "A", "own"), Seq(7));
        let mut there = reloaded(&cursors, AB);
        assert_eq!(there.next("w", "A"), None);
        there.told(("w", "A", AB), Seq(3));
        assert_eq!(reloaded(&there, "own").next("w", "A"), Some(Seq(7)));
        assert_eq!(reloaded(&there, AB).next("w", "A"), Some(Seq(3)));
    }

    #[test]
    fn a_later_workspace_of_the_same_name_begins_anew() {
        let mut cursors = Cursors::default();
        cursors.told(("w", "A", "own"), Seq(7));
        assert_eq!(reloaded(&cursors, "own").next("w", "B"), None);
    }
}
