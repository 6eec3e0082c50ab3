//! The changes of a bucket as they come, from another connection where one breaks.

use std::{collections::VecDeque, sync::Arc};

use bus_core::{Change, KeyState, Result, Revision, Watch, WatchItem};
use bus_subjects::{BucketKey, BucketName, Filter};
use bytes::Bytes;

use super::{
    inbox::{Found, Inbox, channel},
    link::Shared,
    settle::odd,
};
use crate::wire::{Call, Item, Message, WireState};

/// A watch that is being read.
struct Reader {
    shared: Arc<Shared>,
    bucket: BucketName,
    keys: Filter,
    /// The last change that was told.
    last: Revision,
    /// Everything up to some time was told: the mark comes once.
    is_current: bool,
    /// The mark of the new connection is none of ours.
    skips_mark: bool,
    ready: VecDeque<WatchItem>,
    inbox: Inbox,
}

/// Begins to watch `bucket`.
///
/// # Errors
/// Those of `watch`.
pub(crate) async fn open(
    shared: Arc<Shared>,
    bucket: BucketName,
    keys: Filter,
    after: Revision,
) -> Result<Watch> {
    let inbox = inbox(&shared, &bucket, &keys, after, true).await?;
    let reader = Reader {
        shared,
        bucket,
        keys,
        last: after,
        is_current: false,
        skips_mark: false,
        ready: VecDeque::new(),
        inbox,
    };
    Ok(Watch::new(futures_util::stream::unfold(Some(reader), |reader| async move {
        let mut reader = reader?;
        match reader.next().await {
            Ok(Some(item)) => Some((Ok(item), Some(reader))),
            Ok(None) => None,
            Err(error) => Some((Err(error), None)),
        }
    })))
}

impl Reader {
    async fn next(&mut self) -> Result<Option<WatchItem>> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Ok(Some(item));
            }
            let item = match self.inbox.next("watch").await {
                Found::Item(item, parts) => read(item, parts)?,
                Found::End => return Ok(None),
                Found::Failed(error) => return Err(error),
                Found::Broken if self.shared.core.is_closed() => return Ok(None),
                Found::Broken => {
                    self.go_on().await?;
                    continue;
                }
            };
            match &item {
                WatchItem::Changed(change) => self.last = change.revision,
                WatchItem::Current if std::mem::take(&mut self.skips_mark) => continue,
                WatchItem::Current => self.is_current = true,
                WatchItem::Resync => (self.is_current, self.skips_mark) = (false, false),
            }
            return Ok(Some(item));
        }
    }

    /// Goes on behind the last change, or begins anew where not everything had been told.
    async fn go_on(&mut self) -> Result<()> {
        if !self.is_current {
            self.last = Revision::START;
            self.ready.push_back(WatchItem::Resync);
        }
        self.skips_mark = self.is_current;
        let (bucket, keys) = (&self.bucket, &self.keys);
        self.inbox = inbox(&self.shared, bucket, keys, self.last, false).await?;
        Ok(())
    }
}

fn read(item: Item, parts: Vec<Bytes>) -> Result<WatchItem> {
    Ok(match item {
        Item::Current => WatchItem::Current,
        Item::Resync => WatchItem::Resync,
        Item::Changed { key, revision, state } => {
            let value = Message::<()>::one_part(parts)?;
            let state = match state {
                WireState::Value => KeyState::Value(value),
                WireState::Deleted => KeyState::Deleted,
                WireState::Expired => KeyState::Expired,
            };
            let (key, revision) = (BucketKey::parse(&key)?, Revision(revision));
            WatchItem::Changed(Change { key, revision, state })
        }
        _ => return Err(odd("watch")),
    })
}

/// Who only waits for changes, waits for the server as long as it takes.
async fn inbox(
    shared: &Shared,
    bucket: &BucketName,
    keys: &Filter,
    after: Revision,
    is_first: bool,
) -> Result<Inbox> {
    let call = Call::Watch {
        bucket: bucket.as_str().to_owned(),
        keys: keys.as_str().to_owned(),
        after: after.0,
        credit: WINDOW,
    };
    let mut events = None;
    let sink = || {
        let (sink, receiver) = channel();
        events = Some(receiver);
        sink
    };
    let patience = is_first.then_some(shared.core.options.patience);
    let (opened, _) = shared.core.open("watch", call, sink, patience).await?;
    let events = events.ok_or_else(|| odd("watch"))?;
    Ok(Inbox::new(opened, events, WINDOW))
}

/// How many changes may be on their way.
const WINDOW: u32 = 64;
