//! All cases by area; one that is missing here is dead code.

mod bound;
mod bucket;
mod chain;
mod close;
mod consumer;
mod dedupe;
mod lease;
mod live;
mod matching;
mod overflow;
mod queue;
mod replay;
mod request;
mod restart;
mod stream;
mod verdict;

use crate::case::Case;

/// Every case, in the order in which reports show them.
pub(crate) fn all() -> impl Iterator<Item = &'static Case> {
    AREAS.iter().copied().flatten()
}

static AREAS: &[&[Case]] = &[
    live::CASES,
    matching::CASES,
    overflow::CASES,
    request::CASES,
    stream::CASES,
    dedupe::CASES,
    chain::CASES,
    bound::CASES,
    replay::CASES,
    queue::CASES,
    verdict::CASES,
    lease::CASES,
    consumer::CASES,
    bucket::CASES,
    close::CASES,
    restart::CASES,
];
