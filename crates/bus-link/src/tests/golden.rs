//! The bytes of the socket against the golden vectors of the specification.

use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::wire::{Challenge, Message, Packet, Response, ToClient, ToServer, Versions, Welcome};

const VECTORS: &str = include_str!("../../../../docs/spec/vectors/links.json");

#[test]
fn the_socket_carries_what_the_specification_says() {
    let vectors: Value = serde_json::from_str(VECTORS).unwrap();
    let cases = vectors["cases"].as_array().unwrap();
    for case in cases {
        assert_eq!(json!(found(&case["in"])), case["out"], "{}", case["id"]);
    }
    assert_eq!(cases.len(), 71);
}

fn found(case: &Value) -> String {
    let out = match case["do"].as_str().unwrap() {
        "ToServer" => message::<ToServer>(case),
        "ToClient" => message::<ToClient>(case),
        "Welcome" => message::<Welcome>(case),
        "response" => {
            let signature = bytes(&case["signature"]).try_into().unwrap();
            let token = case["token"].as_str().unwrap().to_owned();
            let response = Response { versions: versions(&case["versions"]), signature, token };
            let out = response.encode();
            assert_eq!(Response::decode(&out).unwrap(), response);
            out
        }
        what => {
            let (server, nonce) = (bytes(&case["server"]), bytes(&case["nonce"]));
            let (server, nonce) = (server.try_into().unwrap(), nonce.try_into().unwrap());
            let challenge = Challenge { versions: versions(&case["versions"]), server, nonce };
            assert_eq!(Challenge::decode(&challenge.encode()).unwrap(), challenge);
            match what {
                "signed" => challenge.to_sign(versions(&case["client_versions"])),
                _ => challenge.encode(),
            }
        }
    };
    data_encoding::HEXLOWER.encode(&out)
}

/// A message with its length; what is written is read as the same.
fn message<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(case: &Value) -> Vec<u8> {
    let words: T = serde_json::from_value(case["words"].clone()).unwrap();
    let parts: Vec<_> = case["parts"].as_array().unwrap().iter().map(bytes).collect();
    let mut packet = Packet::new(&words).unwrap();
    for part in &parts {
        packet = packet.with(|out| out.extend_from_slice(part)).unwrap();
    }
    let out = packet.as_bytes().to_vec();
    let read = Message::<T>::decode(Bytes::copy_from_slice(&out).slice(4..)).unwrap();
    assert_eq!((read.words, read.parts), (words, parts.into_iter().map(Bytes::from).collect()));
    out
}

fn versions(pair: &Value) -> Versions {
    let (first, last) = serde_json::from_value(pair.clone()).unwrap();
    Versions { first, last }
}

fn bytes(hex: &Value) -> Vec<u8> {
    data_encoding::HEXLOWER.decode(hex.as_str().unwrap().as_bytes()).unwrap()
}
