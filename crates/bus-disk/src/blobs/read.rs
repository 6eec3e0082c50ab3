//! A blob that goes out: read piece by piece, each one verified.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bus_core::{Blob, BlobBody, BlobInfo, BoxFuture, Error, ErrorKind, Result};
use bus_envelope::EventHash;
use bytes::Bytes;
use futures_core::Stream;

use super::{BlobFiles, Stored, file_bytes, upload::blocking};
use crate::files::{Handle, read_from};

/// Opens the file of `blob`; `None` when it has none any more. The reader keeps it open, and so
/// keeps what it began to read.
///
/// # Errors
/// `Unavailable`.
pub(crate) async fn read(blobs: &Arc<BlobFiles>, blob: Stored) -> Result<Option<Blob>> {
    let Stored { info, file } = blob;
    let (from, bytes) = (Arc::clone(blobs), info.bytes);
    let opened = blocking(move || {
        let file = match from.files.open(&from.path(file)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let hashes = read_from(&*file, bytes, file_bytes(bytes) - bytes)?;
        Ok(Some((file, hashes)))
    });
    let Some((file, hashes)) = opened.await? else { return Ok(None) };
    let (leaves, _rest) = hashes.as_chunks::<32>();
    let leaves: Arc<[EventHash]> = leaves.iter().map(|leaf| EventHash::from_bytes(*leaf)).collect();
    let pieces = Pieces { file: file.into(), at: 0, end: info.bytes, reading: None };
    let body = BlobBody::verified(info.clone(), leaves, pieces);
    Ok(Some(Blob { info, body }))
}

/// The pieces of a file, as they stand there.
struct Pieces {
    file: Arc<dyn Handle>,
    at: u64,
    end: u64,
    reading: Option<BoxFuture<'static, Result<Vec<u8>>>>,
}

impl Stream for Pieces {
    type Item = Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.at >= this.end {
            return Poll::Ready(None);
        }
        let (file, at) = (Arc::clone(&this.file), this.at);
        let bytes = (this.end - at).min(BlobInfo::PIECE_BYTES as u64);
        let reading = this
            .reading
            .get_or_insert_with(|| Box::pin(blocking(move || read_from(&*file, at, bytes))));
        let piece = ready!(reading.as_mut().poll(cx));
        this.reading = None;
        this.at += bytes;
        Poll::Ready(Some(piece.map(Bytes::from).map_err(|error| {
            Error::new(ErrorKind::Unavailable, "get blob", error.to_string()).because(error)
        })))
    }
}
