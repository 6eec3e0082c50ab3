//! How people name an approval: by its leaf, the beginning of that, or the request's id.

use bus_envelope::EventHash;

/// A name that somebody typed for an approval.
///
/// The leaf hash in full names one approval and no other, whatever ids there are. Of eight digits
/// on, the beginning of a leaf does, as long as it is unique; and so does the id of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalName {
    text: String,
    leaf: Option<EventHash>,
}

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found<T> {
    /// Nothing.
    None,
    /// This one.
    One(T),
    /// More than one: it is to be named by more digits.
    Several,
}

impl ApprovalName {
    /// How many digits of a leaf are enough to name an approval.
    pub const DIGITS_MIN: usize = 8;

    /// Takes any text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self { text: text.to_owned(), leaf: EventHash::parse(text).ok() }
    }

    /// The id of a request, and nothing else, whatever it looks like.
    #[must_use]
    pub(crate) fn of_id(id: &str) -> Self {
        Self { text: id.to_owned(), leaf: None }
    }

    /// The leaf, when it is given in full.
    #[must_use]
    pub const fn leaf(&self) -> Option<EventHash> {
        self.leaf
    }

    /// Whether it stands for the request with this leaf and id.
    #[must_use]
    pub fn fits(&self, leaf: &EventHash, id: &str) -> bool {
        if let Some(own) = &self.leaf {
            return own == leaf;
        }
        let is_prefix =
            self.text.len() >= Self::DIGITS_MIN && leaf.to_string().starts_with(&self.text);
        is_prefix || self.text == id
    }

    /// The one of `all` it stands for, each with its leaf and id.
    pub fn find<T>(&self, all: impl IntoIterator<Item = (EventHash, String, T)>) -> Found<T> {
        let mut found = Found::None;
        for (leaf, id, one) in all {
            if self.fits(&leaf, &id) {
                found = match found {
                    Found::None => Found::One(one),
                    Found::One(_) | Found::Several => return Found::Several,
                };
            }
        }
        found
    }
}

impl From<EventHash> for ApprovalName {
    fn from(leaf: EventHash) -> Self {
        Self { text: leaf.to_string(), leaf: Some(leaf) }
    }
}

impl std::fmt::Display for ApprovalName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}
