//! Values by numbers that only grow, most of which go in about the order they came.

use std::collections::{BTreeMap, VecDeque};

/// A queue that is found into by number, in place of a map: what stays long while most of what came
/// after it is gone moves aside, so that one straggler keeps no room for all the others.
#[derive(Debug)]
pub(crate) struct Window<T> {
    /// The number of the first place of `near`.
    first: u64,
    /// Its first place is filled, unless there is none.
    near: VecDeque<Option<T>>,
    /// How many places of `near` are filled.
    held: usize,
    /// Stragglers: their numbers are before all of `near`.
    far: BTreeMap<u64, T>,
}

impl<T> Window<T> {
    /// No values; the first one gets the number `first`.
    pub(crate) const fn starting_at(first: u64) -> Self {
        Self { first, near: VecDeque::new(), held: 0, far: BTreeMap::new() }
    }

    /// How many values there are.
    pub(crate) fn len(&self) -> usize {
        self.held + self.far.len()
    }

    /// The number that the next value gets.
    pub(crate) fn next(&self) -> u64 {
        self.first + self.near.len() as u64
    }

    /// Puts a value behind all others and returns its number.
    #[inline]
    pub(crate) fn push(&mut self, value: T) -> u64 {
        self.near.push_back(Some(value));
        self.held += 1;
        self.first + self.near.len() as u64 - 1
    }

    /// Uses up a number for nothing.
    pub(crate) fn skip(&mut self) {
        if self.near.is_empty() {
            self.first += 1;
        } else {
            self.near.push_back(None);
            self.tidy();
        }
    }

    /// The value with a number.
    #[inline]
    pub(crate) fn get(&self, number: u64) -> Option<&T> {
        match number.checked_sub(self.first) {
            Some(at) => self.near.get(usize::try_from(at).ok()?)?.as_ref(),
            None => self.far.get(&number),
        }
    }

    /// The value with a number, to be changed.
    #[inline]
    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        match number.checked_sub(self.first) {
            Some(at) => self.near.get_mut(usize::try_from(at).ok()?)?.as_mut(),
            None => self.far.get_mut(&number),
        }
    }

    /// Takes the value with a number out.
    #[inline]
    pub(crate) fn take(&mut self, number: u64) -> Option<T> {
        self.take_if(number, |_| true)
    }

    /// Takes the value with a number out if `wanted` says so.
    #[inline]
    pub(crate) fn take_if(&mut self, number: u64, wanted: impl FnOnce(&T) -> bool) -> Option<T> {
        let Some(at) = number.checked_sub(self.first) else {
            self.far.get(&number).filter(|value| wanted(value))?;
            return self.far.remove(&number);
        };
        let place = self.near.get_mut(usize::try_from(at).ok()?)?;
        place.as_ref().filter(|value| wanted(value))?;
        let value = place.take()?;
        self.held -= 1;
        if at == 0 && self.near.len() == 1 {
            // The only one, as where each is settled before the next one is claimed.
            self.near.clear();
            self.first += 1;
            return Some(value);
        }
        self.tidy();
        Some(value)
    }

    /// The value with the smallest number.
    #[inline]
    pub(crate) fn first(&self) -> Option<(u64, &T)> {
        if let Some((&number, value)) = self.far.first_key_value() {
            return Some((number, value));
        }
        Some((self.first, self.near.front()?.as_ref()?))
    }

    /// The values from a number on, in order.
    pub(crate) fn from(&self, number: u64) -> impl Iterator<Item = (u64, &T)> {
        let far = self.far.range(number..).map(|(&number, value)| (number, value));
        let skip = usize::try_from(number.saturating_sub(self.first)).unwrap_or(usize::MAX);
        let near = self.near.range(skip.min(self.near.len())..).zip(self.first.max(number)..);
        far.chain(near.filter_map(|(value, number)| Some((number, value.as_ref()?))))
    }

    /// Lets the first place be a filled one, and the filled ones be half of all but a few.
    #[inline]
    fn tidy(&mut self) {
        loop {
            let is_sparse = self.near.len() > 2 * self.held + SLACK;
            let Some(first) = self.near.front_mut() else { break };
            if first.is_some() && !is_sparse {
                return;
            }
            if let Some(straggler) = first.take() {
                self.far.insert(self.first, straggler);
                self.held -= 1;
            }
            self.near.pop_front();
            self.first += 1;
        }
        if self.near.capacity() > KEPT {
            // A queue that rests keeps no room for its busiest hour.
            self.near.shrink_to(KEPT);
        }
    }
}

/// Empty places that are never worth moving a value aside.
const SLACK: usize = 64;

/// Places for which room is kept.
const KEPT: usize = 1024;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_straggler_keeps_no_room_for_what_came_after_it() {
        let mut window = Window::starting_at(1);
        let straggler = window.push(0);
        for n in 1..10_000 {
            let number = window.push(n);
            assert_eq!(window.take(number), Some(n));
        }
        assert!(window.near.len() <= SLACK + 2);
        assert_eq!((window.len(), window.first()), (1, Some((straggler, &0))));
        assert_eq!((window.take(straggler), window.take(straggler)), (Some(0), None));
    }

    proptest! {
        #[test]
        fn a_window_is_a_map(steps in prop::collection::vec((0_u8..5, 0_u64..200), 0..600)) {
            let mut window = Window::starting_at(1);
            let mut map = BTreeMap::new();
            let mut next = 1;
            for (what, at) in steps {
                match what {
                    0 | 1 => {
                        prop_assert_eq!(window.push(at), next);
                        map.insert(next, at);
                        next += 1;
                    }
                    2 => {
                        window.skip();
                        next += 1;
                    }
                    _ => prop_assert_eq!(window.take(at), map.remove(&at)),
                }
                prop_assert_eq!(window.len(), map.len());
                prop_assert_eq!(window.get(at), map.get(&at));
                prop_assert_eq!(window.get_mut(at), map.get_mut(&at));
                prop_assert_eq!(window.first(), map.first_key_value().map(|(&n, v)| (n, v)));
                let range: Vec<_> = map.range(at..).map(|(&n, v)| (n, v)).collect();
                prop_assert_eq!(window.from(at).collect::<Vec<_>>(), range);
            }
        }
    }
}
