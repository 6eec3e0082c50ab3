//! The certificates of all agents that there ever were: what was signed stays to be shown when the
//! agent is gone.

use bus_core::Certificate;
use bus_crypto::creds;

use super::{Workspace, damaged};
use crate::{error::CliError, home::Home};

impl Workspace {
    /// Keeps a certificate for as long as the workspace is there. It holds no secret.
    pub(super) fn keep_certificate(&self, certificate: &Certificate) -> Result<(), CliError> {
        let dir = self.certificates_dir();
        let file = certificate.nkey.text();
        if dir.below(&file).exists() {
            return Ok(());
        }
        dir.create()?;
        match dir.write_new(&file, &format!("{}\n", certificate.token())) {
            // Another process kept it at the same moment.
            Err(_) if dir.below(&file).exists() => Ok(()),
            kept => kept,
        }
    }

    /// Keeps the certificates of all its agents, those among them that were made by a version that
    /// did not.
    ///
    /// # Errors
    /// When one cannot be kept; the others are.
    pub(crate) fn keep_certificates(&self) -> Result<(), CliError> {
        let kept = self.agents()?.into_iter().map(|agent| self.keep_certificate(&agent));
        kept.fold(Ok(()), Result::and)
    }

    /// The certificates of its agents, and of those that are revoked or gone.
    ///
    /// # Errors
    /// When the files cannot be listed. One that is damaged hides no other.
    pub(crate) fn all_certificates(&self) -> Result<Vec<Certificate>, CliError> {
        let mut found = self.agents()?;
        let dir = self.certificates_dir();
        for file in dir.list("")? {
            if found.iter().any(|one| one.nkey.text() == file) {
                continue;
            }
            let read = dir.read_long(&file);
            match read.map(|text| Certificate::parse(text.trim_end())) {
                Ok(Ok(certificate)) if certificate.issuer == *self.account() => {
                    found.push(certificate);
                }
                Ok(Ok(_)) => {}
                Ok(Err(error)) => tracing::warn!(file, %error, "a kept certificate is damaged"),
                Err(error) => tracing::warn!(file, error = error.what(), "it cannot be read"),
            }
        }
        Ok(found)
    }

    pub(super) fn certificates_dir(&self) -> Home {
        self.dir.below("certificates")
    }
}

/// The certificate of the key `signer` among those that are kept; none when there is none.
///
/// # Errors
/// When its file cannot be read.
pub(super) fn kept(dir: &Home, signer: &str) -> Result<Option<String>, String> {
    if !dir.below(signer).exists() {
        return Ok(None);
    }
    let text = dir.read_long(signer).map_err(|error| error.to_string())?;
    Ok(Some(text.trim_end().to_owned()))
}

/// The certificate in the text of a credentials file.
///
/// # Errors
/// When it holds none.
pub(super) fn in_credentials(dir: &Home, file: &str, text: &str) -> Result<Certificate, CliError> {
    let credentials = creds::parse(text).map_err(|error| damaged(dir, file, error))?;
    Certificate::parse(credentials.jwt()).map_err(|error| damaged(dir, file, error))
}
