//! The spans of this process: off unless a collector is configured, and never in anybody's way.
//!
//! A thread of its own posts them, so that it goes on whatever the command does. There is one for
//! the whole process, as there is one environment.

mod collector;
mod export;
mod signals;

use std::{
    sync::{Mutex, OnceLock, PoisonError, mpsc},
    thread,
    time::Duration,
};

use bus_core::Tracing;
use bus_otel::{Spans, System, spans};

use self::collector::Collector;
pub(crate) use self::signals::{are_heard, ignores};
use crate::{
    config::Config,
    error::{CliError, Exit},
    print,
    swarm::surrounding_trace,
};

/// What runs while spans are exported.
struct Running {
    spans: Spans,
    /// Where spans go, fit to be shown.
    collector: String,
    exit_wait: Duration,
    /// Is told when all that waited was posted or given up.
    done: Mutex<mpsc::Receiver<()>>,
}

static RUNNING: OnceLock<Running> = OnceLock::new();

/// Begins to export spans, where the settings say so.
///
/// # Errors
/// What is wrong with them, by the name of the variable or setting.
pub(crate) fn start(config: &Config) -> Result<(), CliError> {
    let Some((collector, resource)) = Collector::of(config)? else { return Ok(()) };
    let (spans, batches) = spans(&resource);
    let (said, done) = mpsc::sync_channel(1);
    let (listens, listening) = mpsc::sync_channel(1);
    let shown = collector.to_string();
    let exit_wait = config.otel_exit_wait();
    let closing = (spans.clone(), exit_wait);
    let work = move || export::run(&collector, batches, closing, (listens, said));
    thread::Builder::new().name("spans".to_owned()).spawn(work).map_err(|error| {
        CliError::new(Exit::Failed, format!("cannot start the export of spans: {error}"))
    })?;
    // From here on no signal finds nobody; without signals there is nothing to wait for.
    let _listens = listening.recv();
    let done = Mutex::new(done);
    // It is started once, by the one who begins the process.
    let _first = RUNNING.set(Running { spans, collector: shown, exit_wait, done });
    Ok(())
}

/// What the endpoints of this process do about traces: they go on from the caller's, and tell their
/// spans where those are exported.
pub(crate) fn tracing(system: System) -> Tracing {
    let observer = RUNNING.get().map(|running| running.spans.observer(system));
    Tracing { observer, parent: surrounding_trace() }
}

/// Has what waits posted, for as long as the settings allow.
pub(crate) fn finish() {
    let Some(running) = RUNNING.get() else { return };
    running.spans.close();
    let done = running.done.lock().unwrap_or_else(PoisonError::into_inner);
    match done.recv_timeout(running.exit_wait) {
        Err(mpsc::RecvTimeoutError::Timeout) => {
            let wait = humantime::format_duration(running.exit_wait);
            let what = format!(
                "spans are lost: {} did not take the last of them within {wait}",
                running.collector
            );
            let next = "see that it runs, or have commands wait longer: otel.exit_wait";
            print::remark(&CliError::new(Exit::Failed, what).next(next).as_warning());
        }
        // Whatever went wrong was told when it did.
        Ok(()) | Err(mpsc::RecvTimeoutError::Disconnected) => {}
    }
    let (dropped, given_up) = (running.spans.dropped(), running.spans.given_up());
    if dropped > 0 {
        print::remark(&format!("warning: {dropped} spans were left out: too many waited"));
    }
    if given_up > 0 {
        let collector = &running.collector;
        print::remark(&format!(
            "warning: {given_up} spans were lost: {collector} did not take them"
        ));
    }
}
