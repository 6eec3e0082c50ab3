//! Which crate may use which: the map of the house as data, held against `cargo metadata`.
//!
//! Arrows point down only. A new crate gets its row here before it gets a dependency.

use std::fmt;

use anyhow::{Context, Result};
use cargo_metadata::{DependencyKind, Metadata};

use crate::repo::Repo;

/// A crate of the workspace and what it may use of the workspace.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    name: &'static str,
    /// What it may be built on.
    uses: &'static [&'static [&'static str]],
    /// What its tests may use besides.
    tests_use: &'static [&'static [&'static str]],
}

impl Room {
    const fn new(name: &'static str, uses: &'static [&'static [&'static str]]) -> Self {
        Self { name, uses, tests_use: &[TESTDATA] }
    }

    const fn tested_with(self, tests_use: &'static [&'static [&'static str]]) -> Self {
        Self { tests_use, ..self }
    }

    fn may_use(&self, other: &str, kind: DependencyKind) -> bool {
        let within = |groups: &[&[&str]]| groups.iter().any(|group| group.contains(&other));
        within(self.uses) || (kind == DependencyKind::Development && within(self.tests_use))
    }
}

/// The whole house, from the ground up.
pub(crate) const HOUSE: &[Room] = &[
    // 0: bytes and names.
    Room::new("bus-subjects", &[]),
    Room::new("bus-envelope", &[&["bus-subjects"]]),
    Room::new("bus-crypto", &[]),
    // 1: the heart.
    Room::new("bus-core", &[BASE]),
    // The engine suite: engines use it in their tests.
    Room::new("bus-conformance", &[&["bus-core", "bus-subjects"]]),
    // 2: engines.
    Room::new("bus-mem", &[CORE, BASE]).tested_with(ENGINE_TESTS),
    Room::new("bus-disk", &[&["bus-mem"], CORE, BASE]).tested_with(ENGINE_TESTS),
    // It serves an engine: its tests need one, and one that outlives the server.
    Room::new("bus-link", &[CORE, BASE])
        .tested_with(&[&["bus-conformance", "bus-mem", "bus-disk"], TESTDATA]),
    // Its differential test holds it to an engine in the same process.
    Room::new("bus-nats", &[CORE, BASE]).tested_with(&[
        &["bus-conformance", "bus-mem"],
        TESTSERVER,
        TESTDATA,
    ]),
    // 2: evidence.
    Room::new("bus-evidence", &[CORE, BASE]).tested_with(EMBEDDED_TESTS),
    // 3: services, never on each other, never on an engine.
    Room::new("bus-runner", &[EVIDENCE, CORE, BASE]).tested_with(EMBEDDED_TESTS),
    Room::new("bus-peers", &[EVIDENCE, CORE, BASE]).tested_with(EMBEDDED_TESTS),
    Room::new("bus-rooms", &[EVIDENCE, CORE, BASE]).tested_with(EMBEDDED_TESTS),
    Room::new("bus-state", &[EVIDENCE, CORE, BASE]).tested_with(EMBEDDED_TESTS),
    Room::new("bus-authority", &[EVIDENCE, CORE, BASE]).tested_with(EMBEDDED_TESTS),
    // 4: doors.
    Room::new("bus-otel", &[CORE, BASE]).tested_with(&[]),
    Room::new("bus-gateway", &[SERVICES, EVIDENCE, CORE, BASE]).tested_with(EMBEDDED_TESTS),
    Room::new("bus-mcp", &[SERVICES, EVIDENCE, CORE, BASE]).tested_with(EMBEDDED_TESTS),
    // 5: the command, the only place that picks an engine.
    Room::new("bus-cli", &[DOORS, SERVICES, ENGINES, EVIDENCE, CORE, BASE])
        .tested_with(&[TESTSERVER, TESTDATA]),
    // Beside the house: servers for tests, the foreign vectors, the stories, the measures, these
    // tasks.
    Room::new("bus-testserver", &[&["bus-nats", "bus-crypto", "bus-subjects"]]).tested_with(&[]),
    Room::new("bus-testdata", &[]).tested_with(&[]),
    Room::new("bus-stories", &[DOORS, SERVICES, ENGINES, EVIDENCE, CORE, BASE]).tested_with(&[
        &["bus-cli", "bus-conformance"],
        TESTSERVER,
        TESTDATA,
    ]),
    Room::new("bus-bench", &[SERVICES, ENGINES, TESTSERVER, EVIDENCE, CORE, BASE]),
    Room::new("xtask", &[]).tested_with(&[]),
];

/// Crates from outside that only one of ours may use, tests and optional features included; and the
/// measures where they stand beside that one.
pub(crate) const KEEPERS: &[(&str, &[&str])] = &[
    ("async-nats", &["bus-nats", "bus-bench"]),
    ("axum", &["bus-gateway"]),
    // The command's tests read what a collector is sent.
    ("opentelemetry-proto", &["bus-otel", "bus-cli"]),
    ("rusqlite", &["bus-authority"]),
    ("rmcp", &["bus-mcp"]),
];

const BASE: &[&str] = &["bus-subjects", "bus-envelope", "bus-crypto"];
const CORE: &[&str] = &["bus-core"];
const EVIDENCE: &[&str] = &["bus-evidence"];
const ENGINES: &[&str] = &["bus-mem", "bus-disk", "bus-link", "bus-nats"];
const SERVICES: &[&str] = &["bus-runner", "bus-peers", "bus-rooms", "bus-state", "bus-authority"];
const DOORS: &[&str] = &["bus-gateway", "bus-mcp", "bus-otel"];
const TESTDATA: &[&str] = &["bus-testdata"];
/// Real nats-servers, for what is tested or measured on one.
const TESTSERVER: &[&str] = &["bus-testserver"];
const ENGINE_TESTS: &[&[&str]] = &[&["bus-conformance"], TESTDATA];
/// Above the engines, tests run on the real embedded engine instead of a stand-in.
const EMBEDDED_TESTS: &[&[&str]] = &[&["bus-mem"], TESTDATA];

/// Prints every arrow that points where it must not; `true` when there is none.
///
/// # Errors
/// When cargo cannot say what depends on what.
pub(crate) fn run(repo: &Repo) -> Result<bool> {
    let metadata = repo.metadata().exec().context("cargo metadata")?;
    let graph = Graph::of(&metadata)?;
    let violations = graph.judge(HOUSE, KEEPERS);
    for violation in &violations {
        eprintln!("layers: {violation}");
    }
    let (crates, arrows) = (graph.ours.len(), graph.arrows.len());
    println!("layers: {crates} crates, {arrows} arrows, {} wrong", violations.len());
    Ok(violations.is_empty())
}

/// What depends on what.
#[derive(Debug, Default)]
struct Graph {
    /// The crates of the workspace.
    ours: Vec<String>,
    /// What each crate of the workspace declares, and what every other crate was resolved to.
    arrows: Vec<Arrow>,
}

#[derive(Debug)]
struct Arrow {
    from: String,
    to: String,
    kind: DependencyKind,
}

/// What is wrong with the graph.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Violation {
    /// A crate of the workspace has no row in the table.
    Unplaced(String),
    /// A crate uses one that it must not know.
    Upward { from: String, to: String, kind: &'static str },
    /// A crate from outside is used by another than its keeper.
    NotTheKeeper { from: String, to: String, keeper: String },
}

impl Graph {
    fn of(metadata: &Metadata) -> Result<Self> {
        let members = metadata.workspace_packages();
        let mut graph = Self::default();
        for package in &members {
            graph.ours.push(package.name.to_string());
            // Declared, not resolved: optional and platform-bound dependencies count as well.
            graph.arrows.extend(package.dependencies.iter().map(|dependency| Arrow {
                from: package.name.to_string(),
                to: dependency.name.clone(),
                kind: dependency.kind,
            }));
        }
        let resolve = metadata.resolve.as_ref().context("cargo metadata resolved nothing")?;
        for node in resolve.nodes.iter().filter(|n| !metadata.workspace_members.contains(&n.id)) {
            for dependency in &node.dependencies {
                let name = |id: &cargo_metadata::PackageId| {
                    metadata.packages.iter().find(|p| p.id == *id).map(|p| p.name.to_string())
                };
                graph.arrows.push(Arrow {
                    from: name(&node.id).context("a resolved package is not described")?,
                    to: name(dependency).context("a resolved package is not described")?,
                    kind: DependencyKind::Normal,
                });
            }
        }
        Ok(graph)
    }

    fn judge(&self, house: &[Room], keepers: &[(&str, &[&str])]) -> Vec<Violation> {
        let mut violations = Vec::new();
        for name in &self.ours {
            if !house.iter().any(|room| room.name == name) {
                violations.push(Violation::Unplaced(name.clone()));
            }
        }
        for Arrow { from, to, kind } in &self.arrows {
            if let Some((_, keepers)) = keepers.iter().find(|(outside, _)| outside == to)
                && !keepers.contains(&from.as_str())
            {
                let keeper = keepers.join(" and ");
                violations.push(Violation::NotTheKeeper {
                    from: from.clone(),
                    to: to.clone(),
                    keeper,
                });
            }
            let placed = house.iter().find(|room| room.name == from);
            let inner = house.iter().any(|room| room.name == to) || self.ours.contains(to);
            if inner && placed.is_some_and(|room| !room.may_use(to, *kind)) {
                violations.push(Violation::Upward {
                    from: from.clone(),
                    to: to.clone(),
                    kind: name_of(*kind),
                });
            }
        }
        violations
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unplaced(name) => {
                write!(f, "{name} has no place in the house: give it a row in xtask/src/layers.rs")
            }
            Self::Upward { from, to, kind } => {
                write!(f, "{from} must not use {to} ({kind} dependency)")
            }
            Self::NotTheKeeper { from, to, keeper } => {
                write!(f, "{from} must not use {to}: only {keeper} may")
            }
        }
    }
}

fn name_of(kind: DependencyKind) -> &'static str {
    match kind {
        DependencyKind::Normal => "normal",
        DependencyKind::Development => "dev",
        DependencyKind::Build => "build",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests;
