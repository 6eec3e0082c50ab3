//! `--metrics-listen` and `--http-listen`: the HTTP door of a daemon, a worker or a swarm.

mod agents;

use std::{net::SocketAddr, sync::Arc};

use bus_core::{
    BoxFuture, BusMetrics, Clock as _, Engine, Result as BusResult, SystemClock, Traffic,
};
use bus_gateway::{Build, Counts, Gateway, GatewayError, Sources, Standing};
use bus_subjects::{StreamName, Subject, WorkspaceId};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    args::UpArgs,
    commands::DaemonCounts,
    error::{CliError, Exit},
    home::Home,
};

/// Listens where the option says; nowhere without it.
///
/// # Errors
/// When the address is taken or not this machine's alone.
pub(crate) async fn bind(address: Option<SocketAddr>) -> Result<Option<Gateway>, CliError> {
    let Some(address) = address else { return Ok(None) };
    let bound = Gateway::bind(address).await.map_err(|error| {
        let code = match error {
            GatewayError::NotLoopback { .. } => Exit::Usage,
            _ => Exit::Failed,
        };
        let next = "name another with --metrics-listen, such as 127.0.0.1:0 for a free port";
        CliError::new(code, error.to_string()).next(next)
    })?;
    Ok(Some(bound))
}

/// Opens the door of a daemon, for scrapers or for agents too, where its options say.
///
/// # Errors
/// As [`bind`], and when the secret or the certificate of the door cannot be had.
pub(crate) async fn open(args: &UpArgs, home: &Home) -> Result<Option<Gateway>, CliError> {
    match args.http_listen {
        Some(address) => agents::open(address, args, home).await.map(Some),
        None => bind(args.metrics_listen).await,
    }
}

/// Has it answer while this process works, if there is one. It ends with what is returned.
#[expect(clippy::disallowed_methods, reason = "the command line is one of the places that spawn")]
pub(crate) fn answer(gateway: Option<Gateway>, working: Working) -> Option<DropGuard> {
    let (gateway, stop) = (gateway?, CancellationToken::new());
    drop(tokio::spawn(gateway.serve(Arc::new(working), stop.clone())));
    Some(stop.drop_guard())
}

/// Where it is asked, if there is one.
pub(crate) fn url(gateway: Option<&Gateway>) -> Option<String> {
    gateway.map(Gateway::url)
}

/// What `--metrics-listen` takes.
pub(crate) fn loopback(text: &str) -> Result<SocketAddr, String> {
    let expected = "expected an address of this machine alone, such as 127.0.0.1:9100 or [::1]:0";
    let address: SocketAddr = text.parse().map_err(|error| format!("{error}; {expected}"))?;
    match address.ip().is_loopback() {
        true => Ok(address),
        false => Err(format!(
            "others could ask there, and nobody has to log in; {expected}; a scraper on another \
             machine comes through a tunnel"
        )),
    }
}

/// What a daemon shows: what it carried and how the queues of its workspaces stand.
pub(crate) struct Daemon {
    /// The name of its engine.
    pub(crate) engine: &'static str,
    /// What it carried; none when messages do not go through it.
    pub(crate) traffic: Option<Arc<Traffic>>,
    /// The workspaces that it serves now.
    pub(crate) served: watch::Receiver<Vec<(WorkspaceId, Arc<dyn Engine>)>>,
    /// What its chores count.
    pub(crate) chores: Arc<DaemonCounts>,
}

impl Sources for Daemon {
    fn build(&self) -> Build {
        Build { version: env!("CARGO_PKG_VERSION"), engine: self.engine }
    }

    fn counts(&self) -> Counts {
        let carried = self.traffic.as_ref().map(|traffic| traffic.report());
        let chores = Some(self.chores.reading(SystemClock::new().now()));
        Counts { carried, agents: None, chores }
    }

    fn ask(&self) -> BoxFuture<'_, BusResult<Standing>> {
        let served = self.served.borrow().clone();
        Box::pin(async move { Standing::read(&served).await })
    }
}

/// What a worker or a swarm shows: what its agents did.
pub(crate) struct Working {
    /// The engine, as one of its agents may use it.
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) workspace: WorkspaceId,
    pub(crate) metrics: Arc<BusMetrics>,
    /// What it asks the engine for.
    pub(crate) question: Question,
}

/// What an engine is asked for, to see that it answers: something that this process may.
pub(crate) enum Question {
    /// How all queues stand: the engine is its own.
    Queues,
    /// How much work waits.
    Lag(StreamName),
    /// The last record of a subject of its own.
    Last(Subject),
}

impl Sources for Working {
    fn build(&self) -> Build {
        Build { version: env!("CARGO_PKG_VERSION"), engine: self.engine.promises().engine }
    }

    fn counts(&self) -> Counts {
        let agents = Some((self.workspace.clone(), Arc::clone(&self.metrics)));
        Counts { carried: None, agents, chores: None }
    }

    fn ask(&self) -> BoxFuture<'_, BusResult<Standing>> {
        Box::pin(async {
            match &self.question {
                Question::Queues => {
                    let all = [(self.workspace.clone(), Arc::clone(&self.engine))];
                    return Standing::read(&all).await;
                }
                Question::Lag(stream) => drop(self.engine.lag(stream.clone()).await?),
                Question::Last(subject) => drop(self.engine.last(subject.clone()).await?),
            }
            Ok(Standing { workspaces: 1, ..Standing::default() })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_address_of_this_machine_alone_is_taken() {
        for ours in ["127.0.0.1:9100", "127.0.0.1:0", "[::1]:9100", "127.8.9.1:80"] {
            assert!(loopback(ours).is_ok(), "{ours}");
        }
        for other in ["0.0.0.0:9100", "[::]:0", "192.0.2.1:9100", "localhost:9100", "9100", ""] {
            let error = loopback(other).unwrap_err();
            assert!(error.contains("expected an address of this machine alone"), "{error}");
        }
    }
}
