//! The declared list of cases that do not apply, so that none drops out unseen.

use crate::{CaseOutcome, CaseReport};

/// Lines `<engine> <case> <reason>`; blank lines and lines that begin with `#` say nothing.
#[derive(Debug, Clone)]
pub(crate) struct Declared(String);

impl Declared {
    pub(crate) fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Turns a report that differs from the list into a failure.
    pub(crate) fn compare(&self, report: CaseReport) -> CaseReport {
        let declared = self.reason(report.engine, report.case);
        let objection = match (&report.outcome, declared) {
            (CaseOutcome::NotApplicable { reason }, None) => {
                format!("does not apply ({reason}), but conformance.lock does not say so")
            }
            (CaseOutcome::NotApplicable { reason }, Some(declared)) if reason != declared => {
                format!("does not apply for {reason:?}, but conformance.lock says {declared:?}")
            }
            (CaseOutcome::Passed, Some(_)) => {
                "passes, but conformance.lock says that it does not apply".to_owned()
            }
            _ => return report,
        };
        CaseReport { outcome: CaseOutcome::Failed { reason: objection }, ..report }
    }

    fn reason(&self, engine: &str, case: &str) -> Option<&str> {
        self.0.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
            let mut parts = line.splitn(3, ' ');
            let is_it = parts.next() == Some(engine) && parts.next() == Some(case);
            is_it.then(|| parts.next().unwrap_or_default())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = "# comment\n\nmem survives it is memory\n";

    fn judged(case: &'static str, outcome: CaseOutcome) -> CaseReport {
        Declared::new(LOCK).compare(CaseReport { engine: "mem", area: "Leases", case, outcome })
    }

    fn not_applicable(reason: &str) -> CaseOutcome {
        CaseOutcome::NotApplicable { reason: reason.to_owned() }
    }

    #[test]
    fn a_declared_exception_stands() {
        let outcome = not_applicable("it is memory");
        assert_eq!(judged("survives", outcome.clone()).outcome, outcome);
    }

    #[test]
    fn an_undeclared_exception_is_a_failure() {
        assert!(judged("other", not_applicable("it is memory")).is_failure());
    }

    #[test]
    fn an_exception_for_another_reason_is_a_failure() {
        assert!(judged("survives", not_applicable("no time")).is_failure());
    }

    #[test]
    fn a_declared_exception_that_passes_is_a_failure() {
        assert!(judged("survives", CaseOutcome::Passed).is_failure());
    }

    #[test]
    fn a_case_that_is_not_declared_may_pass() {
        assert_eq!(judged("other", CaseOutcome::Passed).outcome, CaseOutcome::Passed);
    }
}
