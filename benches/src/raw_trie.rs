//! A small token trie, as everybody writes it: one map of children a node, one look-up a level.

use std::collections::HashMap;

/// Numbers by filter.
#[derive(Debug, Default)]
pub(crate) struct Trie(Node);

#[derive(Debug, Default)]
struct Node {
    children: HashMap<Box<str>, Node, ahash::RandomState>,
    star: Option<Box<Node>>,
    ends: Vec<u64>,
    tails: Vec<u64>,
}

impl Trie {
    pub(crate) fn insert(&mut self, filter: &str, number: u64) {
        let mut node = &mut self.0;
        for level in filter.split('.') {
            node = match level {
                ">" => return node.tails.push(number),
                "*" => node.star.get_or_insert_default(),
                _ => node.children.entry(level.into()).or_default(),
            };
        }
        node.ends.push(number);
    }

    pub(crate) fn for_each_match(&self, subject: &str, mut visit: impl FnMut(u64)) {
        walk(&self.0, Some(subject), &mut visit);
    }
}

fn walk(node: &Node, rest: Option<&str>, visit: &mut impl FnMut(u64)) {
    let Some(rest) = rest else {
        node.ends.iter().for_each(|number| visit(*number));
        return;
    };
    node.tails.iter().for_each(|number| visit(*number));
    let (level, rest) = match rest.split_once('.') {
        Some((level, rest)) => (level, Some(rest)),
        None => (rest, None),
    };
    if let Some(child) = node.children.get(level) {
        walk(child, rest, visit);
    }
    if let Some(star) = &node.star {
        walk(star, rest, visit);
    }
}
