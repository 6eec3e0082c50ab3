//! Access policies: who may publish and subscribe where, and why.
//!
//! One policy is executed in three places that must agree: in the process, at an embedded engine's
//! door, and compiled into the permissions of a NATS server. The rules are therefore the server's
//! where those are sound, and stricter where they are not.

use serde::{Deserialize, Serialize};

use crate::{Decision, Filter, Subject};

/// What an agent may publish and subscribe. Whatever no rule allows is refused.
///
/// - *Publish*: a concrete subject that an allow rule matches and no deny rule matches. Publishing
///   to a wildcard is always refused.
/// - *Subscribe*: a set of subjects that lies inside **one** allow rule and shares no subject with
///   any deny rule. A set that only several allow rules together cover is refused, as a NATS
///   server refuses it; ask for its parts one by one.
///
/// A missing list in a serialized policy is an empty one, so `{}` allows nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AclPolicy {
    /// The rules for publishing, appending, and writing to buckets.
    #[serde(default)]
    pub publish: RuleSet,
    /// The rules for subscribing, consuming, replaying, and reading from buckets.
    #[serde(default)]
    pub subscribe: RuleSet,
}

/// The allow and deny rules for one action; a deny always wins.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleSet {
    /// What is allowed; empty allows nothing.
    #[serde(default)]
    pub allow: Vec<Filter>,
    /// What is refused although an allow rule may match it.
    #[serde(default)]
    pub deny: Vec<Filter>,
}

/// One rule of a policy, as it is listed and as a decision names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Rule {
    /// Whether the rule gives or takes.
    pub effect: Effect,
    /// What the rule is about.
    pub action: Action,
    /// The subjects it is about.
    pub filter: Filter,
}

/// Whether a rule gives or takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effect {
    /// The rule allows.
    Allow,
    /// The rule refuses, whatever allows.
    Deny,
}

/// What a rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Publish, append, or write to a bucket.
    Publish,
    /// Subscribe, consume, replay, or read from a bucket.
    Subscribe,
}

impl AclPolicy {
    /// The policy that allows everything the policies allow, less everything any of them denies.
    ///
    /// A deny rule of one role is thus never weakened by another role of the same agent: a worker
    /// that is an orchestrator as well still cannot forge tasks. No policy at all allows nothing.
    #[must_use]
    pub fn union(policies: impl IntoIterator<Item = Self>) -> Self {
        let mut all = Self::default();
        for policy in policies {
            all.publish.add(policy.publish);
            all.subscribe.add(policy.subscribe);
        }
        all
    }

    /// Whether a frame may be published to `subject`.
    #[must_use]
    pub fn can_publish(&self, subject: &Subject) -> bool {
        self.publish.admits(subject)
    }

    /// Whether frames may be published to what `filter` names: never if it holds a wildcard.
    #[must_use]
    pub fn can_publish_filter(&self, filter: &Filter) -> bool {
        filter.is_literal() && self.publish.allows(filter) && !self.publish.touches_deny(filter)
    }

    /// Whether `filter` may be subscribed: inside one allow rule, apart from every deny rule.
    #[must_use]
    pub fn can_subscribe(&self, filter: &Filter) -> bool {
        self.subscribe.allows(filter) && !self.subscribe.touches_deny(filter)
    }

    /// Whether a frame with `subject` may reach the agent: an allow rule matches, no deny rule.
    ///
    /// It holds for every frame of every filter that [`AclPolicy::can_subscribe`] allows.
    #[must_use]
    pub fn can_receive(&self, subject: &Subject) -> bool {
        self.subscribe.admits(subject)
    }

    /// The answer of [`AclPolicy::can_publish_filter`] with the rule that decided.
    pub fn explain_publish(&self, filter: &Filter) -> Decision {
        if !filter.is_literal() {
            let reason = format!("{filter} holds a wildcard: frames go to one concrete subject");
            return Decision { allowed: false, rule: None, reason };
        }
        self.publish.explain(Action::Publish, filter)
    }

    /// The answer of [`AclPolicy::can_subscribe`] with the rule that decided.
    pub fn explain_subscribe(&self, filter: &Filter) -> Decision {
        self.subscribe.explain(Action::Subscribe, filter)
    }

    /// Every rule of the policy: for publishing, then for subscribing, denials first.
    pub fn rules(&self) -> impl Iterator<Item = Rule> + '_ {
        let publish = self.publish.rules(Action::Publish);
        publish.chain(self.subscribe.rules(Action::Subscribe))
    }
}

impl RuleSet {
    /// Whether an allow rule matches `subject` and no deny rule does.
    #[must_use]
    pub fn admits(&self, subject: &Subject) -> bool {
        let matching = |rules: &[Filter]| rules.iter().any(|rule| rule.matches(subject));
        matching(&self.allow) && !matching(&self.deny)
    }

    fn allows(&self, filter: &Filter) -> bool {
        self.allow.iter().any(|rule| rule.covers(filter))
    }

    fn touches_deny(&self, filter: &Filter) -> bool {
        self.deny.iter().any(|rule| rule.overlaps(filter))
    }

    fn explain(&self, action: Action, asked: &Filter) -> Decision {
        let rule = |effect, filter: &Filter| Rule { effect, action, filter: filter.clone() };
        if let Some(deny) = self.deny.iter().find(|deny| deny.overlaps(asked)) {
            let extent = if deny.covers(asked) { "matches it" } else { "matches a part of it" };
            let rule = rule(Effect::Deny, deny);
            let reason = format!("'{rule}' {extent}");
            return Decision { allowed: false, rule: Some(rule), reason };
        }
        if let Some(allow) = self.allow.iter().find(|allow| allow.covers(asked)) {
            let rule = rule(Effect::Allow, allow);
            let reason = format!("'{rule}' covers it and no deny rule matches");
            return Decision { allowed: true, rule: Some(rule), reason };
        }
        let reason = match self.allow.iter().find(|allow| allow.overlaps(asked)) {
            Some(part) => format!("'{}' covers only a part of it", rule(Effect::Allow, part)),
            None => format!("no rule allows to {action} there"),
        };
        Decision { allowed: false, rule: None, reason }
    }

    fn rules(&self, action: Action) -> impl Iterator<Item = Rule> + '_ {
        let rule =
            move |effect| move |filter: &Filter| Rule { effect, action, filter: filter.clone() };
        let denials = self.deny.iter().map(rule(Effect::Deny));
        denials.chain(self.allow.iter().map(rule(Effect::Allow)))
    }

    fn add(&mut self, other: Self) {
        let add = |rules: &mut Vec<Filter>, more: Vec<Filter>| {
            for filter in more {
                if !rules.contains(&filter) {
                    rules.push(filter);
                }
            }
        };
        add(&mut self.allow, other.allow);
        add(&mut self.deny, other.deny);
    }
}

impl std::fmt::Display for AclPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.rules().try_for_each(|rule| writeln!(f, "{rule}"))
    }
}

impl std::fmt::Display for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.effect, self.action, self.filter)
    }
}

impl std::fmt::Display for Effect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
        })
    }
}

impl std::fmt::Display for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Publish => "publish",
            Self::Subscribe => "subscribe",
        })
    }
}

#[cfg(test)]
mod tests;
