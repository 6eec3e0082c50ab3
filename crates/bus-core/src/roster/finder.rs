//! Where a roster looks for the certificate of a signer that nobody admitted yet.

/// Finds certificates by their keys; without a way to do so it finds none.
#[derive(Default)]
pub(super) struct Finder(Option<Box<Find>>);

/// From a public key, as nkey text, to the text of a certificate.
type Find = dyn Fn(&str) -> Result<Option<String>, BoxError> + Send + Sync;

/// Why nobody could look.
pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl Finder {
    pub(super) fn new<E: Into<BoxError>>(
        find: impl Fn(&str) -> Result<Option<String>, E> + Send + Sync + 'static,
    ) -> Self {
        Self(Some(Box::new(move |signer| find(signer).map_err(Into::into))))
    }

    pub(super) fn find(&self, signer: &str) -> Result<Option<String>, BoxError> {
        self.0.as_ref().map_or(Ok(None), |find| find(signer))
    }
}

impl std::fmt::Debug for Finder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Finder").field(&self.0.is_some()).finish()
    }
}
