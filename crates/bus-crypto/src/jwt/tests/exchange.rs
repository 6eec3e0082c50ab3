//! Rules of exports and imports: their bytes, what is refused, and that nothing is lost.

use std::time::Duration;

use data_encoding::BASE64URL_NOPAD;
use proptest::prelude::*;

use super::super::{
    AccountClaims, Answers, Export, ExportKind, Import, ImportKind, decode_account, encode_account,
};
use super::{HEADER, NOW, account, is_malformed, key, sign};
use crate::{CryptoError, NkeyKind, PublicKey};

fn other() -> PublicKey {
    *key(NkeyKind::Account, 7).public()
}

fn claims() -> AccountClaims {
    AccountClaims::new("w", *account().public(), *account().public(), NOW)
}

fn exporting(exports: Vec<Export>) -> AccountClaims {
    AccountClaims { exports, ..claims() }
}

fn importing(import: Import) -> AccountClaims {
    AccountClaims { imports: vec![import], ..claims() }
}

fn payload_of(token: &str) -> String {
    let body = token.split('.').nth(1).unwrap();
    String::from_utf8(BASE64URL_NOPAD.decode(body.as_bytes()).unwrap()).unwrap()
}

fn read_again(claims: &AccountClaims) -> AccountClaims {
    let mut read = decode_account(&encode_account(claims, &account()).unwrap()).unwrap();
    read.jti = String::new();
    read
}

/// A token whose account has these members beside what every account has.
fn token_with(members: &str) -> String {
    let nats = format!(r#"{{{members},"type":"account","version":2}}"#);
    let key = account().public().text();
    sign(HEADER, &format!(r#"{{"iat":1,"iss":"{key}","sub":"{key}","nats":{nats}}}"#), true)
}

#[test]
fn exports_are_written_as_nats_writes_them() {
    let mut of_accounts = Export::stream("", "events.*.>");
    of_accounts.account_level = Some(2);
    of_accounts.requires_activation = true;
    of_accounts.revocations = [("*".to_owned(), 5)].into();
    of_accounts.is_advertised = true;
    of_accounts.description = Some("what happens".to_owned());
    of_accounts.info_url = Some("https://x".to_owned());
    let mut traced = Export::service("batch", "$JS.API.DIRECT.GET.*", Answers::Stream)
        .forgotten_after(Duration::from_secs(180));
    traced.allows_trace = true;
    let one = Export::service("one", "$JS.ACK.>", Answers::One);
    let parts = Export::service("parts", "parts", Answers::Chunked);
    let token = encode_account(&exporting(vec![one, traced, parts, of_accounts]), &account());
    let text = payload_of(&token.unwrap());
    let wanted = concat!(
        r#""nats":{"exports":[{"name":"one","subject":"$JS.ACK.\u003e","type":"service","#,
        r#""response_type":"Singleton"},"#,
        r#"{"name":"batch","subject":"$JS.API.DIRECT.GET.*","type":"service","#,
        r#""response_type":"Stream","response_threshold":180000000000,"allow_trace":true},"#,
        r#"{"name":"parts","subject":"parts","type":"service","response_type":"Chunked"},"#,
        r#"{"subject":"events.*.\u003e","type":"stream","token_req":true,"#,
        r#""revocations":{"*":5},"account_token_position":2,"advertise":true,"#,
        r#""description":"what happens","info_url":"https://x"}],"limits":{"#,
    );
    assert!(text.contains(wanted), "{text}");
}

#[test]
fn imports_are_written_as_nats_writes_them() {
    let mut claims = claims();
    let info = Import::service("info", "$JS.API.CONSUMER.INFO.*.*", other());
    let mut told = Import::service("told", "told", other());
    told.shares_who_asks = true;
    let mut heard = Import::stream("", "events.>", other());
    heard.activation = Some("a.b.c".to_owned());
    heard.allows_trace = true;
    claims.imports = vec![info.known_as("vakj.CONSUMER.INFO.$1.$2"), told, heard];
    let text = payload_of(&encode_account(&claims, &account()).unwrap());
    let wanted = [
        r#""nats":{"imports":[{"name":"info","subject":"$JS.API.CONSUMER.INFO.*.*","account":"K","#,
        r#""local_subject":"vakj.CONSUMER.INFO.$1.$2","type":"service"},"#,
        r#"{"name":"told","subject":"told","account":"K","type":"service","share":true},"#,
        r#"{"subject":"events.\u003e","account":"K","token":"a.b.c","type":"stream","#,
        r#""allow_trace":true}],"limits":{"#,
    ];
    let wanted = wanted.concat().replace("\"K\"", &format!("\"{}\"", other().text()));
    assert!(text.contains(&wanted), "{text}");
}

#[test]
fn a_service_that_says_nothing_answers_once() {
    let token = token_with(r#""exports":[{"subject":"a","type":"service"}]"#);
    let read = decode_account(&token).unwrap();
    let once = ExportKind::Service { answers: Answers::One, threshold: None };
    assert_eq!(read.exports.first().unwrap().kind, once);
}

#[test]
fn what_an_export_or_import_does_not_show_is_kept() {
    let exports = r#""exports":[{"subject":"a","type":"service","response_type":"Singleton","service_latency":{"sampling":50,"results":"r"}}]"#;
    let imports = format!(
        r#""imports":[{{"subject":"a.*","account":"{}","to":"b","type":"service"}}]"#,
        other().text()
    );
    for members in [exports, imports.as_str()] {
        let read = decode_account(&token_with(members)).unwrap();
        let again = payload_of(&encode_account(&read, &account()).unwrap());
        assert!(again.contains(members), "{again}");
    }
}

#[test]
fn exports_and_imports_that_a_server_would_read_otherwise_are_refused() {
    let from = other().text();
    let user = key(NkeyKind::User, 2).public().text();
    let cases = [
        r#""exports":[{"subject":"a"}]"#.to_owned(),
        r#""exports":[{"type":"service"}]"#.to_owned(),
        r#""exports":[{"subject":"a","type":"queue"}]"#.to_owned(),
        r#""exports":[{"subject":"a","type":"service","response_type":"singleton"}]"#.to_owned(),
        r#""exports":[{"subject":"a","type":"service","response_threshold":-1}]"#.to_owned(),
        r#""exports":[{"subject":"a","type":"service","response_threshold":1.5}]"#.to_owned(),
        r#""exports":[{"subject":"a","type":"stream","response_type":"Stream"}]"#.to_owned(),
        r#""exports":[{"subject":"a","type":"stream","response_threshold":1}]"#.to_owned(),
        r#""exports":[{"subject":"a","type":"stream","service_latency":{}}]"#.to_owned(),
        r#""exports":[{"subject":"a","type":"stream","allow_trace":true}]"#.to_owned(),
        r#""exports":[{"subject":"a","type":"stream","limit":1}]"#.to_owned(),
        r#""exports":[{"subject":"a","type":"stream","token_req":true,"token_req":false}]"#
            .to_owned(),
        r#""exports":[null]"#.to_owned(),
        format!(r#""imports":[{{"subject":"a","account":"{user}","type":"service"}}]"#),
        r#""imports":[{"subject":"a","type":"service"}]"#.to_owned(),
        format!(r#""imports":[{{"subject":"a","account":"{from}"}}]"#),
        format!(r#""imports":[{{"subject":"a","account":"{from}","type":"stream","x":1}}]"#),
        format!(
            r#""imports":[{{"subject":"a","account":"{from}","type":"service","to":"b","local_subject":"c"}}]"#
        ),
    ];
    for members in cases {
        assert!(is_malformed(decode_account(&token_with(&members))), "{members}");
    }
}

#[test]
fn an_exports_subject_is_a_subject() {
    for bad in ["", ".", "a.", ".a", "a..b", "a.>.b", "a b", "a\tb", ">.a"] {
        let claims = exporting(vec![Export::stream("x", bad)]);
        assert!(is_malformed(encode_account(&claims, &account())), "{bad:?}");
        let import = importing(Import::stream("x", bad, other()));
        assert!(is_malformed(encode_account(&import, &account())), "{bad:?}");
    }
}

#[test]
fn no_export_is_a_part_of_another_of_its_kind() {
    let inside = Err(CryptoError::BadJwt("of two subjects one is a part of the other"));
    for (outer, inner) in [("a.>", "a.b.>"), ("a.*", "a.b"), ("a.>", "a.*"), ("a", "a")] {
        let pair = vec![Export::stream("o", outer), Export::stream("i", inner)];
        assert_eq!(encode_account(&exporting(pair), &account()), inside, "{outer} {inner}");
    }
    let apart = vec![
        Export::service("batches", "$JS.API.DIRECT.GET.*", Answers::Stream),
        Export::service("gets", "$JS.API.DIRECT.GET.*.>", Answers::One),
        Export::stream("same subject, other kind", "$JS.API.DIRECT.GET.*"),
    ];
    assert!(encode_account(&exporting(apart), &account()).is_ok());
}

#[test]
fn no_service_of_an_account_is_imported_into_another_one_of_it() {
    let import = |subject: &str, local: &str, from| {
        Import::service("x", subject, from).known_as(local.to_owned())
    };
    let encode = |imports| {
        let claims = AccountClaims { imports, ..claims() };
        encode_account(&claims, &account()).is_ok()
    };
    let third = *key(NkeyKind::Account, 8).public();
    assert!(!encode(vec![import("a", "c", other()), import("b", "c", other())]));
    assert!(!encode(vec![import("a.*", "c.$1", other()), import("b.>", "c.>", other())]));
    assert!(!encode(vec![import("a.*", "c.$1", other()), import("b.*", "c.$1", other())]));
    assert!(encode(vec![import("a", "c", other()), import("b", "d", other())]));
    assert!(encode(vec![import("a", "c", other()), import("b", "c", third)]));
}

#[test]
fn an_accounts_level_is_a_star_of_the_subject() {
    for (subject, level, is_good) in
        [("a.*.>", 2, true), ("a.*.>", 1, false), ("a.*.>", 3, false), ("a.*", 9, false)]
    {
        let mut export = Export::stream("x", subject);
        export.account_level = Some(level);
        let written = encode_account(&exporting(vec![export]), &account());
        assert_eq!(written.is_ok(), is_good, "{subject} {level}");
    }
}

#[test]
fn an_imports_name_uses_every_wildcard_once() {
    let good = [("a.*.*", "b.$2.$1"), ("a.*.>", "b.$1.>"), ("$JS.*", "$X.$1"), ("a.*", "c.*")];
    let bad = [
        ("a.*.*", "b.$1"),
        ("a.*", "b.$1.$1"),
        ("a.*", "b.$2"),
        ("a.*", "b"),
        ("a", "b.$1"),
        ("a.>", "b"),
        ("a", "b.>"),
        ("a.*.*", "b.$1.*"),
        ("a.*", "b..$1"),
    ];
    for (pairs, is_good) in [(&good[..], true), (&bad[..], false)] {
        for (subject, local) in pairs {
            let import = Import::service("x", *subject, other()).known_as(*local);
            let written = encode_account(&importing(import), &account());
            assert_eq!(written.is_ok(), is_good, "{subject} as {local}");
        }
    }
}

#[test]
fn an_import_is_from_an_account_and_says_nothing_of_the_other_kind() {
    let mut told = Import::stream("x", "a", other());
    told.shares_who_asks = true;
    let mut traced = Import::service("x", "a", other());
    traced.allows_trace = true;
    let from_user = Import::service("x", "a", *key(NkeyKind::User, 2).public());
    for bad in [told, traced, from_user] {
        assert!(is_malformed(encode_account(&importing(bad.clone()), &account())), "{bad:?}");
    }
}

fn some_export() -> impl Strategy<Value = Export> {
    let kind = prop_oneof![
        Just(ExportKind::Stream),
        (0..3_usize, proptest::option::of(1_u64..u64::MAX >> 1)).prop_map(|(answers, ns)| {
            let answers = [Answers::One, Answers::Stream, Answers::Chunked][answers];
            ExportKind::Service { answers, threshold: ns.map(Duration::from_nanos) }
        }),
    ];
    let flags = any::<[bool; 3]>();
    let texts = ("[ -~é<>&]{0,8}", "[a-z$]{1,4}(\\.[a-z*]{1,2}){0,3}", "[ -~]{0,9}");
    (kind, flags, texts, "[A-Z2-7*]{1,5}", any::<i64>()).prop_map(
        |(kind, [activation, shown, traced], (name, subject, words), key, time)| {
            let mut export = Export::stream(name, subject);
            export.kind = kind;
            export.requires_activation = activation;
            export.is_advertised = shown;
            export.allows_trace = traced && kind != ExportKind::Stream;
            export.revocations = [(key, time)].into();
            export.description = (!words.is_empty()).then_some(words);
            export
        },
    )
}

proptest! {
    #[test]
    fn an_export_reads_back_as_written(export in some_export()) {
        let claims = exporting(vec![export]);
        prop_assert_eq!(read_again(&claims), claims);
    }

    #[test]
    fn an_import_reads_back_as_written(
        (name, levels) in ("[ -~é<>&]{0,8}", proptest::collection::vec("[a-z]{1,3}|\\*", 1..6)),
        is_service in any::<bool>(),
        (flag, is_renamed) in any::<(bool, bool)>(),
    ) {
        let mut import = Import::service(name, levels.join("."), other());
        import.kind = if is_service { ImportKind::Service } else { ImportKind::Stream };
        import.shares_who_asks = flag && is_service;
        import.allows_trace = flag && !is_service;
        if is_renamed {
            let stars = levels.iter().filter(|level| *level == "*").count();
            let names = (1..=stars).rev().map(|star| format!(".${star}"));
            import.local_subject = Some(format!("here{}", names.collect::<String>()));
        }
        let claims = importing(import);
        prop_assert_eq!(read_again(&claims), claims);
    }
}
