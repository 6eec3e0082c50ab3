//! Why a text is not a token, subject, filter or address.

use crate::Shown;

/// The reason a text was refused, naming the field it was meant for.
///
/// Nothing was sent or stored when one of these is returned: parsing comes before any I/O.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubjectError {
    /// The text is empty.
    #[error("{field} is empty: expected at least one character")]
    Empty {
        /// What the text was meant for, such as `workspace`.
        field: &'static str,
    },
    /// The text is longer than its limit.
    #[error("{field} is {bytes} bytes long: at most {bytes_max} are allowed")]
    TooLong {
        /// What the text was meant for.
        field: &'static str,
        /// Its length in bytes.
        bytes: usize,
        /// The limit in bytes.
        bytes_max: usize,
    },
    /// The text holds a character that may not stand there.
    #[error("{field} holds {character:?} at byte {at}: expected {expected}")]
    Character {
        /// What the text was meant for.
        field: &'static str,
        /// The first character refused.
        character: char,
        /// Its byte offset.
        at: usize,
        /// What is allowed, in words.
        expected: &'static str,
    },
    /// A level between two dots is empty, or the text begins or ends with a dot.
    #[error("{field} has an empty level: expected text between the dots")]
    EmptyLevel {
        /// What the text was meant for.
        field: &'static str,
    },
    /// A wildcard stands where a concrete subject is needed.
    #[error("{field} holds the wildcard {wildcard:?}: expected a concrete subject")]
    Wildcard {
        /// What the text was meant for.
        field: &'static str,
        /// `*` or `>`.
        wildcard: char,
    },
    /// `>` stands before the last level.
    #[error("{field} has '>' before its last level")]
    TailNotLast {
        /// What the text was meant for.
        field: &'static str,
    },
    /// An escaped name is not one that `Token::escape` writes.
    #[error("{field} is not an escaped name: expected what Token::escape writes")]
    Escape {
        /// What the text was meant for.
        field: &'static str,
    },
    /// The text names no role that the access policies know.
    #[error("\"{}\" is not a role: expected one of {expected}", Shown(.role))]
    UnknownRole {
        /// The text as given.
        role: String,
        /// The roles there are.
        expected: &'static str,
    },
    /// The subject is none of the registered addresses.
    #[error("\"{}\" is not a registered address of the bus", Shown(.subject))]
    NotRegistered {
        /// The subject as given.
        subject: String,
    },
}
