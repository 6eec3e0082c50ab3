//! The checkpoint text: known answers, one text for one content, and every breach refused.

use bus_crypto::{NkeyKind, SystemEntropy};
use data_encoding::HEXLOWER;

use super::*;

fn key() -> SigningKey {
    SigningKey::generate(NkeyKind::User, &SystemEntropy::new()).unwrap()
}

fn text() -> String {
    Checkpoint::sign("vakbus/w1/s1/tasks", 12, [9; 32], "boss", &key()).unwrap().text().to_owned()
}

fn refused(change: impl FnOnce(&str) -> String) -> bool {
    let honest = text();
    let changed = change(&honest);
    assert_ne!(changed, honest);
    matches!(Checkpoint::parse(&changed), Err(CheckpointError::Form(_)))
}

#[test]
fn the_key_id_is_that_of_the_go_implementation() {
    // The verifier key in the documentation of golang.org/x/mod/sumdb/note.
    let (name, id) = ("PeterNeumann", "c74f20a3");
    let key = BASE64.decode(b"ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW").unwrap();
    let key: [u8; 32] = key[1..].try_into().unwrap();
    assert_eq!(HEXLOWER.encode(&key_id_of(name, &key)), id);
}

#[test]
fn the_key_id_is_that_of_the_public_go_checksum_database() {
    let (name, id) = ("sum.golang.org", "033de0ae");
    let key = BASE64.decode(b"Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8").unwrap();
    let key: [u8; 32] = key[1..].try_into().unwrap();
    assert_eq!(HEXLOWER.encode(&key_id_of(name, &key)), id);
}

#[test]
fn the_example_of_the_specification_is_read() {
    let text = "example.com/behind-the-sofa\n20852163\n\
        CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\n\
        \u{2014} example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5\
        /Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n";
    let read = Checkpoint::parse(text).unwrap();
    assert_eq!((read.origin(), read.size()), ("example.com/behind-the-sofa", 20_852_163));
    assert_eq!(read.signatures()[0].key_id(), [0x03, 0x3d, 0xe0, 0xae]);
}

#[test]
fn what_is_signed_is_read_back_and_verified() {
    let key = key();
    let signed = Checkpoint::sign("vakbus/w1/s1/tasks", 0, [1; 32], "boss", &key).unwrap();
    let read = Checkpoint::parse(signed.text()).unwrap();
    assert_eq!(read, signed);
    assert_eq!(read.verify(key.public()), Ok(()));
}

#[test]
fn another_key_did_not_sign_it() {
    let read = Checkpoint::parse(&text()).unwrap();
    assert!(matches!(read.verify(key().public()), Err(CheckpointError::NotSigned { .. })));
}

#[test]
fn a_signature_over_another_size_is_bad() {
    let key = key();
    let signed = Checkpoint::sign("o", 12, [9; 32], "boss", &key).unwrap();
    let read = Checkpoint::parse(&signed.text().replace("\n12\n", "\n13\n")).unwrap();
    assert!(matches!(read.verify(key.public()), Err(CheckpointError::BadSignature { .. })));
}

#[test]
fn a_cosignature_of_another_kind_is_passed_over() {
    let key = key();
    let signed = Checkpoint::sign("o", 12, [9; 32], "boss", &key).unwrap();
    let cosigned = format!("{}{DASH}witness {}\n", signed.text(), BASE64.encode(&[5; 76]));
    assert_eq!(Checkpoint::parse(&cosigned).unwrap().verify(key.public()), Ok(()));
}

#[test]
fn the_same_key_under_another_name_has_another_id() {
    let key = key();
    assert_ne!(key_id("boss", key.public()), key_id("boss2", key.public()));
}

#[test]
fn a_leading_zero_of_the_size_is_refused() {
    assert!(refused(|text| text.replace("\n12\n", "\n012\n")));
    assert!(refused(|text| text.replace("\n12\n", "\n+12\n")));
}

#[test]
fn base64_that_is_not_canonical_is_refused() {
    assert!(refused(|text| text.replacen("=\n\n", "\n\n", 1)));
    assert!(refused(|text| text.replacen("k=\n\n", "l=\n\n", 1)));
}

#[test]
fn a_root_of_another_length_is_refused() {
    assert!(refused(|text| text.replacen("\n12\n", "\n12\nAAAA", 1)));
}

#[test]
fn an_extension_line_is_refused() {
    assert!(refused(|text| text.replacen("\n\n", "\nmore\n\n", 1)));
}

#[test]
fn a_line_after_the_signatures_is_refused() {
    assert!(refused(|text| format!("{text}more\n")));
    assert!(refused(|text| format!("{text}\n")));
}

#[test]
fn a_last_line_without_its_line_feed_is_refused() {
    assert!(refused(|text| text.trim_end().to_owned()));
}

#[test]
fn a_checkpoint_without_signatures_is_refused() {
    assert!(refused(|text| text.split_inclusive("\n\n").next().unwrap().to_owned()));
}

#[test]
fn a_hyphen_in_place_of_the_dash_is_refused() {
    assert!(refused(|text| text.replace('\u{2014}', "-")));
}

#[test]
fn more_signatures_than_allowed_are_refused() {
    let line = text().lines().last().unwrap().to_owned() + "\n";
    assert!(refused(|text| text.to_owned() + &line.repeat(Checkpoint::SIGNATURES_MAX)));
}

#[test]
fn a_name_or_origin_that_would_break_the_lines_is_not_signed() {
    for (origin, name) in [("", "boss"), ("a\nb", "boss"), ("o", "a b"), ("o", "a+b"), ("o", "")] {
        assert!(Checkpoint::sign(origin, 1, [0; 32], name, &key()).is_err(), "{origin:?} {name:?}");
    }
}
