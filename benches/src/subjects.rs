//! Subject matching beside quill-pubsub, the best public matcher, on the same patterns.

use std::{collections::HashMap, hint::black_box};

use anyhow::{Context, Result, anyhow};
use bus_subjects::{Filter, Subject, SubjectCache, SubjectTable};
use quill::{Pattern, Registry, Topic};

use crate::{
    case::{Case, Figures, compare},
    raw_trie::Trie,
};

pub(crate) const CASES: &[Case] = &[
    Case { name: "subject-match-10", goal: Some(0.6), measure: || beside_quill(10) },
    Case { name: "subject-match-1000", goal: Some(0.6), measure: || beside_quill(1_000) },
    Case { name: "subject-match-100000", goal: Some(0.6), measure: || beside_quill(100_000) },
    Case { name: "R1-subject-match-10", goal: Some(1.2), measure: || beside_a_trie(10) },
    Case { name: "R1-subject-match-1000", goal: Some(1.2), measure: || beside_a_trie(1_000) },
    Case { name: "R1-subject-match-100000", goal: Some(1.2), measure: || beside_a_trie(100_000) },
    Case { name: "R2-subject-seen-before", goal: Some(3.0), measure: seen_before },
    Case { name: "subject-growth", goal: Some(6.0), measure: growth },
];

/// Both match subjects that were parsed before; neither remembers an answer.
fn beside_quill(filters: u64) -> Result<Figures> {
    let world = World::new(filters);
    let registry = Registry::new();
    for (number, filter) in (0_u64..).zip(&world.filters) {
        let pattern = filter.replace('.', "/").replace('*', "+").replace('>', "#");
        registry.subscribe(Pattern::parse(&pattern).map_err(|e| anyhow!("{e:?}"))?, number);
    }
    let topics = world.subjects.iter().map(|subject| {
        Topic::parse(&subject.replace('.', "/")).map_err(|error| anyhow!("{error:?}"))
    });
    let topics = topics.collect::<Result<Vec<_>>>()?;
    let (table, subjects) = (world.table()?, world.parsed()?);
    agree(&registry, &topics, &table, &subjects)?;
    let (mut raw, mut ours) = (topics.iter().cycle(), subjects.iter().cycle());
    compare(
        || {
            let topic = black_box(raw.next().context("no topic")?);
            let mut found = 0;
            for number in registry.matching(topic) {
                found ^= number;
            }
            Ok(found)
        },
        || found_by(&table, black_box(ours.next().context("no subject")?)),
    )
}

/// Both match subjects that were parsed before; neither remembers an answer.
fn beside_a_trie(filters: u64) -> Result<Figures> {
    let world = World::new(filters);
    let mut trie = Trie::default();
    for (number, filter) in (0_u64..).zip(&world.filters) {
        trie.insert(filter, number);
    }
    let (table, subjects) = (world.table()?, world.parsed()?);
    for subject in &subjects {
        let (mut theirs, mut ours) = (Vec::new(), Vec::new());
        trie.for_each_match(subject.as_str(), |number| theirs.push(number));
        table.for_each_match(subject, |number| ours.push(*number));
        theirs.sort_unstable();
        ours.sort_unstable();
        anyhow::ensure!(ours == theirs, "the matchers disagree about {subject}");
    }
    let (mut raw, mut own) = (subjects.iter().cycle(), subjects.iter().cycle());
    compare(
        || {
            let subject = black_box(raw.next().context("no subject")?);
            let mut found = 0;
            trie.for_each_match(subject.as_str(), |number| found ^= number);
            Ok(found)
        },
        || found_by(&table, black_box(own.next().context("no subject")?)),
    )
}

/// The answer for a subject that was asked before, beside one look-up in a map of texts.
fn seen_before() -> Result<Figures> {
    let world = World::new(1_000);
    let (table, subjects) = (world.table()?, world.parsed()?);
    let subjects = subjects.get(..SEEN).context("too few subjects")?;
    let hasher = ahash::RandomState::new();
    let mut map = HashMap::with_hasher(hasher);
    let mut cache = SubjectCache::new(SEEN * 8);
    let generation = table.generation();
    for subject in subjects {
        let found = found_by(&table, subject)?;
        map.insert(subject.as_str().to_owned(), found);
        cache.keep(subject, generation, found);
    }
    let subjects: Vec<_> = subjects.iter().filter(|s| cache.get(s, generation).is_some()).collect();
    anyhow::ensure!(subjects.len() > SEEN / 2, "most subjects share a slot");
    let (mut raw, mut ours) = (subjects.iter().cycle(), subjects.iter().cycle());
    compare(
        || {
            let subject = black_box(raw.next().context("no subject")?);
            Ok(*map.get(subject.as_str()).context("it was put there")?)
        },
        || {
            let subject = black_box(ours.next().context("no subject")?);
            Ok(*cache.get(subject, generation).context("it was kept")?)
        },
    )
}

/// What a hundred thousand filters cost over ten.
fn growth() -> Result<Figures> {
    let (few, many) = (World::new(10), World::new(100_000));
    let (few_table, few_subjects) = (few.table()?, few.parsed()?);
    let (many_table, many_subjects) = (many.table()?, many.parsed()?);
    let (mut raw, mut ours) = (few_subjects.iter().cycle(), many_subjects.iter().cycle());
    compare(
        || found_by(&few_table, black_box(raw.next().context("no subject")?)),
        || found_by(&many_table, black_box(ours.next().context("no subject")?)),
    )
}

fn found_by(table: &SubjectTable<u64>, subject: &Subject) -> Result<u64> {
    let mut found = 0;
    table.for_each_match(subject, |number| found ^= number);
    Ok(found)
}

/// Two matchers that answer differently cannot be compared.
fn agree(
    registry: &Registry<u64>,
    topics: &[Topic],
    table: &SubjectTable<u64>,
    subjects: &[Subject],
) -> Result<()> {
    for (topic, subject) in topics.iter().zip(subjects) {
        let mut theirs = registry.matching(topic);
        let mut ours: Vec<u64> = table.matches(subject).into_iter().copied().collect();
        theirs.sort_unstable();
        ours.sort_unstable();
        if ours != theirs {
            return Err(anyhow!("the matchers disagree about {subject}"));
        }
    }
    Ok(())
}

/// Filters of five levels, some with wildcards, and subjects that most often match one of them.
struct World {
    filters: Vec<String>,
    subjects: Vec<String>,
}

impl World {
    fn new(filters: u64) -> Self {
        let mut dice = Dice(SEED);
        // As many workspaces as keep each at about a hundred filters.
        let workspaces = filters.div_ceil(100);
        let names = |dice: &mut Dice| {
            let kind = dice.pick(&["events", "work", "receipts", "room", "state"]);
            let verb = dice.pick(&["tokens", "task", "completed", "message", "changed"]);
            (kind, dice.below(workspaces), dice.below(50), verb)
        };
        let mut seen = std::collections::BTreeSet::new();
        while (seen.len() as u64) < filters {
            let (kind, workspace, session, verb) = names(&mut dice);
            seen.insert(match dice.below(10) {
                0 => format!("vak.{kind}.workspace-{workspace}.*.{verb}"),
                1 => format!("vak.{kind}.workspace-{workspace}.>"),
                2 => format!("vak.*.workspace-{workspace}.session-{session}.{verb}"),
                3 => format!("vak.{kind}.workspace-{workspace}.session-{session}.*"),
                // Literal names are many: each session has a number of its own.
                _ => {
                    let part = dice.below(1_000);
                    format!("vak.{kind}.workspace-{workspace}.session-{session}-{part}.{verb}")
                }
            });
        }
        let filters: Vec<String> = seen.into_iter().collect();
        let subjects = (0..SUBJECTS)
            .map(|_| {
                let (kind, workspace, session, verb) = names(&mut dice);
                let filter = filters.get(dice.below(filters.len() as u64) as usize);
                match filter {
                    // Half of the subjects are there, the other half may match by a wildcard.
                    Some(filter) if dice.below(2) == 0 && !filter.contains(['*', '>']) => {
                        filter.clone()
                    }
                    _ => format!("vak.{kind}.workspace-{workspace}.session-{session}.{verb}"),
                }
            })
            .collect();
        Self { filters, subjects }
    }

    fn table(&self) -> Result<SubjectTable<u64>> {
        let mut table = SubjectTable::new();
        for (number, filter) in (0..).zip(&self.filters) {
            table.insert(Filter::parse(filter)?, number);
        }
        Ok(table)
    }

    fn parsed(&self) -> Result<Vec<Subject>> {
        Ok(self.subjects.iter().map(|text| Subject::parse(text)).collect::<Result<_, _>>()?)
    }
}

/// The same numbers in every run (`SplitMix64`).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % bound
    }

    fn pick(&mut self, words: &[&'static str]) -> &'static str {
        words.get(self.below(words.len() as u64) as usize).copied().unwrap_or_default()
    }
}

const SEED: u64 = 0x5eed_0001;
const SUBJECTS: usize = 4_096;
const SEEN: usize = 64;
