//! The table gives exactly the filters that match, whatever was removed or collides.

use proptest::prelude::*;

use super::levels::LEVELS_INLINE;
use super::{SubjectTable, TableKey};
use crate::{Filter, Subject};

#[test]
fn values_of_one_filter_come_in_the_order_of_insertion() {
    let mut table = SubjectTable::new();
    let first = table.insert(filter("a.*"), 1);
    table.insert(filter("a.*"), 2);
    table.insert(filter("a.*"), 3);
    assert_eq!(table.remove(first), Some(1));
    table.insert(filter("a.*"), 4);
    assert_eq!(table.matches(&subject("a.b")), [&2, &3, &4]);
}

#[test]
fn a_removed_key_never_finds_a_later_value() {
    let mut table = SubjectTable::new();
    let key = table.insert(filter("a"), 1);
    assert_eq!(table.remove(key), Some(1));
    table.insert(filter("b"), 2);
    assert_eq!(table.get(key), None);
    assert_eq!(table.remove(key), None);
    assert_eq!(table.len(), 1);
}

#[test]
fn the_generation_changes_with_every_change_and_only_then() {
    let mut table = SubjectTable::new();
    let empty = table.generation();
    let key = table.insert(filter("a"), 1);
    let one = table.generation();
    assert_eq!(table.matches(&subject("a")), [&1]);
    assert_eq!(table.generation(), one);
    table.remove(key);
    assert!(empty != one && one != table.generation() && empty != table.generation());
}

#[test]
fn a_table_that_was_emptied_keeps_no_nodes() {
    let mut table = SubjectTable::new();
    let at_first = table.tree.in_use();
    for _ in 0..3 {
        let texts = ["a", "a.*", "a.>", "*.b.*.d", "*.b.*", "*.*.*", ">", "a.b.c.*.>"];
        let keys: Vec<_> = texts.iter().map(|text| table.insert(filter(text), ())).collect();
        assert!(keys.into_iter().all(|key| table.remove(key).is_some()));
        assert!(table.is_empty());
        assert_eq!(table.tree.in_use(), at_first);
    }
}

#[test]
fn subjects_and_filters_of_many_levels_match_as_short_ones_do() {
    let deep = |levels: usize, last: &str| format!("{}{last}", "a.".repeat(levels - 1));
    for levels in [LEVELS_INLINE - 1, LEVELS_INLINE, LEVELS_INLINE + 1, 62, 63, 64, 65, 66, 130] {
        let mut table = SubjectTable::new();
        for last in ["a", "*", ">", "b"] {
            table.insert(filter(&deep(levels, last)), last);
        }
        table.insert(filter(&format!("*.{}", deep(levels - 1, "*"))), "*.*");
        table.insert(filter(&deep(levels - 1, ">")), ">>");
        let mut found = table.matches(&subject(&deep(levels, "a")));
        found.sort_unstable();
        assert_eq!(found, [&"*", &"*.*", &">", &">>", &"a"], "{levels} levels");
        assert_eq!(table.matches(&subject(&deep(levels + 1, "a"))), [&">>", &">"], "{levels}");
    }
}

#[test]
fn filters_that_do_not_match_are_not_even_looked_at() {
    let mut table = SubjectTable::new();
    for n in 0..100_000 {
        table.insert(filter(&format!("vak.events.w{}.s{n}.tokens", n % 100)), n);
        if n % 10 == 0 {
            table.insert(filter(&format!("vak.*.w{n}.s{n}.>")), n);
        }
    }
    table.insert(filter("vak.events.w7.*.tokens"), 7);
    let mut looked_at = 0;
    table.tree.visit("vak.events.w7.s100007.tokens", |_, _| looked_at += 1);
    assert_eq!(looked_at, 1);
}

proptest! {
    #[test]
    fn the_table_finds_exactly_the_filters_that_match(
        texts in prop::collection::vec(any_filter(), 0..24), asked in any_subject(),
    ) {
        let mut table = SubjectTable::new();
        for text in &texts {
            table.insert(filter(text), text.clone());
        }
        check(&table, &texts, &asked)?;
    }

    #[test]
    fn colliding_hashes_give_the_same_answers_through_every_change(
        mask in prop::sample::select(vec![0_u64, 1, 3, 7]),
        steps in prop::collection::vec((any_filter(), any::<Option<u8>>()), 0..40),
        asked in any_subject(),
    ) {
        let mut table = SubjectTable::with_collisions(mask);
        let mut held: Vec<(TableKey, String)> = Vec::new();
        for (text, remove) in steps {
            match remove {
                Some(at) if !held.is_empty() => {
                    let (key, text) = held.remove(usize::from(at) % held.len());
                    prop_assert_eq!(table.remove(key), Some(text));
                }
                _ => held.push((table.insert(filter(&text), text.clone()), text)),
            }
            let texts: Vec<_> = held.iter().map(|(_, text)| text.clone()).collect();
            check(&table, &texts, &asked)?;
        }
        for (key, text) in held {
            prop_assert_eq!(table.get(key), Some(&text));
            prop_assert_eq!(table.remove(key), Some(text));
        }
        prop_assert_eq!(table.tree.in_use(), (1, 0));
    }
}

fn check(table: &SubjectTable<String>, texts: &[String], asked: &str) -> Result<(), TestCaseError> {
    let asked = subject(asked);
    let mut found = Vec::new();
    table.for_each_match(&asked, |text| found.push(text.clone()));
    prop_assert_eq!(found.iter().collect::<Vec<_>>(), table.matches(&asked));
    let mut expected = texts.to_vec();
    expected.retain(|text| filter(text).matches(&asked));
    found.sort();
    expected.sort();
    prop_assert_eq!(found, expected);
    prop_assert_eq!(table.len(), texts.len());
    prop_assert_eq!(table.iter().count(), texts.len());
    Ok(())
}

fn any_filter() -> impl Strategy<Value = String> {
    "([ab*](\\.[ab*]){0,4}(\\.>)?|>|longer-than-eight\\.(x|\\*))"
}

fn any_subject() -> impl Strategy<Value = String> {
    "([abc](\\.[abc]){0,5}|longer-than-(eight|seven)\\.x)"
}

fn filter(text: &str) -> Filter {
    Filter::parse(text).unwrap()
}

fn subject(text: &str) -> Subject {
    Subject::parse(text).unwrap()
}

#[test]
fn levels_of_every_length_are_cut_at_their_dots() {
    for length in 1..40 {
        let text = format!("{0}.b.{0}", "-/".repeat(length).get(..length).unwrap());
        let mut table = SubjectTable::new();
        table.insert(Filter::parse("*.b.*").unwrap(), 1);
        table.insert(Filter::parse(&text).unwrap(), 2);
        let mut found: Vec<u8> =
            table.matches(&Subject::parse(&text).unwrap()).into_iter().copied().collect();
        found.sort_unstable();
        assert_eq!(found, [1, 2], "{text}");
    }
}
