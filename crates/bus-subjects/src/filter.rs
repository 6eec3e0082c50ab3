//! A set of subjects written with the wildcards `*` and `>`.

use std::sync::Arc;

use crate::{BucketKey, Subject, SubjectError, subject::Wildcards, subject::check};

/// A set of subjects: `*` stands for exactly one level, `>` (last only) for one level or more.
///
/// Wildcards count only as whole levels: `foo*` is a literal.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Filter(Arc<str>);

impl Filter {
    /// The filter of every subject: `>`.
    #[must_use]
    pub fn all() -> Self {
        Self::trusted(">".to_owned())
    }

    /// Checks `text` as a filter.
    ///
    /// # Errors
    /// A [`SubjectError`] with the field `filter` and the reason.
    pub fn parse(text: &str) -> Result<Self, SubjectError> {
        if check("filter", text)? == Wildcards::None {
            return Ok(Self(text.into()));
        }
        let mut levels = text.split('.').peekable();
        while let Some(level) = levels.next() {
            if level == ">" && levels.peek().is_some() {
                return Err(SubjectError::TailNotLast { field: "filter" });
            }
        }
        Ok(Self(text.into()))
    }

    /// Takes a text that was put together from checked parts.
    pub(crate) fn trusted(text: String) -> Self {
        debug_assert!(Self::parse(&text).is_ok(), "not a filter: {text}");
        Self(text.into())
    }

    /// The text of the filter.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the filter holds no wildcard, so that it names one subject.
    #[must_use]
    pub fn is_literal(&self) -> bool {
        self.0.split('.').all(|level| level != "*" && level != ">")
    }

    /// Whether `subject` belongs to the set.
    #[must_use]
    pub fn matches(&self, subject: &Subject) -> bool {
        covers(&self.0, subject.as_str())
    }

    /// Whether `key`, taken as a subject, belongs to the set.
    #[must_use]
    pub fn matches_key(&self, key: &BucketKey) -> bool {
        covers(&self.0, key.as_str())
    }

    /// Whether every subject of `inner` belongs to this set.
    #[must_use]
    pub fn covers(&self, inner: &Self) -> bool {
        covers(&self.0, &inner.0)
    }

    /// Whether some subject belongs to both sets.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        let (mut a, mut b) = (self.0.split('.'), other.0.split('.'));
        loop {
            match (a.next(), b.next()) {
                (None, None) => return true,
                (Some(">"), Some(_)) | (Some(_), Some(">")) => return true,
                (Some(x), Some(y)) if x == y || x == "*" || y == "*" => {}
                _ => return false,
            }
        }
    }
}

impl From<&Subject> for Filter {
    fn from(subject: &Subject) -> Self {
        Self(subject.as_str().into())
    }
}

impl std::fmt::Debug for Filter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Filter({})", self.0)
    }
}

impl std::fmt::Display for Filter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for Filter {
    type Err = SubjectError;

    fn from_str(text: &str) -> Result<Self, SubjectError> {
        Self::parse(text)
    }
}

impl serde::Serialize for Filter {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> serde::Deserialize<'de> for Filter {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

fn covers(outer: &str, inner: &str) -> bool {
    let (mut outer, mut inner) = (Some(outer.as_bytes()), Some(inner.as_bytes()));
    loop {
        let (outer_levels, inner_levels) = match (outer, inner) {
            (Some(outer), Some(inner)) => (outer, inner),
            (None, None) => return true,
            _ => return false,
        };
        let (level, outer_rest) = split_level(outer_levels);
        if level == b">" {
            return true;
        }
        let (inner_level, inner_rest) = split_level(inner_levels);
        let fits = if level == b"*" { inner_level != b">" } else { level == inner_level };
        if !fits {
            return false;
        }
        (outer, inner) = (outer_rest, inner_rest);
    }
}

/// The first level and what stands behind its dot. Levels are short: a plain loop finds the dot
/// sooner than a search that looks at many bytes at once.
fn split_level(levels: &[u8]) -> (&[u8], Option<&[u8]>) {
    match levels.iter().position(|byte| *byte == b'.') {
        Some(dot) => (levels.get(..dot).unwrap_or_default(), levels.get(dot + 1..)),
        None => (levels, None),
    }
}

#[cfg(test)]
mod tests;
