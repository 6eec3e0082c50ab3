//! `vakbus acl`: what the policy says of a role.

use bus_subjects::{AgentId, Role, RoleName, SessionId};
use clap::{Subcommand, ValueEnum};

use super::role;

/// Access rules.
#[derive(Debug, Subcommand)]
pub(crate) enum AclCommand {
    /// Say whether an agent in a role may do something, and which rule decides; without an action
    /// list all its rules.
    Explain {
        /// The role. Repeatable: rights add up, refusals win.
        #[arg(long = "role", value_name = "ROLE", required = true, value_parser = role)]
        roles: Vec<Role>,
        /// The agent.
        #[arg(id = "about", long = "agent", value_name = "NAME", default_value = "me")]
        #[arg(value_parser = AgentId::parse)]
        agent: AgentId,
        /// The one session it works for [default: any].
        #[arg(long, value_name = "NAME", value_parser = SessionId::parse)]
        session: Option<SessionId>,
        /// The one work queue it serves [default: any].
        #[arg(long, value_name = "NAME", value_parser = RoleName::parse)]
        queue: Option<RoleName>,
        /// What is asked.
        #[arg(value_enum, requires = "subject")]
        action: Option<AclAction>,
        /// On which subject; wildcards may be asked for.
        subject: Option<String>,
    },
}

/// What a policy is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AclAction {
    /// To publish, or to append to a stream.
    Publish,
    /// To subscribe, or to consume from a stream.
    Subscribe,
}
