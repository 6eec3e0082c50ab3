//! Round trip and tampering, under the names of the specification.

use std::sync::Arc;

use crate::{CryptoError, Keyring, OpenKey, SealKey, SystemEntropy, WorkspaceSecret};

const AAD: &[u8] = b"0192f1c0:vak.work.task:ws1:7";
const PAYLOAD: &[u8] = b"{\"task\":\"review\"}";

struct Sealed {
    open: Arc<OpenKey>,
    nonce: [u8; 12],
    data: Vec<u8>,
}

fn keys() -> (Arc<SealKey>, Arc<OpenKey>) {
    let keyring = Keyring::new();
    let secret = WorkspaceSecret::from_text("a shared secret of more than 32 bytes").unwrap();
    keyring.add_secret("ws1", "k1", secret).unwrap();
    let seal = keyring.sealing_key("ws1", "life-1").unwrap();
    let open = keyring.opening_key(seal.key_id()).unwrap();
    (seal, open)
}

fn sealed() -> Sealed {
    let (seal, open) = keys();
    let mut data = PAYLOAD.to_vec();
    let nonce = seal.seal_in_place(&SystemEntropy::new(), AAD, &mut data).unwrap();
    Sealed { open, nonce, data }
}

#[test]
fn round_trip_encryption_decryption() {
    let mut sealed = sealed();
    assert_eq!(sealed.data.len(), PAYLOAD.len() + 16);
    assert_ne!(&sealed.data[..PAYLOAD.len()], PAYLOAD);

    sealed.open.open_in_place(&sealed.nonce, AAD, &mut sealed.data).unwrap();

    assert_eq!(sealed.data, PAYLOAD);
}

#[test]
fn tamper_detection_ciphertext() {
    let sealed = sealed();
    for at in 0..sealed.data.len() {
        let mut data = sealed.data.clone();
        data[at] ^= 1;
        let opened = sealed.open.open_in_place(&sealed.nonce, AAD, &mut data);
        assert_eq!(opened, Err(CryptoError::DecryptionFailed), "byte {at}");
        assert!(data.is_empty(), "byte {at} left data behind");
    }
}

#[test]
fn tamper_detection_metadata_aad() {
    let sealed = sealed();
    for at in 0..AAD.len() {
        let mut aad = AAD.to_vec();
        aad[at] ^= 1;
        let mut data = sealed.data.clone();
        let opened = sealed.open.open_in_place(&sealed.nonce, &aad, &mut data);
        assert_eq!(opened, Err(CryptoError::DecryptionFailed), "byte {at}");
        assert!(data.is_empty(), "byte {at} left data behind");
    }
}
