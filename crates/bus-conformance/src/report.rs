//! What became of a case, and its form as one JSON line.

use serde::Serialize;

/// What became of one case on one engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaseReport {
    /// The engine's name.
    pub engine: &'static str,
    /// The title of the case's area.
    pub area: &'static str,
    /// The case's name.
    pub case: &'static str,
    /// Passed or not.
    pub outcome: CaseOutcome,
}

/// How a case ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CaseOutcome {
    /// The engine kept the promise.
    Passed,
    /// It did not.
    Failed {
        /// What was expected and what came.
        reason: String,
    },
    /// The engine does not make this promise.
    NotApplicable {
        /// The words in which it says so.
        reason: String,
    },
}

impl CaseReport {
    /// Whether the engine broke the promise.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        matches!(self.outcome, CaseOutcome::Failed { .. })
    }

    /// The report as one JSON object without a line feed.
    #[must_use]
    pub fn to_json(&self) -> String {
        let (outcome, reason) = match &self.outcome {
            CaseOutcome::Passed => ("passed", None),
            CaseOutcome::Failed { reason } => ("failed", Some(reason.as_str())),
            CaseOutcome::NotApplicable { reason } => ("not_applicable", Some(reason.as_str())),
        };
        let Self { engine, area, case, .. } = *self;
        let line = Line { engine, area, case, outcome, reason };
        serde_json::to_string(&line).unwrap_or_default()
    }
}

/// The JSON form that `cargo xtask conformance` reads.
#[derive(Serialize)]
struct Line<'a> {
    engine: &'a str,
    area: &'a str,
    case: &'a str,
    outcome: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(outcome: CaseOutcome) -> String {
        CaseReport { engine: "mem", area: "Leases", case: "it_holds", outcome }.to_json()
    }

    #[test]
    fn a_passed_case_has_no_reason() {
        let expected = r#"{"engine":"mem","area":"Leases","case":"it_holds","outcome":"passed"}"#;
        assert_eq!(json(CaseOutcome::Passed), expected);
    }

    #[test]
    fn a_failed_case_says_why_on_one_line() {
        let reason = "expected \"a\",\ngot \"b\"".to_owned();
        let line = json(CaseOutcome::Failed { reason });
        let expected = r#""outcome":"failed","reason":"expected \"a\",\ngot \"b\""}"#;
        assert!(line.ends_with(expected), "{line}");
        assert!(!line.contains('\n'));
    }

    #[test]
    fn a_case_that_does_not_apply_says_why() {
        let line = json(CaseOutcome::NotApplicable { reason: "memory".to_owned() });
        assert!(line.ends_with(r#""outcome":"not_applicable","reason":"memory"}"#), "{line}");
    }
}
