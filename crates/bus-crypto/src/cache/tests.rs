//! Rules of the bounded cache.

use std::sync::Arc;

use super::OpenKeyCache;
use crate::seal::{Algorithm, OpenKey};

fn key(id: &str) -> Arc<OpenKey> {
    Arc::new(OpenKey::new(Algorithm::Aes256Gcm, id, &[1; 32]).unwrap())
}

fn full() -> OpenKeyCache {
    let mut cache = OpenKeyCache::new(3);
    for id in ["a", "b", "c"] {
        cache.insert(key(id));
    }
    cache
}

#[test]
fn the_key_not_asked_for_lately_goes_first() {
    let mut cache = full();
    cache.get("a").unwrap();
    cache.get("c").unwrap();

    cache.insert(key("d"));

    assert!(cache.get("b").is_none());
    assert!(["a", "c", "d"].iter().all(|id| cache.get(id).is_some()));
}

#[test]
fn when_all_were_asked_for_one_still_goes() {
    let mut cache = full();
    for id in ["a", "b", "c"] {
        cache.get(id).unwrap();
    }
    cache.insert(key("d"));
    assert_eq!(cache.len(), 3);
    assert!(cache.get("d").is_some());
}

#[test]
fn the_first_key_of_an_id_stays() {
    let mut cache = full();
    let first = cache.get("a").unwrap();
    let kept = cache.insert(key("a"));
    assert!(Arc::ptr_eq(&first, &kept));
}

#[test]
fn removed_keys_are_gone_and_the_others_are_found() {
    let mut cache = full();
    cache.remove_if(|id| id == "a");
    assert!(cache.get("a").is_none());
    assert_eq!(cache.get("c").unwrap().key_id(), "c");
    cache.insert(key("d"));
    cache.insert(key("e"));
    assert_eq!(cache.len(), 3);
}
