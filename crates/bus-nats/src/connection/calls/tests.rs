//! The seats of calls under way: who is told what, and what is kept of those that left.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Wake,
};

use async_nats::Subject;
use bytes::Bytes;

use super::*;

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn text(token: Token) -> String {
    let mut text = String::new();
    token.write(&mut text);
    text
}

fn answer(text: &'static str) -> Message {
    let payload = Bytes::from_static(text.as_bytes());
    let subject = Subject::from_static("inbox");
    let (reply, headers, status, description) = (None, None, None, None);
    Message { subject, reply, payload, headers, status, description, length: 0 }
}

#[test]
fn an_answer_comes_to_its_own_call_and_wakes_it_alone() {
    let calls = Calls::default();
    let (one, other) = (calls.enter(1), calls.enter(1));
    let wakes = [Arc::new(Woken::default()), Arc::new(Woken::default())];
    let wakers = wakes.clone().map(Waker::from);
    let [one_looks, other_looks] = [&wakers[0], &wakers[1]].map(Context::from_waker);
    assert!(one.poll_answer(&one_looks).is_pending());
    assert!(other.poll_answer(&other_looks).is_pending());
    calls.answer(one.token(), answer("!"));
    calls.answer(one.token(), answer("again"));
    assert_eq!(wakes.each_ref().map(|woken| woken.0.load(Ordering::SeqCst)), [1, 0]);
    let Poll::Ready(came) = one.poll_answer(&one_looks) else { panic!("it came") };
    assert_eq!(&*came.payload, b"!");
    assert!(other.poll_answer(&other_looks).is_pending());
}

#[test]
fn an_answer_to_a_call_that_ended_reaches_nobody_who_took_its_seat() {
    let calls = Calls::default();
    let context = Context::from_waker(Waker::noop());
    let ended = calls.enter(1);
    let late = ended.token();
    drop(ended);
    calls.answer(late, answer("nobody is there"));
    let next = calls.enter(1);
    assert_eq!(next.token().place, late.place);
    calls.answer(late, answer("somebody else is there"));
    assert!(next.poll_answer(&context).is_pending());
}

#[test]
fn a_call_takes_as_many_answers_as_it_expects_in_their_order() {
    let calls = Calls::default();
    let context = Context::from_waker(Waker::noop());
    let seated = calls.enter(3);
    let next = || match seated.poll_answer(&context) {
        Poll::Ready(answer) => Some(answer.payload),
        Poll::Pending => None,
    };
    calls.answer(seated.token(), answer("1"));
    calls.answer(seated.token(), answer("2"));
    assert_eq!(next().as_deref(), Some(&b"1"[..]));
    calls.answer(seated.token(), answer("3"));
    calls.answer(seated.token(), answer("too many"));
    let rest = [next(), next(), next()];
    assert_eq!(rest.each_ref().map(Option::as_deref), [Some(&b"2"[..]), Some(b"3"), None]);
}

#[test]
fn news_wake_every_call_that_waits() {
    let calls = Calls::default();
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let context = Context::from_waker(&waker);
    let (one, other, _busy) = (calls.enter(1), calls.enter(1), calls.enter(1));
    one.wakes(&context);
    assert!(other.poll_answer(&context).is_pending());
    calls.wake();
    assert_eq!(woken.0.load(Ordering::SeqCst), 2);
}

#[test]
fn who_has_seen_tokens_does_not_know_the_next_one() {
    let calls = Calls::default();
    let secrets: Vec<u64> = (0..100).map(|_| calls.enter(1).token().secret).collect();
    let steps: HashSet<u64> =
        secrets.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect();
    assert_eq!(steps.len(), 99);
    assert_ne!(secrets[0], Calls::default().enter(1).token().secret);
}

#[test]
fn a_token_is_read_as_it_was_written_and_nothing_else_is_one() {
    let token = Token { place: 7, secret: 0xab_cdef };
    assert_eq!(text(token), "000000070000000000abcdef");
    assert_eq!((text(token).len(), Token::read(&text(token))), (Token::LEN, Some(token)));
    let of_nobody = "000000070000000000000000";
    let marked = format!("{}-17", text(token));
    assert_eq!(Token::read(&marked), Some(token));
    for wrong in [
        "",
        "7",
        of_nobody,
        "000000070000000000abcdef0",
        "000000070000000000ABCDEF",
        "éééééééééééé",
    ] {
        assert_eq!(Token::read(wrong), None, "{wrong}");
    }
}

#[tokio::test]
async fn who_waits_for_the_end_of_all_calls_sees_the_last_one_go() {
    use futures_util::FutureExt;

    let calls = Calls::default();
    let (one, other) = (calls.enter(1), calls.enter(1));
    let mut over = Box::pin(calls.over());
    drop(one);
    assert!(over.as_mut().now_or_never().is_none());
    drop(other);
    over.await;
}

#[test]
fn a_crowd_that_has_gone_leaves_few_seats() {
    let calls = Calls::default();
    let crowd: Vec<_> = (0..=KEPT).map(|_| calls.enter(1)).collect();
    drop(crowd);
    assert!(calls.room().seats.is_empty() && calls.room().is_empty());
    assert_eq!(calls.enter(1).token().place, 0);
}

struct Broken;

impl Wake for Broken {
    fn wake(self: Arc<Self>) {
        panic!("a waker that cannot wake");
    }
}

#[test]
fn a_waker_that_panics_ends_nobody_but_itself() {
    let calls = Calls::default();
    let (broken, woken) = (calls.enter(1), calls.enter(1));
    let counter = Arc::new(Woken::default());
    broken.wakes(&Context::from_waker(&Arc::new(Broken).into()));
    woken.wakes(&Context::from_waker(&Arc::clone(&counter).into()));
    calls.wake();
    assert_eq!(counter.0.load(Ordering::SeqCst), 1);
    broken.wakes(&Context::from_waker(&Arc::new(Broken).into()));
    calls.answer(broken.token(), answer("x"));
    assert!(matches!(
        broken.poll_answer(&Context::from_waker(Waker::noop())),
        Poll::Ready(came) if &*came.payload == b"x"
    ));
}
