//! Which steps `check` and `test` are made of, cheap ones first.

use anyhow::Result;

use crate::repo::{self, Repo};
use crate::steps::{self, Kind, Outcome, Step};
use crate::{claims, conformance, fuzz, guide, layers, readme, sim, spec, tested, tidy};

/// Runs the quick part.
///
/// # Errors
/// Never of its own accord: a step's error is that step's failure.
pub(crate) fn check(repo: &Repo) -> Result<bool> {
    report(repo, &CHECK)
}

/// Runs everything that a newcomer or CI needs.
///
/// # Errors
/// Never of its own accord: a step's error is that step's failure.
pub(crate) fn test(repo: &Repo) -> Result<bool> {
    let steps: Vec<Step> = CHECK.into_iter().chain(TEST).collect();
    report(repo, &steps)
}

fn report(repo: &Repo, steps: &[Step]) -> Result<bool> {
    let report = steps::run_all(repo, steps);
    print!("{report}");
    Ok(report.is_good())
}

const CHECK: [Step; 6] = [
    Step { name: "fmt", kind: Kind::Free, run: formatted },
    Step { name: "tidy", kind: Kind::Free, run: |repo| tidy::run(repo).map(Outcome::from) },
    Step { name: "layers", kind: Kind::Free, run: |repo| layers::run(repo).map(Outcome::from) },
    Step {
        name: "promises",
        kind: Kind::Free,
        run: |repo| conformance::lists_every_case(repo).map(Outcome::from),
    },
    Step { name: "claims", kind: Kind::Free, run: |repo| claims::run(repo).map(Outcome::from) },
    Step {
        name: "clippy",
        kind: Kind::Free,
        run: |repo| {
            cargo(repo, &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])
        },
    },
];

const TEST: [Step; 10] = [
    Step { name: "deny", kind: Kind::Free, run: deny },
    Step { name: "spec", kind: Kind::Free, run: spec::step },
    Step {
        name: "build",
        kind: Kind::Build,
        run: |repo| cargo(repo, &["test", "--workspace", "--no-run"]),
    },
    Step { name: "docs", kind: Kind::NeedsBuild, run: docs },
    Step {
        name: "conformance",
        kind: Kind::NeedsBuild,
        run: |repo| conformance::run(repo, &conformance::Options::default()).map(Outcome::from),
    },
    Step { name: "simulation", kind: Kind::NeedsBuild, run: sim::step },
    Step {
        name: "readme",
        kind: Kind::NeedsBuild,
        run: |repo| readme::run(repo).map(Outcome::from),
    },
    Step { name: "guide", kind: Kind::NeedsBuild, run: guide::step },
    Step { name: "fuzz replay", kind: Kind::NeedsBuild, run: fuzz::replay },
    // Last, so that its closing lines are easy to find; doc tests and examples are included.
    Step { name: "tests", kind: Kind::NeedsBuild, run: tested::run },
];

fn cargo(repo: &Repo, words: &[&str]) -> Result<Outcome> {
    repo::succeeds(&mut repo.cargo(words.iter().copied())).map(Outcome::from)
}

/// The workspace and the fuzz targets beside it.
fn formatted(repo: &Repo) -> Result<Outcome> {
    let mut product = repo.cargo(["fmt", "--all", "--check"]);
    let mut fuzzed = repo.cargo(["fmt", "--manifest-path", fuzz::MANIFEST, "--check"]);
    Ok((repo::succeeds(&mut product)? & repo::succeeds(&mut fuzzed)?).into())
}

fn docs(repo: &Repo) -> Result<Outcome> {
    let mut command = repo.cargo(["doc", "--workspace", "--no-deps"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    repo::succeeds(&mut command).map(Outcome::from)
}

/// Licences, bans and sources. Who may use which crate is held by `layers`, so that nothing
/// hangs on this tool; its advisory check is left out because it wants the network.
fn deny(repo: &Repo) -> Result<Outcome> {
    let installed = repo.cargo(["deny", "--version"]).output().is_ok_and(|o| o.status.success());
    if !installed {
        return Ok(Outcome::NotRun("cargo-deny is not installed".to_owned()));
    }
    cargo(repo, &["deny", "check", "bans", "licenses", "sources"])
}
