//! Publishing and receiving without I/O, beside the cryptography that nobody can leave out.

use std::hint::black_box;

use anyhow::{Context, Result, anyhow, ensure};
use bus_crypto::{Entropy, FreshNonce, SystemEntropy};
use bus_envelope::{Draft, EventHash, MessageEnvelope, WireForm, wire};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::case::{Case, Figures, compare};
use crate::event::Sender;

pub(crate) const CASES: &[Case] = &[
    Case { name: "publish-256", goal: None, measure: || publish(256) },
    Case { name: "publish-1k", goal: Some(1.4), measure: || publish(1024) },
    Case { name: "publish-64k", goal: None, measure: || publish(65_536) },
    Case { name: "publish-stamped-1k", goal: None, measure: || publish_stamped(1024) },
    Case { name: "receive-256", goal: None, measure: || receive(256) },
    Case { name: "receive-1k", goal: Some(1.4), measure: || receive(1024) },
    Case { name: "receive-64k", goal: None, measure: || receive(65_536) },
    Case { name: "nonce", goal: None, measure: nonce },
];

/// Seal, hash, encode beside: a random nonce, AES-256-GCM, SHA-256 of payload and header.
///
/// Ours is all between a stamped envelope and the bytes to send: the nonce, the additional data and
/// its hash, the seal, the payload hash, the leaf, the compact form in a kept buffer.
fn publish(bytes: usize) -> Result<Figures> {
    let sender = Sender::new()?;
    let draft = sender.draft(bytes)?;
    let envelope = sender.stamp(&draft, &[7; 18])?;
    let mut buffer = Vec::with_capacity(bytes + 2048);
    let entropy = SystemEntropy::new();
    compare(raw_publish(&draft)?, || {
        buffer.clear();
        let nonce = FreshNonce::draw(&entropy, &mut [])?;
        sender.seal_into(black_box(&envelope), nonce, &mut buffer)
    })
}

/// The same from the draft to the binary form: with id, time, span and a copy of every text.
fn publish_stamped(bytes: usize) -> Result<Figures> {
    let sender = Sender::new()?;
    let draft = sender.draft(bytes)?;
    let entropy = SystemEntropy::new();
    compare(raw_publish(&draft)?, || {
        let mut random = [0; 18];
        let nonce = FreshNonce::draw(&entropy, &mut random)?;
        let mut envelope = sender.stamp(black_box(&draft), &random)?;
        sender.seal(&mut envelope, nonce)?;
        let leaf = envelope.compute_hash();
        let (headers, body) = wire::encode(WireForm::Binary, &envelope);
        Ok((leaf, headers, body))
    })
}

fn raw_publish(draft: &Draft) -> Result<impl FnMut() -> Result<[[u8; 32]; 2]>> {
    let raw = Raw::new()?;
    let plain = draft.payload.clone();
    let mut buffer = Vec::with_capacity(plain.len() + 16);
    Ok(move || {
        buffer.clear();
        buffer.extend_from_slice(black_box(&plain));
        raw.seal(&mut buffer)?;
        Ok([Sha256::digest(&buffer).into(), raw.header_hash()])
    })
}

/// Open and verify the link beside: AES-256-GCM, SHA-256 of payload and header, one comparison.
///
/// Ours is what a receiver does with an envelope that it decoded: the payload hash, the leaf, the
/// link compared in constant time, the key's look-up, the additional data and its hash, the
/// opening.
fn receive(bytes: usize) -> Result<Figures> {
    let sender = Sender::new()?;
    let envelope = sender.sealed(bytes)?;
    let raw = Raw::new()?;
    let mut sealed = sender.draft(bytes)?.payload.to_vec();
    let nonce = raw.seal(&mut sealed)?;
    let expected = raw.header_hash();
    let mut raw_buffer = Vec::with_capacity(bytes + 16);
    let (mut buffer, mut aad) = (Vec::with_capacity(bytes + 16), Vec::new());
    compare(
        || {
            raw_buffer.clear();
            raw_buffer.extend_from_slice(black_box(&sealed));
            let payload_hash = Sha256::digest(&raw_buffer);
            raw.open(nonce, &mut raw_buffer)?;
            let is_same: bool = raw.header_hash().ct_eq(&expected).into();
            ensure!(is_same, "the raw link is wrong");
            Ok(payload_hash)
        },
        || {
            aad.clear();
            buffer.clear();
            open(&sender, black_box(&envelope), &mut aad, &mut buffer)
        },
    )
}

fn open(
    sender: &Sender,
    envelope: &MessageEnvelope,
    aad: &mut Vec<u8>,
    data: &mut Vec<u8>,
) -> Result<EventHash> {
    let leaf = envelope.leaf_and_aad(aad);
    ensure!(sender.head.is_followed_by(envelope), "the link is wrong");
    let seal = envelope.seal.as_ref().context("sealed")?;
    let key = sender.keyring.opening_key(&seal.key_id)?;
    data.extend_from_slice(&envelope.payload);
    key.open_in_place(&seal.nonce, aad, data)?;
    Ok(leaf)
}

/// The randomness of one seal beside one draw from the system.
fn nonce() -> Result<Figures> {
    let entropy: &dyn Entropy = black_box(&SystemEntropy);
    compare(
        || {
            let mut nonce = [0_u8; 12];
            SystemRandom::new().fill(&mut nonce).map_err(|_| anyhow!("no randomness"))?;
            Ok(nonce)
        },
        || {
            let mut nonce = [0_u8; 12];
            entropy.fill(&mut nonce)?;
            Ok(nonce)
        },
    )
}

/// The libraries as they are, with as much additional data and header as a small envelope has.
struct Raw {
    key: LessSafeKey,
    aad: [u8; 72],
    header: [u8; 350],
    random: SystemRandom,
}

impl Raw {
    fn new() -> Result<Self> {
        let key = UnboundKey::new(&AES_256_GCM, &[7; 32]).map_err(|_| anyhow!("no key"))?;
        let (aad, header) = ([b'a'; 72], [b'h'; 350]);
        Ok(Self { key: LessSafeKey::new(key), aad, header, random: SystemRandom::new() })
    }

    fn seal(&self, data: &mut Vec<u8>) -> Result<[u8; 12]> {
        let mut nonce = [0; 12];
        self.random.fill(&mut nonce).map_err(|_| anyhow!("no randomness"))?;
        let once = Nonce::assume_unique_for_key(nonce);
        self.key
            .seal_in_place_append_tag(once, Aad::from(&self.aad), data)
            .map_err(|_| anyhow!("not sealed"))?;
        Ok(nonce)
    }

    fn open(&self, nonce: [u8; 12], data: &mut [u8]) -> Result<usize> {
        let nonce = Nonce::assume_unique_for_key(nonce);
        let plain = self
            .key
            .open_in_place(nonce, Aad::from(&self.aad), data)
            .map_err(|_| anyhow!("not opened"))?;
        Ok(plain.len())
    }

    fn header_hash(&self) -> [u8; 32] {
        Sha256::digest(black_box(&self.header)).into()
    }
}
