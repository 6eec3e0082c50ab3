//! The alphabet of a token, and the laws of the escape.

use proptest::prelude::*;

use crate::{SubjectError, Token};

#[test]
fn whatever_could_change_a_subject_is_refused_with_the_field_and_the_place() {
    let long = "x".repeat(300);
    let bad = [
        "w1.x",
        "*",
        ">",
        "a b",
        "a\tb",
        "a\r\nPUB vak.work.w1.coder.task 2\r\nhi\r\n",
        "a\0b",
        "$SYS",
        "é",
        "a/b",
        "a:b",
    ];
    for text in bad {
        let refused = Token::parse("workspace", text);
        let named = matches!(refused, Err(SubjectError::Character { field: "workspace", .. }));
        assert!(named, "{text:?} gave {refused:?}");
    }
    assert_eq!(Token::parse("agent", ""), Err(SubjectError::Empty { field: "agent" }));
    let too_long = SubjectError::TooLong { field: "agent", bytes: 300, bytes_max: 64 };
    assert_eq!(Token::parse("agent", &long), Err(too_long));
}

#[test]
fn an_escaped_name_longer_than_a_token_is_refused_with_its_length() {
    let too_long = SubjectError::TooLong { field: "person", bytes: 66, bytes_max: 64 };
    assert_eq!(Token::escape("person", &"é".repeat(11)), Err(too_long));
    assert_eq!(Token::escape("person", &"é".repeat(10)).unwrap().as_str().len(), 60);
}

#[test]
fn names_people_use_are_escaped_readably() {
    for (name, token) in [
        ("", "~"),
        ("anna", "anna"),
        ("src/lib.rs", "src~2flib~2ers"),
        ("a~b", "a~7eb"),
        ("Zoë", "Zo~c3~ab"),
        ("a b*>", "a~20b~2a~3e"),
    ] {
        assert_eq!(Token::escape("name", name).unwrap().as_str(), token);
    }
}

#[test]
fn a_token_that_no_name_gives_cannot_be_unescaped() {
    for text in ["~2", "a~", "~2F", "~61", "~5f", "~zz", "~ff", "~~", "~c3"] {
        let refused = Token::parse("name", text).unwrap().unescape("name");
        assert_eq!(refused, Err(SubjectError::Escape { field: "name" }), "{text}");
    }
}

proptest! {
    #[test]
    fn unescape_gives_back_the_name(name in "\\PC{0,21}|[ -~]{0,21}") {
        if let Ok(token) = Token::escape("name", &name) {
            prop_assert_eq!(token.unescape("name").unwrap(), name);
            prop_assert!(Token::parse("name", token.as_str()).is_ok());
        }
    }

    #[test]
    fn two_names_never_share_a_token(a in "[a~.2e ]{0,6}", b in "[a~.2e ]{0,6}") {
        let same = Token::escape("name", &a).unwrap() == Token::escape("name", &b).unwrap();
        prop_assert_eq!(same, a == b);
    }

    #[test]
    fn a_token_that_can_be_unescaped_is_the_escape_of_what_it_gives(text in "[a~27ef]{1,9}") {
        let token = Token::parse("name", &text).unwrap();
        if let Ok(name) = token.unescape("name") {
            prop_assert_eq!(Token::escape("name", &name).unwrap(), token);
        }
    }
}
