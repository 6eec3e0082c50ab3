//! The certificate and key of a door that others than this machine may come to.

use std::{fmt, sync::Arc};

use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    },
};

use crate::GatewayError;

/// What a door beyond the loopback shows its clients, and the names it is asked for by.
#[derive(Clone)]
pub struct Tls {
    acceptor: TlsAcceptor,
    names: Vec<String>,
}

impl Tls {
    /// Reads a chain of certificates and the key of its first, both as PEM. `names` are the hosts
    /// that clients may ask for, without the port.
    ///
    /// # Errors
    /// [`GatewayError::Tls`], which quotes nothing of the key.
    pub fn from_pem(chain: &[u8], key: &[u8], names: Vec<String>) -> Result<Self, GatewayError> {
        let bad = |why: &str| GatewayError::Tls { why: why.to_owned() };
        let chain = CertificateDer::pem_slice_iter(chain)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| bad("expected certificates in PEM"))?;
        if chain.is_empty() {
            return Err(bad("expected a certificate in PEM, and there is none"));
        }
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|_| bad("expected a private key in PEM (PKCS #8, SEC 1 or PKCS #1)"))?;
        if names.is_empty() {
            return Err(bad("expected a name that clients ask for"));
        }
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map(|config| config.with_no_client_auth())
            .and_then(|config| config.with_single_cert(chain, key))
            .map_err(|error| GatewayError::Tls { why: error.to_string() })?;
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), names })
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        self.acceptor.clone()
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("names", &self.names).finish_non_exhaustive()
    }
}
