//! The task of a stream of tokens: collects a little, publishes, counts.

use std::time::Duration;

use bus_core::{Endpoint, Result};
use bus_subjects::Subject;
use serde::Serialize;
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep_until},
};

use super::{EndReason, Fault, TOKENS_BYTES_MAX, TOKENS_END, TokenKind, border};
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
pub(super) struct Sending {
    endpoint: Endpoint,
    place: EventPlace,
    stream: String,
    subject: Subject,
    fault: Fault,
    kind: TokenKind,
    waiting: String,
    /// When what waits is published at the latest.
    due: Instant,
    text_bytes: u64,
    thinking_bytes: u64,
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

impl Sending {
    pub(super) fn new(endpoint: Endpoint, place: EventPlace, stream: String, fault: Fault) -> Self {
        let subject = place.tokens(&endpoint);
        Self {
            endpoint,
            place,
            stream,
            subject,
            fault,
            kind: TokenKind::Text,
            waiting: String::new(),
            due: Instant::now(),
            text_bytes: 0,
            thinking_bytes: 0,
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
        loop {
            let order = tokio::select! {
                order = orders.recv() => order,
                () = sleep_until(self.due), if !self.waiting.is_empty() => {
                    self.publish().await;
                    continue;
                }
            };
            match order {
                None => return self.publish().await,
                Some(Order::Piece(kind, text)) => self.take(kind, &text).await,
                Some(Order::Flush(done)) => {
                    self.publish().await;
                    // Whoever asked may not wait any more.
                    let _gone = done.send(());
                }
                Some(Order::End(reason, done)) => {
                    self.publish().await;
                    self.end(reason).await;
                    let _gone = done.send(());
                }
            }
        }
    }

    async fn take(&mut self, kind: TokenKind, text: &str) {
        if self.kind != kind {
            self.publish().await;
            self.kind = kind;
        }
        if self.waiting.is_empty() {
            self.due = Instant::now() + WAIT;
        }
        self.waiting.push_str(text);
        if self.waiting.len() >= ENOUGH_BYTES {
            self.publish().await;
        }
    }

    /// Publishes what waits, in as many events as it needs.
    async fn publish(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        let mut rest = waiting.as_str();
        while !rest.is_empty() {
            let (piece, later) = rest.split_at(border(rest, TOKENS_BYTES_MAX));
            if let Err(error) = self.publish_piece(piece).await {
                self.fault.note(error);
            }
            rest = later;
        }
    }

    async fn publish_piece(&mut self, piece: &str) -> Result<()> {
        let count = match self.kind {
            TokenKind::Text => &mut self.text_bytes,
            TokenKind::Thinking => &mut self.thinking_bytes,
        };
        let offset = *count;
        // Counted also when it is lost, so that readers see that something is missing.
        *count = count.saturating_add(piece.len() as u64);
        let draft = self
            .place
            .draft(self.subject.clone(), self.kind.event_type(), piece.to_owned())?
            .content_type("text/plain; charset=utf-8")
            .extension("stream", &self.stream)
            .and_then(|draft| draft.extension("offset", offset.to_string()))
            .map_err(invalid)?;
        self.endpoint.publish(draft).await.map(drop)
    }

    async fn end(&mut self, reason: EndReason) {
        let (text_bytes, thinking_bytes) = (self.text_bytes, self.thinking_bytes);
        (self.text_bytes, self.thinking_bytes) = (0, 0);
        let end = End { reason: reason.as_str(), text_bytes, thinking_bytes };
        if let Err(error) = self.publish_end(&end).await {
            self.fault.note(error);
        }
        if let Err(error) = self.endpoint.finish_live(&self.subject).await {
            self.fault.note(error);
        }
    }

    async fn publish_end(&self, end: &End) -> Result<()> {
        let json = serde_json::to_vec(end).unwrap_or_default(); // it holds numbers and a word
        let draft = self
            .place
            .draft(self.subject.clone(), TOKENS_END, json)?
            .content_type("application/json")
            .extension("stream", &self.stream)
            .map_err(invalid)?;
        self.endpoint.publish(draft).await.map(drop)
    }
}
