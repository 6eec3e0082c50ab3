//! The answer of a policy, with the rule that decided.

use crate::Rule;

/// Whether something is allowed, and why.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[must_use = "a decision that nobody looks at refuses nothing"]
pub struct Decision {
    /// The answer.
    pub allowed: bool,
    /// The rule that decided; `None` when nothing allows it, which refuses.
    pub rule: Option<Rule>,
    /// Why, in words for people.
    pub reason: String,
}

impl std::fmt::Display for Decision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let answer = if self.allowed { "allowed" } else { "refused" };
        write!(f, "{answer}: {}", self.reason)
    }
}
