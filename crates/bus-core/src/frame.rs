//! What engines move: a subject, an id, headers and a body, with no meaning attached.

use bus_envelope::Headers;
use bus_subjects::Subject;
use bytes::Bytes;

use crate::{Error, ErrorKind, Placement, Result};

/// One unit on the wire. Engines never look into it.
///
/// Cloning shares the subject, id and body; headers are copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Where it goes.
    pub subject: Subject,
    /// The id that duplicates are recognised by; unique per stream and window.
    pub id: FrameId,
    /// Where an answer is expected, for requests.
    pub reply: Option<Subject>,
    /// Names and values beside the body.
    pub headers: Headers,
    /// The payload.
    pub body: Bytes,
    /// How consumers hand it out when that is not as usual; see [`Frame::placed`].
    pub placement: Option<Box<Placement>>,
}

impl Frame {
    /// The largest frame an engine takes: headers and body together, in bytes (1 MiB).
    pub const BYTES_MAX: usize = 1 << 20;

    /// The most frames of one batch.
    pub const BATCH_MAX: usize = 1000;

    /// A frame without headers.
    pub fn new(subject: Subject, id: FrameId, body: impl Into<Bytes>) -> Self {
        Self {
            subject,
            id,
            reply: None,
            headers: Headers::new(),
            body: body.into(),
            placement: None,
        }
    }

    /// The same frame, handed out as `placement` says.
    #[must_use]
    pub fn placed(mut self, placement: Placement) -> Self {
        self.placement = (placement != Placement::default()).then(|| Box::new(placement));
        self
    }

    /// Bytes of headers and body together.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.headers.bytes() + self.body.len()
    }

    /// Refuses a frame that exceeds [`Frame::BYTES_MAX`], for the operation `op`.
    ///
    /// # Errors
    /// `TooLarge`, not done.
    #[inline]
    pub fn check_size(&self, op: &'static str) -> Result<()> {
        let (bytes, bytes_max) = (self.bytes(), Self::BYTES_MAX);
        if bytes <= bytes_max {
            return Ok(());
        }
        let detail = format!("frame has {bytes} bytes: at most {bytes_max} are allowed");
        Err(Error::new(ErrorKind::TooLarge, op, detail).at(&self.subject))
    }

    /// Refuses what cannot be published: a frame that is too large, or one with a placement.
    ///
    /// # Errors
    /// `TooLarge` or `Invalid`, not done.
    #[inline]
    pub fn check_live(&self, op: &'static str) -> Result<()> {
        self.check_size(op)?;
        if self.placement.is_none() {
            return Ok(());
        }
        let why = "a live message is handed out at once: only a stored one has a placement";
        Err(Error::new(ErrorKind::Invalid, op, why).at(&self.subject))
    }
}

/// The id of a frame: 1 to 256 bytes of visible ASCII.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameId(std::sync::Arc<str>);

impl FrameId {
    /// The longest id, in bytes.
    pub const BYTES_MAX: usize = 256;

    /// Checks `text`.
    ///
    /// # Errors
    /// `Invalid`, not done, with the reason.
    pub fn parse(text: &str) -> Result<Self> {
        check_visible("frame id", text, Self::BYTES_MAX)?;
        Ok(Self(text.into()))
    }

    /// The text of the id.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Refuses a `text` for `field` that is not 1 to `bytes_max` bytes of visible ASCII.
pub(crate) fn check_visible(field: &'static str, text: &str, bytes_max: usize) -> Result<()> {
    let refuse = |why: String| Err(Error::new(ErrorKind::Invalid, field, why));
    if text.is_empty() || text.len() > bytes_max {
        return refuse(format!("has {} bytes: expected 1 to {bytes_max}", text.len()));
    }
    match text.bytes().position(|c| !c.is_ascii_graphic()) {
        Some(at) => refuse(format!("byte {at} is not visible ASCII")),
        None => Ok(()),
    }
}

impl std::fmt::Debug for FrameId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FrameId({})", self.0)
    }
}

impl std::fmt::Display for FrameId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
