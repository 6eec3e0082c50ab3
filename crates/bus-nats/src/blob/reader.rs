//! The way out: pieces are fetched in batches, the next batch while the last one is read.

use std::{
    collections::VecDeque,
    pin::Pin,
    task::{Context, Poll},
};

use bus_core::{BoxFuture, Error, ErrorKind, Result};
use bus_envelope::EventHash;
use bytes::Bytes;
use futures_core::Stream;

use super::{
    GET,
    layout::{Layout, Manifest},
    upload::LEAVES_A_PART,
};
use crate::api::{Api, GetRequest, RawStored};

/// The stored pieces of one upload, as they lie.
pub(super) struct Pieces {
    api: Api,
    stream: String,
    subject: String,
    /// From where on the next batch is.
    from: u64,
    /// How many pieces were not fetched.
    left: u64,
    ready: VecDeque<Bytes>,
    fetching: Option<BoxFuture<'static, Result<Vec<RawStored>>>>,
    /// Comes after what is ready.
    failed: Option<Error>,
}

impl Pieces {
    pub(super) fn new(api: Api, layout: &Layout, manifest: &Manifest) -> Self {
        Self {
            api,
            stream: layout.stream().to_owned(),
            subject: layout.pieces(&manifest.upload),
            from: manifest.pieces_at,
            left: manifest.pieces(),
            ready: VecDeque::new(),
            fetching: None,
            failed: None,
        }
    }

    fn begin_to_fetch(&mut self) {
        if self.fetching.is_some() || self.left == 0 || self.ready.len() >= BATCH {
            return;
        }
        let batch = usize::try_from(self.left).unwrap_or(BATCH).min(BATCH);
        let (api, stream) = (self.api.clone(), self.stream.clone());
        let (subject, from) = (self.subject.clone(), self.from);
        self.fetching =
            Some(Box::pin(async move { fetch(&api, &stream, subject, from, batch).await }));
    }

    fn take(&mut self, fetched: Result<Vec<RawStored>>) {
        self.fetching = None;
        match fetched {
            Ok(pieces) => {
                // Without any the rest is gone, and who verifies them says so.
                self.left = match pieces.last() {
                    Some(last) => {
                        self.from = last.seq.saturating_add(1);
                        self.left.saturating_sub(pieces.len() as u64)
                    }
                    None => 0,
                };
                self.ready.extend(pieces.into_iter().map(|piece| piece.body));
            }
            Err(error) => {
                self.left = 0;
                self.failed = Some(error);
            }
        }
    }
}

impl Stream for Pieces {
    type Item = Result<Bytes>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            this.begin_to_fetch();
            let Some(fetching) = &mut this.fetching else { break };
            let Poll::Ready(fetched) = fetching.as_mut().poll(cx) else { break };
            this.take(fetched);
        }
        if let Some(piece) = this.ready.pop_front() {
            return Poll::Ready(Some(Ok(piece)));
        }
        if let Some(error) = this.failed.take() {
            return Poll::Ready(Some(Err(error)));
        }
        if this.fetching.is_some() { Poll::Pending } else { Poll::Ready(None) }
    }
}

/// The leaf hashes of the blob, as many as are there.
pub(super) async fn read_leaves(
    api: &Api,
    layout: &Layout,
    manifest: &Manifest,
) -> Result<Vec<EventHash>> {
    let leaves = usize::try_from(manifest.pieces()).unwrap_or(usize::MAX);
    let mut read = Vec::new();
    let mut from = manifest.leaves_at;
    while read.len() < leaves {
        let batch = (leaves - read.len()).div_ceil(LEAVES_A_PART);
        let subject = layout.pieces(&manifest.upload);
        let parts = fetch(api, layout.stream(), subject, from, batch).await?;
        let Some(last) = parts.last() else {
            let why = format!("of its {leaves} hashes {} are there", read.len());
            return Err(Error::new(ErrorKind::Corrupt, GET, why));
        };
        from = last.seq.saturating_add(1);
        for part in &parts {
            for leaf in part.body.chunks(32) {
                let leaf = <[u8; 32]>::try_from(leaf).map_err(|error| {
                    Error::new(ErrorKind::Corrupt, GET, "a hash is cut off").because(error)
                })?;
                read.push(EventHash::from_bytes(leaf));
            }
        }
    }
    Ok(read)
}

/// The next messages under `subject` from a position on. Reading changes nothing, so an answer
/// that got lost is asked for again.
async fn fetch(
    api: &Api,
    stream: &str,
    subject: String,
    from: u64,
    batch: usize,
) -> Result<Vec<RawStored>> {
    let wanted = GetRequest {
        seq: Some(from),
        next_by_subj: Some(subject),
        batch: Some(batch),
        ..Default::default()
    };
    let mut tries = 1;
    loop {
        match api.get(GET, stream, &wanted).await {
            Ok(got) => return Ok(got),
            Err(failure) => {
                let error = failure.into_error(GET, stream);
                if error.kind() != ErrorKind::Timeout || tries == TRIES {
                    return Err(unavailable(error));
                }
                tries += 1;
            }
        }
    }
}

/// A read promises no other kinds than these.
fn unavailable(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Denied | ErrorKind::Closed | ErrorKind::Unavailable | ErrorKind::Corrupt => {
            error
        }
        _ => {
            let detail = error.detail().to_owned();
            Error::new(ErrorKind::Unavailable, GET, detail).because(error)
        }
    }
}

/// How many pieces are fetched at once; twice as many are in memory at most.
const BATCH: usize = 32;
/// How often a batch is asked for.
const TRIES: usize = 3;
