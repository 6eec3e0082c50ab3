//! How a server reads the rights to subscribe, and what it takes that it reads no more into them.
//!
//! A rule that ends in `*` lets a client subscribe `>` in its place, and then everything below is
//! delivered. Only a denial of what lies below stops that: the subscription is still taken, but
//! hears what the rule says.

use bus_subjects::Filter;

/// The rules in order, without those that another one covers.
pub(super) fn minimal(mut rules: Vec<Filter>) -> Vec<Filter> {
    rules.sort_unstable();
    rules.dedup();
    let is_needed =
        |rule: &&Filter| !rules.iter().any(|other| other != *rule && other.covers(rule));
    rules.iter().filter(is_needed).cloned().collect()
}

/// Denies what lies below each rule that ends in `*`, unless other rules allow all of it.
///
/// # Errors
/// The rule, and one that allows a part of what lies below it: no denial fits between them.
pub(super) fn close_holes(
    allow: &[Filter],
    deny: &mut Vec<Filter>,
) -> Result<(), (Filter, Filter)> {
    for star in allow.iter().filter(|rule| rule.as_str().rsplit('.').next() == Some("*")) {
        let Ok(below) = Filter::parse(&format!("{star}.>")) else {
            // Longer than a subject may be: nothing can be published there.
            continue;
        };
        let covers = |rule: &Filter| rule.covers(&below);
        if deny.iter().any(covers) || allow.iter().any(covers) {
            continue;
        }
        if let Some(part) = allow.iter().find(|rule| rule.overlaps(&below)) {
            return Err((star.clone(), part.clone()));
        }
        deny.push(below);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn filters(texts: &[&str]) -> Vec<Filter> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn covered_rules_are_dropped_and_the_rest_is_sorted() {
        let rules = filters(&["b.*", "a.>", "a.b", "b.c", "b.*", "a.*.c"]);
        assert_eq!(minimal(rules), filters(&["a.>", "b.*"]));
    }

    #[test]
    fn what_lies_below_a_star_is_denied() {
        let mut deny = Vec::new();
        close_holes(&filters(&["a.*", "b.*.c", "c.>", "d"]), &mut deny).unwrap();
        assert_eq!(deny, filters(&["a.*.>"]));
    }

    #[test]
    fn what_is_denied_already_or_allowed_whole_is_not_denied_again() {
        let mut deny = filters(&["a.>"]);
        close_holes(&filters(&["a.*"]), &mut deny).unwrap();
        assert_eq!(deny, filters(&["a.>"]));
        let mut deny = Vec::new();
        close_holes(&filters(&["a.*", "a.*.>"]), &mut deny).unwrap();
        assert!(deny.is_empty());
    }

    #[test]
    fn a_star_above_a_part_that_is_allowed_cannot_be_said() {
        let refused = close_holes(&filters(&["a.*", "a.b.>"]), &mut Vec::new()).unwrap_err();
        assert_eq!(refused, ("a.*".parse().unwrap(), "a.b.>".parse().unwrap()));
        close_holes(&filters(&["a.*", "b.b.>"]), &mut Vec::new()).unwrap();
    }

    proptest! {
        #[test]
        fn minimal_rules_match_what_all_matched(
            rules in proptest::collection::vec("(a|b|\\*)(\\.(a|b|\\*)){0,2}(\\.>)?", 0..6),
            subject in "(a|b)(\\.(a|b)){0,3}",
        ) {
            let rules: Vec<Filter> = rules.iter().map(|rule| rule.parse().unwrap()).collect();
            let subject = subject.parse().unwrap();
            let matches = |rules: &[Filter]| rules.iter().any(|rule| rule.matches(&subject));
            prop_assert_eq!(matches(&minimal(rules.clone())), matches(&rules));
        }
    }
}
