//! A subject cut into levels, each hashed once.

/// One level of a subject.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Level {
    /// The hash of its text.
    pub(super) hash: u64,
    /// Where it begins, in bytes.
    pub(super) start: usize,
}

/// Calls `use_levels` with the levels of `text`; allocates only beyond [`LEVELS_INLINE`].
pub(super) fn with_levels<R>(text: &str, seed: u64, use_levels: impl FnOnce(&[Level]) -> R) -> R {
    let mut inline = [Level::default(); LEVELS_INLINE];
    let mut count = 0;
    let (mut start, mut rest) = (0, text.as_bytes());
    loop {
        let (level, after) = cut(rest);
        let Some(slot) = inline.get_mut(count) else {
            return use_levels(&all_levels(text, seed));
        };
        *slot = Level { hash: hash(seed, level), start };
        count += 1;
        let Some(after) = after else {
            return use_levels(inline.get(..count).unwrap_or(&[]));
        };
        (start, rest) = (start + level.len() + 1, after);
    }
}

/// A hash of one level. Equal texts have equal hashes; that is all anybody relies on.
pub(super) fn hash(seed: u64, level: &[u8]) -> u64 {
    let length = (level.len() as u64).wrapping_mul(MIX_LENGTH);
    let seed = seed ^ length;
    if let (Some(first), Some(last)) = (level.first_chunk::<8>(), level.last_chunk::<8>()) {
        let mut state = mix(seed ^ u64::from_le_bytes(*first), MIX_LEVEL);
        let mut rest = level.get(8..).unwrap_or(&[]);
        while let Some((word, after)) = rest.split_first_chunk::<8>() {
            state = mix(state ^ u64::from_le_bytes(*word), MIX_LEVEL);
            rest = after;
        }
        return mix(state ^ u64::from_le_bytes(*last), MIX_LEVEL);
    }
    let word = match (level.first_chunk::<4>(), level.last_chunk::<4>()) {
        (Some(first), Some(last)) => {
            u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last))
        }
        _ => level.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    };
    mix(seed ^ word, MIX_LEVEL)
}

/// Multiplies to 128 bits and folds the halves together.
pub(super) fn mix(value: u64, by: u64) -> u64 {
    let product = u128::from(value) * u128::from(by);
    (product as u64) ^ ((product >> 64) as u64)
}

fn cut(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    match dot_at(text) {
        Some(dot) => (text.get(..dot).unwrap_or(text), text.get(dot + 1..)),
        None => (text, None),
    }
}

/// Where the first dot is, looked for in eight bytes at a time.
fn dot_at(text: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    let mut rest = text;
    while let Some((word, after)) = rest.split_first_chunk::<8>() {
        // Zero where the dots are; the borrow of one only marks bytes behind it.
        let zeros = u64::from_le_bytes(*word) ^ (ONES * u64::from(b'.'));
        let found = zeros.wrapping_sub(ONES) & !zeros & (ONES << 7);
        if found != 0 {
            return Some(text.len() - rest.len() + (found.trailing_zeros() / 8) as usize);
        }
        rest = after;
    }
    let at = text.len() - rest.len();
    rest.iter().position(|byte| *byte == b'.').map(|more| at + more)
}

fn all_levels(text: &str, seed: u64) -> Vec<Level> {
    let mut start = 0;
    let level = |level: &str| {
        let this = Level { hash: hash(seed, level.as_bytes()), start };
        start += level.len() + 1;
        this
    };
    text.split('.').map(level).collect()
}

/// Registered subjects have five levels, bucket keys a few more.
pub(super) const LEVELS_INLINE: usize = 16;

const MIX_LEVEL: u64 = 0x9e37_79b9_7f4a_7c15;
const MIX_LENGTH: u64 = 0xd6e8_feb8_6659_fd93;
