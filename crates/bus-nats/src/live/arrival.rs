//! What arrives for a subscription: messages become frames, and what is none is passed over.

use async_nats::Message;
use bus_core::{Frame, Result};
use bus_subjects::{Filter, Shown, Subject};

use crate::codec;

/// Makes frames of the messages of one subscription.
pub(super) struct Arrivals {
    filter: Filter,
    /// Whether samples are among what it hears.
    has_samples: bool,
    /// The subject of the last message, which the next one often has too.
    last: Option<Subject>,
    /// How many messages were none of this bus's.
    foreign: u64,
}

impl Arrivals {
    pub(super) fn new(filter: Filter, has_samples: bool) -> Self {
        Self { filter, has_samples, last: None, foreign: 0 }
    }

    /// Adds the frames of a message to `frames`; none when it is not for this subscription.
    pub(super) fn take(&mut self, message: &Message, frames: &mut Vec<Frame>) {
        if !is_live(message) {
            return;
        }
        let read = self.subject(&message.subject);
        let read = read.map(|subject| decode(&subject, message, self.has_samples, frames));
        let why = match read {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(why) => why,
        };
        self.foreign = self.foreign.saturating_add(1);
        let (subject, foreign) = (Shown(&message.subject), self.foreign);
        tracing::debug!(%subject, %why, foreign, "a message that is no frame is passed over");
    }

    /// The subject of a message, when the subscription hears it.
    fn subject(&mut self, text: &str) -> Result<Subject, String> {
        if let Some(last) = self.last.as_ref().filter(|last| last.as_str() == text) {
            return Ok(last.clone());
        }
        let subject = codec::parse_subject(text).map_err(|error| error.to_string())?;
        if !self.filter.matches(&subject) {
            return Err("the subscription does not hear its subject".to_owned());
        }
        self.last = Some(subject.clone());
        Ok(subject)
    }
}

/// Adds the frames that a message of `subject` carries to `frames`, at least one; `is_sample` when
/// a stream may have kept it.
///
/// # Errors
/// `Corrupt` when it carries none; then nothing is added.
pub(super) fn decode(
    subject: &Subject,
    message: &Message,
    is_sample: bool,
    frames: &mut Vec<Frame>,
) -> Result<()> {
    let mut reply = message.reply.as_deref();
    let Some(map) = &message.headers else {
        return codec::unpack_live(subject, reply, &message.payload, frames);
    };
    if is_sample && reply.is_none() {
        reply = codec::get(map, REPLY);
    }
    let body = message.payload.clone();
    frames.push(codec::decode_live(subject.clone(), reply, map, body)?);
    Ok(())
}

/// Whether a message can be a live one: with an id, not stored by an append, and none of the
/// server's own.
fn is_live(message: &Message) -> bool {
    if message.subject.starts_with('$') {
        return false;
    }
    match &message.headers {
        Some(map) => codec::is_live(map),
        None => codec::is_packed(&message.payload),
    }
}

/// The reply subject of a sample.
pub(super) const REPLY: &str = "vak-reply";
