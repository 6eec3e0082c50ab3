//! Families of metrics, written one after the other.

use std::fmt;

use bus_core::LatencySpread;
use prometheus_client::{
    encoding::{DescriptorEncoder, EncodeGaugeValue, EncodeLabelSet, MetricEncoder, NoLabelSet},
    metrics::MetricType,
    registry::Unit,
};

/// Writes families; each is called `vakbus_` and its name, and one without samples is left out.
pub(super) struct Families<'e>(DescriptorEncoder<'e>);

/// What a family is called and is about.
#[derive(Clone, Copy)]
pub(super) struct Family<'a> {
    pub(super) name: &'a str,
    pub(super) help: &'a str,
    pub(super) unit: Option<&'a Unit>,
}

/// The labels of a sample. Names of workspaces, roles and the words of this crate: never an id, a
/// subject, a session, an agent or a text of somebody.
type Labels<'a, const N: usize> = [(&'a str, &'a str); N];

impl<'e> Families<'e> {
    pub(super) fn new(encoder: DescriptorEncoder<'e>) -> Self {
        Self(encoder)
    }

    /// What is always true.
    pub(super) fn info(&mut self, family: Family<'_>, labels: &Labels<'_, 2>) -> fmt::Result {
        self.family(family, MetricType::Info, |encoder| encoder.encode_info(labels))
    }

    /// What only grows.
    pub(super) fn counter<'l, const N: usize>(
        &mut self,
        family: Family<'_>,
        samples: impl IntoIterator<Item = (Labels<'l, N>, u64)>,
    ) -> fmt::Result {
        self.samples((family, MetricType::Counter), samples, |encoder, value| {
            encoder.encode_counter::<NoLabelSet, _, u64>(value, None)
        })
    }

    /// What goes up and down.
    pub(super) fn gauge<'l, const N: usize, V: EncodeGaugeValue>(
        &mut self,
        family: Family<'_>,
        samples: impl IntoIterator<Item = (Labels<'l, N>, V)>,
    ) -> fmt::Result {
        self.samples((family, MetricType::Gauge), samples, |encoder, value| {
            encoder.encode_gauge(value)
        })
    }

    /// How long something took.
    pub(super) fn histogram<'l, const N: usize>(
        &mut self,
        family: Family<'_>,
        samples: impl IntoIterator<Item = (Labels<'l, N>, LatencySpread)>,
    ) -> fmt::Result {
        self.samples((family, MetricType::Histogram), samples, |encoder, spread| {
            // Each bucket alone: the encoder adds them up.
            let bounded = spread.bounded.iter().map(|(bound, n)| (seconds(*bound), *n));
            let buckets: Vec<_> = bounded.chain([(f64::INFINITY, spread.longer)]).collect();
            let sum = seconds(spread.sum_ns);
            encoder.encode_histogram::<NoLabelSet>(sum, spread.count(), &buckets, None)
        })
    }

    fn samples<'l, const N: usize, V>(
        &mut self,
        (family, kind): (Family<'_>, MetricType),
        samples: impl IntoIterator<Item = (Labels<'l, N>, V)>,
        mut write: impl FnMut(&mut MetricEncoder<'_>, &V) -> fmt::Result,
    ) -> fmt::Result {
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() {
            return Ok(());
        }
        self.family(family, kind, |encoder| {
            samples.try_for_each(|(labels, value)| match N {
                0 => write(encoder, &value),
                _ => write(&mut labelled(encoder, &labels)?, &value),
            })
        })
    }

    fn family(
        &mut self,
        Family { name, help, unit }: Family<'_>,
        kind: MetricType,
        write: impl FnOnce(&mut MetricEncoder<'_>) -> fmt::Result,
    ) -> fmt::Result {
        let name = format!("vakbus_{name}");
        write(&mut self.0.encode_descriptor(&name, help, unit, kind)?)
    }
}

fn labelled<'s>(
    encoder: &'s mut MetricEncoder<'_>,
    labels: &'s impl EncodeLabelSet,
) -> Result<MetricEncoder<'s>, fmt::Error> {
    encoder.encode_family(labels)
}

#[expect(clippy::cast_precision_loss, reason = "a page is read by people and plotted")]
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
