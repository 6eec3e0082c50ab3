//! The server's side of the handshake: a challenge, a signed answer, and who that is.

use bus_core::{Certificate, Door, Durability, Entrant, Error, ErrorKind, Proof, Result};
use bus_subjects::AclPolicy;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};

use crate::{
    Admission,
    wire::{
        Challenge, Fault, HELLO_BYTES_MAX, Packet, Response, SERVER_ID_BYTES, Versions, Welcome,
        Welcomed, read_message,
    },
};

/// Who was let in.
pub(super) struct Admitted {
    pub(super) certificate: Certificate,
    pub(super) policy: AclPolicy,
}

/// What a server says of itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Host {
    pub(super) server: [u8; SERVER_ID_BYTES],
    pub(super) durability: Durability,
    pub(super) calls_max: u32,
}

/// Finds out who is at the other end of `stream`, and tells it what became of it.
///
/// # Errors
/// `Denied`, `Unsupported` (another version), `Corrupt`, `Unavailable` (it went away).
pub(super) async fn admit(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    admission: &Admission,
    host: Host,
) -> Result<Admitted> {
    let mut nonce = [0; 32];
    admission.randomness().fill(&mut nonce).map_err(Error::from)?;
    let challenge = Challenge { versions: Versions::OURS, server: host.server, nonce };
    send(stream, &framed(&challenge.encode())).await?;
    let Some(answer) = read_message(stream, HELLO_BYTES_MAX).await? else {
        return Err(Error::new(ErrorKind::Unavailable, "connect", "the client went away"));
    };
    let judged = judge(&challenge, &answer, admission);
    let (welcome, outcome) = match judged {
        Ok((version, admitted)) => {
            let policy = admitted.policy.clone();
            let welcomed = Welcomed::new(version, host.durability, host.calls_max, policy);
            (Welcome::In(welcomed), Ok(admitted))
        }
        Err(error) => (Welcome::Refused(Fault::from(&error)), Err(error)),
    };
    send(stream, Packet::new(&welcome)?.as_bytes()).await?;
    outcome
}

/// Who signed `answer`, if he may come in.
fn judge(challenge: &Challenge, answer: &[u8], admission: &Admission) -> Result<(u16, Admitted)> {
    let versions = Response::versions(answer)?;
    let version = challenge.versions.common(versions, "connect")?;
    let Response { versions, signature, token } = Response::decode(answer)?;
    let signed = challenge.to_sign(versions);
    let proof = Proof::Certificate { token: &token, signed: &signed, signature: &signature };
    let admitted = admission.admit(&proof, Door::Link, admission.clock().now())?;
    match admitted.entrant {
        Entrant::Member(certificate) => {
            Ok((version, Admitted { certificate, policy: admitted.policy }))
        }
        // A delivery belongs to a key, and a bearer has none.
        Entrant::Bearer(_) => {
            Err(Error::new(ErrorKind::Denied, "connect", "this socket takes no tickets"))
        }
    }
}

/// Tells a client why it is not let in, whoever it is.
///
/// # Errors
/// `Unavailable`: it went away.
pub(super) async fn turn_away(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    host: Host,
    why: &Error,
) -> Result<()> {
    // Nothing that is signed is believed here, so nothing about the challenge need be secret.
    let challenge = Challenge { versions: Versions::OURS, server: host.server, nonce: [0; 32] };
    send(stream, &framed(&challenge.encode())).await?;
    let _whoever = read_message(stream, HELLO_BYTES_MAX).await?;
    send(stream, Packet::new(&Welcome::Refused(Fault::from(why)))?.as_bytes()).await
}

fn framed(bytes: &[u8]) -> Vec<u8> {
    // A challenge has less than a hundred bytes.
    let mut out = (bytes.len() as u32).to_le_bytes().to_vec();
    out.extend_from_slice(bytes);
    out
}

async fn send(stream: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> Result<()> {
    let sending = async {
        stream.write_all(bytes).await?;
        stream.flush().await
    };
    let failed = |why| {
        Error::new(ErrorKind::Unavailable, "connect", "the other side went away").because(why)
    };
    sending.await.map_err(failed)
}
