//! One message as bytes: its length, its words, and the parts that travel with it as they are.
//!
//! ```text
//! length u32 little-endian, of all that follows
//! words   postcard
//! parts   each: length u32 little-endian, bytes
//! ```

use bus_core::{Error, ErrorKind, Frame, Result, packed::pack_frame};
use bytes::{Buf as _, Bytes, BytesMut};
use serde::{Serialize, de::DeserializeOwned};
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// A message that was received.
#[derive(Debug)]
pub(crate) struct Message<T> {
    /// Its words.
    pub(crate) words: T,
    /// What travels with them, in order; views of one buffer.
    pub(crate) parts: Vec<Bytes>,
}

/// A message to be sent.
#[derive(Debug)]
pub(crate) struct Packet(Vec<u8>);

impl<T: DeserializeOwned> Message<T> {
    /// Reads a whole message without its length.
    ///
    /// # Errors
    /// `Corrupt`: the words are none of ours, a part is cut short, or there are too many.
    pub(crate) fn decode(mut bytes: Bytes) -> Result<Self> {
        let (words, rest) = postcard::take_from_bytes::<T>(&bytes)
            .map_err(|why| corrupt("a message has no words of this version").because(why))?;
        bytes.advance(bytes.len() - rest.len());
        let mut parts = Vec::new();
        while !bytes.is_empty() {
            if bytes.len() < 4 || parts.len() == Frame::BATCH_MAX {
                return Err(corrupt("a message has a part that is cut short, or too many"));
            }
            let length = bytes.get_u32_le() as usize;
            if length > bytes.len() {
                return Err(corrupt("a part of a message is cut short"));
            }
            parts.push(bytes.split_to(length));
        }
        Ok(Self { words, parts })
    }
}

impl<T> Message<T> {
    /// The one part it must have.
    ///
    /// # Errors
    /// `Corrupt` when it has none or several.
    pub(crate) fn one_part(mut parts: Vec<Bytes>) -> Result<Bytes> {
        match (parts.pop(), parts.is_empty()) {
            (Some(part), true) => Ok(part),
            _ => Err(corrupt("a message has another number of parts than one")),
        }
    }
}

impl Packet {
    /// A message of `words` alone.
    ///
    /// # Errors
    /// `TooLarge` when it exceeds what a message may have.
    pub(crate) fn new(words: &impl Serialize) -> Result<Self> {
        let bytes = postcard::to_extend(words, vec![0; LENGTH_BYTES])
            .map_err(|why| corrupt("a message cannot be written").because(why))?;
        let mut packet = Self(bytes);
        packet.measure()?;
        Ok(packet)
    }

    /// The same message with another part, which `write` appends.
    ///
    /// # Errors
    /// `TooLarge` when it exceeds what a message may have then.
    pub(crate) fn with(mut self, write: impl FnOnce(&mut Vec<u8>)) -> Result<Self> {
        let start = self.0.len();
        self.0.extend_from_slice(&[0; LENGTH_BYTES]);
        write(&mut self.0);
        let length = self.0.len() - start - LENGTH_BYTES;
        let place = self.0.get_mut(start..start + LENGTH_BYTES);
        put_length(place, length);
        self.measure()?;
        Ok(self)
    }

    /// How many bytes it has.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Its bytes, as they are sent.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Its bytes, without a copy.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    fn measure(&mut self) -> Result<()> {
        let length = self.0.len() - LENGTH_BYTES;
        if length > super::MESSAGE_BYTES_MAX {
            let bytes_max = super::MESSAGE_BYTES_MAX;
            let why = format!("the message has {length} bytes: at most {bytes_max} are allowed");
            return Err(Error::new(ErrorKind::TooLarge, "send", why));
        }
        put_length(self.0.get_mut(..LENGTH_BYTES), length);
        Ok(())
    }
}

/// Appends a frame as a part.
pub(crate) fn frame_part(frame: &Frame) -> impl FnOnce(&mut Vec<u8>) {
    move |out| pack_frame(frame, out)
}

/// Reads the next message of at most `bytes_max` bytes; `None` at the end of the stream.
///
/// Room is made as bytes arrive: a length alone costs nothing. Not cancel safe.
///
/// # Errors
/// `Corrupt`: too long, or cut short; `Unavailable`: the stream failed.
pub(crate) async fn read_message(
    stream: &mut (impl AsyncRead + Unpin),
    bytes_max: usize,
) -> Result<Option<Bytes>> {
    let mut length = [0; LENGTH_BYTES];
    let mut filled = 0;
    while let Some(room) = length.get_mut(filled..).filter(|room| !room.is_empty()) {
        match stream.read(room).await.map_err(broken)? {
            0 if filled == 0 => return Ok(None),
            0 => return Err(corrupt("the stream ends within a length")),
            read => filled += read,
        }
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > bytes_max {
        return Err(corrupt("a message is longer than allowed"));
    }
    let mut message = BytesMut::with_capacity(length.min(FIRST_ROOM));
    let mut rest = stream.take(length as u64);
    while message.len() < length {
        if message.len() == message.capacity() {
            // In few steps, for each copies what came: but what came vouches for the room.
            message.reserve((length - message.len()).min(message.len() * NEXT_ROOMS));
        }
        if rest.read_buf(&mut message).await.map_err(broken)? == 0 {
            return Err(corrupt("the stream ends within a message"));
        }
    }
    Ok(Some(message.freeze()))
}

fn put_length(place: Option<&mut [u8]>, length: usize) {
    if let Some(place) = place {
        // Whatever does not fit is over every limit, and is refused.
        place.copy_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
    }
}

fn broken(why: std::io::Error) -> Error {
    Error::new(ErrorKind::Unavailable, "read", "the connection failed").because(why)
}

pub(super) fn corrupt(why: &'static str) -> Error {
    Error::new(ErrorKind::Corrupt, "read", why)
}

const LENGTH_BYTES: usize = 4;

/// What is allocated for a message before its bytes arrive, at most.
const FIRST_ROOM: usize = 16 << 10;

/// How many times what has arrived is allocated for what is still to come.
const NEXT_ROOMS: usize = 8;
