//! What a server has to allow an agent so that it can do what its policy allows, and no more.
//!
//! A server judges the subject of a message and never its reply subject. The rights made here hold
//! in a workspace of two accounts ([`workspace_imports`], ADR 0024), where no answer of the store
//! can be turned against it.

use bus_crypto::jwt::{Permissions, SubjectPermission};
use bus_subjects::{AclPolicy, Action, AgentId, Effect, Filter, Rule, SubjectError};

pub use self::{
    accounts::{leaf_denies, store_exports, workspace_imports},
    layout::Layout,
    link::live_filters,
};
use self::{
    grants::Grants,
    subscribe::{close_holes, minimal},
};

mod accounts;
mod grants;
mod layout;
mod link;
mod steering;
mod subscribe;

/// Why a policy has no permissions that say the same. Nothing was granted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PermissionsError {
    /// A server cannot tell what the one rule gives from what the other one gives or takes.
    #[error("a server cannot keep '{rule}' apart from '{beside}'")]
    Unrepresentable {
        /// The rule that cannot be granted.
        rule: Rule,
        /// What stands in its way.
        beside: Rule,
    },
    /// The rule is about something that is granted to no agent.
    #[error("'{rule}' is granted to no agent: {reason}")]
    Refused {
        /// The rule.
        rule: Rule,
        /// Why not.
        reason: &'static str,
    },
    /// The permissions do not fit into the token of a user who has to show it while connecting.
    #[error("the permissions have {bytes} bytes, at most {bytes_max} fit into a token")]
    TooLarge {
        /// How many there are.
        bytes: usize,
        /// How many there may be.
        bytes_max: usize,
    },
    /// The ids in the policy are so long that a subject made of them is none.
    #[error("a subject cannot be made: {0}")]
    Subject(#[from] SubjectError),
}

/// What a user with `policy` needs on a server, and nothing wider.
///
/// `agent` is whose answers may be heard, and who may write to its own inbox: that is how an engine
/// learns that a server has taken what it sent before. What the policy denies is denied, whatever
/// rule would need it; compile the union of several roles' policies, never unite what was compiled.
///
/// Who hears calls may publish to [`CALL_ANSWERS`], so the answer has to be asked for there, as the
/// engine does. A server's own right to respond (`allow_responses`) is
/// not used: who has it and one inbox lends itself every right, by publishing there with any
/// subject as the reply.
///
/// The lists are sorted, and no rule stands beside one that covers it. A direction in which nothing
/// is allowed denies `>`, because an empty list allows everything.
///
/// # Errors
/// [`PermissionsError`]; then nothing may be granted.
pub fn permissions(
    policy: &AclPolicy,
    agent: &AgentId,
    layout: &Layout,
) -> Result<Permissions, PermissionsError> {
    let Grants { publish, subscribe } = Grants::of(policy, agent, layout)?;
    let allow = minimal(publish.allow);
    let publish = SubjectPermission { deny: denials(&allow, publish.deny), allow: texts(allow) };
    let (allow, mut deny) = (minimal(subscribe.allow), subscribe.deny);
    close_holes(&allow, &mut deny).map_err(|(star, other)| {
        let rule = |filter| Rule { effect: Effect::Allow, action: Action::Subscribe, filter };
        PermissionsError::Unrepresentable { rule: rule(star), beside: rule(other) }
    })?;
    let subscribe = SubjectPermission { deny: denials(&allow, deny), allow: texts(allow) };
    check_size(Permissions { publish, subscribe, response: None })
}

/// Where answers to calls are heard, and nothing else is: `_INBOX.<asker>.call.<random>`.
pub const CALL_ANSWERS: &str = "_INBOX.*.call.>";

fn check_size(permissions: Permissions) -> Result<Permissions, PermissionsError> {
    let Permissions { publish, subscribe, .. } = &permissions;
    let lists = [&publish.allow, &publish.deny, &subscribe.allow, &subscribe.deny];
    // As JSON a `>` is six bytes (`\u003e`), and each rule has quotes and a comma.
    let bytes_of = |rule: &String| rule.len() + 3 + 5 * usize::from(rule.ends_with('>'));
    let bytes = lists.into_iter().flatten().map(bytes_of).sum();
    if bytes > PERMISSIONS_BYTES_MAX {
        let bytes_max = PERMISSIONS_BYTES_MAX;
        return Err(PermissionsError::TooLarge { bytes, bytes_max });
    }
    Ok(permissions)
}

fn denials(allow: &[Filter], deny: Vec<Filter>) -> Vec<String> {
    if allow.is_empty() {
        return vec![Filter::all().as_str().to_owned()];
    }
    texts(minimal(deny))
}

fn texts(filters: Vec<Filter>) -> Vec<String> {
    filters.iter().map(|filter| filter.as_str().to_owned()).collect()
}

/// A token is a third longer in base64, and it has to fit into one line of 32 KiB
/// (`max_control_line`), with the rest of the token, a signature and what a client says of itself.
const PERMISSIONS_BYTES_MAX: usize = 20 * 1024;

#[cfg(test)]
mod tests;
