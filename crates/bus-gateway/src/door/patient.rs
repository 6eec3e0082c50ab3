//! A connection whose other end must go on reading, and is not cut off in the middle of sending.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

use super::places::Place;

/// A connection with the limits that its protocol has none of.
///
/// Who takes nothing of what is written for [`TAKES_WITHIN`] is let go: a listener that sleeps, or
/// whose connection is full, must not be kept for ever. A machine that vanished while little is
/// written is left to TCP. Who is answered in the middle of sending is
/// read, and forgotten, for a moment: a connection that is closed with unread bytes in it is broken
/// off, and the answer with it.
#[derive(Debug)]
pub(super) struct Patient<T> {
    inner: T,
    place: Arc<Place>,
    /// Runs while what was written is not taken.
    stuck: Option<Pin<Box<Sleep>>>,
    linger: Linger,
}

#[derive(Debug)]
enum Linger {
    Not,
    /// Until then, and for so many bytes more.
    On(Pin<Box<Sleep>>, usize),
    Over,
}

impl<T> Patient<T> {
    pub(super) const fn new(inner: T, place: Arc<Place>) -> Self {
        Self { inner, place, stuck: None, linger: Linger::Not }
    }

    /// What an attempt to write came to: one that waits has a limit.
    fn limited<R>(
        &mut self,
        context: &mut Context<'_>,
        tried: Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        self.place.writes(tried.is_pending());
        if tried.is_ready() {
            self.stuck = None;
            return tried;
        }
        let stuck = self.stuck.get_or_insert_with(|| Box::pin(sleep(TAKES_WITHIN)));
        ready!(stuck.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<T: AsyncRead + Unpin> Patient<T> {
    /// Reads and forgets what still comes, for a while.
    fn poll_linger(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Linger::On(until, left) = &mut self.linger else { return Poll::Ready(()) };
        let mut forgotten = [0; 4096];
        while *left > 0 {
            if until.as_mut().poll(context).is_ready() {
                break;
            }
            let mut buffer = ReadBuf::new(&mut forgotten);
            match ready!(Pin::new(&mut self.inner).poll_read(context, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => {
                    *left = left.saturating_sub(buffer.filled().len());
                }
                _ended => break,
            }
        }
        self.linger = Linger::Over;
        Poll::Ready(())
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Patient<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Patient<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let tried = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.limited(context, tried)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let tried = Pin::new(&mut self.inner).poll_flush(context);
        self.limited(context, tried)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if matches!(self.linger, Linger::Not) {
            let tried = Pin::new(&mut self.inner).poll_shutdown(context);
            ready!(self.limited(context, tried))?;
            self.linger = match self.place.leaves_unread() {
                true => Linger::On(Box::pin(sleep(LINGERS)), LINGER_BYTES_MAX),
                false => Linger::Over,
            };
        }
        self.poll_linger(context).map(Ok)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let tried = Pin::new(&mut self.inner).poll_write_vectored(context, slices);
        self.limited(context, tried)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

/// For how long nothing of what is written may be taken.
pub(super) const TAKES_WITHIN: Duration = Duration::from_secs(20);

/// How long who was answered in the middle of sending is read.
const LINGERS: Duration = Duration::from_secs(1);

/// And how much of it.
const LINGER_BYTES_MAX: usize = 1024 * 1024;
