//! The `tracestate` list: what tracing vendors hand on to each other.

use std::fmt;

use crate::TraceError;

/// A valid list of at most 32 members, newest first, in its canonical text form.
///
/// The canonical form has no white space round the commas and no empty members.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct TraceState(Box<str>);

impl TraceState {
    /// The most members of a list.
    pub const MEMBERS_MAX: usize = 32;

    /// The longest list that is handed on, in bytes.
    pub const BYTES_MAX: usize = 2048;

    /// Reads a list. Of two members with one key the first is kept.
    ///
    /// A list over [`BYTES_MAX`](Self::BYTES_MAX) loses whole members: first those of more than 128
    /// bytes, then from the right, as the W3C says.
    ///
    /// # Errors
    /// [`TraceError::Tracestate`] when a member breaks the grammar or there are more than 32.
    pub fn parse(list: &str) -> Result<Self, TraceError> {
        let mut members: Vec<(&str, &str)> = Vec::new();
        let mut count = 0;
        for member in list.split(',') {
            // Blanks before a value belong to it, so only the ends of the member are trimmed.
            let member = member.trim_matches([' ', '\t']);
            if member.is_empty() {
                continue;
            }
            count += 1;
            if count > Self::MEMBERS_MAX {
                return Err(refused("expected at most 32 members"));
            }
            let (key, value) = member.split_once('=').ok_or(refused("expected key=value"))?;
            check(key, value)?;
            if members.iter().all(|(known, _)| *known != key) {
                members.push((key, value));
            }
        }
        Ok(Self::join(cut(members)))
    }

    /// Puts `key` with `value` at the left; the right-most member of a full list falls off.
    ///
    /// # Errors
    /// [`TraceError::Tracestate`] when key or value break the grammar; the list stays as it was.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), TraceError> {
        check(key, value)?;
        let others = self.iter().filter(|(known, _)| *known != key);
        let members = std::iter::once((key, value)).chain(others).take(Self::MEMBERS_MAX).collect();
        *self = Self::join(cut(members));
        Ok(())
    }

    /// Takes the member out; whether it was there.
    pub fn delete(&mut self, key: &str) -> bool {
        let found = self.get(key).is_some();
        *self = Self::join(self.iter().filter(|(known, _)| *known != key).collect());
        found
    }

    /// The value under `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.iter().find(|(known, _)| *known == key).map(|(_, value)| value)
    }

    /// All members from left to right.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.split(',').filter_map(|member| member.split_once('='))
    }

    /// The canonical text; empty when there is no member.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether there is no member.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn join(members: Vec<(&str, &str)>) -> Self {
        let mut text = String::new();
        for (key, value) in members {
            if !text.is_empty() {
                text.push(',');
            }
            text.push_str(key);
            text.push('=');
            text.push_str(value);
        }
        Self(text.into())
    }
}

impl fmt::Display for TraceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

const fn refused(reason: &'static str) -> TraceError {
    TraceError::Tracestate { reason }
}

fn check(key: &str, value: &str) -> Result<(), TraceError> {
    if !is_key(key) {
        return Err(refused("expected a key of 1 to 256 of a-z 0-9 _ - * / @"));
    }
    if !is_value(value) {
        return Err(refused("expected a value of 1 to 256 printable characters but , and ="));
    }
    Ok(())
}

fn is_key(key: &str) -> bool {
    key.len() <= 256
        && key.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        && key.bytes().all(|c| {
            c.is_ascii_lowercase()
                || c.is_ascii_digit()
                || matches!(c, b'_' | b'-' | b'*' | b'/' | b'@')
        })
}

// A value cannot end in a blank: it would be taken for white space round the comma.
fn is_value(value: &str) -> bool {
    (1..=256).contains(&value.len())
        && value.bytes().all(|c| matches!(c, 0x20..=0x7e) && c != b',' && c != b'=')
        && !value.ends_with(' ')
}

/// Drops whole members until the list is short enough.
fn cut<'a>(mut members: Vec<(&'a str, &'a str)>) -> Vec<(&'a str, &'a str)> {
    let bytes = |member: &(&str, &str)| member.0.len() + 1 + member.1.len();
    let mut total: usize = members.iter().map(|member| bytes(member) + 1).sum();
    for only_long in [true, false] {
        for at in (0..members.len()).rev() {
            if total <= TraceState::BYTES_MAX + 1 {
                return members;
            }
            let size = members.get(at).map_or(0, bytes);
            if !only_long || size > 128 {
                members.remove(at);
                total -= size + 1;
            }
        }
    }
    members
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_is_too_long_loses_whole_members_the_big_ones_first() {
        let big = format!("big={}", "x".repeat(200));
        let small: Vec<String> = (0..31).map(|i| format!("k{i:02}={}", "y".repeat(70))).collect();
        let list = format!("{big},{}", small.join(","));
        let state = TraceState::parse(&list).unwrap();
        assert!(state.as_str().len() <= TraceState::BYTES_MAX);
        assert_eq!(state.get("big"), None);
        assert!(list.contains(state.as_str()) && state.as_str().starts_with("k00="));
    }

    #[test]
    fn blanks_before_a_value_belong_to_it() {
        assert_eq!(TraceState::parse("a=  x , b=1").unwrap().as_str(), "a=  x,b=1");
    }

    #[test]
    fn deleting_an_absent_member_changes_nothing() {
        let mut state = TraceState::parse("a=1,b=2").unwrap();
        assert!(!state.delete("c"));
        assert_eq!(state.as_str(), "a=1,b=2");
    }
}
