//! How much a packed stream holds, read from its frames without unpacking them.
//!
//! A server that meets a damaged message leaves it out of what it gives away, and says nothing of
//! it. But what it gives away is then smaller than what it says that the stream holds.

/// A packed stream (S2, as servers pack snapshots) as far as it was seen.
#[derive(Default)]
pub(super) struct Frames {
    head: Vec<u8>,
    body: Option<Body>,
    begun: bool,
    is_foreign: bool,
    unpacked: u64,
}

/// What is left of a frame.
struct Body {
    left: usize,
    /// How many bytes of it were seen.
    seen: usize,
    /// The bits of the size that were read, and how many.
    size: (u64, u32),
    is_sized: bool,
}

impl Frames {
    /// Reads on.
    pub(super) fn read(&mut self, mut part: &[u8]) {
        while !part.is_empty() && !self.is_foreign {
            part = match self.body.take() {
                Some(body) => self.read_body(body, part),
                None => self.read_head(part),
            };
        }
    }

    /// How many bytes it unpacks to.
    ///
    /// # Errors
    /// When it ends within a frame.
    pub(super) fn end(self) -> Result<Unpacked, &'static str> {
        match self {
            Self { is_foreign: true, .. } => Ok(Unpacked::Unknown),
            Self { body: None, head, begun: true, unpacked, .. } if head.is_empty() => {
                Ok(Unpacked::Bytes(unpacked))
            }
            _ => Err("what the server gave ends too early"),
        }
    }

    fn read_head<'a>(&mut self, part: &'a [u8]) -> &'a [u8] {
        let (taken, rest) = part.split_at(part.len().min(HEAD - self.head.len()));
        self.head.extend_from_slice(taken);
        let &[kind, low, middle, high] = self.head.as_slice() else { return rest };
        self.head.clear();
        self.is_foreign = !self.begun && kind != BEGIN;
        self.begun = true;
        let left = usize::from(low) | usize::from(middle) << 8 | usize::from(high) << 16;
        if kind == PLAIN {
            self.unpacked = self.unpacked.saturating_add(left.saturating_sub(SUM) as u64);
        }
        let body = Body { left, seen: 0, size: (0, 0), is_sized: kind != PACKED };
        self.body = (left > 0).then_some(body);
        rest
    }

    fn read_body<'a>(&mut self, mut body: Body, part: &'a [u8]) -> &'a [u8] {
        let (taken, rest) = part.split_at(part.len().min(body.left));
        // The size stands behind the checksum, seven bits a byte.
        for byte in taken.iter().skip(SUM.saturating_sub(body.seen)) {
            if body.is_sized {
                break;
            }
            let (bits, count) = body.size;
            body.size = (bits | u64::from(byte & 0x7f) << count.min(56), count + 7);
            body.is_sized = byte & 0x80 == 0;
            if body.is_sized {
                self.unpacked = self.unpacked.saturating_add(body.size.0);
            }
        }
        body.seen += taken.len();
        body.left -= taken.len();
        self.body = (body.left > 0).then_some(body);
        rest
    }
}

/// What a packed stream unpacks to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unpacked {
    /// So many bytes.
    Bytes(u64),
    /// It is packed in a way that is not known here.
    Unknown,
}

const HEAD: usize = 4;

/// The bytes of a frame's checksum.
const SUM: usize = 4;

const PACKED: u8 = 0x00;

const PLAIN: u8 = 0x01;

const BEGIN: u8 = 0xff;

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &[u8] = b"\xff\x06\x00\x00S2sTwO";

    fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len()).unwrap().to_le_bytes();
        [&[kind][..], &length[..3], body].concat()
    }

    fn read(parts: &[&[u8]]) -> Result<Unpacked, &'static str> {
        let mut frames = Frames::default();
        for part in parts {
            frames.read(part);
        }
        frames.end()
    }

    fn sample() -> Vec<u8> {
        // 3 bytes as they are, 300 packed ones, and a frame that is passed over.
        let packed = frame(PACKED, b"sum!\xac\x02and whatever it takes");
        [NAME.to_vec(), frame(PLAIN, b"sum!abc"), frame(0xfe, b"padding"), packed].concat()
    }

    #[test]
    fn the_frames_say_how_much_there_is() {
        assert_eq!(read(&[&sample()]), Ok(Unpacked::Bytes(303)));
    }

    #[test]
    fn in_what_parts_it_comes_makes_no_difference() {
        let sample = sample();
        for at in 0..sample.len() {
            let (first, second) = sample.split_at(at);
            assert_eq!(read(&[first, second]), Ok(Unpacked::Bytes(303)), "{at}");
        }
        let bytes: Vec<&[u8]> = sample.chunks(1).collect();
        assert_eq!(read(&bytes), Ok(Unpacked::Bytes(303)));
    }

    #[test]
    fn what_ends_within_a_frame_is_told() {
        let sample = sample();
        let ends = [NAME.len(), NAME.len() + 11, NAME.len() + 22];
        for at in 0..sample.len() {
            assert_eq!(read(&[&sample[..at]]).is_ok(), ends.contains(&at), "{at}");
        }
    }

    #[test]
    fn what_is_packed_otherwise_is_left_alone() {
        assert_eq!(read(&[b"\x1f\x8bgzip or so"]), Ok(Unpacked::Unknown));
    }
}
