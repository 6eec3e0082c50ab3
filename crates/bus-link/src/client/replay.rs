//! Stored messages as they come, from another connection where one breaks.

use std::sync::Arc;

use bus_core::{Error, ErrorKind, Replay, Result, Seq, Stored, packed::unpack_frame};
use bus_subjects::{Filter, StreamName};

use super::{
    core::closed,
    inbox::{Found, Inbox, channel},
    link::Shared,
    settle::odd,
};
use crate::wire::{Call, Item, Message};

/// A replay that is being read.
struct Reader {
    shared: Arc<Shared>,
    stream: StreamName,
    filter: Filter,
    /// Where the next one may be.
    from: Seq,
    inbox: Inbox,
}

/// Begins to read `stream`.
///
/// # Errors
/// Those of `replay`.
pub(crate) async fn open(
    shared: Arc<Shared>,
    stream: StreamName,
    filter: Filter,
    from: Seq,
) -> Result<Replay> {
    let inbox = inbox(&shared, &stream, &filter, from).await?;
    let reader = Reader { shared, stream, filter, from, inbox };
    Ok(Replay::new(futures_util::stream::unfold(Some(reader), |reader| async move {
        let mut reader = reader?;
        match reader.next().await {
            Ok(Some(stored)) => Some((Ok(stored), Some(reader))),
            Ok(None) => None,
            Err(error) => Some((Err(error), None)),
        }
    })))
}

impl Reader {
    async fn next(&mut self) -> Result<Option<Stored>> {
        loop {
            match self.inbox.next("replay").await {
                Found::Item(Item::Stored(place), parts) => {
                    let (seq, time) = place.parse()?;
                    let frame = unpack_frame(&Message::<()>::one_part(parts)?)?;
                    self.from = Seq(seq.0.saturating_add(1));
                    return Ok(Some(Stored { frame, seq, time }));
                }
                Found::Item(..) => return Err(odd("replay")),
                Found::End => return Ok(None),
                Found::Failed(error) => return Err(error),
                Found::Broken if self.shared.core.is_closed() => return Err(closed("replay")),
                Found::Broken => self.go_on().await?,
            }
        }
    }

    /// Reads on behind the last one: from the beginning, when there was none.
    async fn go_on(&mut self) -> Result<()> {
        let opened = inbox(&self.shared, &self.stream, &self.filter, self.from).await;
        self.inbox = opened.map_err(|error| match error.kind() {
            // What is read happens or not: nothing about it is unknown.
            ErrorKind::Timeout => Error::new(ErrorKind::Unavailable, "replay", "no answer came"),
            _ => error,
        })?;
        Ok(())
    }
}

async fn inbox(shared: &Shared, stream: &StreamName, filter: &Filter, from: Seq) -> Result<Inbox> {
    let call = Call::Replay {
        stream: stream.as_str().to_owned(),
        filter: filter.as_str().to_owned(),
        from: from.0,
        credit: WINDOW,
    };
    let mut events = None;
    let sink = || {
        let (sink, receiver) = channel();
        events = Some(receiver);
        sink
    };
    let patience = Some(shared.core.options.patience);
    let (opened, _) = shared.core.open("replay", call, sink, patience).await?;
    let events = events.ok_or_else(|| odd("replay"))?;
    Ok(Inbox::new(opened, events, WINDOW))
}

/// How many messages may be on their way.
const WINDOW: u32 = 32;
