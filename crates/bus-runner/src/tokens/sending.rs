//! The task of a stream of tokens: collects a little, publishes, counts.

use std::{collections::VecDeque, pin::Pin, time::Duration};

use bus_core::{Endpoint, Error, ErrorKind, Result};
use bus_envelope::Draft;
use bus_subjects::Subject;
use serde::Serialize;
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep_until},
};

use super::{EndReason, Fault, TOKENS_BYTES_MAX, TOKENS_END, TokenKind};
use crate::{EventPlace, place::invalid};

/// What a stream is told to do.
#[derive(Debug)]
pub(super) enum Order {
    /// To take a piece of at most [`TOKENS_BYTES_MAX`] bytes.
    Piece(TokenKind, String),
    /// To publish what it took.
    Flush(oneshot::Sender<()>),
    /// To end.
    End(EndReason, oneshot::Sender<()>),
}

/// The state of a stream.
///
/// One event is on its way at a time. Meanwhile pieces are taken: a few, so that whoever brings
/// them waits for a slow bus; while the bus is away as many as there is room for, the newest.
pub(super) struct Sending {
    endpoint: Endpoint,
    place: EventPlace,
    stream: String,
    subject: Subject,
    fault: Fault,
    waiting: VecDeque<Item>,
    waiting_bytes: usize,
    /// When the newest piece is published at the latest.
    due: Instant,
    text_bytes: u64,
    thinking_bytes: u64,
    is_away: bool,
    /// When a bus that is away is tried again.
    rests_until: Instant,
    /// What was lost since that was told last.
    lost_bytes: u64,
}

/// What waits for its turn.
enum Item {
    Piece { kind: TokenKind, offset: u64, text: String },
    Flush(oneshot::Sender<()>),
    End(End, oneshot::Sender<()>),
}

/// An event on its way.
struct Flight {
    arriving: Pin<Box<dyn Future<Output = Result<()>> + Send>>,
    began: Instant,
    /// How much text it is.
    bytes: usize,
    /// Who waits for it.
    waiter: Option<oneshot::Sender<()>>,
}

/// The payload of the event that ends a stream.
#[derive(Serialize)]
struct End {
    reason: &'static str,
    text_bytes: u64,
    thinking_bytes: u64,
}

/// How long a token waits for others.
const WAIT: Duration = Duration::from_millis(30);

/// How many bytes wait for others at the most.
const ENOUGH_BYTES: usize = 4 * 1024;

/// How many bytes are taken while the bus is only slow.
const SLOW_BYTES_MAX: usize = 64 * 1024;

/// How many bytes are kept while it is away.
const AWAY_BYTES_MAX: usize = 256 * 1024;

/// After how long without an answer the bus counts as away.
const AWAY_AFTER: Duration = Duration::from_secs(2);

/// How long a bus that is away is left alone.
const REST: Duration = Duration::from_millis(200);

impl Sending {
    pub(super) fn new(endpoint: Endpoint, place: EventPlace, stream: String, fault: Fault) -> Self {
        let subject = place.tokens(&endpoint);
        Self {
            endpoint,
            place,
            stream,
            subject,
            fault,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            due: Instant::now(),
            text_bytes: 0,
            thinking_bytes: 0,
            is_away: false,
            rests_until: Instant::now(),
            lost_bytes: 0,
        }
    }

    /// Obeys until nobody gives orders any more.
    pub(super) async fn run(self, orders: mpsc::Receiver<Order>) {
        let endpoint = self.endpoint.clone();
        tokio::select! {
            () = self.obey(orders) => {}
            // It never ends: checkpoints are due also while no token comes.
            () = endpoint.keep_vouching() => {}
        }
    }

    async fn obey(mut self, mut orders: mpsc::Receiver<Order>) {
        let (mut flight, mut is_open) = (None::<Flight>, true);
        loop {
            if flight.is_none() {
                flight = self.begin_next(is_open);
            }
            if flight.is_none() && !is_open && self.waiting.is_empty() {
                return;
            }
            let has_room = self.is_away || self.waiting_bytes < SLOW_BYTES_MAX;
            let overdue = flight.as_ref().map(|flight| flight.began + AWAY_AFTER);
            let may_be_late = overdue.is_some() && !self.is_away;
            let next = self.due.max(self.rests_until);
            tokio::select! {
                biased;
                arrived = arrival(flight.as_mut()) => {
                    if let Some(flight) = flight.take() {
                        self.arrived(flight, arrived);
                    }
                }
                order = orders.recv(), if is_open && has_room => match order {
                    None => is_open = false,
                    Some(order) => self.take(order),
                },
                () = sleep_until(next), if flight.is_none() && !self.waiting.is_empty() => {}
                () = sleep_until(overdue.unwrap_or(next)), if may_be_late => self.is_gone("no answer"),
            }
        }
    }

    fn take(&mut self, order: Order) {
        match order {
            Order::Piece(kind, text) => self.take_piece(kind, text),
            Order::Flush(done) => self.waiting.push_back(Item::Flush(done)),
            Order::End(reason, done) => {
                let (text_bytes, thinking_bytes) = (self.text_bytes, self.thinking_bytes);
                (self.text_bytes, self.thinking_bytes) = (0, 0);
                let end = End { reason: reason.as_str(), text_bytes, thinking_bytes };
                self.waiting.push_back(Item::End(end, done));
            }
        }
    }

    fn take_piece(&mut self, kind: TokenKind, more: String) {
        let count = match kind {
            TokenKind::Text => &mut self.text_bytes,
            TokenKind::Thinking => &mut self.thinking_bytes,
        };
        let offset = *count;
        // Counted also when it is lost, so that readers see that something is missing.
        *count = count.saturating_add(more.len() as u64);
        self.waiting_bytes = self.waiting_bytes.saturating_add(more.len());
        match self.waiting.back_mut() {
            Some(Item::Piece { kind: known, text, .. })
                if *known == kind
                    && text.len() < ENOUGH_BYTES
                    && text.len() + more.len() <= TOKENS_BYTES_MAX =>
            {
                text.push_str(&more);
            }
            _ => {
                self.due = Instant::now() + WAIT;
                self.waiting.push_back(Item::Piece { kind, offset, text: more });
            }
        }
        while self.waiting_bytes > AWAY_BYTES_MAX && self.lose_oldest(self.waiting.len()) {}
    }

    /// Loses the oldest piece among the first `count` that wait; false when there is none.
    fn lose_oldest(&mut self, count: usize) -> bool {
        let is_piece = |item: &Item| matches!(item, Item::Piece { .. });
        let oldest = self.waiting.iter().take(count).position(is_piece);
        let Some(Item::Piece { text, .. }) = oldest.and_then(|at| self.waiting.remove(at)) else {
            return false;
        };
        self.waiting_bytes = self.waiting_bytes.saturating_sub(text.len());
        self.lost_bytes = self.lost_bytes.saturating_add(text.len() as u64);
        self.fault.lost(text.len(), None);
        true
    }

    /// Begins what is next, if its time has come.
    fn begin_next(&mut self, is_open: bool) -> Option<Flight> {
        let now = Instant::now();
        if now < self.rests_until {
            return None;
        }
        loop {
            let is_alone = self.waiting.len() == 1;
            match self.waiting.front()? {
                Item::Piece { text, .. }
                    if is_alone && is_open && text.len() < ENOUGH_BYTES && now < self.due =>
                {
                    return None;
                }
                _ => {}
            }
            match self.waiting.pop_front()? {
                Item::Piece { kind, offset, text } => {
                    let bytes = text.len();
                    self.waiting_bytes = self.waiting_bytes.saturating_sub(bytes);
                    match self.piece(kind, offset, text) {
                        Ok(draft) => return Some(self.flight(draft, bytes)),
                        Err(error) => self.fault.note(error),
                    }
                }
                Item::Flush(done) => answer(done),
                Item::End(end, done) => match self.end(&end) {
                    Ok(draft) => return Some(self.last_flight(draft, done)),
                    Err(error) => {
                        self.fault.note(error);
                        answer(done);
                    }
                },
            }
        }
    }

    fn flight(&self, draft: Draft, bytes: usize) -> Flight {
        let endpoint = self.endpoint.clone();
        let arriving = Box::pin(async move { endpoint.publish(draft).await.map(drop) });
        Flight { arriving, began: Instant::now(), bytes, waiter: None }
    }

    fn last_flight(&self, draft: Draft, done: oneshot::Sender<()>) -> Flight {
        let (endpoint, subject) = (self.endpoint.clone(), self.subject.clone());
        let arriving = Box::pin(async move {
            match endpoint.publish(draft).await {
                // It would not be reached by what vouches for it either.
                Err(error) if is_away(&error) => Err(error),
                told => told.map(drop).and(endpoint.finish_live(&subject).await.map(drop)),
            }
        });
        Flight { arriving, began: Instant::now(), bytes: 0, waiter: Some(done) }
    }

    fn arrived(&mut self, flight: Flight, arrived: Result<()>) {
        match arrived {
            Ok(()) => self.is_back(),
            Err(error) if is_away(&error) => {
                self.is_gone(&error.to_string());
                self.rests_until = Instant::now() + REST;
                self.lost_bytes = self.lost_bytes.saturating_add(flight.bytes as u64);
                self.fault.lost(flight.bytes, Some(error));
                // Whoever waits for the end of it is not to wait for each piece in turn.
                let waits = |item: &Item| !matches!(item, Item::Piece { .. });
                if let Some(last) = self.waiting.iter().rposition(waits) {
                    let mut before = last;
                    while before > 0 && self.lose_oldest(before) {
                        before -= 1;
                    }
                }
            }
            Err(error) => self.fault.note(error),
        }
        if let Some(waiter) = flight.waiter {
            answer(waiter);
        }
    }

    fn is_gone(&mut self, why: &str) {
        if !std::mem::replace(&mut self.is_away, true) {
            let stream = &self.stream;
            tracing::warn!(
                stream,
                why,
                "tokens are not published now: the newest {AWAY_BYTES_MAX} bytes are kept"
            );
        }
    }

    fn is_back(&mut self) {
        let lost = std::mem::take(&mut self.lost_bytes);
        if std::mem::take(&mut self.is_away) {
            let stream = &self.stream;
            tracing::warn!(stream, lost, "tokens are published again; so many bytes were not");
        }
    }

    fn piece(&self, kind: TokenKind, offset: u64, text: String) -> Result<Draft> {
        self.place
            .draft(self.subject.clone(), kind.event_type(), text)?
            .content_type("text/plain; charset=utf-8")
            .extension("stream", &self.stream)
            .and_then(|draft| draft.extension("offset", offset.to_string()))
            .map_err(invalid)
    }

    fn end(&self, end: &End) -> Result<Draft> {
        let json = serde_json::to_vec(end).unwrap_or_default(); // it holds numbers and a word
        self.place
            .draft(self.subject.clone(), TOKENS_END, json)?
            .content_type("application/json")
            .extension("stream", &self.stream)
            .map_err(invalid)
    }
}

fn answer(waiter: oneshot::Sender<()>) {
    // Whoever asked may not wait any more.
    let _gone = waiter.send(());
}

/// Waits until an event has arrived; for ever, when none is on its way. Cancel safe.
async fn arrival(flight: Option<&mut Flight>) -> Result<()> {
    match flight {
        Some(flight) => flight.arriving.as_mut().await,
        None => std::future::pending().await,
    }
}

/// Whether the bus is away, so that it may be there another time.
fn is_away(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout)
}
