//! Small live frames without a header of the protocol, which costs more than all the rest of them,
//! and several in one message.
//!
//! ```text
//! F6 01 | frame…
//! frame: form, 1 byte | id length, 1 byte | body length, u32 big-endian | id | body
//! ```
//!
//! The form is 0 for a frame without headers and 1 for an envelope in the compact form. No text
//! begins with F6. Whatever has other headers goes the long way, where any client of CloudEvents
//! reads it.

use bus_core::{Frame, FrameId, Result};
use bus_envelope::{Headers, WireForm};
use bus_subjects::Subject;
use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::{checked, corrupt, parse_id, parse_subject};

/// A frame that can go without headers.
#[derive(Debug)]
pub(crate) struct Packable<'a> {
    form: Form,
    id: &'a FrameId,
    id_bytes: u8,
    body: &'a Bytes,
    body_bytes: u32,
}

/// Which headers a packed frame has.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
enum Form {
    Bare = 0,
    Compact = 1,
}

impl<'a> Packable<'a> {
    /// `frame` as one that can go without headers; `None` when it has some, is large, or is not on
    /// a plane that no stream keeps.
    pub(crate) fn of(frame: &'a Frame) -> Option<Self> {
        let (id, body) = (&frame.id, &frame.body);
        if body.len() > BODY_MAX || !is_unkept(frame.subject.as_str()) {
            return None;
        }
        let form = Form::of(&frame.headers)?;
        let (id_bytes, body_bytes) = (id.as_str().len().try_into(), body.len().try_into());
        Some(Self { form, id, id_bytes: id_bytes.ok()?, body, body_bytes: body_bytes.ok()? })
    }

    /// How many bytes it takes among others.
    pub(crate) fn bytes(&self) -> usize {
        FRAME_HEAD_BYTES + usize::from(self.id_bytes) + self.body.len()
    }

    /// How many bytes a message of it alone has.
    pub(crate) fn alone_bytes(&self) -> usize {
        HEAD.len() + self.bytes()
    }

    /// Adds it to those of a message; the first one begins it.
    pub(crate) fn put(&self, message: &mut BytesMut) {
        if message.is_empty() {
            message.put_slice(&HEAD);
        }
        message.put_slice(&[self.form as u8, self.id_bytes]);
        message.put_u32(self.body_bytes);
        message.put_slice(self.id.as_str().as_bytes());
        message.put_slice(self.body);
    }

    /// A message of this frame alone.
    pub(crate) fn alone(&self) -> Bytes {
        let mut message = BytesMut::with_capacity(self.alone_bytes());
        self.put(&mut message);
        message.freeze()
    }
}

impl Form {
    fn of(headers: &Headers) -> Option<Self> {
        if headers.is_empty() {
            return Some(Self::Bare);
        }
        (*headers == WireForm::Compact.headers()).then_some(Self::Compact)
    }

    fn read(byte: u8) -> Option<Self> {
        [Self::Bare, Self::Compact].into_iter().find(|form| *form as u8 == byte)
    }

    fn headers(self) -> Headers {
        match self {
            Self::Bare => Headers::new(),
            Self::Compact => WireForm::Compact.headers(),
        }
    }
}

/// Adds the frames of a message to `frames`, at least one; their bodies are parts of `packed`, not
/// copies.
///
/// # Errors
/// `Corrupt` when it is no such message; then nothing is added.
pub(crate) fn unpack_live(
    subject: &Subject,
    reply: Option<&str>,
    packed: &Bytes,
    frames: &mut Vec<Frame>,
) -> Result<()> {
    let before = frames.len();
    let mut rest = packed.clone();
    let read = (|| {
        let damaged = || corrupt("is no message of packed frames").at(subject);
        if !is_packed(packed) {
            return Err(damaged());
        }
        let reply = reply.map(parse_subject).transpose()?;
        rest.advance(HEAD.len());
        loop {
            let (form, id, body_bytes) = head(&rest).ok_or_else(damaged)?;
            let (id, id_bytes) = (parse_id(id)?, id.len());
            rest.advance(FRAME_HEAD_BYTES + id_bytes);
            let mut frame = Frame::new(subject.clone(), id, rest.split_to(body_bytes));
            frame.reply.clone_from(&reply);
            frame.headers = form.headers();
            frames.push(checked(frame)?);
            if rest.is_empty() {
                return Ok(());
            }
            // A stranger's message of the smallest ones would be a hundred times its size here.
            if frames.len() - before >= FRAMES_MAX {
                return Err(damaged());
            }
        }
    })();
    if read.is_err() {
        frames.truncate(before);
    }
    read
}

/// Whether a body says that it holds packed frames.
pub(crate) fn is_packed(body: &[u8]) -> bool {
    body.starts_with(&HEAD)
}

/// Whether no stream keeps a subject: live events, calls, and answers.
pub(crate) fn is_unkept(subject: &str) -> bool {
    UNKEPT.into_iter().any(|plane| subject.starts_with(plane))
}

/// What stands before the body of the first frame of `rest`; `None` unless all of it is there.
fn head(rest: &[u8]) -> Option<(Form, &str, usize)> {
    let (&[form, id_bytes, a, b, c, d], rest) = rest.split_first_chunk::<FRAME_HEAD_BYTES>()?;
    let body_bytes = usize::try_from(u32::from_be_bytes([a, b, c, d])).ok()?;
    let (id, rest) = rest.split_at_checked(usize::from(id_bytes))?;
    (rest.len() >= body_bytes).then_some(())?;
    Some((Form::read(form)?, std::str::from_utf8(id).ok()?, body_bytes))
}

/// How many frames a message has at most.
pub(crate) const FRAMES_MAX: usize = 64;
/// The planes that streams are not declared over.
pub(crate) const UNKEPT: [&str; 3] = ["vak.events.", "vak.call.", "_INBOX"];
/// The mark, which no text begins with, and the version.
const HEAD: [u8; 2] = [0xf6, 1];
const FRAME_HEAD_BYTES: usize = 6;
/// Beyond it the copy costs more than the headers.
const BODY_MAX: usize = 16 * 1024;

#[cfg(test)]
mod tests;
