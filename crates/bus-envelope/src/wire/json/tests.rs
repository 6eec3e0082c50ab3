//! Laws of the JSON form: the quick way and the thorough way never disagree.

use proptest::prelude::*;
use serde::de::IgnoredAny;

use super::{decode, decode_thoroughly, encode, plain, quick};
use crate::samples::{any_envelope, full, plain as plain_event};

/// Texts that are JSON or nearly so.
fn any_nearly_json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        Just("false".to_owned()),
        "-?(0|[1-9][0-9]{0,5})(\\.[0-9]{0,3})?([eE][+-]?[0-9]{0,2})?",
        "\"[ -~äü]{0,24}\"",
        r#""(\\["\\/bfnrt]|\\u[0-9a-fA-F]{4}|[ !#-Z]){0,12}""#,
        "[-+.0-9eEtfn ]{0,4}",
    ];
    let nested = leaf.prop_recursive(6, 60, 6, |inner| {
        let blank = "[ \t\n\r]{0,2}";
        prop_oneof![
            (prop::collection::vec(inner.clone(), 0..5), blank).prop_map(|(items, blank)| format!(
                "[{blank}{}{blank}]",
                items.join(&format!("{blank},{blank}"))
            )),
            (prop::collection::vec(("[a-z\"\\\\]{0,9}", inner), 0..5), blank).prop_map(
                |(members, blank)| {
                    let members: Vec<String> = members
                        .iter()
                        .map(|(name, value)| format!("\"{name}\"{blank}:{blank}{value}"))
                        .collect();
                    format!("{{{blank}{}{blank}}}", members.join(&format!(",{blank}")))
                }
            ),
        ]
    });
    (nested, any::<prop::sample::Index>(), prop::option::of("[ -~\\x00-\\x1f]")).prop_map(
        |(mut text, at, extra)| {
            let at = at.index(text.len() + 1);
            if let Some(extra) = extra.filter(|_| text.is_char_boundary(at)) {
                text.insert_str(at, &extra);
            }
            text
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn what_the_quick_look_takes_for_json_serde_json_reads(text in any_nearly_json()) {
        if plain::is_value(&text) {
            prop_assert!(serde_json::from_str::<IgnoredAny>(&text).is_ok(), "{}", text);
        }
    }

    #[test]
    fn a_text_that_needs_no_escape_is_written_as_it_is(text in "[ -~\\x00-\\x20äü€]{0,24}") {
        let written = serde_json::to_string(&text).unwrap();
        prop_assert_eq!(plain::needs_no_escape(&text), written == format!("\"{text}\""));
    }

    #[test]
    fn both_ways_of_reading_agree(
        envelope in any_envelope(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        kind in 0..4,
    ) {
        let mut bytes = encode(&envelope);
        let at = at.index(bytes.len());
        match kind {
            0 => bytes[at] = byte,
            1 => bytes.insert(at, byte),
            2 => drop(bytes.remove(at)),
            _ => {}
        }
        if let Some(quick) = quick::decode(&bytes) {
            prop_assert_eq!(decode_thoroughly(&bytes), Ok(quick));
        }
    }
}

#[test]
fn the_quick_way_takes_common_envelopes() {
    for envelope in [plain_event(), full()] {
        assert_eq!(quick::decode(&encode(&envelope)), Some(envelope));
    }
}

#[test]
fn json_deeper_than_the_quick_look_goes_is_json_still() {
    let mut envelope = plain_event();
    envelope.payload = format!("{}{}", "[".repeat(100), "]".repeat(100)).into();
    let json = encode(&envelope);
    assert_eq!(quick::decode(&json), None);
    assert_eq!(decode(&json), Ok(envelope));
}
