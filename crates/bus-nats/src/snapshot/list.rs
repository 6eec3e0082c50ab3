//! The streams of an account, as its servers list them page by page.

use std::{cmp::Ordering, collections::BTreeSet};

use bus_core::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::manifest::Object;
use crate::api::Api;

/// A stream as the servers list it.
#[derive(Deserialize)]
pub(super) struct Listed {
    config: Object,
    pub(super) state: Object,
}

/// A part of the servers' list.
#[derive(Deserialize)]
struct Page {
    total: u64,
    #[serde(default)]
    streams: Option<Vec<Listed>>,
    /// Those whose servers did not answer.
    #[serde(default)]
    missing: Option<Vec<String>>,
}

#[derive(Serialize)]
struct Offset {
    offset: u64,
}

impl Listed {
    pub(super) fn name(&self) -> String {
        self.text("name").to_owned()
    }

    pub(super) fn text(&self, setting: &str) -> &str {
        self.config.get(setting).and_then(Value::as_str).unwrap_or_default()
    }

    /// Its place among the others, so that what tells of work comes after the work.
    pub(super) fn rank(&self) -> u8 {
        match self.text("name") {
            _ if self.text("retention") == "workqueue" => 0,
            "VAK_BOARD" => 1,
            name if name.starts_with("KV_") => 3,
            name if name.starts_with("VKB_") => 4,
            _ => 2,
        }
    }
}

/// All streams of the account. Between two pages some may come or go, and then others are shown
/// twice or not at all: the list is read again.
pub(super) async fn list(api: &Api, op: &'static str) -> Result<Vec<Listed>> {
    for _ in 0..LISTED_MAX {
        if let Some(listed) = list_once(api, op).await? {
            return Ok(listed);
        }
    }
    let why = "streams come and go all the time: their list is never whole";
    Err(Error::new(ErrorKind::Unavailable, op, why))
}

/// As [`list`]; nothing when the pages are not those of one list.
async fn list_once(api: &Api, op: &'static str) -> Result<Option<Vec<Listed>>> {
    let (mut pages, mut count) = (Pages::default(), 0);
    loop {
        let page = api.call(op, "STREAM.LIST", &Offset { offset: count }).await;
        let mut page: Page = page.map_err(|failure| failure.into_error(op, "streams"))?;
        let missing = page.missing.take().unwrap_or_default();
        if !missing.is_empty() {
            let why = format!("no server answers for {}", missing.join(", "));
            return Err(Error::new(ErrorKind::Unavailable, op, why));
        }
        match pages.add(page) {
            Added::More(so_far) => count = so_far,
            Added::Whole => return Ok(Some(pages.listed)),
            Added::Torn => return Ok(None),
        }
    }
}

/// The pages of one list.
#[derive(Default)]
struct Pages {
    listed: Vec<Listed>,
    names: BTreeSet<String>,
    total: Option<u64>,
}

/// What a page brings.
#[derive(Debug, PartialEq, Eq)]
enum Added {
    /// There are more than these.
    More(u64),
    /// It was the last one.
    Whole,
    /// It is of another list.
    Torn,
}

impl Pages {
    fn add(&mut self, page: Page) -> Added {
        let total = *self.total.get_or_insert(page.total);
        let streams = page.streams.unwrap_or_default();
        let is_empty = streams.is_empty();
        for stream in streams {
            if !self.names.insert(stream.name()) {
                return Added::Torn;
            }
            self.listed.push(stream);
        }
        let count = self.listed.len() as u64;
        match count.cmp(&total) {
            _ if page.total != total => Added::Torn,
            Ordering::Equal => Added::Whole,
            Ordering::Less if !is_empty => Added::More(count),
            _ => Added::Torn,
        }
    }
}

/// How often the list is read until it is whole.
const LISTED_MAX: u32 = 5;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn page(total: u64, names: &[&str]) -> Page {
        let streams: Vec<_> =
            names.iter().map(|name| json!({"config": {"name": name}, "state": {}})).collect();
        serde_json::from_value(json!({"total": total, "streams": streams})).unwrap()
    }

    #[test]
    fn pages_of_one_list_are_put_together() {
        let mut pages = Pages::default();
        assert_eq!(pages.add(page(3, &["A", "B"])), Added::More(2));
        assert_eq!(pages.add(page(3, &["C"])), Added::Whole);
        assert_eq!(Pages::default().add(page(0, &[])), Added::Whole);
    }

    #[test]
    fn pages_of_a_list_that_has_changed_are_no_list() {
        for second in [page(3, &["B"]), page(4, &["C"]), page(2, &[]), page(3, &[])] {
            let mut pages = Pages::default();
            assert_eq!(pages.add(page(3, &["A", "B"])), Added::More(2));
            assert_eq!(pages.add(second), Added::Torn);
        }
    }
}
