//! The bodies of blobs, part by part in both directions.

use std::sync::Arc;

use bus_core::{Blob, BlobBody, BlobInfo, Error, ErrorKind, Result};
use bus_subjects::{BucketKey, BucketName};
use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

use super::{
    core::{broken, closed},
    inbox::{Event, Found, Inbox, channel},
    line::{Answered, Lost, Opened},
    link::Shared,
    settle::odd,
};
use crate::wire::{Answer, Call, Item, Packet, ToServer, WireBlob};

/// Stores what `body` yields. Dropping it stores nothing, unless all of it was sent.
///
/// # Errors
/// Those of `put_blob`.
pub(crate) async fn upload(
    shared: Arc<Shared>,
    bucket: BucketName,
    key: BucketKey,
    mut body: BlobBody,
) -> Result<BlobInfo> {
    let call = Call::PutBlob { bucket: bucket.as_str().to_owned(), key: key.as_str().to_owned() };
    let (sink, mut events) = channel();
    let line = shared.core.line("put blob", Some(shared.core.options.patience)).await?;
    let (opened, mut answered) = match line.ask(call, Ok, Some(sink)).await {
        Ok(asked) => asked,
        Err(Lost::Refused(error)) => return Err(error),
        Err(_) => {
            let why = "the connection to the server broke before the upload began";
            return Err(Error::new(ErrorKind::Unavailable, "put blob", why));
        }
    };
    let mut credit = 0;
    loop {
        tokio::select! {
            biased;
            answer = &mut answered => return stored(&shared, answer),
            event = events.recv() => match event {
                Some(Event::Item(Item::Credit(items), _)) => credit += items,
                _ => return stored(&shared, answered.await),
            },
            part = body.next(), if credit > 0 => match part {
                Some(part) => send(&opened, part?, &mut credit, &mut events).await?,
                None => break,
            },
        }
    }
    let whole = Packet::new(&ToServer::Whole { id: opened.id });
    opened.line.send(whole).await.map_err(|_| broken("put blob"))?;
    stored(&shared, answered.await)
}

/// Sends a part in pieces as the server takes them.
async fn send(
    opened: &Opened,
    mut part: Bytes,
    credit: &mut u32,
    events: &mut mpsc::UnboundedReceiver<Event>,
) -> Result<()> {
    while !part.is_empty() {
        while *credit == 0 {
            match events.recv().await {
                Some(Event::Item(Item::Credit(items), _)) => *credit += items,
                // The answer says why nothing more is taken.
                _ => return Ok(()),
            }
        }
        let piece = part.split_to(part.len().min(BlobInfo::PIECE_BYTES));
        let packet = Packet::new(&ToServer::Part { id: opened.id })
            .and_then(|packet| packet.with(|out| out.extend_from_slice(&piece)));
        opened.line.send(packet).await.map_err(|_| broken("put blob"))?;
        *credit -= 1;
    }
    Ok(())
}

fn stored(
    shared: &Shared,
    answer: std::result::Result<Answered, oneshot::error::RecvError>,
) -> Result<BlobInfo> {
    match answer {
        Ok(Ok((Answer::Blob(Some(info)), _))) => info.parse(),
        Ok(Ok(_)) => Err(odd("put blob")),
        Ok(Err(fault)) => Err(fault.into_error("put blob")),
        Err(_) if shared.core.is_closed() => Err(closed("put blob").unknown()),
        Err(_) => Err(broken("put blob")),
    }
}

/// A blob that is being read.
struct Reader {
    shared: Arc<Shared>,
    inbox: Inbox,
    /// What is still to come.
    bytes_left: u64,
}

/// Reads the blob under `key`.
///
/// # Errors
/// Those of `get_blob`.
pub(crate) async fn download(
    shared: Arc<Shared>,
    bucket: BucketName,
    key: BucketKey,
) -> Result<Option<Blob>> {
    let call = Call::GetBlob {
        bucket: bucket.as_str().to_owned(),
        key: key.as_str().to_owned(),
        credit: WINDOW,
    };
    let mut events = None;
    let sink = || {
        let (sink, receiver) = channel();
        events = Some(receiver);
        sink
    };
    let patience = Some(shared.core.options.patience);
    let (opened, answer) = shared.core.open("get blob", call, sink, patience).await?;
    let info: BlobInfo = match &answer {
        Answer::Blob(None) => return Ok(None),
        Answer::Blob(Some(info)) => WireBlob::parse(info)?,
        _ => return Err(odd("get blob")),
    };
    let events = events.ok_or_else(|| odd("get blob"))?;
    let inbox = Inbox::new(opened, events, WINDOW);
    let reader = Reader { shared, inbox, bytes_left: info.bytes };
    let body = BlobBody::new(futures_util::stream::unfold(Some(reader), |reader| async move {
        let mut reader = reader?;
        match reader.next().await {
            Ok(Some(part)) => Some((Ok(part), Some(reader))),
            Ok(None) => None,
            Err(error) => Some((Err(error), None)),
        }
    }));
    Ok(Some(Blob { info, body }))
}

impl Reader {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        let cut = |why| Err(Error::new(ErrorKind::Corrupt, "get blob", why));
        match self.inbox.next("get blob").await {
            Found::Item(Item::Part, mut parts) => {
                let part = parts.pop().unwrap_or_default();
                let Some(left) = self.bytes_left.checked_sub(part.len() as u64) else {
                    return cut("more came than the blob has");
                };
                self.bytes_left = left;
                Ok(Some(part))
            }
            Found::Item(..) => Err(odd("get blob")),
            Found::End if self.bytes_left > 0 => cut("less came than the blob has"),
            Found::End => Ok(None),
            Found::Failed(error) => Err(error),
            Found::Broken if self.shared.core.is_closed() => Err(closed("get blob")),
            Found::Broken => {
                let why = "the connection to the server broke within the blob";
                Err(Error::new(ErrorKind::Unavailable, "get blob", why))
            }
        }
    }
}

/// How many parts may be on their way: a megabyte.
const WINDOW: u32 = 16;
