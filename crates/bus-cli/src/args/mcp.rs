//! What `mcp` takes.

use bus_subjects::{AgentId, RoleName, SessionId};
use clap::Args;

/// Serve an agent that speaks MCP.
#[derive(Debug, Args)]
#[command(after_help = MCP_HELP)]
pub(crate) struct McpArgs {
    /// The worker that takes tasks and asks for approvals, where --as names an agent that is none
    /// [default: the agent of --as if it is a worker; without --as, cli-worker].
    #[arg(long, value_name = "AGENT", value_parser = AgentId::parse)]
    pub(crate) worker: Option<AgentId>,
    /// The one role whose queue is served [default: any, and worker where a claim names none; on
    /// NATS servers worker alone].
    #[arg(long, value_name = "R", value_parser = RoleName::parse)]
    pub(crate) role: Option<RoleName>,
    /// The session of its receipts and approvals.
    #[arg(long, value_name = "S", env = "VAKBUS_SESSION", hide_env_values = true)]
    #[arg(default_value = "mcp", value_parser = SessionId::parse)]
    pub(crate) session: SessionId,
}

const MCP_HELP: &str = "\
A client of the Model Context Protocol starts this command and speaks with it; nobody types here.
It needs a daemon (vakbus up) or a NATS server. Give each agent a name and roles of its own, so
that others see who sent what:

  vakbus agent add ada --role orchestrator      # sends tasks and messages
  vakbus agent add ada-hands --role worker      # takes tasks, asks for approvals

and tell the client, in its own configuration:

  {
    \"mcpServers\": {
      \"vakbus\": {
        \"command\": \"vakbus\",
        \"args\": [\"mcp\", \"--as\", \"ada\", \"--worker\", \"ada-hands\"]
      }
    }
  }

Tools: task_send, task_result, task_claim, task_extend, task_complete, task_fail, inbox_list,
inbox_wait, inbox_ack, message_send, message_reply, approval_request, approval_wait; those that
the roles do not allow are not offered. Resources to subscribe to: vakbus://inbox and
vakbus://queue/ROLE. What other agents wrote comes as data with its verified sender beside it.
When it ends (the client leaves, Ctrl-C) what it holds is handed back; exit code 0.";
