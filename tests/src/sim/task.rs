//! What a task says: whose session it belongs to, and whether it can be done at all.

/// The body of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Task {
    pub(super) session: u64,
    /// Nobody can ever do it.
    pub(super) is_poison: bool,
}

impl Task {
    pub(super) fn body(self) -> String {
        let word = if self.is_poison { "poison" } else { "work" };
        format!("{} {word}", self.session)
    }

    /// Reads a body; one that cannot be read is poison.
    pub(super) fn parse(body: &[u8]) -> Self {
        let text = std::str::from_utf8(body).unwrap_or_default();
        let (session, word) = text.split_once(' ').unwrap_or_default();
        match session.parse() {
            Ok(session) => Self { session, is_poison: word != "work" },
            Err(_) => Self { session: 0, is_poison: true },
        }
    }
}
