//! The names that stand in registered subjects, each its own type.

use crate::{SubjectError, Token};

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $field:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Token);

        impl $name {
            /// Checks `text`: 1 to 64 bytes of `[A-Za-z0-9_~-]`.
            ///
            /// # Errors
            /// A [`SubjectError`] that names this kind of id and the reason.
            pub fn parse(text: &str) -> Result<Self, SubjectError> {
                Token::parse($field, text).map(Self)
            }

            /// Checks `text` as [`parse`](Self::parse) does, and keeps nothing.
            ///
            /// # Errors
            /// As [`parse`](Self::parse).
            pub fn check(text: &str) -> Result<(), SubjectError> {
                Token::check($field, text)
            }

            /// The text of the id.
            #[must_use]
            pub fn as_str(&self) -> &str {
                self.0.as_str()
            }

            /// The id as one level of a subject.
            #[must_use]
            pub fn token(&self) -> &Token {
                &self.0
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(&self.0, f)
            }
        }

        impl std::str::FromStr for $name {
            type Err = SubjectError;

            fn from_str(text: &str) -> Result<Self, SubjectError> {
                Self::parse(text)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                self.as_str()
            }
        }
    )*};
}

ids! {
    /// A workspace: the tenant that owns keys, roles and streams.
    WorkspaceId = "workspace";
    /// An agent: a process, an LLM agent or a person with an identity of its own.
    AgentId = "agent";
    /// A session: one run of work whose events belong together.
    SessionId = "session";
    /// A role whose work queue an agent serves, such as `coder`.
    RoleName = "role";
    /// An encrypted room.
    RoomId = "room";
    /// A module that answers calls.
    ModuleName = "module";
    /// A verb of a module.
    VerbName = "verb";
    /// A kind of watched state or condition.
    KindName = "kind";
    /// A key of watched state.
    KeyName = "key";
}
