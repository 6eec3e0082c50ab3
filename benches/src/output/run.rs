//! A command that is run: alone (T1), as a worker runs it, its output shown and kept (T2), and with
//! a recorder beside it (T3); by pipes and by a terminal.
//!
//! Everything runs on one thread, whose time is measured; the command's own time is not in it. A
//! busy machine loses output on its way to the bus, as it should: what was shown is then counted
//! for as much as all.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, ensure};
use bus_core::{
    Endpoint, Engine, EventFeed, Incoming, Overflow, ResultOutput, Results, Stop, TaskEvent,
    Worker, WorkerSpec, planes,
};
use bus_envelope::Draft;
use bus_mem::InMemoryBus;
use bus_runner::{
    CommandAgent, CommandSpec, OutputSink, OutputStream, Recorder, RecordingPolicy, StopSignal,
    TERMINAL_END, Terminal, TerminalEnd, TerminalSize, run,
};
use bus_subjects::{Address, Filter, Role, RoleName, SessionId};
use bytes::Bytes;
use tokio::runtime::{Builder, Runtime};

use super::{BYTES, beside_a_second, writer::OPTION};
use crate::{
    case::{Case, Figures, processor_time},
    fleet::{Fleet, SESSION},
};

pub(crate) const COSTS: &[Case] = &[
    Case { name: "T1-run-pipe", goal: Some(1.0), measure: || alone(Way::Pipe) },
    Case { name: "T1-run-terminal", goal: Some(1.0), measure: || alone(Way::Terminal) },
    Case { name: "T2-work-pipe", goal: Some(1.0), measure: || work(Way::Pipe, false) },
    Case { name: "T2-work-terminal", goal: Some(1.0), measure: || work(Way::Terminal, false) },
    Case { name: "T3-work-recorded-pipe", goal: Some(1.0), measure: || work(Way::Pipe, true) },
    Case {
        name: "T3-work-recorded-terminal",
        goal: Some(1.0),
        measure: || work(Way::Terminal, true),
    },
];

/// How the output comes.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Pipe,
    Terminal,
}

fn command(way: Way) -> Result<CommandSpec> {
    let program = std::env::current_exe().context("find this program")?;
    let mut command = CommandSpec::new(program, [OPTION.to_owned(), BYTES.to_string()]);
    command.terminal = (way == Way::Terminal).then(|| Terminal::new(TerminalSize::default()));
    Ok(command)
}

/// Counts what it is given.
struct Count(u64);

impl OutputSink for Count {
    fn started(&mut self, _pid: u32) {}

    async fn chunk(&mut self, _stream: OutputStream, bytes: Bytes) {
        self.0 += bytes.len() as u64;
    }
}

fn alone(way: Way) -> Result<Figures> {
    let (runtime, command) = (runtime()?, command(way)?.for_text("")?);
    let mut seconds = Vec::new();
    for _ in 0..ROUNDS {
        let (mut sink, start) = (Count(0), processor_time());
        let report = runtime.block_on(run(&command, Bytes::new(), &mut sink, StopSignal::new()));
        seconds.push(processor_time().saturating_sub(start).as_secs_f64());
        ensure!(report.is_success() && sink.0 >= BYTES as u64, "not all of it came: {report:?}");
    }
    Ok(beside_a_second(seconds))
}

fn work(way: Way, is_recorded: bool) -> Result<Figures> {
    let (runtime, mut seconds) = (runtime()?, Vec::new());
    for _ in 0..ROUNDS {
        let stage = runtime.block_on(Stage::new())?;
        let recorder = match is_recorded {
            true => Some(runtime.block_on(stage.recorder())?),
            false => None,
        };
        let (mut end, start) = (runtime.block_on(stage.listener())?, processor_time());
        let shown = runtime.block_on(async {
            let stop = Stop::default();
            let recording = async {
                match recorder {
                    Some(recorder) => Ok(Some(recorder.run(&stop).await?)),
                    None => anyhow::Ok(None),
                }
            };
            let working = async {
                stage.work(command(way)?).await?;
                stop.drain.cancel();
                anyhow::Ok(())
            };
            let (recorded, ()) = tokio::try_join!(recording, working)?;
            let missed = recorded.map_or(0, |recorded| recorded.missed);
            ensure!(missed == 0, "the recorder missed {missed} events: the machine is too busy");
            share_shown(&mut end).await
        })?;
        let took = processor_time().saturating_sub(start).as_secs_f64();
        runtime.block_on(stage.check_kept())?;
        seconds.push(took / shown);
    }
    Ok(beside_a_second(seconds))
}

/// How much of the output was shown, as its last event says.
async fn share_shown(end: &mut EventFeed) -> Result<f64> {
    loop {
        let item = end.next().await.context("the bus goes on")?;
        let Incoming::Message(opened) = item else { continue };
        if opened.envelope.event_type == TERMINAL_END {
            let end = TerminalEnd::parse(&opened.payload)?;
            let share = 1.0 - end.shown_lost_bytes as f64 / end.stdout_bytes as f64;
            ensure!(share > 0.5, "the machine is too busy: {share:.2} of the output was shown");
            return Ok(share);
        }
    }
}

/// A workspace with one task, on an engine in memory.
struct Stage {
    fleet: Fleet,
    engine: Arc<dyn Engine>,
    queue: RoleName,
    task: String,
}

impl Stage {
    async fn new() -> Result<Self> {
        let (fleet, queue) = (Fleet::new()?, RoleName::parse("coder")?);
        let engine: Arc<dyn Engine> = Arc::new(InMemoryBus::new());
        let mut streams = planes::workspace_streams(fleet.workspace())?;
        streams.push(planes::recordings(fleet.workspace())?);
        for stream in streams {
            engine.declare(stream).await?;
        }
        let lead = fleet.agent(Arc::clone(&engine), "lead", Role::Orchestrator)?;
        let address = Address::Task { workspace: fleet.workspace().clone(), role: queue.clone() };
        let draft = Draft::new(address.subject(), "vak.task", Bytes::from_static(b"x"));
        let task = lead.send(draft).await?.id;
        Ok(Self { fleet, engine, queue, task })
    }

    fn agent(&self, name: &str, roles: Vec<Role>) -> Result<Endpoint> {
        self.fleet.agent_with(Arc::clone(&self.engine), name, roles)
    }

    async fn recorder(&self) -> Result<Recorder> {
        let keeper = self.agent("rec-1", vec![Role::Keeper, Role::Observer])?;
        let session = SessionId::parse(SESSION)?;
        Ok(Recorder::start(keeper, session, RecordingPolicy::default()).await?)
    }

    /// Who hears the newest event of the output, and so its last one.
    async fn listener(&self) -> Result<EventFeed> {
        let (workspace, session) = (self.fleet.workspace().clone(), SessionId::parse(SESSION)?);
        let filter = Filter::from(&Address::Terminal { workspace, session }.subject());
        let watcher = self.agent("watcher-1", vec![Role::Observer])?;
        let overflow = Overflow::Latest { subjects: 1.try_into()? };
        Ok(watcher.subscribe(filter, overflow).await?)
    }

    /// Does the one task.
    async fn work(&self, command: CommandSpec) -> Result<()> {
        let session = SessionId::parse(SESSION)?;
        let mut agent = CommandAgent::new(command, session, "run-1".to_owned());
        agent.keeps_results = true;
        let (stop, done) = (Stop::default(), Mutex::new(None));
        let worker = Worker::new(
            self.agent("coder-1", vec![Role::Worker])?,
            WorkerSpec::new(self.queue.clone()),
        );
        let report = |event: TaskEvent| {
            *done.lock().unwrap_or_else(PoisonError::into_inner) = Some(event);
            stop.drain.cancel();
        };
        worker.run(&agent, &stop, report).await?;
        let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        ensure!(matches!(done, Some(TaskEvent::Completed { .. })), "not completed: {done:?}");
        Ok(())
    }

    /// Looks whether the output was kept as well: else the figures are of less.
    async fn check_kept(&self) -> Result<()> {
        let results = Results::new(self.agent("reader-1", vec![Role::Operator])?);
        let result = results.get(&self.task).await?.context("the result is there")?;
        ensure!(matches!(result.output, ResultOutput::Blob { .. }), "not kept: {result:?}");
        Ok(())
    }
}

fn runtime() -> Result<Runtime> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}

/// An odd number, so that the median is one of them.
const ROUNDS: usize = 5;
