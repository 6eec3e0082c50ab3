//! The quick look at JSON: says yes only where `serde_json` surely would, and else "not sure".
//!
//! Nothing is decided here. Whatever is not plain goes to `serde_json`, so that a text is JSON
//! exactly when `serde_json` says so; laws in the tests hold one against the other.

/// Whether `text` surely is one JSON value without white space round it.
pub(super) fn is_value(text: &str) -> bool {
    Scanner { rest: text.as_bytes() }.value_to_end().is_some()
}

/// The length of the plain string that begins `text`, without its closing quote.
pub(super) fn string_bytes(text: &[u8]) -> Option<usize> {
    let at = special_at(text)?;
    (text.get(at) == Some(&b'"')).then_some(at)
}

/// Whether `text` stands between quotes as it is.
pub(super) fn needs_no_escape(text: &str) -> bool {
    text.bytes().fold(true, |all, c| all & !is_special(c))
}

struct Scanner<'a> {
    rest: &'a [u8],
}

/// What is open, the innermost in the lowest bit: 1 for an object, 0 for an array.
struct Open {
    kinds: u64,
    depth: u32,
}

impl Scanner<'_> {
    /// `None` is "not sure" here and below.
    fn value_to_end(&mut self) -> Option<()> {
        let mut open = Open { kinds: 0, depth: 0 };
        loop {
            // A value is due.
            match self.next()? {
                b'{' => {
                    open.push(1)?;
                    if self.after_blanks()? != b'}' {
                        self.key()?;
                        continue;
                    }
                }
                b'[' => {
                    open.push(0)?;
                    if self.after_blanks()? != b']' {
                        continue;
                    }
                }
                b'"' => self.string()?,
                b't' => self.word(b"rue")?,
                b'f' => self.word(b"alse")?,
                b'n' => self.word(b"ull")?,
                first => self.number(first)?,
            }
            // A value is over: whatever it closes, up to the next comma.
            loop {
                if open.depth == 0 {
                    return self.rest.is_empty().then_some(());
                }
                match (self.after_blanks()?, open.kinds & 1) {
                    (b'}', 1) | (b']', 0) => {
                        self.next()?;
                        open.pop();
                    }
                    (b',', kind) => {
                        self.next()?;
                        let next = self.after_blanks()?;
                        if kind == 1 {
                            if next != b'"' {
                                return None;
                            }
                            self.key()?;
                        }
                        break;
                    }
                    _ => return None,
                }
            }
        }
    }

    /// A name, its colon, and the blanks behind.
    fn key(&mut self) -> Option<()> {
        if self.next()? != b'"' {
            return None;
        }
        self.string()?;
        if self.after_blanks()? != b':' {
            return None;
        }
        self.next()?;
        self.after_blanks().map(|_| ())
    }

    /// What is left of a string.
    fn string(&mut self) -> Option<()> {
        loop {
            let at = special_at(self.rest)?;
            let (special, rest) = self.rest.get(at..)?.split_first()?;
            self.rest = rest;
            if *special == b'"' {
                return Some(());
            }
            // Control characters are wrong; what \u may say is for serde_json to know.
            let escapes = *special == b'\\' && b"\"\\/bfnrt".contains(&self.next()?);
            if !escapes {
                return None;
            }
        }
    }

    fn number(&mut self, first: u8) -> Option<()> {
        let digit = if first == b'-' { self.next()? } else { first };
        match digit {
            b'0' => {}
            b'1'..=b'9' => self.digits(),
            _ => return None,
        }
        if self.rest.first() == Some(&b'.') {
            self.next()?;
            self.some_digits()?;
        }
        if matches!(self.rest.first(), Some(b'e' | b'E')) {
            self.next()?;
            if matches!(self.rest.first(), Some(b'+' | b'-')) {
                self.next()?;
            }
            self.some_digits()?;
        }
        Some(())
    }

    fn some_digits(&mut self) -> Option<()> {
        self.next()?.is_ascii_digit().then(|| self.digits())
    }

    fn digits(&mut self) {
        while let Some((b'0'..=b'9', rest)) = self.rest.split_first() {
            self.rest = rest;
        }
    }

    fn word(&mut self, rest: &[u8]) -> Option<()> {
        self.rest = self.rest.strip_prefix(rest)?;
        Some(())
    }

    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    /// The next character that is no blank, still unread.
    fn after_blanks(&mut self) -> Option<u8> {
        match self.rest.first()? {
            // Most often there is none to leave out.
            first if *first > b' ' => Some(*first),
            _ => {
                let is_blank = |c: &u8| matches!(c, b' ' | b'\n' | b'\r' | b'\t');
                let blanks = self.rest.iter().take_while(|c| is_blank(c)).count();
                self.rest = self.rest.get(blanks..)?;
                self.rest.first().copied()
            }
        }
    }
}

impl Open {
    fn push(&mut self, kind: u64) -> Option<()> {
        self.kinds = self.kinds << 1 | kind;
        self.depth += 1;
        (self.depth <= u64::BITS).then_some(())
    }

    fn pop(&mut self) {
        self.kinds >>= 1;
        self.depth -= 1;
    }
}

/// Where the first quote, backslash or control character is.
#[inline]
fn special_at(text: &[u8]) -> Option<usize> {
    let mut rest = text;
    while let Some((word, after)) = rest.split_first_chunk::<8>() {
        let found = specials(u64::from_le_bytes(*word));
        if found != 0 {
            return Some(text.len() - rest.len() + (found.trailing_zeros() / 8) as usize);
        }
        rest = after;
    }
    let at = text.len() - rest.len();
    rest.iter().position(|c| is_special(*c)).map(|more| at + more)
}

/// The highest bit of each byte that is special. A borrow can only mark bytes behind one that is,
/// so the lowest mark is right.
const fn specials(word: u64) -> u64 {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGHS: u64 = ONES << 7;
    let quote = word ^ (ONES * b'"' as u64);
    let backslash = word ^ (ONES * b'\\' as u64);
    let below = word.wrapping_sub(ONES * 0x20) & !word;
    let zero = quote.wrapping_sub(ONES) & !quote | backslash.wrapping_sub(ONES) & !backslash;
    (below | zero) & HIGHS
}

const fn is_special(c: u8) -> bool {
    (c == b'"') | (c == b'\\') | (c < 0x20)
}
