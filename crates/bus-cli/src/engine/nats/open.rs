//! Connections to the servers: opened, waited for where a server is being started, and told what
//! this data home's operator says.

use std::sync::Arc;

use bus_core::{Admission, Engine, Error, ErrorKind, Roster};
use bus_crypto::{Credentials, PublicKey};
use bus_nats::{
    NatsAuth, NatsBus, NatsOptions, Renewal,
    callout::{Callout, CalloutLimits},
    claims::ServerClaims,
    permissions::Layout,
};
use bus_subjects::{AgentId, WorkspaceId};
use tokio::time::{Instant, sleep};

use super::{super::Scope, NatsPlace, PATIENCE, PAUSE, Source, directory::Directory};
use crate::{
    error::{CliError, Exit},
    operator::{Lifetime, Operator, PushedAccount},
    workspace::Workspace,
};

impl NatsPlace {
    /// A connection of `who`, who may do everything with what `workspace` keeps, with an inbox of
    /// its own, which nobody else may read. Tells the servers of the workspace when they do not
    /// know it yet.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub(crate) async fn house(
        &self,
        workspace: &WorkspaceId,
        who: &str,
    ) -> Result<NatsBus, CliError> {
        let options = self.options(who, self.0.login.house(workspace, who));
        self.open_known(workspace, &options).await
    }

    /// As [`Self::house`], for who only looks: the servers are told of nothing.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub(crate) async fn look(
        &self,
        workspace: &WorkspaceId,
        who: &str,
    ) -> Result<NatsBus, CliError> {
        let options = self.options(who, self.0.login.house(workspace, who));
        self.open(&options).await.map_err(|error| self.unreached(&error))
    }

    /// The same with the rights of `agent` alone; none where whoever logs in has the same ones.
    ///
    /// # Errors
    /// As [`Self::connect`]; when the login that was given is another agent's.
    pub(crate) async fn look_as(
        &self,
        workspace: &Workspace,
        agent: &AgentId,
    ) -> Result<Option<NatsBus>, CliError> {
        let login = self.0.login.agent(workspace, agent, &Scope::default())?;
        let Some(login) = login else { return Ok(None) };
        let mut options = self.options(agent.as_str(), login);
        Layout::API_PREFIX.clone_into(&mut options.api_prefix);
        options.workspace = Some(workspace.name().clone());
        self.open(&options).await.map(Some).map_err(|error| self.unreached(&error))
    }

    /// A connection of an agent, with the rights that its login has.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub(super) async fn agent(
        &self,
        workspace: &WorkspaceId,
        agent: &AgentId,
        login: NatsAuth,
    ) -> Result<NatsBus, CliError> {
        let mut options = self.options(agent.as_str(), login);
        Layout::API_PREFIX.clone_into(&mut options.api_prefix);
        options.workspace = Some(workspace.clone());
        self.open_known(workspace, &options).await
    }

    /// Opens a connection; has the servers know the workspace when they let nobody of it in.
    async fn open_known(
        &self,
        workspace: &WorkspaceId,
        options: &NatsOptions,
    ) -> Result<NatsBus, CliError> {
        match self.open(options).await {
            Err(error) if error.kind() == ErrorKind::Denied => {
                let Some(operator) = self.operator()? else {
                    return Err(self.unreached(&error));
                };
                self.introduce(&operator, &operator.workspace_named(workspace)?).await?;
                self.open(options).await.map_err(|error| self.unreached(&error))
            }
            opened => opened.map_err(|error| self.unreached(&error)),
        }
    }

    /// Gives the servers the tokens of a workspace. Says nothing where nobody vouches for it.
    ///
    /// # Errors
    /// As [`Self::claims`].
    pub(crate) async fn introduce(
        &self,
        operator: &Operator,
        workspace: &Workspace,
    ) -> Result<Vec<PushedAccount>, CliError> {
        let servers = self.claims(operator).await?;
        let pushed = operator.push_workspace(&servers, workspace).await;
        let closed = servers.close().await;
        let pushed = pushed?;
        closed?;
        Ok(pushed)
    }

    /// Has the servers end the connections of whoever was revoked, and let them in no more.
    ///
    /// # Errors
    /// As [`Self::claims`].
    pub(crate) async fn revoke(
        &self,
        operator: &Operator,
        workspace: &Workspace,
    ) -> Result<Vec<PushedAccount>, CliError> {
        let servers = self.claims(operator).await?;
        let pushed = operator.push_revoked(&servers, workspace).await;
        let closed = servers.close().await;
        let pushed = pushed?;
        closed?;
        Ok(pushed)
    }

    /// The same for users of machines, who are of these `accounts`.
    ///
    /// # Errors
    /// As [`Self::claims`].
    pub(crate) async fn take_back(
        &self,
        operator: &Operator,
        workspaces: &[Workspace],
        accounts: &[PublicKey],
    ) -> Result<Vec<PushedAccount>, CliError> {
        let servers = self.claims(operator).await?;
        let pushed = operator.push_taken_back(&servers, workspaces, accounts).await;
        let closed = servers.close().await;
        let pushed = pushed?;
        closed?;
        Ok(pushed)
    }

    /// The servers' own interface to what they know of accounts.
    ///
    /// # Errors
    /// As [`Self::connect`]; when the servers are not `operator`'s.
    pub(crate) async fn claims(&self, operator: &Operator) -> Result<ServerClaims, CliError> {
        let login = Arc::new(operator.system_user(Lifetime::OWN)?);
        let opened = ServerClaims::open(self.options("system", NatsAuth::Jwt(login))).await;
        opened.map_err(|error| match error.kind() {
            ErrorKind::Denied => {
                let what = format!("{} is not of this data directory's operator", self.told());
                CliError::new(Exit::Refused, what).next(
                    "start it with what vakbus auth server-config writes, or name the data \
                     directory that has its operator: --data-dir",
                )
            }
            _ => self.unreached(&error),
        })
    }

    /// The service that decides about whoever comes without a token, as far as `admission` lets
    /// them in; it cuts off those whose right ends.
    ///
    /// # Errors
    /// As [`Self::claims`].
    pub(crate) async fn callout(
        &self,
        operator: &Operator,
        admission: Admission,
    ) -> Result<Callout, CliError> {
        let login = |make: fn(&Operator, Lifetime) -> Result<Credentials, CliError>| {
            let home = operator.home().clone();
            NatsAuth::Renewed(Renewal::new(move || {
                let made = Operator::needed(&home).and_then(|own| make(&own, Lifetime::OWN));
                made.map_err(|error| {
                    Error::new(ErrorKind::Denied, "log in", error.what().to_owned())
                })
            }))
        };
        let options = self.options(Operator::CALLOUT_USER, login(Operator::callout_user));
        let (keys, limits) = (operator.callout_keys()?, CalloutLimits::default());
        let opened = Callout::open(options, keys, admission, limits).await;
        let callout = opened.map_err(|error| self.unreached(&error))?;
        let system = self.options("system", login(Operator::system_user));
        let servers = ServerClaims::open(system).await.map_err(|error| self.unreached(&error))?;
        Ok(callout.kicking(servers))
    }

    /// A connection of `who` to what `workspace` keeps, and whom its account certified and revoked,
    /// here and on other machines, for as long as that is open.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub(crate) async fn members(
        &self,
        workspace: &Workspace,
        who: &str,
    ) -> Result<(NatsBus, Arc<Roster>), CliError> {
        let roster = Arc::new(workspace.living_roster()?);
        let bus = self.house(workspace.name(), who).await?;
        let engine: Arc<dyn Engine> = Arc::new(bus.clone());
        match Directory::open(&engine, workspace, &roster, None).await {
            // It goes on reading by itself.
            Ok(_) => Ok((bus, roster)),
            Err(error) => {
                let _why = bus_core::Bus::close(&bus).await;
                Err(error)
            }
        }
    }

    /// Whose word the servers take, when that is this data home's.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) fn operator(&self) -> Result<Option<Operator>, CliError> {
        self.0.login.operator()
    }

    async fn open(&self, options: &NatsOptions) -> bus_core::Result<NatsBus> {
        // Its supervisor starts it again when it died; it is away for a moment only.
        let until = Instant::now() + PATIENCE;
        let may_come = || match &self.0.source {
            Source::Supervisor(running) => Instant::now() < until && running.is_alive(),
            Source::Setting(_) => false,
        };
        loop {
            match NatsBus::open(options.clone()).await {
                Ok(bus) => {
                    let mut opened = self.opened();
                    opened.retain(|bus| !bus.states().borrow().is_final());
                    opened.push(bus.clone());
                    return Ok(bus);
                }
                Err(error) if error.kind() == ErrorKind::Unavailable && may_come() => {
                    sleep(PAUSE).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn options(&self, who: &str, auth: NatsAuth) -> NatsOptions {
        let inner = &*self.0;
        let mut options = NatsOptions::new("");
        options.servers.clone_from(&inner.servers);
        options.name = format!("vakbus {who}");
        options.auth = auth;
        options.tls = inner.tls.clone();
        options.inbox_prefix = format!("_INBOX.{who}");
        options.profile = inner.profile;
        options
    }

    /// The failure to connect, with what to do about it.
    fn unreached(&self, error: &Error) -> CliError {
        // What the client says tells a wrong certificate from a server that is away.
        let cause = std::error::Error::source(error);
        let cause = cause.map_or_else(String::new, |cause| format!(" ({cause})"));
        let what = format!("{error}: {}{cause}", self.told());
        let failed = CliError::new(Exit::of(error.kind()), what);
        match error.kind() {
            ErrorKind::Denied => failed.next(self.0.login.advice()),
            ErrorKind::Invalid => failed.next("vakbus config show --origin says who named it"),
            _ => failed.next(
                "see that the server runs and that this machine reaches it; no other engine is \
                 used in its place",
            ),
        }
    }
}
