//! What a daemon does beside serving: audit logs, hooks, dead letters and approvals.

use std::fmt;

use prometheus_client::registry::Unit;

use super::families::{Families, Family};
use crate::ChoreCounts;

/// Writes the families of `counts`.
pub(super) fn encode(counts: &ChoreCounts, families: &mut Families<'_>) -> fmt::Result {
    audit(counts, families)?;
    hooks(counts, families)?;
    let letters = Family { help: "Tasks given up, by the reason", ..count("dead_letters") };
    let samples = counts
        .letters
        .iter()
        .map(|of| ([("workspace", of.workspace.as_str()), ("reason", of.reason)], of.count));
    families.counter(letters, samples)?;
    let waiting =
        Family { help: "Approvals that wait for an answer", ..count("approvals_waiting") };
    let approvals = || counts.approvals.iter();
    families.gauge(
        waiting,
        approvals().map(|of| ([("workspace", of.workspace.as_str())], of.waiting)),
    )?;
    let oldest = Family {
        name: "approvals_oldest",
        help: "Age of the oldest approval that waits, 0 when none does",
        unit: Some(&Unit::Seconds),
    };
    let age = approvals().map(|of| {
        let age = of.oldest.unwrap_or_default().as_secs_f64();
        ([("workspace", of.workspace.as_str())], age)
    });
    families.gauge(oldest, age)
}

fn audit(counts: &ChoreCounts, families: &mut Families<'_>) -> fmt::Result {
    let logs = || counts.audit.iter();
    let records = Family { help: "Records written to the audit log", ..count("audit_records") };
    families
        .counter(records, logs().map(|of| ([("workspace", of.workspace.as_str())], of.written)))?;
    let failures = Family { help: "Looks of the audit log that failed", ..count("audit_failures") };
    families.counter(
        failures,
        logs().map(|of| ([("workspace", of.workspace.as_str())], of.failures)),
    )?;
    let behind = Family {
        name: "audit_behind",
        help: "For how long the audit log has lacked something, 0 when it does not",
        unit: Some(&Unit::Seconds),
    };
    let behind_s = |of: &crate::AuditReading| of.behind.as_secs_f64();
    families.gauge(behind, logs().map(|of| ([("workspace", of.workspace.as_str())], behind_s(of))))
}

fn hooks(counts: &ChoreCounts, families: &mut Families<'_>) -> fmt::Result {
    let news = Family { help: "What hooks were to hear of, by its end", ..count("hook_news") };
    let ends = counts.hooks.iter().flat_map(|of| {
        [("heard", of.heard), ("given-up", of.given_up)]
            .map(|(end, count)| ([("hook", of.hook), ("outcome", end)], count))
    });
    families.counter(news, ends)?;
    let failures = Family { help: "Calls of hooks that failed", ..count("hook_failures") };
    families.counter(failures, counts.hooks.iter().map(|of| ([("hook", of.hook)], of.failures)))
}

/// A family that counts things.
const fn count(name: &str) -> Family<'_> {
    Family { name, help: "", unit: None }
}
