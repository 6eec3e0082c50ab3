//! The transport promise that every engine keeps.

use std::{pin::Pin, time::Duration};

use bus_envelope::Timestamp;
use bus_subjects::{ConsumerName, Filter, StreamName, Subject};

use crate::{
    Answer, ConsumerSpec, ConsumerState, Deliveries, Expect, Frame, Lag, Overflow, Receipt, Replay,
    Result, Seq, Stored, StreamSpec, Subscription,
};

/// A boxed future, so that traits can be used as `dyn`.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Live events and durable streams on one bus.
///
/// Each promise below is a case of `bus-conformance` under the name in brackets. Every method is
/// cancel safe unless it says otherwise: a dropped future either had its effect or had none, and
/// for `publish` and `append` the caller must then treat the outcome as unknown.
pub trait Bus: Send + Sync + 'static {
    /// Hands `frame` to every live subscriber whose filter matches, and to nobody later, but for
    /// latest-value subjects ([`Overflow::Latest`]).
    ///
    /// Never waits for a subscriber (`a_slow_subscriber_never_slows_the_publisher`); order is kept
    /// per publisher and subject (`live_order_is_kept_per_subject`).
    ///
    /// # Errors
    /// `TooLarge`, `Invalid` (a placement, which only durable messages have), `Denied`, `Closed`,
    /// `Unavailable`.
    fn publish(&self, frame: Frame) -> BoxFuture<'_, Result<()>>;

    /// Hears every frame published on `filter` from the moment this returns
    /// (`a_frame_published_after_subscribe_returned_is_heard`), by anyone, and nothing published
    /// before but the samples that [`Overflow::Latest`] is promised
    /// (`a_late_reader_sees_the_newest_sample`).
    ///
    /// # Errors
    /// `Denied`, `Full` (too many subscriptions), `Closed`, `Unavailable`.
    fn subscribe(&self, filter: Filter, overflow: Overflow) -> BoxFuture<'_, Result<Subscription>>;

    /// Publishes `frame` with a reply subject of its own and waits for the first answer.
    ///
    /// # Errors
    /// `NoRecipient` at once when nobody listens (`a_request_nobody_hears_fails_at_once`),
    /// `Timeout` after `wait` (outcome unknown), and those of `publish`.
    fn request(&self, frame: Frame, wait: Duration) -> BoxFuture<'_, Result<Frame>>;

    /// Makes sure that the stream exists as specified
    /// (`declaring_the_same_stream_twice_is_fine`).
    ///
    /// # Errors
    /// `Conflict` when it exists otherwise or its subjects overlap another stream's; `Invalid`.
    fn declare(&self, stream: StreamSpec) -> BoxFuture<'_, Result<()>>;

    /// Stores `frame` in the stream that keeps its subject; when this returns it is stored
    /// (`an_append_that_returned_is_stored`). A repeat of an id within the window stores nothing
    /// and says so (`a_second_copy_is_a_duplicate`).
    ///
    /// # Errors
    /// `NotFound` (no stream keeps the subject), `Conflict` (the expectation does not hold),
    /// `Full`, `TooLarge`, `Denied`, `Closed`; `Timeout` and `Unavailable` with outcome unknown.
    fn append(&self, frame: Frame, expect: Expect) -> Answer<'_, Receipt>;

    /// Stores `frames` in their order, all of them or none (`a_batch_is_stored_whole_or_not`): at
    /// most [`Frame::BATCH_MAX`], all kept by one stream. A batch whose ids were all stored within
    /// the window before stores nothing and says so, as a repeat after a lost answer should
    /// (`a_batch_sent_again_is_a_duplicate_as_a_whole`). No message of others comes between them.
    ///
    /// # Errors
    /// As [`Bus::append`], about the first frame that cannot be stored; `Conflict` when some of
    /// the ids were stored before and others not; `Invalid` for an empty or too long batch, one of
    /// several streams, or one that holds an id twice.
    fn append_all(&self, frames: Vec<Frame>) -> BoxFuture<'_, Result<Vec<Receipt>>>;

    /// The last message stored under `subject`, or `None` when there is none.
    ///
    /// # Errors
    /// `NotFound` when no stream keeps the subject; `Denied`, `Closed`, `Unavailable`.
    fn last(&self, subject: Subject) -> BoxFuture<'_, Result<Option<Stored>>>;

    /// The message at position `seq` of `stream`, or `None` when it has left the stream or never
    /// was there (`a_message_is_read_by_its_position`).
    ///
    /// # Errors
    /// `NotFound` (no such stream), `Denied`, `Closed`, `Unavailable`.
    fn read(&self, stream: StreamName, seq: Seq) -> BoxFuture<'_, Result<Option<Stored>>>;

    /// Removes the message at `seq` by an operator's hand, whoever holds a lease on it, and says
    /// whether there was one (`a_discarded_message_is_gone`); a verdict on it later is
    /// `LeaseLost`. A stream that is append-only refuses
    /// (`an_append_only_stream_discards_nothing`).
    ///
    /// # Errors
    /// `NotFound` (no such stream), `Denied`, `Closed`; `Timeout` and `Unavailable` with outcome
    /// unknown.
    fn discard(&self, stream: StreamName, seq: Seq) -> BoxFuture<'_, Result<bool>>;

    /// Joins the consumer `consumer.name`, creating it when it does not exist yet.
    ///
    /// # Errors
    /// `NotFound` (no such stream), `Conflict` (it exists with another filter or lease, or its
    /// filter overlaps another consumer's on a work queue), `Denied`, `Closed`, `Invalid`.
    fn consume(&self, consumer: ConsumerSpec) -> BoxFuture<'_, Result<Deliveries>>;

    /// Every consumer of `stream` with what waits for it, by name.
    ///
    /// # Errors
    /// `NotFound`, `Denied`, `Closed`, `Unavailable`.
    fn consumers(&self, stream: StreamName) -> BoxFuture<'_, Result<Vec<ConsumerState>>>;

    /// Hands out nothing of `consumer` before `until`; `None`, or a time that has passed, goes on
    /// (`a_paused_consumer_hands_out_nothing`). What is under a lease stays so.
    ///
    /// # Errors
    /// `NotFound` (no such stream or consumer), `Denied`, `Closed`; `Timeout` and `Unavailable`
    /// with outcome unknown.
    fn pause(
        &self,
        stream: StreamName,
        consumer: ConsumerName,
        until: Option<Timestamp>,
    ) -> BoxFuture<'_, Result<()>>;

    /// Removes a consumer with its position, and says whether there was one. What a work queue
    /// holds stays there for the next consumer of its subjects
    /// (`a_work_queue_keeps_its_tasks_when_its_consumer_goes`); leases end, and their members' next
    /// item is an error of kind `NotFound`.
    ///
    /// # Errors
    /// `NotFound` (no such stream), `Denied`, `Closed`; `Timeout` and `Unavailable` with outcome
    /// unknown.
    fn remove_consumer(
        &self,
        stream: StreamName,
        consumer: ConsumerName,
    ) -> BoxFuture<'_, Result<bool>>;

    /// Reads what is stored in `stream` under the subjects of `filter` (`>`: all), from position
    /// `from` (0 and 1: the beginning) up to the last message at the time of the call, in order.
    ///
    /// # Errors
    /// `NotFound`, `Denied`, `Closed`, `Unavailable`.
    fn replay(
        &self,
        stream: StreamName,
        filter: Filter,
        from: Seq,
    ) -> BoxFuture<'_, Result<Replay>>;

    /// How much work waits in `stream`.
    ///
    /// # Errors
    /// `NotFound`, `Denied`, `Closed`, `Unavailable`.
    fn lag(&self, stream: StreamName) -> BoxFuture<'_, Result<Lag>>;

    /// Ends this bus: everything accepted is delivered or kept first
    /// (`close_loses_nothing_accepted`), subscriptions end after what they hold, and later calls
    /// answer `Closed`. A second close is fine.
    ///
    /// # Errors
    /// `Unavailable` with outcome unknown when the engine could not confirm.
    fn close(&self) -> BoxFuture<'_, Result<()>>;
}
