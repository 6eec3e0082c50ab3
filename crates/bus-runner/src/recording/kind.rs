//! What can be recorded of a session: its tokens, its terminal, or both.

use bus_subjects::{Address, KeyName, KindName, SessionId, Subject, SubjectError, WorkspaceId};

/// One kind of live event that is recorded, by its subject and whatever its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordingKind {
    /// `vak.events.<ws>.<session>.tokens`
    Tokens,
    /// `vak.events.<ws>.<session>.terminal`
    Terminal,
}

/// Some kinds; at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RecordingKinds {
    tokens: bool,
    terminal: bool,
}

impl RecordingKind {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::Tokens, Self::Terminal];

    /// What is kept at this address of a recording: the kind, and of which session.
    pub(super) fn of(kept: Address) -> Option<(Self, SessionId)> {
        let Address::History { kind, key, .. } = kept else { return None };
        let kind = Self::ALL.into_iter().find(|known| known.as_str() == kind.as_str())?;
        Some((kind, SessionId::parse(key.as_str()).ok()?))
    }

    /// Its name, as subjects have it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::Terminal => "terminal",
        }
    }

    /// Where the live events of `session` are.
    #[must_use]
    pub fn live(self, workspace: &WorkspaceId, session: &SessionId) -> Subject {
        let (workspace, session) = (workspace.clone(), session.clone());
        let address = match self {
            Self::Tokens => Address::Tokens { workspace, session },
            Self::Terminal => Address::Terminal { workspace, session },
        };
        address.subject()
    }

    /// Where the recording of `session` is.
    ///
    /// # Errors
    /// None in practice: a session's name is a valid key. The type says so because the names are
    /// checked like any other.
    pub fn kept(
        self,
        workspace: &WorkspaceId,
        session: &SessionId,
    ) -> Result<Subject, SubjectError> {
        let workspace = workspace.clone();
        let (kind, key) = (KindName::parse(self.as_str())?, KeyName::parse(session.as_str())?);
        Ok(Address::History { workspace, kind, key }.subject())
    }
}

impl RecordingKinds {
    /// Both.
    pub const ALL: Self = Self { tokens: true, terminal: true };

    /// Those of a list with commas between them, such as `tokens,terminal`.
    ///
    /// # Errors
    /// Which word is none of them.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut kinds = Self { tokens: false, terminal: false };
        for word in text.split(',') {
            match word.trim() {
                "tokens" => kinds.tokens = true,
                "terminal" => kinds.terminal = true,
                other => return Err(format!("{other:?} is not recorded: tokens or terminal")),
            }
        }
        Ok(kinds)
    }

    /// Each of them.
    pub fn iter(self) -> impl Iterator<Item = RecordingKind> {
        RecordingKind::ALL.into_iter().filter(move |kind| match kind {
            RecordingKind::Tokens => self.tokens,
            RecordingKind::Terminal => self.terminal,
        })
    }
}

impl Default for RecordingKinds {
    fn default() -> Self {
        Self::ALL
    }
}

impl std::fmt::Display for RecordingKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::fmt::Display for RecordingKinds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.iter().map(RecordingKind::as_str).collect();
        f.write_str(&names.join(","))
    }
}
