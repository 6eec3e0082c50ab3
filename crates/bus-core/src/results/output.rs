//! The output of a task on its way into the bus and back: sealed piece by piece when it is large.

use std::{future::Future, pin::Pin};

use bus_envelope::EventHash;
use bus_subjects::{BucketKey, BucketName};
use bytes::{Bytes, BytesMut};
use futures_util::stream;
use tokio::sync::mpsc;

use super::{
    ResultOutput, Results, key_of,
    seal::{Place, open, seal},
    wire::corrupt,
};
use crate::{BlobBody, BlobInfo, Endpoint, Result};

/// How much of an output is sealed at a time.
const PIECE_BYTES: usize = 64 * 1024;

/// Keeps the output of one attempt as it comes: a little in memory, more in the blob store.
///
/// Dropping it before [`ResultWriter::finish`] keeps nothing.
#[must_use = "an output that is not finished is not kept"]
pub struct ResultWriter {
    endpoint: Endpoint,
    key: BucketKey,
    waiting: BytesMut,
    bytes: u64,
    upload: Option<Upload>,
}

/// A large output on its way.
struct Upload {
    pieces: mpsc::Sender<Result<Bytes>>,
    stored: Pin<Box<dyn Future<Output = Result<BlobInfo>> + Send>>,
    next: u64,
}

/// The output of a task, piece by piece.
#[derive(Debug)]
pub struct OutputReader(Source);

#[derive(Debug)]
enum Source {
    Inline(Option<Bytes>),
    Blob(Box<Pieces>),
}

#[derive(Debug)]
struct Pieces {
    endpoint: Endpoint,
    key: BucketKey,
    body: BlobBody,
    /// What was read and is not opened yet.
    waiting: BytesMut,
    next: u64,
    left: u64,
}

impl ResultWriter {
    pub(super) fn new(endpoint: Endpoint, task_id: &str) -> Result<Self> {
        let mut random = [0; 8];
        endpoint.entropy().fill(&mut random)?;
        // Each attempt has a blob of its own: who reads an earlier one keeps it.
        let name = format!("{}/{:016x}", key_of(task_id)?, u64::from_be_bytes(random));
        let key = BucketKey::parse(&name)?;
        Ok(Self { endpoint, key, waiting: BytesMut::new(), bytes: 0, upload: None })
    }

    /// Keeps some more. Waits while the blob store is slower than the command.
    ///
    /// Not cancel safe: after a dropped call the output is not whole.
    ///
    /// # Errors
    /// Those of [`crate::Blobs::put_blob`]; then this output cannot be kept.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        self.waiting.extend_from_slice(bytes);
        while self.waiting.len() > PIECE_BYTES {
            let piece = self.waiting.split_to(PIECE_BYTES);
            self.send(&piece).await?;
        }
        Ok(())
    }

    /// Ends the output, and says where it is.
    ///
    /// # Errors
    /// As [`ResultWriter::write`].
    pub async fn finish(mut self) -> Result<ResultOutput> {
        let rest = std::mem::take(&mut self.waiting);
        if self.upload.is_none() {
            return Ok(ResultOutput::Inline(rest.freeze()));
        }
        self.send(&rest).await?;
        let Some(upload) = self.upload.take() else { return Err(corrupt("nothing was kept")) };
        drop(upload.pieces);
        upload.stored.await?;
        Ok(ResultOutput::Blob { key: self.key, bytes: self.bytes })
    }

    async fn send(&mut self, piece: &[u8]) -> Result<()> {
        let (endpoint, key) = (&self.endpoint, &self.key);
        let upload = self.upload.get_or_insert_with(|| Upload::begin(endpoint, key.clone()));
        let sealed = seal(endpoint, &Place::piece(key, upload.next), piece.to_vec())?;
        upload.next += 1;
        tokio::select! {
            biased;
            ended = &mut upload.stored => {
                ended?;
                Err(corrupt("the blob store ended before the output did"))
            }
            sent = upload.pieces.send(Ok(framed(sealed))) => {
                sent.map_err(|_| corrupt("the blob store does not take the output"))
            }
        }
    }
}

impl Upload {
    fn begin(endpoint: &Endpoint, key: BucketKey) -> Self {
        let (pieces, taken) = mpsc::channel(1);
        let body = BlobBody::new(stream::unfold(taken, |mut taken| async {
            taken.recv().await.map(|piece| (piece, taken))
        }));
        let engine = std::sync::Arc::clone(endpoint.engine());
        let bucket = BucketName::results(endpoint.workspace());
        let stored = Box::pin(async move { engine.put_blob(bucket, key, body).await });
        Self { pieces, stored, next: 0 }
    }
}

impl OutputReader {
    pub(super) async fn open(endpoint: &Endpoint, output: &ResultOutput) -> Result<Option<Self>> {
        let (key, bytes) = match output {
            ResultOutput::NotKept { .. } => return Ok(None),
            ResultOutput::Inline(bytes) => {
                return Ok(Some(Self(Source::Inline(Some(bytes.clone())))));
            }
            ResultOutput::Blob { key, bytes } => (key.clone(), *bytes),
        };
        let bucket = BucketName::results(endpoint.workspace());
        let Some(blob) = endpoint.engine().get_blob(bucket, key.clone()).await? else {
            return Ok(None);
        };
        let (endpoint, body) = (endpoint.clone(), blob.body);
        let pieces = Pieces { endpoint, key, body, waiting: BytesMut::new(), next: 0, left: bytes };
        Ok(Some(Self(Source::Blob(Box::new(pieces)))))
    }

    /// The next part, checked and opened; `None` at the end. Not cancel safe.
    ///
    /// # Errors
    /// `Corrupt` when a piece is damaged, missing or too many; those of reading a blob.
    pub async fn next(&mut self) -> Option<Result<Bytes>> {
        match &mut self.0 {
            Source::Inline(bytes) => bytes.take().filter(|bytes| !bytes.is_empty()).map(Ok),
            Source::Blob(pieces) => pieces.next().await.transpose(),
        }
    }
}

impl Pieces {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        let Some(length) = self.take(LENGTH_BYTES).await? else {
            return if self.left == 0 { Ok(None) } else { Err(corrupt("the output is cut off")) };
        };
        let length = length.as_ref().try_into().map(u32::from_be_bytes).unwrap_or(u32::MAX);
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > SEALED_BYTES_MAX {
            return Err(corrupt("a piece of the output is too long"));
        }
        let sealed = self.take(length).await?;
        let sealed = sealed.ok_or_else(|| corrupt("the output is cut off"))?;
        let piece = open(&self.endpoint, &Place::piece(&self.key, self.next), &sealed)?;
        self.next += 1;
        let left = self.left.checked_sub(piece.len() as u64);
        self.left = left.ok_or_else(|| corrupt("there is more output than its result says"))?;
        Ok(Some(Bytes::from(piece)))
    }

    /// The next `count` bytes of the blob; `None` at its end.
    async fn take(&mut self, count: usize) -> Result<Option<Bytes>> {
        while self.waiting.len() < count {
            match self.body.next().await {
                Some(part) => self.waiting.extend_from_slice(&part?),
                None if self.waiting.is_empty() => return Ok(None),
                None => return Err(corrupt("the output is cut off")),
            }
        }
        Ok(Some(self.waiting.split_to(count).freeze()))
    }
}

impl std::fmt::Debug for ResultWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResultWriter").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

/// A sealed piece behind its length.
fn framed(sealed: Vec<u8>) -> Bytes {
    let mut all = Vec::with_capacity(LENGTH_BYTES + sealed.len());
    // A piece and its seal are far below 4 GiB.
    all.extend_from_slice(&u32::try_from(sealed.len()).unwrap_or(u32::MAX).to_be_bytes());
    all.extend_from_slice(&sealed);
    Bytes::from(all)
}

/// The hash of an output as a receipt has it: of the hashes of both streams.
#[must_use]
pub fn output_hash(stdout: &EventHash, stderr: &EventHash) -> EventHash {
    let mut both = Vec::with_capacity(64);
    both.extend_from_slice(stdout.as_bytes());
    both.extend_from_slice(stderr.as_bytes());
    EventHash::of(&both)
}

const LENGTH_BYTES: usize = 4;

/// A piece with the largest seal around it.
const SEALED_BYTES_MAX: usize = PIECE_BYTES + 512;

/// What is kept inline is what does not fill a piece.
const _: () = assert!(Results::INLINE_BYTES_MAX == PIECE_BYTES);
