//! Bytes as text, wherever they are cut.

/// Decodes UTF-8 that comes in pieces: a character cut by the end of a piece is no bad character.
///
/// All that came, put together, is what [`String::from_utf8_lossy`] gives for the whole: one
/// U+FFFD for each maximal part that is no UTF-8. No more than three bytes are ever held.
///
/// ```
/// # use bus_runner::Utf8View;
/// let (mut view, mut text) = (Utf8View::default(), String::new());
/// view.push(b"caf\xc3", &mut text);
/// assert_eq!(text, "caf");
/// view.push(b"\xa9 \xff", &mut text);
/// assert_eq!(text, "café \u{fffd}");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Utf8View {
    held: [u8; HELD_MAX],
    held_count: usize,
}

/// The most bytes that a character can have before its last one.
const HELD_MAX: usize = 3;

/// Stands for what is no UTF-8.
const BAD: &str = "\u{fffd}";

impl Utf8View {
    /// Adds the characters that `bytes` completes to `text`.
    pub fn push(&mut self, bytes: &[u8], text: &mut String) {
        self.each(bytes, |piece| text.push_str(piece));
    }

    /// Ends the text: an unfinished character becomes one mark.
    pub fn finish(&mut self, text: &mut String) {
        self.finish_each(|piece| text.push_str(piece));
    }

    /// How many bytes of an unfinished character are held: three at most.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held_count
    }

    /// As [`push`](Self::push), without copying what can be lent.
    pub(super) fn each(&mut self, bytes: &[u8], mut take: impl FnMut(&str)) {
        let mut bytes = self.complete(bytes, &mut take);
        while !bytes.is_empty() {
            let error = match str::from_utf8(bytes) {
                Ok(text) => return take(text),
                Err(error) => error,
            };
            let (good, rest) = bytes.split_at(error.valid_up_to());
            if let Ok(text) = str::from_utf8(good)
                && !text.is_empty()
            {
                take(text);
            }
            let Some(bad) = error.error_len() else {
                return self.hold(rest);
            };
            take(BAD);
            bytes = rest.get(bad..).unwrap_or_default();
        }
    }

    /// As [`finish`](Self::finish), without a place for the text.
    pub(super) fn finish_each(&mut self, mut take: impl FnMut(&str)) {
        if self.held_count > 0 {
            self.held_count = 0;
            take(BAD);
        }
    }

    /// Finishes the character that is held; returns what is not needed for it.
    fn complete<'a>(&mut self, bytes: &'a [u8], take: &mut impl FnMut(&str)) -> &'a [u8] {
        let mut bytes = bytes;
        while self.held_count > 0
            && let Some((next, rest)) = bytes.split_first()
        {
            let mut character = [0; HELD_MAX + 1];
            let held = self.held.iter().take(self.held_count).chain([next]);
            character.iter_mut().zip(held).for_each(|(place, byte)| *place = *byte);
            let character = character.get(..=self.held_count).unwrap_or_default();
            match str::from_utf8(character) {
                Ok(text) => {
                    take(text);
                    self.held_count = 0;
                    bytes = rest;
                }
                Err(error) if error.error_len().is_none() => {
                    self.hold(character);
                    bytes = rest;
                }
                // What was held is the bad part; the byte after it begins anew.
                Err(_) => self.finish_each(&mut *take),
            }
        }
        bytes
    }

    fn hold(&mut self, bytes: &[u8]) {
        self.held.iter_mut().zip(bytes).for_each(|(place, byte)| *place = *byte);
        self.held_count = bytes.len().min(HELD_MAX);
    }
}
