//! Rules of secrets and their texts.

use super::WorkspaceSecret;
use crate::{CryptoError, SystemEntropy};

const RAW: &str = "0123456789abcdef0123456789abcdef";

fn raw() -> WorkspaceSecret {
    WorkspaceSecret::from_bytes(RAW.as_bytes().to_vec()).unwrap()
}

#[test]
fn the_three_encodings_name_the_same_secret() {
    let base64 = "base64:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
    let hex = "hex:3031323334353637383961626364656630313233343536373839616263646566";
    for text in [RAW, base64, hex, &hex.to_uppercase().replace("HEX:", "hex:")] {
        assert!(WorkspaceSecret::from_text(text).unwrap().is_same(&raw()), "{text}");
    }
}

#[test]
fn exactly_one_final_line_feed_is_dropped() {
    let once = WorkspaceSecret::from_text(&format!("{RAW}\n")).unwrap();
    let twice = WorkspaceSecret::from_text(&format!("{RAW}\n\n")).unwrap();
    assert!(once.is_same(&raw()));
    assert!(!twice.is_same(&raw()));
}

#[test]
fn a_secret_under_32_bytes_is_refused() {
    let short = &RAW[1..];
    let hex = format!("hex:{}", "00".repeat(31));
    for text in [short, &hex] {
        let refused = WorkspaceSecret::from_text(text).err();
        assert_eq!(refused, Some(CryptoError::SecretTooShort { bytes: 31, bytes_min: 32 }));
    }
}

#[test]
fn damaged_encodings_are_refused_and_not_taken_as_raw() {
    let texts = [
        "base64:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY",
        "base64:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n\n",
        "base64:!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!",
        "hex:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde",
        "hex:xx23456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    ];
    for text in texts {
        let refused = WorkspaceSecret::from_text(text).err();
        assert!(matches!(refused, Some(CryptoError::BadSecretText(_))), "{text}");
    }
}

#[test]
fn the_text_reads_back_as_the_same_secret() {
    let secret = WorkspaceSecret::generate(&SystemEntropy).unwrap();
    let text = secret.to_text();
    assert!(text.starts_with("base64:"));
    assert!(WorkspaceSecret::from_text(&text).unwrap().is_same(&secret));
}

#[test]
fn generated_secrets_differ() {
    let [first, second] = [0, 1].map(|_| WorkspaceSecret::generate(&SystemEntropy).unwrap());
    assert!(!first.is_same(&second));
}

#[test]
fn an_environment_value_is_read_like_text() {
    assert!(WorkspaceSecret::from_env_text(RAW).unwrap().is_same(&raw()));
}
