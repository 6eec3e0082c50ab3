//! All cases by area; one that is missing here is dead code.

mod batch;
mod blob;
mod bound;
mod bucket;
mod chain;
mod close;
mod consumer;
mod dedupe;
mod discard;
mod key;
mod latest;
mod lease;
mod live;
mod mailbox;
mod matching;
mod overflow;
mod pause;
mod priority;
mod queue;
mod removal;
mod replay;
mod request;
mod restart;
mod resume;
mod schedule;
mod stream;
mod ttl;
mod verdict;
mod watch;

use crate::case::Case;

/// Every case with the title of its area, in the order in which reports show them.
pub(crate) fn all() -> impl Iterator<Item = (&'static str, &'static Case)> {
    AREAS.iter().flat_map(|(title, cases)| cases.iter().map(move |case| (*title, case)))
}

static AREAS: &[(&str, &[Case])] = &[
    ("Live frames", live::CASES),
    ("Filters", matching::CASES),
    ("Slow subscribers", overflow::CASES),
    ("Latest values", latest::CASES),
    ("Requests", request::CASES),
    ("Streams", stream::CASES),
    ("Repeated ids", dedupe::CASES),
    ("Expected heads", chain::CASES),
    ("Bounds", bound::CASES),
    ("Batches", batch::CASES),
    ("Replays", replay::CASES),
    ("Discarding", discard::CASES),
    ("Work queues", queue::CASES),
    ("Schedules", schedule::CASES),
    ("Priorities", priority::CASES),
    ("Priorities", priority::AGEING),
    ("Order keys", key::CASES),
    ("Verdicts", verdict::CASES),
    ("Leases", lease::CASES),
    ("Consumers", consumer::CASES),
    ("Pauses", pause::CASES),
    ("Listing and removing consumers", removal::CASES),
    ("Mailboxes", mailbox::CASES),
    ("Buckets", bucket::CASES),
    ("Values with an end", ttl::CASES),
    ("Watches", watch::CASES),
    ("Watches that go on", resume::CASES),
    ("Blobs", blob::CASES),
    ("Closing", close::CASES),
    ("Restarts", restart::CASES),
];
