//! The targets: what is fuzzed, under which name, starting from what.

use crate::{bodies, canary, seeds};

/// A body with its name and the inputs to start from.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name, also that of its libFuzzer program and of its folder in `corpus/`.
    pub name: &'static str,
    /// Reads the input, panics when a law is broken, and says whether the input was accepted.
    pub body: fn(&[u8]) -> bool,
    /// Inputs made anew on every run: our own golden data, and the foreign vectors where they are.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

impl Target {
    /// The target of this name, the canary included.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        TARGETS.iter().chain([&CANARY]).find(|target| target.name == name).copied()
    }
}

/// Every target but the canary.
pub const TARGETS: &[Target] = &[
    Target { name: "binary", body: bodies::binary::body, seeds: seeds::binary },
    Target { name: "bundle", body: bodies::bundle::body, seeds: seeds::bundle },
    Target { name: "checkpoint", body: bodies::checkpoint::body, seeds: seeds::checkpoint },
    Target { name: "cloud_event", body: bodies::cloud_event::body, seeds: seeds::cloud_event },
    Target { name: "compact", body: bodies::compact::body, seeds: seeds::compact },
    Target { name: "creds", body: bodies::creds::body, seeds: seeds::creds },
    Target { name: "filter", body: bodies::filter::body, seeds: seeds::filter },
    Target { name: "journal", body: bodies::journal::body, seeds: seeds::journal },
    Target { name: "json", body: bodies::json::body, seeds: seeds::json },
    Target { name: "jwt", body: bodies::jwt::body, seeds: seeds::jwt },
    Target { name: "link", body: bodies::link::body, seeds: seeds::link },
    Target { name: "nkey", body: bodies::nkey::body, seeds: seeds::nkey },
    Target { name: "recording", body: bodies::recording::body, seeds: seeds::recording },
    Target { name: "proof", body: bodies::proof::body, seeds: seeds::proof },
    Target { name: "revocation", body: bodies::revocation::body, seeds: seeds::revocation },
    Target { name: "subject", body: bodies::subject::body, seeds: seeds::subject },
    Target { name: "tasks", body: bodies::tasks::body, seeds: seeds::tasks },
    Target { name: "terminal", body: bodies::terminal::body, seeds: seeds::terminal },
    Target { name: "ticket", body: bodies::ticket::body, seeds: seeds::ticket },
    Target { name: "traceparent", body: bodies::traceparent::body, seeds: seeds::traceparent },
];

/// The target with a planted fault: a loop that does not find it is dead.
pub const CANARY: Target = Target { name: "canary", body: canary::body, seeds: canary::seeds };
