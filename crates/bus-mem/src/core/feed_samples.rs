//! The newest frame of each latest-value subject, for subscribers that come later.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use bus_core::Frame;
use bus_envelope::Timestamp;
use bus_subjects::{Filter, Subject};

/// The last frames of at most so many subjects, each for a limited time.
#[derive(Debug, Default)]
pub struct FeedSamples {
    /// By the order they were published in, so that the oldest is the first.
    samples: BTreeMap<u64, Sample>,
    places: HashMap<Subject, u64>,
    last_number: u64,
    bytes: usize,
}

#[derive(Debug)]
struct Sample {
    frame: Arc<Frame>,
    since: Timestamp,
}

impl FeedSamples {
    /// How long a sample is shown after it was published: a process that ended is not shown for
    /// ever.
    pub const AGE_MAX: Duration = Duration::from_secs(10);

    /// The most subjects of which a sample is kept; beyond it the oldest goes.
    pub const SUBJECTS_MAX: usize = 65_536;

    /// The most bytes of all samples together (64 MiB); beyond it the oldest go.
    pub const BYTES_MAX: usize = 64 << 20;

    /// Keeps `frame` as the newest of its subject; `gone` gets what is kept no longer.
    pub fn keep(&mut self, frame: Arc<Frame>, now: Timestamp, gone: &mut impl Extend<Arc<Frame>>) {
        if let Some(place) = self.places.get(&frame.subject) {
            let older = self.samples.remove(place);
            gone.extend(older.map(|older| self.give_up(older)));
        }
        self.last_number += 1;
        self.bytes += frame.bytes();
        self.places.insert(frame.subject.clone(), self.last_number);
        self.samples.insert(self.last_number, Sample { frame, since: now });
        while let Some(oldest) = self.samples.first_entry()
            && (is_old(oldest.get(), now)
                || self.places.len() > Self::SUBJECTS_MAX
                || self.bytes > Self::BYTES_MAX)
        {
            let oldest = oldest.remove();
            self.places.remove(&oldest.frame.subject);
            gone.extend([self.give_up(oldest)]);
        }
    }

    /// The samples under `filter`, the oldest first, of the `count_max` newest at most.
    #[must_use]
    pub fn matching(&self, filter: &Filter, count_max: usize, now: Timestamp) -> Vec<Arc<Frame>> {
        if filter.is_literal() {
            let subject = Subject::parse(filter.as_str()).ok();
            let place = subject.and_then(|subject| self.places.get(&subject));
            let sample = place.and_then(|place| self.samples.get(place));
            let fresh = sample.filter(|sample| !is_old(sample, now));
            return fresh.map(|sample| Arc::clone(&sample.frame)).into_iter().collect();
        }
        let fresh = self.samples.values().rev().take_while(|sample| !is_old(sample, now));
        let matching = fresh.filter(|sample| filter.matches(&sample.frame.subject));
        let mut found: Vec<_> =
            matching.take(count_max).map(|sample| Arc::clone(&sample.frame)).collect();
        found.reverse();
        found
    }

    /// How many samples are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.samples.len()
    }

    /// Whether no sample is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    fn give_up(&mut self, sample: Sample) -> Arc<Frame> {
        self.bytes -= sample.frame.bytes();
        sample.frame
    }
}

fn is_old(sample: &Sample, now: Timestamp) -> bool {
    now.since(sample.since) > FeedSamples::AGE_MAX
}
