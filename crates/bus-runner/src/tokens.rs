//! A stream of tokens: what a model writes, published while it writes.

mod sending;

use std::{
    str::FromStr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bus_core::{Endpoint, Error, ErrorKind, Result};
use bus_subjects::Token;
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
};

use self::sending::{Order, Sending};
use crate::EventPlace;

/// The event type of a piece of text.
pub const TOKENS_TEXT: &str = "vak.tokens.text";

/// The event type of a piece of what a model thinks before it answers.
pub const TOKENS_THINKING: &str = "vak.tokens.thinking";

/// The event type of the end of a stream.
pub const TOKENS_END: &str = "vak.tokens.end";

/// The most bytes of text in one event.
pub const TOKENS_BYTES_MAX: usize = 16 * 1024;

/// The name of a stream that was given none.
pub const TOKEN_STREAM_DEFAULT: &str = "main";

/// Publishes tokens as live events of a session, a few at a time.
///
/// Tokens that come within 30 ms of each other share an event, up to 4 KiB; no character is cut.
/// Each event says which stream it is of and where in it it begins, so that a reader who lost some
/// knows where. A task of its own publishes and sends the checkpoints that vouch for the events.
///
/// A bus that is away holds nobody up: the newest 256 KiB are kept for it, what is older is lost
/// and counted, which the log tells once, and once more when it is back.
///
/// Dropping the stream loses what was taken in the last 30 ms: [`TokenStream::flush`] it before,
/// or [`TokenStream::end`] it.
///
/// # Examples
/// ```no_run
/// # use bus_core::Endpoint;
/// # async fn example(endpoint: Endpoint, words: Vec<String>) -> bus_core::Result<()> {
/// use bus_runner::{EndReason, EventPlace, TokenStream};
///
/// let place = EventPlace::of_session("chat-1".parse()?);
/// let stream = TokenStream::start(endpoint, place, "main")?;
/// for word in words {
///     stream.text(&word).await?;
/// }
/// stream.end(EndReason::Stop).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TokenStream {
    orders: mpsc::Sender<Order>,
    fault: Fault,
    _sending: JoinSet<()>,
}

/// What tokens are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TokenKind {
    /// What the model answers.
    Text,
    /// What it thinks before.
    Thinking,
}

/// Why a stream of tokens ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EndReason {
    /// All is said.
    Stop,
    /// There was room for no more.
    Length,
    /// Something went wrong.
    Error,
    /// Nobody wanted the rest.
    Cancelled,
}

/// What went wrong since somebody was told of it.
#[derive(Debug, Clone, Default)]
struct Fault(Arc<Mutex<Wrong>>);

#[derive(Debug, Default)]
struct Wrong {
    /// The first error that trying again does not help.
    refused: Option<Error>,
    /// The first one of a bus that is away, and how many bytes were lost meanwhile.
    away: Option<Error>,
    lost_bytes: u64,
}

/// How many pieces may wait to be published; then whoever brings one waits.
const WAITING_MAX: usize = 64;

impl TokenStream {
    /// Starts the stream with the name `stream` (a token of a subject), whose offsets begin at 0.
    /// Needs a tokio runtime.
    ///
    /// # Errors
    /// `Invalid` when the name is none.
    pub fn start(endpoint: Endpoint, place: EventPlace, stream: &str) -> Result<Self> {
        Token::check("stream", stream)?;
        let (orders, coming) = mpsc::channel(WAITING_MAX);
        let fault = Fault::default();
        let mut sending = JoinSet::new();
        let work = Sending::new(endpoint, place, stream.to_owned(), fault.clone());
        sending.spawn(work.run(coming));
        Ok(Self { orders, fault, _sending: sending })
    }

    /// Takes some of the answer. Waits while the bus is slower than the model, but not for one that
    /// is away.
    ///
    /// Cancel safe in that a dropped call took a beginning of it.
    ///
    /// # Errors
    /// That of an earlier piece that was refused, told once; then this one was not taken, and the
    /// next call goes on. Readers see by the offset that some is missing.
    pub async fn text(&self, text: &str) -> Result<()> {
        self.push(TokenKind::Text, text).await
    }

    /// Takes some of what the model thinks; otherwise as [`TokenStream::text`].
    ///
    /// # Errors
    /// As [`TokenStream::text`].
    pub async fn thinking(&self, text: &str) -> Result<()> {
        self.push(TokenKind::Thinking, text).await
    }

    /// Takes tokens of a kind; otherwise as [`TokenStream::text`].
    ///
    /// # Errors
    /// As [`TokenStream::text`].
    pub async fn push(&self, kind: TokenKind, text: &str) -> Result<()> {
        self.fault.tell()?;
        self.take(kind, text).await
    }

    /// As [`TokenStream::push`], whatever became of earlier pieces.
    pub(crate) async fn take(&self, kind: TokenKind, text: &str) -> Result<()> {
        let mut rest = text;
        while !rest.is_empty() {
            let (piece, later) = rest.split_at(border(rest, TOKENS_BYTES_MAX));
            self.order(Order::Piece(kind, piece.to_owned())).await?;
            rest = later;
        }
        Ok(())
    }

    /// Publishes what was taken and waits until it is out.
    ///
    /// # Errors
    /// The first error of a piece that could not be published, told once; of a bus that is away
    /// with the number of bytes that were lost. It is not waited for longer than one event takes.
    pub async fn flush(&self) -> Result<()> {
        let (done, told) = oneshot::channel();
        self.order(Order::Flush(done)).await?;
        told.await.map_err(|_| closed())?;
        self.fault.tell_all()
    }

    /// Says that the stream has ended, and vouches for all of it. What comes after begins a stream
    /// of the same name anew, at offset 0.
    ///
    /// # Errors
    /// As [`TokenStream::flush`], also when the end itself could not be published.
    pub async fn end(&self, reason: EndReason) -> Result<()> {
        self.finish(reason).await?;
        self.fault.tell_all()
    }

    /// As [`TokenStream::end`], whatever became of earlier pieces.
    pub(crate) async fn finish(&self, reason: EndReason) -> Result<()> {
        let (done, told) = oneshot::channel();
        self.order(Order::End(reason, done)).await?;
        told.await.map_err(|_| closed())
    }

    async fn order(&self, order: Order) -> Result<()> {
        self.orders.send(order).await.map_err(|_| closed())
    }
}

impl TokenKind {
    /// The type of its events.
    #[must_use]
    pub const fn event_type(self) -> &'static str {
        match self {
            Self::Text => TOKENS_TEXT,
            Self::Thinking => TOKENS_THINKING,
        }
    }
}

impl EndReason {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Stop, Self::Length, Self::Error, Self::Cancelled];

    /// Its stable name, on the wire and on the command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
        }
    }
}

impl FromStr for EndReason {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|reason| reason.as_str() == text);
        known.ok_or_else(|| "expected stop, length, error or cancelled".to_owned())
    }
}

impl Fault {
    fn note(&self, error: Error) {
        self.wrong().refused.get_or_insert(error);
    }

    /// Notes bytes that were lost because the bus is away.
    fn lost(&self, bytes: usize, error: Option<Error>) {
        let mut wrong = self.wrong();
        wrong.lost_bytes = wrong.lost_bytes.saturating_add(bytes as u64);
        wrong.away = wrong.away.take().or(error);
    }

    /// What trying again does not help.
    fn tell(&self) -> Result<()> {
        match self.wrong().refused.take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// All of it.
    fn tell_all(&self) -> Result<()> {
        let Wrong { refused, away, lost_bytes } = std::mem::take(&mut *self.wrong());
        match (refused, away) {
            (Some(error), _) => Err(error),
            (None, Some(away)) => {
                let detail = format!("{lost_bytes} bytes of tokens were not published");
                Err(Error::new(away.kind(), "publish", detail).because(away))
            }
            (None, None) if lost_bytes > 0 => {
                let detail = format!("{lost_bytes} bytes of tokens were not published");
                Err(Error::new(ErrorKind::Unavailable, "publish", detail))
            }
            (None, None) => Ok(()),
        }
    }

    fn wrong(&self) -> MutexGuard<'_, Wrong> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where `text` can be cut so that at most `bytes_max` bytes, 4 or more, stand before.
fn border(text: &str, bytes_max: usize) -> usize {
    text.floor_char_boundary(bytes_max)
}

/// The stream's task is gone: its runtime ends.
fn closed() -> Error {
    Error::new(ErrorKind::Closed, "publish", "the stream of tokens is closed")
}
