//! A second reader of OpenMetrics text, written from its specification and from none of our code.

use std::collections::{BTreeMap, BTreeSet};

/// A page that holds together.
#[derive(Debug, Default)]
pub(crate) struct Page {
    /// The type of each family.
    pub(crate) families: BTreeMap<String, String>,
    /// Each sample by its name and its labels, as written.
    pub(crate) samples: BTreeMap<String, f64>,
    /// The help of each family.
    pub(crate) help: BTreeMap<String, String>,
}

/// A sample as it stands on its line.
struct Sample<'a> {
    name: &'a str,
    labels: Vec<(String, String)>,
    value: f64,
}

impl Page {
    /// Reads a page, or says what is wrong with it.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let body = text.strip_suffix("# EOF\n").ok_or("the page does not end with # EOF")?;
        let mut page = Self::default();
        let mut units = BTreeMap::<String, String>::new();
        let mut now = String::new();
        let mut sampled = BTreeSet::new();
        for line in body.lines() {
            let wrong = |why: &str| Err(format!("{why}: {line}"));
            if let Some(rest) = line.strip_prefix("# ") {
                let mut words = rest.splitn(3, ' ');
                let (word, name) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
                let text = words.next().unwrap_or("").to_owned();
                if name != now && page.families.contains_key(name) {
                    return wrong("a family is not in one piece");
                }
                if sampled.contains(name) {
                    return wrong("what a family is stands before its samples");
                }
                name.clone_into(&mut now);
                let told = match word {
                    "TYPE" => page.families.insert(now.clone(), text),
                    "UNIT" => units.insert(now.clone(), text),
                    "HELP" => page.help.insert(now.clone(), text),
                    _ => return wrong("neither TYPE nor UNIT nor HELP nor EOF"),
                };
                if told.is_some() {
                    return wrong("told twice");
                }
                continue;
            }
            let sample = sample(line).ok_or(format!("no sample: {line}"))?;
            let kind = page.families.get(&now).ok_or(format!("a sample of no family: {line}"))?;
            let Some(suffix) = sample.name.strip_prefix(now.as_str()) else {
                return wrong("a sample of another family");
            };
            check(kind, suffix, &sample).map_err(|why| format!("{why}: {line}"))?;
            sampled.insert(now.clone());
            let mut labels: Vec<_> =
                sample.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
            labels.sort();
            let key = format!("{}{{{}}}", sample.name, labels.join(","));
            if page.samples.insert(key, sample.value).is_some() {
                return wrong("a sample twice");
            }
        }
        for (name, unit) in &units {
            if !name.ends_with(&format!("_{unit}")) {
                return Err(format!("{name} does not end with its unit {unit}"));
            }
        }
        page.check_histograms()?;
        Ok(page)
    }

    /// The value of a sample, by its name and its labels in order: `vakbus_x{a=1,b=2}`.
    pub(crate) fn value(&self, key: &str) -> Option<f64> {
        self.samples.get(key).copied()
    }

    /// Buckets grow with their bounds, and the last is the count.
    fn check_histograms(&self) -> Result<(), String> {
        let mut buckets = BTreeMap::<String, Vec<(f64, f64)>>::new();
        for (key, value) in &self.samples {
            let Some((name, labels)) = key.split_once("_bucket{") else { continue };
            let (mut rest, mut bound) = (Vec::new(), None);
            for label in labels.trim_end_matches('}').split(',') {
                match label.strip_prefix("le=") {
                    Some("+Inf") => bound = Some(f64::INFINITY),
                    Some(le) => bound = le.parse().ok(),
                    None => rest.push(label),
                }
            }
            let bound = bound.ok_or(format!("a bucket without a bound: {key}"))?;
            let of = format!("{name}_count{{{}}}", rest.join(","));
            buckets.entry(of).or_default().push((bound, *value));
        }
        for (of, mut buckets) in buckets {
            buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
            if !buckets.is_sorted_by(|before, after| before.1 <= after.1) {
                return Err(format!("buckets of {of} fall"));
            }
            let (bound, all) = *buckets.last().ok_or("no bucket")?;
            if bound != f64::INFINITY || self.value(&of) != Some(all) {
                return Err(format!("{of} is not what its last bucket says"));
            }
        }
        Ok(())
    }
}

/// Holds a sample to the type of its family.
fn check(kind: &str, suffix: &str, sample: &Sample<'_>) -> Result<(), &'static str> {
    let is_bucket = sample.labels.iter().any(|(key, _)| key == "le");
    match (kind, suffix) {
        ("counter", "_total") if sample.value >= 0.0 => Ok(()),
        ("counter", _) => Err("a counter ends in _total and is not negative"),
        ("gauge", "") => Ok(()),
        ("gauge", _) => Err("a gauge is called like its family"),
        ("info", "_info") if sample.value == 1.0 => Ok(()),
        ("info", _) => Err("an info ends in _info and is 1"),
        ("histogram", "_bucket") if is_bucket => Ok(()),
        ("histogram", "_sum" | "_count") if !is_bucket => Ok(()),
        ("histogram", _) => Err("a histogram has buckets with bounds, a sum and a count"),
        _ => Err("a type that is not known"),
    }
}

/// `name{key="value",…} number`
fn sample(line: &str) -> Option<Sample<'_>> {
    let name_ends = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(name_ends);
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(is_name) || name.starts_with(|c: char| c.is_numeric()) {
        return None;
    }
    let mut labels = Vec::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        while let Some((key, after)) = rest.split_once("=\"") {
            let (value, after) = quoted(after)?;
            if labels.iter().any(|(known, _)| known == key) {
                return None;
            }
            labels.push((key.to_owned(), value));
            match after.strip_prefix(',') {
                Some(more) => rest = more,
                None => {
                    rest = after.strip_prefix('}')?;
                    break;
                }
            }
        }
    }
    let value = rest.strip_prefix(' ')?.parse().ok()?;
    Some(Sample { name, labels, value })
}

/// The text up to the quote that ends it, and what comes after.
fn quoted(text: &str) -> Option<(String, &str)> {
    let (mut value, mut chars) = (String::new(), text.char_indices());
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return text.get(at + 1..).map(|rest| (value, rest)),
            '\\' => value.push(match chars.next()?.1 {
                'n' => '\n',
                escaped @ ('"' | '\\') => escaped,
                _ => return None,
            }),
            c => value.push(c),
        }
    }
    None
}

#[test]
fn the_reader_refuses_what_is_no_page() {
    let broken = [
        ("# TYPE a counter\na_total 1\n", "does not end"),
        ("# TYPE a counter\na 1\n# EOF\n", "_total"),
        ("# TYPE a gauge\na{x=\"1} 1\n# EOF\n", "no sample"),
        ("# TYPE a gauge\na 1\na 1\n# EOF\n", "twice"),
        ("# TYPE a gauge\na 1\n# TYPE b gauge\nb 1\n# TYPE a gauge\n# EOF\n", "one piece"),
        ("a 1\n# EOF\n", "no family"),
        ("# TYPE a_x gauge\n# UNIT a_x seconds\na_x 1\n# EOF\n", "unit"),
        (
            "# TYPE a histogram\na_bucket{le=\"1.0\"} 2\na_bucket{le=\"+Inf\"} 1\na_count 1\n\
             a_sum 1\n# EOF\n",
            "fall",
        ),
        ("# TYPE a histogram\na_bucket{le=\"1.0\"} 2\na_count 2\na_sum 1\n# EOF\n", "last bucket"),
    ];
    for (page, why) in broken {
        let told = Page::read(page).unwrap_err();
        assert!(told.contains(why), "{told} for {page}");
    }
}
