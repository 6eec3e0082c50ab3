//! Where a roster looks for the certificate of a signer that nobody admitted yet.

/// Finds certificates by their keys; without a way to do so it finds none.
#[derive(Default)]
pub(super) struct Finder(Option<Box<Find>>);

/// From a public key, as nkey text, to the text of a certificate.
type Find = dyn Fn(&str) -> Option<String> + Send + Sync;

impl Finder {
    pub(super) fn new(find: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Some(Box::new(find)))
    }

    pub(super) fn find(&self, signer: &str) -> Option<String> {
        self.0.as_ref().and_then(|find| find(signer))
    }
}

impl std::fmt::Debug for Finder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Finder").field(&self.0.is_some()).finish()
    }
}
