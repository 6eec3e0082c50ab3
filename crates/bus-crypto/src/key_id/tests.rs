//! Rules of key ids.

use proptest::prelude::*;

use super::KeyId;

proptest! {
    #[test]
    fn what_is_put_together_parses_back_to_its_parts(
        workspace in "[A-Za-z0-9_~-]{1,64}",
        name in "[A-Za-z0-9_~-]{1,64}",
        incarnation in "[A-Za-z0-9_~-]{1,64}",
    ) {
        let built = KeyId::new(&workspace, &name, &incarnation).unwrap();
        let parsed = KeyId::parse(&built.to_string()).unwrap();
        prop_assert_eq!(&parsed, &built);
        prop_assert_eq!(parsed.workspace(), workspace);
        prop_assert_eq!(parsed.name(), name);
        prop_assert_eq!(parsed.incarnation(), incarnation);
    }

    #[test]
    fn whatever_parses_prints_the_same(text in "\\PC{0,40}") {
        if let Ok(key_id) = KeyId::parse(&text) {
            prop_assert_eq!(key_id.as_str(), text);
        }
    }
}

#[test]
fn a_prefix_covers_whole_parts_only() {
    let key_id = KeyId::parse("w.k1.life").unwrap();
    for prefix in ["w", "w.k1", "w.k1.life"] {
        assert!(key_id.is_under(prefix), "{prefix}");
    }
    for prefix in ["", "w.", "w.k", "w.k1.", "w.k1.lif", "k1", "w.k1.life.x"] {
        assert!(!key_id.is_under(prefix), "{prefix}");
    }
}
