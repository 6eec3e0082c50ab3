//! The two accounts of a workspace: what the store offers, and under which names agents use it.
//!
//! An answer that comes back through an import is delivered to whoever asked and is not taken up
//! by another import. So nobody can have the store's answer to one question become another
//! question, which in one account anybody can (ADR 0024).

use std::time::Duration;

use bus_crypto::{
    PublicKey,
    jwt::{Answers, Export, Import},
};
use bus_subjects::{AddressKind, Filter, Plane, SubjectError};

use super::{
    layout::{Consumers, Layout, Store},
    subscribe::minimal,
};
use crate::codec::PLACED;

/// What the store's account offers to the account of the agents, and to no other: whoever signs
/// accounts must give no other account these imports.
///
/// That is everything that any role may need, and no way to make, change, empty or remove a
/// stream.
#[must_use]
pub fn store_exports(layout: &Layout) -> Vec<Export> {
    let services =
        services(layout).into_iter().map(|Service { name, subject, answers, .. }| {
            let export = Export::service(name, subject, answers);
            match answers {
                Answers::One => export,
                // Otherwise the way back of each question is kept while its asker listens.
                Answers::Stream | Answers::Chunked => export.forgotten_after(ANSWERS_SILENT_MAX),
            }
        });
    services.chain([Export::stream("removed consumers", REMOVED)]).collect()
}

/// What the account of the agents uses of the account `store`.
#[must_use]
pub fn workspace_imports(layout: &Layout, store: &PublicKey) -> Vec<Import> {
    let services = services(layout).into_iter().map(|Service { name, subject, local, .. }| {
        let import = Import::service(name, subject, *store);
        match local {
            Some(local) => import.known_as(local),
            None => import,
        }
    });
    services.chain([Import::stream("removed consumers", REMOVED, *store)]).collect()
}

/// What must not cross the link of a leaf node, in either direction: everything that a store keeps,
/// and everything that it is asked. For the `deny_exports` and `deny_imports` of each remote.
///
/// Without it one publish is kept at the hub and at the leaf, and an answer of one store, sent
/// there by whoever asked, is kept in the other or orders it about. Live events, calls and their
/// answers cross; samples of latest-value subjects do not, as stores keep them.
///
/// # Errors
/// None in practice: the names are checked like any other.
pub fn leaf_denies(layout: &Layout) -> Result<Vec<Filter>, SubjectError> {
    let under_own_names = services(layout).into_iter().filter(|service| service.local.is_none());
    let asked = format!("{}.>", Layout::API_PREFIX);
    let own = OWN_TO_A_STORE.into_iter().map(str::to_owned).chain([asked]);
    let all: Result<_, _> = under_own_names
        .map(|service| service.subject)
        .chain(own)
        .map(|subject| Filter::parse(&subject))
        .collect();
    Ok(minimal(all?))
}

/// What a store hears beside that: the API and its answers, the bells between those who share a
/// consumer, and what tells that a sample was stored.
const OWN_TO_A_STORE: [&str; 4] = ["$JS.>", "$KV.>", "vakqr.>", "vakl.>"];

/// Something that the store answers.
struct Service {
    name: String,
    /// As the store knows it.
    subject: String,
    /// As agents know it, when that is another name.
    local: Option<String>,
    answers: Answers,
}

fn services(layout: &Layout) -> Vec<Service> {
    let one = |name: &str, subject: String| Service {
        name: name.to_owned(),
        subject,
        local: None,
        answers: Answers::One,
    };
    // Samples too, of which the store keeps the latest: not as a stream that the store hears. In a
    // cluster that would also hear the answers that somebody has sent there.
    let is_kept =
        |kind: &AddressKind| kind.plane() == Plane::Durable || *kind == AddressKind::Telemetry;
    let kept = AddressKind::ALL.into_iter().filter(is_kept).map(|kind| {
        let filter = kind.filter(Some(layout.workspace()));
        one(kind.word(), filter.as_str().to_owned())
    });
    let queues = layout.stores().filter(|store| store.consumers.is_some());
    let placed = queues.flat_map(Store::parts);
    let placed = placed.map(|part| one("placed", format!("{PLACED}*.*.{part}")));
    let own = [
        ("board", "vakq.>"),
        ("buckets", "$KV.*.>"),
        ("blobs", "vakblob.*.>"),
        ("acknowledgements", "$JS.ACK.>"),
    ];
    let own = own.into_iter().map(|(name, subject)| one(name, subject.to_owned()));
    let asked = |verb: &str, answers| Service {
        name: verb.to_owned(),
        subject: format!("$JS.API.{verb}"),
        local: Some(format!("{}.{}", Layout::API_PREFIX, numbered(verb))),
        answers,
    };
    // Of no other stream: whose consumer is removed loses what it holds.
    let is_taken_over = |store: &&Store| matches!(store.consumers, Some(Consumers::Only(_)));
    let taken_over = layout.stores().filter(is_taken_over).map(|store| {
        let verb = format!("CONSUMER.DELETE.{}.*", store.name);
        asked(&verb, Answers::One)
    });
    let asked_of_all = VERBS.into_iter().map(|(verb, answers)| asked(verb, answers));
    kept.chain(placed).chain(own).chain(asked_of_all).chain(taken_over).collect()
}

/// The verb with `$1`, `$2` … for its stars.
fn numbered(verb: &str) -> String {
    let mut star = 0;
    let number = |level: &str| {
        if level != "*" {
            return level.to_owned();
        }
        star += 1;
        format!("${star}")
    };
    verb.split('.').map(number).collect::<Vec<_>>().join(".")
}

/// The part of the API that agents may ask, and how often it answers.
const VERBS: [(&str, Answers); 9] = [
    ("DIRECT.GET.*", Answers::Stream),
    ("DIRECT.GET.*.>", Answers::One),
    ("CONSUMER.MSG.NEXT.*.*", Answers::Stream),
    ("CONSUMER.INFO.*.*", Answers::One),
    // With the filter in the subject: the other forms have it in the body, where no server looks.
    ("CONSUMER.CREATE.*.*.>", Answers::One),
    ("CONSUMER.LIST.*", Answers::One),
    ("CONSUMER.PAUSE.*.*", Answers::One),
    ("STREAM.INFO.*", Answers::One),
    ("STREAM.MSG.DELETE.*", Answers::One),
];

/// Pulls wait at most a minute, and beat meanwhile.
const ANSWERS_SILENT_MAX: Duration = Duration::from_secs(180);

const REMOVED: &str = "$JS.EVENT.ADVISORY.CONSUMER.DELETED.*.*";
