//! The algebra of filters: matching, covering, overlapping, and the table of many.

use bus_subjects::{Filter, Subject, SubjectTable};

use crate::laws;

/// Lines that are filters are held against each other and against the lines that are subjects.
pub fn body(data: &[u8]) -> bool {
    let Some(lines) = laws::lines(data) else { return false };
    let filters: Vec<Filter> = lines.iter().filter_map(|line| Filter::parse(line).ok()).collect();
    let subjects: Vec<Subject> =
        lines.iter().filter_map(|line| Subject::parse(line).ok()).collect();
    for line in &lines {
        match Filter::parse(line) {
            Ok(filter) => assert_eq!(filter.as_str(), *line, "the filter is another text"),
            Err(error) => laws::error_is_brief(&error),
        }
    }
    for a in &filters {
        for b in &filters {
            two(a, b, &subjects);
        }
        for subject in &subjects {
            let as_filter = Filter::from(subject);
            assert_eq!(a.matches(subject), a.covers(&as_filter), "matching is covering one");
            assert_eq!(a.matches(subject), a.overlaps(&as_filter), "matching is overlapping one");
        }
    }
    table(&filters, &subjects);
    !filters.is_empty()
}

fn two(a: &Filter, b: &Filter, subjects: &[Subject]) {
    assert_eq!(a.overlaps(b), b.overlaps(a), "overlapping is not mutual: {a} {b}");
    assert!(!a.covers(b) || a.overlaps(b), "covers without overlapping: {a} {b}");
    assert_eq!(a.covers(b) && b.covers(a), a == b, "covering is no order: {a} {b}");
    if a.overlaps(b) {
        let witness = Subject::parse(&common(a.as_str(), b.as_str()));
        if let Ok(witness) = witness {
            assert!(a.matches(&witness) && b.matches(&witness), "{witness} not in {a} and {b}");
        }
    }
    for subject in subjects {
        let (in_a, in_b) = (a.matches(subject), b.matches(subject));
        assert!(!(in_a && in_b) || a.overlaps(b), "{subject} is in {a} and {b}: no overlap");
        assert!(!(a.covers(b) && in_b) || in_a, "{subject} is in {b} and not in {a}");
    }
}

/// A subject in both filters, level by level, where they overlap.
fn common(a: &str, b: &str) -> String {
    let (mut a, mut b) = (a.split('.'), b.split('.'));
    let mut levels = Vec::new();
    loop {
        // A tail takes in whatever the other still has.
        let (level, rest) = match (a.next(), b.next()) {
            (Some(">"), Some(level)) => (level, b),
            (Some(level), Some(">")) => (level, a),
            (Some("*"), Some(level)) | (Some(level), Some(_)) => {
                levels.push(level);
                continue;
            }
            _ => break,
        };
        levels.push(level);
        levels.extend(rest);
        break;
    }
    let concrete = |level: &&str| if matches!(*level, "*" | ">") { "x" } else { level }.to_owned();
    levels.iter().map(concrete).collect::<Vec<_>>().join(".")
}

/// The table gives what a look at every filter gives, also after some were taken out.
fn table(filters: &[Filter], subjects: &[Subject]) {
    let mut table = SubjectTable::new();
    let mut keys = Vec::new();
    for (number, filter) in filters.iter().enumerate() {
        keys.push((table.insert(filter.clone(), number), number));
    }
    let agrees = |table: &SubjectTable<usize>, kept: &dyn Fn(usize) -> bool| {
        for subject in subjects {
            let mut found: Vec<usize> = table.matches(subject).into_iter().copied().collect();
            found.sort_unstable();
            let looked = (0..filters.len()).filter(|n| kept(*n) && filters[*n].matches(subject));
            assert_eq!(found, looked.collect::<Vec<_>>(), "the table disagrees on {subject}");
        }
    };
    assert_eq!(table.len(), filters.len(), "the table lost a filter");
    agrees(&table, &|_| true);
    for (key, number) in keys {
        if number % 2 == 1 {
            assert_eq!(table.remove(key), Some(number), "the table forgot a key");
        }
    }
    agrees(&table, &|number| number % 2 == 0);
}
