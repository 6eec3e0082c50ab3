//! The public name of one key: `<workspace>.<name>.<incarnation>`.

use std::fmt;

use crate::error::CryptoError;

/// The name of a payload key (D11): which workspace's secret, which secret, which process life.
///
/// Each part is 1 to 64 of `A-Z a-z 0-9 _ ~ -`, so the text travels in any header unescaped and has
/// exactly one reading.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId {
    text: Box<str>,
    workspace_end: usize,
    name_end: usize,
}

impl KeyId {
    /// The most bytes one part may have.
    pub const PART_BYTES_MAX: usize = 64;

    /// Reads a key id.
    ///
    /// # Errors
    /// [`CryptoError::BadKeyId`] unless there are exactly three good parts.
    pub fn parse(text: &str) -> Result<Self, CryptoError> {
        let [workspace, name, _] = Self::split(text)?;
        Ok(Self {
            text: text.into(),
            workspace_end: workspace.len(),
            name_end: workspace.len() + 1 + name.len(),
        })
    }

    /// The parts of a key id where they lie: workspace, name of the secret, process life.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn split(text: &str) -> Result<[&str; 3], CryptoError> {
        let mut parts = text.split('.');
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(workspace), Some(name), Some(incarnation), None) => {
                let parts = [workspace, name, incarnation];
                parts.into_iter().try_for_each(check_part)?;
                Ok(parts)
            }
            _ => Err(CryptoError::BadKeyId),
        }
    }

    /// Puts a key id together from its parts.
    ///
    /// # Errors
    /// [`CryptoError::BadKeyId`] when a part is empty, too long or has another character.
    pub fn new(workspace: &str, name: &str, incarnation: &str) -> Result<Self, CryptoError> {
        for part in [workspace, name, incarnation] {
            check_part(part)?;
        }
        Ok(Self {
            text: format!("{workspace}.{name}.{incarnation}").into(),
            workspace_end: workspace.len(),
            name_end: workspace.len() + 1 + name.len(),
        })
    }

    /// The whole key id.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The workspace whose secret it is.
    #[must_use]
    pub fn workspace(&self) -> &str {
        self.text.get(..self.workspace_end).unwrap_or_default()
    }

    /// The name of the secret within the workspace.
    #[must_use]
    pub fn name(&self) -> &str {
        self.text.get(self.workspace_end + 1..self.name_end).unwrap_or_default()
    }

    /// The process life that seals with this key.
    #[must_use]
    pub fn incarnation(&self) -> &str {
        self.text.get(self.name_end + 1..).unwrap_or_default()
    }

    /// Tells whether `prefix` names this key, its secret or its workspace: whole parts only, so
    /// `w.k1` covers `w.k1.x` and not `w.k10.x`.
    #[must_use]
    pub fn is_under(&self, prefix: &str) -> bool {
        is_under(&self.text, prefix)
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyId({})", self.text)
    }
}

pub(crate) fn is_under(text: &str, prefix: &str) -> bool {
    text.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

pub(crate) fn check_part(part: &str) -> Result<(), CryptoError> {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'~' | b'-');
    if part.is_empty() || part.len() > KeyId::PART_BYTES_MAX || !part.bytes().all(known) {
        return Err(CryptoError::BadKeyId);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
