//! What two filters have in common, as a filter.

use bus_subjects::Filter;

/// The subjects that both match, as one pattern; `None` when there are none.
pub(crate) fn intersect(one: &Filter, other: &Filter) -> Option<String> {
    let (mut left, mut right) = (one.as_str().split('.'), other.as_str().split('.'));
    let mut levels = Vec::new();
    loop {
        match (left.next(), right.next()) {
            (None, None) => return Some(levels.join(".")),
            // What is left of the other one, which has at least this level.
            (Some(">"), Some(level)) => {
                levels.push(level);
                levels.extend(right);
                return Some(levels.join("."));
            }
            (Some(level), Some(">")) => {
                levels.push(level);
                levels.extend(left);
                return Some(levels.join("."));
            }
            (Some("*"), Some(level)) | (Some(level), Some("*")) => levels.push(level),
            (Some(level), Some(same)) if level == same => levels.push(level),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use bus_subjects::Subject;
    use proptest::prelude::*;

    use super::*;

    fn filter(text: &str) -> Filter {
        Filter::parse(text).unwrap()
    }

    #[test]
    fn the_common_part_of_two_filters_is_the_narrower_one_level_by_level() {
        for (one, other, common) in [
            ("a.b", "a.b", Some("a.b")),
            ("a.*", "a.b", Some("a.b")),
            ("a.*.c", "*.b.*", Some("a.b.c")),
            ("a.>", "a.b.*", Some("a.b.*")),
            (">", "a.>", Some("a.>")),
            ("a.>", "a", None),
            ("a.b", "a.c", None),
            ("a.b", "a.b.c", None),
        ] {
            assert_eq!(intersect(&filter(one), &filter(other)).as_deref(), common, "{one} {other}");
            assert_eq!(intersect(&filter(other), &filter(one)).as_deref(), common, "{other} {one}");
        }
    }

    proptest! {
        #[test]
        fn the_common_part_matches_what_both_match_and_nothing_else(
            one in "(a|b|\\*)(\\.(a|b|\\*)){0,2}(\\.>)?",
            other in "(a|b|\\*)(\\.(a|b|\\*)){0,2}(\\.>)?",
            subject in "(a|b)(\\.(a|b)){0,3}",
        ) {
            let (one, other) = (filter(&one), filter(&other));
            let subject = Subject::parse(&subject).unwrap();
            let common = intersect(&one, &other).map(|text| filter(&text));
            let both = one.matches(&subject) && other.matches(&subject);
            prop_assert_eq!(common.is_some_and(|common| common.matches(&subject)), both);
        }
    }
}
