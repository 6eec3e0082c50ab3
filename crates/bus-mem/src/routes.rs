//! Who hears a subject, remembered for the subjects seen last, so that most frames need no match.

use std::{
    hash::{BuildHasher, RandomState},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use bus_core::{Frame, SegmentFrame};
use bus_subjects::{Filter, Subject, SubjectTable};

use crate::{aftermath::Aftermath, channel::Channel, core::Heard, feed::Feed};

/// Whatever stands under a filter in the table of the live plane.
#[derive(Debug, Clone)]
pub(crate) enum Target {
    /// Subscribers that want every frame.
    Log(Arc<Channel>),
    /// One subscriber that does not.
    Queue(Arc<Feed>),
    /// A mark: the newest frame of each of these subjects is kept for those who come later.
    Sample,
}

/// The targets of the subjects seen last.
///
/// A subject has one place, found by its hash, and takes it from whoever had it before.
#[derive(Debug)]
pub(crate) struct Routes {
    places: Box<[Place]>,
    seed: u64,
    /// Moves on whenever the answer for many subjects may have changed.
    generation: AtomicU64,
}

/// On a line of its own, so that publishers of different subjects do not slow each other.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Place(Mutex<Route>);

/// The targets of one subject.
#[derive(Debug, Default)]
pub(crate) struct Route {
    subject: Option<Subject>,
    generation: u64,
    targets: Vec<Target>,
    sampled: bool,
    /// How many frames were published by way of this place, whatever their subject.
    published: u64,
}

impl Routes {
    pub(crate) fn new() -> Self {
        Self {
            places: std::iter::repeat_with(Place::default).take(PLACES).collect(),
            seed: RandomState::new().hash_one(PLACES),
            generation: AtomicU64::new(0),
        }
    }

    /// The place of `subject`, locked; [`Route::lead`] makes it lead there.
    pub(crate) fn place(&self, subject: &Subject) -> Option<MutexGuard<'_, Route>> {
        self.place_of(subject.as_str())
    }

    fn place_of(&self, subject: &str) -> Option<MutexGuard<'_, Route>> {
        let index = hash(subject.as_bytes(), self.seed) as usize % PLACES;
        Some(self.places.get(index)?.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn generation(&self) -> u64 {
        // Acquire: whoever sees the number sees the table that it stands for.
        self.generation.load(Ordering::Acquire)
    }

    /// Forgets what was remembered about the subjects of `filter`, because the table has changed.
    ///
    /// When this returns, no publish that begins afterwards uses an old answer.
    pub(crate) fn cut(&self, filter: &Filter) {
        if !filter.is_literal() {
            self.generation.fetch_add(1, Ordering::Release);
            return;
        }
        // One subject only: all others go on. Askers come and go under such filters.
        let forgotten = self.place_of(filter.as_str()).and_then(|mut route| route.subject.take());
        drop(forgotten);
    }

    /// How many frames were published in all.
    pub(crate) fn published(&self) -> u64 {
        let route =
            |place: &Place| place.0.lock().unwrap_or_else(PoisonError::into_inner).published;
        self.places.iter().map(route).sum()
    }
}

impl Route {
    /// Counts a frame that a publisher handed in.
    pub(crate) fn count(&mut self) {
        self.published += 1;
    }

    /// Whether this is the route of `subject`, as it was at `generation`.
    pub(crate) fn leads(&self, subject: &Subject, generation: u64) -> bool {
        self.generation == generation
            && self.subject.as_ref().is_some_and(|mine| {
                // Most often the very same text, which needs no comparison.
                std::ptr::eq(mine.as_str(), subject.as_str()) || mine == subject
            })
    }

    /// Becomes the route of `subject`, as `table` has it at `generation`.
    pub(crate) fn lead(
        &mut self,
        subject: &Subject,
        generation: u64,
        table: &SubjectTable<Target>,
    ) {
        self.targets.clear();
        table.for_each_match(subject, |target| self.targets.push(target.clone()));
        self.sampled = self.targets.iter().any(|target| matches!(target, Target::Sample));
        (self.subject, self.generation) = (Some(subject.clone()), generation);
    }

    /// Whether the newest frame is to be kept.
    pub(crate) fn is_sampled(&self) -> bool {
        self.sampled
    }

    /// Hands `frame` to every target; it stays with the caller when nobody hears it, and when
    /// others share it.
    #[inline]
    pub(crate) fn hand_out(
        &self,
        frame: &mut Option<SegmentFrame>,
        aftermath: &mut Aftermath,
    ) -> Heard {
        match self.targets.as_slice() {
            [] => Heard::NOBODY,
            [Target::Log(channel)] => channel.push(frame, aftermath),
            targets => {
                let Some(shared) = frame.take().map(SegmentFrame::into_shared) else {
                    return Heard::NOBODY;
                };
                let offers = targets.iter().map(|target| target.offer(&shared, aftermath));
                let heard = offers.fold(Heard::NOBODY, Heard::and);
                *frame = Some(SegmentFrame::Shared(shared));
                heard
            }
        }
    }
}

impl Target {
    /// Offers `frame`, and says who heard it.
    pub(crate) fn offer(&self, frame: &Arc<Frame>, aftermath: &mut Aftermath) -> Heard {
        match self {
            Self::Log(channel) => {
                channel.push(&mut Some(SegmentFrame::Shared(Arc::clone(frame))), aftermath)
            }
            Self::Queue(feed) => {
                Heard { by: usize::from(feed.push(frame, aftermath)), ..Heard::NOBODY }
            }
            Self::Sample => Heard::NOBODY,
        }
    }
}

/// A quick hash; the seed differs from bus to bus, so nobody can choose subjects for one place.
fn hash(text: &[u8], seed: u64) -> u64 {
    // The last eight bytes are read once more where the words do not end with the text: putting the
    // rest together byte by byte would cost more than all the words.
    let last = match text.last_chunk::<8>() {
        Some(last) => u64::from_le_bytes(*last),
        None => text.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    };
    let (words, _) = text.as_chunks::<8>();
    let mixed = words.iter().fold(seed, |hash, word| mix(hash ^ u64::from_le_bytes(*word)));
    mix(mixed ^ last ^ text.len() as u64)
}

fn mix(value: u64) -> u64 {
    let wide = u128::from(value) * u128::from(MIX);
    (wide >> 64) as u64 ^ wide as u64
}

/// How many subjects are remembered; each takes 64 bytes and the list of its targets.
const PLACES: usize = 256;
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
