//! What `/metrics` says: one page of OpenMetrics text.

mod chores;
mod families;

use std::fmt;

use bus_core::{ErrorKind, OutcomeCounts, Step, WorkspaceTraffic};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, text},
    registry::{Registry, Unit},
};

use self::families::{Families, Family};
use crate::{Build, Counts, QueueReading, Standing};

/// The type of the page. With another one Prometheus takes it for its older form.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Everything that is on one page.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) build: Build,
    pub(crate) counts: Counts,
    pub(crate) standing: Result<Standing, ErrorKind>,
}

impl Page {
    /// The page as text.
    ///
    /// # Errors
    /// None in practice: text is written to memory.
    pub(crate) fn into_text(self) -> Result<String, fmt::Error> {
        let (mut registry, mut page) = (Registry::default(), String::new());
        registry.register_collector(Box::new(self));
        text::encode(&mut page, &registry)?;
        Ok(page)
    }

    /// The traffic of this process: what its engine carried, else what its agents did.
    fn traffic(&self) -> Vec<WorkspaceTraffic> {
        match (&self.counts.carried, &self.counts.agents) {
            (Some(carried), _) => carried.clone(),
            (None, Some((workspace, metrics))) => {
                let counted = metrics.snapshot();
                vec![WorkspaceTraffic {
                    workspace: Some(workspace.clone()),
                    published: counted.published_count,
                    published_bytes: counted.bytes_published,
                    received: counted.received_count,
                    received_bytes: counted.bytes_received,
                    missed: 0,
                }]
            }
            (None, None) => Vec::new(),
        }
    }

    fn encode_traffic(&self, families: &mut Families<'_>) -> fmt::Result {
        let all = self.traffic();
        let mut count = |family: Family<'_>, of: fn(&WorkspaceTraffic) -> u64| {
            families.counter(family, all.iter().map(|one| ([("workspace", name(one))], of(one))))
        };
        let frames = |name, help| Family { name, help, unit: None };
        let bytes = |name, help| Family { name, help, unit: Some(&Unit::Bytes) };
        count(frames("published", "Frames published or stored"), |one| one.published)?;
        count(bytes("published", "Bytes of frames published or stored"), |one| {
            one.published_bytes
        })?;
        count(frames("received", "Frames handed to subscribers and workers"), |one| one.received)?;
        count(bytes("received", "Bytes of frames handed to subscribers and workers"), |one| {
            one.received_bytes
        })?;
        let missed = frames("live_missed", "Live frames that subscribers were too slow for");
        let carried = self.counts.carried.iter().flatten();
        families.counter(missed, carried.map(|one| ([("workspace", name(one))], one.missed)))
    }

    fn encode_work(&self, families: &mut Families<'_>) -> fmt::Result {
        let Some((workspace, metrics)) = &self.counts.agents else { return Ok(()) };
        let workspace = ("workspace", workspace.as_str());
        let outcomes = metrics.report().outcomes;
        let tasks = Family { name: "tasks", help: "Deliveries of tasks by their end", unit: None };
        families
            .counter(tasks, ends(&outcomes).map(|(end, n)| ([workspace, ("outcome", end)], n)))?;
        let letters =
            Family { name: "dead_letters", help: "Tasks given up, by the reason", unit: None };
        families.counter(
            letters,
            reasons(&outcomes).map(|(why, n)| ([workspace, ("reason", why)], n)),
        )?;
        let failed = Family {
            name: "dead_letters_failed",
            help: "Dead letters that could not be stored: their tasks are kept",
            unit: None,
        };
        let failures = metrics.snapshot().dead_letter_failed_count;
        families.counter(failed, [([workspace], failures)])?;
        let steps = [
            ("publish", Step::Publish),
            ("append", Step::Append),
            ("claim", Step::Claim),
            ("settle", Step::Settle),
        ];
        let step =
            Family { name: "step", help: "How long a step took", unit: Some(&Unit::Seconds) };
        let spreads = steps.map(|(name, step)| ([("step", name)], metrics.spread(step)));
        families.histogram(step, spreads)
    }

    fn encode_queues(&self, families: &mut Families<'_>) -> fmt::Result {
        let up = Family { name: "engine_up", help: "Whether the engine answers", unit: None };
        families.gauge(up, [([], u64::from(self.standing.is_ok()))])?;
        let Ok(Standing { queues, left_out, .. }) = &self.standing else { return Ok(()) };
        if queues.is_empty() {
            return Ok(());
        }
        fn labels(of: &QueueReading) -> [(&str, &str); 2] {
            [("workspace", of.workspace.as_str()), ("queue", of.queue.as_str())]
        }
        let count = |name, help| Family { name, help, unit: None };
        let waiting = count("queue_waiting", "Tasks that wait or rest in a queue");
        families.gauge(waiting, queues.iter().map(|of| (labels(of), of.lag.pending)))?;
        let held = count("queue_in_flight", "Tasks of a queue under a lease");
        families.gauge(held, queues.iter().map(|of| (labels(of), of.lag.in_flight)))?;
        let oldest = Family {
            name: "queue_oldest",
            help: "Age of the oldest task of a queue, 0 when there is none",
            unit: Some(&Unit::Seconds),
        };
        let age = |of: &QueueReading| of.lag.oldest.unwrap_or_default().as_secs_f64();
        families.gauge(oldest, queues.iter().map(|of| (labels(of), age(of))))?;
        let more = count("queues_left_out", "Queues beyond those that are shown");
        families.gauge(more, [([], u64::try_from(*left_out).unwrap_or(u64::MAX))])
    }
}

impl Collector for Page {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut families = Families::new(encoder);
        let Build { version, engine } = self.build;
        let build = Family { name: "build", help: "What this process is", unit: None };
        families.info(build, &[("version", version), ("engine", engine)])?;
        self.encode_traffic(&mut families)?;
        self.encode_work(&mut families)?;
        self.encode_queues(&mut families)?;
        match &self.counts.chores {
            Some(counts) => chores::encode(counts, &mut families),
            None => Ok(()),
        }
    }
}

/// The label of a workspace; that of frames of none is empty, which is the same as none.
fn name(of: &WorkspaceTraffic) -> &str {
    of.workspace.as_ref().map_or("", |name| name.as_str())
}

/// How deliveries ended.
fn ends(counts: &OutcomeCounts) -> [(&'static str, u64); 6] {
    [
        ("completed", counts.completed),
        ("retried", counts.retried),
        ("released", counts.released),
        ("lease-lost", counts.lease_lost),
        ("unsettled", counts.unsettled),
        ("dead-lettered", counts.dead_lettered()),
    ]
}

/// Why tasks were given up, as their letters say it.
fn reasons(counts: &OutcomeCounts) -> [(&'static str, u64); 7] {
    [
        ("exhausted", counts.exhausted),
        ("hopeless", counts.hopeless),
        ("vanished", counts.vanished),
        ("refused", counts.refused),
        ("key-withdrawn", counts.key_withdrawn),
        ("expired", counts.expired),
        ("cancelled", counts.cancelled),
    ]
}
