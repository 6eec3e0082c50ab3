//! What a hot method of an engine answers with: a future that costs nothing when it is ready.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::task::coop::poll_proceed;

use crate::{BoxFuture, Result};

/// The answer of an engine, to be awaited.
///
/// An engine within the process answers at once, and then nothing is allocated; others answer
/// later. The call itself may have had its effect before this is awaited: who must decide
/// something first decides before the call. Dropping it cancels what is not done yet; the outcome
/// is unknown then.
#[must_use = "an answer says whether it was done"]
pub struct Answer<'a, T>(State<'a, T>);

enum State<'a, T> {
    Ready(Option<Result<T>>),
    Paced(Option<Result<T>>),
    Later(BoxFuture<'a, Result<T>>),
}

impl<'a, T> Answer<'a, T> {
    /// An answer that is there.
    pub const fn ready(answer: Result<T>) -> Self {
        Self(State::Ready(Some(answer)))
    }

    /// An answer that is there, and that counts as work: awaiting many of them in a row gives way
    /// to the other tasks of the thread now and then.
    pub const fn paced(answer: Result<T>) -> Self {
        Self(State::Paced(Some(answer)))
    }

    /// An answer that `future` gives.
    pub fn later(future: impl Future<Output = Result<T>> + Send + 'a) -> Self {
        Self(State::Later(Box::pin(future)))
    }
}

impl<T: Unpin> Future for Answer<'_, T> {
    type Output = Result<T>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T>> {
        let answer = match &mut self.0 {
            State::Ready(answer) => answer,
            State::Paced(answer) => {
                ready!(poll_proceed(cx)).made_progress();
                answer
            }
            State::Later(future) => return future.as_mut().poll(cx),
        };
        // Asked again after it was given: there is nothing to say, as with any future.
        answer.take().map_or(Poll::Pending, Poll::Ready)
    }
}

impl<T> std::fmt::Debug for Answer<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Answer")
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use tokio::task::coop::has_budget_remaining;

    use super::*;

    #[test]
    fn a_ready_answer_is_there_when_it_is_first_asked() {
        assert_eq!(Answer::ready(Ok(7)).now_or_never().unwrap().unwrap(), 7);
    }

    #[test]
    fn a_later_answer_is_what_its_future_gives() {
        let answer = Answer::later(std::future::ready(Ok("done")));
        assert_eq!(answer.now_or_never().unwrap().unwrap(), "done");
    }

    #[tokio::test]
    async fn paced_answers_in_a_row_give_way() {
        let mut answers = 0;
        while has_budget_remaining() {
            assert!(Answer::paced(Ok(())).now_or_never().is_some());
            answers += 1;
        }
        assert!(answers > 0, "a task begins with a budget");
        assert!(Answer::paced(Ok(())).now_or_never().is_none());
    }
}
