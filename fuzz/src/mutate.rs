//! Seeded changes of inputs: a small, blind loop for machines without libFuzzer.

/// A xorshift generator: the same seed gives the same inputs on every machine.
#[derive(Debug, Clone)]
pub struct Mutator {
    state: u64,
}

impl Mutator {
    /// Starts from `seed`; zero, which the generator cannot use, counts as one.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: if seed == 0 { 1 } else { seed } }
    }

    /// A number below `end`; zero when `end` is zero.
    pub const fn below(&mut self, end: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        // The upper half is the better one; the modulus is far below 2^32.
        if end == 0 { 0 } else { (self.state >> 32) as usize % end }
    }

    /// One of `inputs`, changed in one to four places; parts of another may be spliced in.
    ///
    /// # Panics
    /// When there are no inputs.
    #[must_use]
    pub fn input(&mut self, inputs: &[Vec<u8>]) -> Vec<u8> {
        let mut data = inputs[self.below(inputs.len())].clone();
        let other = &inputs[self.below(inputs.len())];
        for _ in 0..=self.below(4) {
            self.change(&mut data, other);
        }
        data.truncate(BYTES_MAX);
        data
    }

    fn change(&mut self, data: &mut Vec<u8>, other: &[u8]) {
        let at = self.below(data.len());
        match self.below(9) {
            0 if !data.is_empty() => data[at] ^= 1 << self.below(8),
            1 if !data.is_empty() => data[at] = TELLING[self.below(TELLING.len())],
            2 if !data.is_empty() => data[at] = self.below(256) as u8,
            3 => data.insert(at, TELLING[self.below(TELLING.len())]),
            4 => {
                let range = self.range(data.len(), 64);
                data.drain(range);
            }
            5 => {
                let range = self.range(data.len(), 64);
                let part = data[range].to_vec();
                data.splice(at..at, part);
            }
            6 => {
                let range = self.range(other.len(), 256);
                data.splice(at..at, other[range].iter().copied());
            }
            7 => {
                let token = TOKENS[self.below(TOKENS.len())];
                data.splice(at..at, token.bytes());
            }
            _ => data.truncate(at),
        }
    }

    fn range(&mut self, length: usize, most: usize) -> std::ops::Range<usize> {
        let from = self.below(length);
        from..(from + self.below(most) + 1).min(length)
    }
}

/// The longest input, in bytes.
pub const BYTES_MAX: usize = 32 * 1024;

/// Bytes that mean something to one of the readers.
const TELLING: &[u8] = b"\x00\x01\x7f\x80\xff\n\r\t \"\\%.,:;=-+*>/{}[]09aAzZ~_";

const TOKENS: &[&str] = &[
    "\"data\":",
    "\"id\":\"\"",
    "\\u0000",
    "\\ud800",
    "\u{feff}",
    "\u{2028}",
    "null",
    "1e999",
    "-0",
    "9007199254740992",
    "18446744073709551616",
    "%00",
    "%C3%A9",
    "..",
    ".*.",
    ".>",
    "00-",
    "ce-",
    "\r\n",
    "\n\n",
    "\n",
    "==",
    "====",
    "eyJ",
    "-----BEGIN ",
    "{\"",
    "\"}",
    "vak.",
];
