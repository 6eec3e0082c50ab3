//! What somebody shows who wants to be let in, and where.

use std::fmt;

use bus_crypto::PublicKey;

/// How somebody proves who it is.
#[derive(Clone, Copy)]
pub enum Proof<'a> {
    /// A certificate, and that one has its key.
    Certificate {
        /// The certificate.
        token: &'a str,
        /// What the door gave to sign; drawn anew for each connection, and never empty.
        signed: &'a [u8],
        /// The signature of the certificate's key.
        signature: &'a [u8; 64],
    },
    /// A key whose certificate the door can find itself.
    Key {
        /// The key.
        nkey: &'a PublicKey,
        /// What the door gave to sign; drawn anew for each connection, and never empty.
        signed: &'a [u8],
        /// The signature of the key.
        signature: &'a [u8; 64],
    },
    /// The text of a ticket.
    Ticket(&'a str),
}

/// Where somebody wants to come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    /// The socket of this machine.
    Link,
    /// A server's port for its clients.
    Nats,
    /// A server's port for browsers: it takes tickets and views.
    WebSocket,
}

/// Neither a ticket, which is a secret, nor a signature is shown.
impl fmt::Debug for Proof<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Certificate { .. } => f.write_str("Certificate(..)"),
            Self::Key { nkey, .. } => write!(f, "Key({nkey})"),
            Self::Ticket(_) => f.write_str("Ticket(..)"),
        }
    }
}
