//! Live events and durable streams, asked of the server.

use std::{sync::Arc, time::Duration};

use bus_core::{
    Answer as Later, BoxFuture, Bus, ConsumerSpec, ConsumerState, Deliveries, Error, ErrorKind,
    Expect, Frame, Lag, Outcome, Overflow, Receipt, Replay, Result, Seq, Stored, StreamSpec,
    Subscription, packed::unpack_frame,
};
use bus_envelope::Timestamp;
use bus_subjects::{ConsumerName, Filter, StreamName, Subject};
use bytes::Bytes;
use tokio::time::timeout;

use super::{
    core::{Core, Repeat, closed},
    feed::{Feed, Subscriber},
    line::{Opened, Sink},
    link::LinkBus,
    member::Member,
    replay,
    settle::odd,
};
use crate::{
    task::Task,
    wire::{Answer, Call, Message, ToServer, WirePlace, frame_part},
};

impl LinkBus {
    /// Asks with a frame beside the words.
    async fn ask(
        &self,
        op: &'static str,
        call: Call,
        frame: &Frame,
        repeat: Repeat,
    ) -> Result<(Answer, Vec<Bytes>)> {
        self.core().call(op, call, |packet| packet.with(frame_part(frame)), repeat).await
    }

    /// Asks without anything beside the words.
    pub(crate) async fn say(
        &self,
        op: &'static str,
        call: Call,
        repeat: Repeat,
    ) -> Result<(Answer, Vec<Bytes>)> {
        self.core().call(op, call, Ok, repeat).await
    }

    async fn append_once(&self, frame: &Frame, expect: Expect) -> Result<Receipt> {
        match self.ask("append", Call::Append(expect.into()), frame, Repeat::Never).await? {
            (Answer::Receipts(receipts), _) => match receipts.as_slice() {
                [receipt] => receipt.parse(),
                _ => Err(odd("append")),
            },
            _ => Err(odd("append")),
        }
    }

    /// Appends, and once more when the connection broke before the answer came: the same bytes
    /// under the same id. That the second one is a repeat is then no news, if it is one of ours.
    async fn append_safely(&self, frame: Frame, expect: Expect) -> Result<Receipt> {
        frame.check_size("append")?;
        let error = match self.append_once(&frame, expect).await {
            Err(error) if is_lost(&error) && expect == Expect::Any => error,
            outcome => return outcome,
        };
        let Ok(mut receipt) = self.append_once(&frame, expect).await else { return Err(error) };
        if !receipt.duplicate {
            return Ok(receipt);
        }
        match self.read(receipt.stream.clone(), receipt.seq).await {
            Ok(Some(stored)) => {
                receipt.duplicate = stored.frame != frame;
                Ok(receipt)
            }
            // Who has taken it already, or what may not be seen, cannot be compared.
            Ok(None) | Err(_) => Err(error),
        }
    }

    async fn stored(&self, op: &'static str, call: Call) -> Result<Option<Stored>> {
        match self.say(op, call, Repeat::Always).await? {
            (Answer::Stored(None), _) => Ok(None),
            (Answer::Stored(Some(place)), parts) => {
                let (seq, time) = WirePlace::parse(place)?;
                let frame = unpack_frame(&Message::<()>::one_part(parts)?)?;
                Ok(Some(Stored { frame, seq, time }))
            }
            _ => Err(odd(op)),
        }
    }

    pub(crate) async fn done(&self, op: &'static str, call: Call, repeat: Repeat) -> Result<()> {
        match self.say(op, call, repeat).await? {
            (Answer::Done, _) => Ok(()),
            _ => Err(odd(op)),
        }
    }

    pub(crate) async fn was_there(&self, op: &'static str, call: Call) -> Result<bool> {
        match self.say(op, call, Repeat::Never).await? {
            (Answer::WasThere(was_there), _) => Ok(was_there),
            _ => Err(odd(op)),
        }
    }
}

impl Bus for LinkBus {
    fn publish(&self, frame: Frame) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            // Nobody answers a publish: what the server would refuse is refused here.
            frame.check_live("publish")?;
            self.shared.answers.check_publish(&self.shared.policy, &frame)?;
            let write = |packet: crate::wire::Packet| packet.with(frame_part(&frame));
            self.core().send("publish", ToServer::Publish, write).await
        })
    }

    fn subscribe(&self, filter: Filter, overflow: Overflow) -> BoxFuture<'_, Result<Subscription>> {
        Box::pin(async move {
            let call =
                Call::Subscribe { filter: filter.as_str().to_owned(), overflow: overflow.into() };
            let answers = self.shared.answers.clone();
            let feed = Arc::new(Feed::new(overflow));
            let sink = || Sink::Feed(Arc::clone(&feed));
            let patience = Some(self.core().options.patience);
            let (opened, _) = self.core().open("subscribe", call.clone(), sink, patience).await?;
            let core = Arc::clone(&self.shared.core);
            let keeping = keep(core, Arc::clone(&feed), call, opened);
            let (_keeper, _shared) = (Task::spawn(keeping), Arc::clone(&self.shared));
            let heard = Subscription::new(Subscriber { feed, _keeper, _shared });
            Ok(answers.heard_by(&filter, heard))
        })
    }

    fn request(&self, frame: Frame, wait: Duration) -> BoxFuture<'_, Result<Frame>> {
        Box::pin(async move {
            frame.check_live("request")?;
            match self.ask("request", Call::Request { wait }, &frame, Repeat::Never).await? {
                (Answer::Frame, parts) => unpack_frame(&Message::<()>::one_part(parts)?),
                _ => Err(odd("request")),
            }
        })
    }

    fn declare(&self, stream: StreamSpec) -> BoxFuture<'_, Result<()>> {
        let call = Call::Declare((&stream).into());
        // Declaring twice is declaring once.
        Box::pin(self.done("declare", call, Repeat::Always))
    }

    fn append(&self, frame: Frame, expect: Expect) -> Later<'_, Receipt> {
        Later::later(self.append_safely(frame, expect))
    }

    fn append_all(&self, frames: Vec<Frame>) -> BoxFuture<'_, Result<Vec<Receipt>>> {
        Box::pin(async move {
            if frames.len() > Frame::BATCH_MAX {
                let why = format!("a batch has at most {} frames", Frame::BATCH_MAX);
                return Err(Error::new(ErrorKind::Invalid, "append", why));
            }
            frames.iter().try_for_each(|frame| frame.check_size("append"))?;
            let write = |mut packet: crate::wire::Packet| {
                for frame in &frames {
                    packet = packet.with(frame_part(frame))?;
                }
                Ok(packet)
            };
            match self.core().call("append", Call::AppendAll, write, Repeat::Never).await? {
                (Answer::Receipts(receipts), _) if receipts.len() == frames.len() => {
                    receipts.iter().map(|receipt| receipt.parse()).collect()
                }
                _ => Err(odd("append")),
            }
        })
    }

    fn last(&self, subject: Subject) -> BoxFuture<'_, Result<Option<Stored>>> {
        let call = Call::Last { subject: subject.as_str().to_owned() };
        Box::pin(self.stored("last", call))
    }

    fn read(&self, stream: StreamName, seq: Seq) -> BoxFuture<'_, Result<Option<Stored>>> {
        let call = Call::Read { stream: stream.as_str().to_owned(), seq: seq.0 };
        Box::pin(self.stored("read", call))
    }

    fn discard(&self, stream: StreamName, seq: Seq) -> BoxFuture<'_, Result<bool>> {
        let call = Call::Discard { stream: stream.as_str().to_owned(), seq: seq.0 };
        Box::pin(self.was_there("discard", call))
    }

    fn consume(&self, consumer: ConsumerSpec) -> BoxFuture<'_, Result<Deliveries>> {
        Box::pin(async move {
            let call = Call::Consume((&consumer).into());
            let joining = Member::join(Arc::clone(&self.shared), consumer.stream, call);
            Ok(Deliveries::of_claims(joining.await?))
        })
    }

    fn consumers(&self, stream: StreamName) -> BoxFuture<'_, Result<Vec<ConsumerState>>> {
        Box::pin(async move {
            let call = Call::Consumers { stream: stream.as_str().to_owned() };
            match self.say("consumers", call, Repeat::Always).await? {
                (Answer::Consumers(all), _) => all.iter().map(|one| one.parse()).collect(),
                _ => Err(odd("consumers")),
            }
        })
    }

    fn pause(
        &self,
        stream: StreamName,
        consumer: ConsumerName,
        until: Option<Timestamp>,
    ) -> BoxFuture<'_, Result<()>> {
        let call = Call::Pause {
            stream: stream.as_str().to_owned(),
            consumer: consumer.as_str().to_owned(),
            until: until.map(Timestamp::unix_ns),
        };
        Box::pin(self.done("pause", call, Repeat::Never))
    }

    fn remove_consumer(
        &self,
        stream: StreamName,
        consumer: ConsumerName,
    ) -> BoxFuture<'_, Result<bool>> {
        let call = Call::RemoveConsumer {
            stream: stream.as_str().to_owned(),
            consumer: consumer.as_str().to_owned(),
        };
        Box::pin(self.was_there("remove consumer", call))
    }

    fn replay(
        &self,
        stream: StreamName,
        filter: Filter,
        from: Seq,
    ) -> BoxFuture<'_, Result<Replay>> {
        Box::pin(replay::open(Arc::clone(&self.shared), stream, filter, from))
    }

    fn lag(&self, stream: StreamName) -> BoxFuture<'_, Result<Lag>> {
        Box::pin(async move {
            let call = Call::Lag { stream: stream.as_str().to_owned() };
            match self.say("lag", call, Repeat::Always).await? {
                (Answer::Lag(lag), _) => Ok(lag.into()),
                _ => Err(odd("lag")),
            }
        })
    }

    fn close(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let Some(line) = self.core().close() else { return Ok(()) };
            line.tell(&ToServer::Bye);
            line.out.close();
            let late = |_| {
                let why = "the server did not confirm the end";
                Error::new(ErrorKind::Unavailable, "close", why).unknown()
            };
            timeout(self.core().options.answer_max, line.broken()).await.map_err(late)
        })
    }
}

/// Subscribes again whenever the connection broke. What was published meanwhile is missing, and
/// nobody knows how much it is.
async fn keep(core: Arc<Core>, feed: Arc<Feed>, call: Call, mut opened: Opened) {
    loop {
        opened.line.broken().await;
        if core.is_closed() {
            return feed.end();
        }
        feed.miss(1);
        let sink = || Sink::Feed(Arc::clone(&feed));
        match core.open("subscribe", call.clone(), sink, None).await {
            Ok((again, _)) => opened = again,
            Err(error) => {
                if error.kind() != closed("subscribe").kind() {
                    tracing::warn!(%error, "a subscription could not be renewed, and ends");
                }
                return feed.end();
            }
        }
    }
}

/// Whether the connection broke before the answer came.
fn is_lost(error: &Error) -> bool {
    error.kind() == ErrorKind::Unavailable && error.outcome() == Outcome::Unknown
}
