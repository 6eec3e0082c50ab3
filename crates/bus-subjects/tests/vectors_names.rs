//! Names of buckets, keys, streams and consumers: at least as strict as NATS.

use bus_subjects::{BucketKey, BucketName, ConsumerName, StreamName};

#[test]
fn every_name_we_take_is_taken_by_nats_and_those_we_refuse_beyond_are_listed() {
    let Some(file) = bus_testdata::json("nats-subjects/names.json") else { return };
    let mut walked = 0;
    let mut stricter = Vec::new();
    for case in file["cases"].as_array().unwrap() {
        walked += 1;
        let group = case["group"].as_str().unwrap();
        let name = case["value"].as_str().unwrap();
        let ours = match group {
            "kv_key" | "kv_put_on_server" => BucketKey::parse(name).is_ok(),
            "kv_bucket" => BucketName::parse(name).is_ok(),
            "stream_name" => StreamName::parse(name).is_ok(),
            "consumer_name" => ConsumerName::parse(name).is_ok(),
            _ => panic!("a group nobody knows: {group}"),
        };
        let answers = ["valid", "accepted", "stored"];
        let theirs = answers.iter().find_map(|answer| case[answer].as_bool()).unwrap();
        assert!(theirs || !ours, "{group} {name:?} is refused by NATS");
        if theirs && !ours {
            stricter.push((group, name));
        }
    }
    assert_eq!(walked, 110);
    assert_eq!(stricter, STRICTER);
}

/// Taken by the server, refused here: not ASCII, wild, empty, or with a meaning elsewhere.
const STRICTER: [(&str, &str); 13] = [
    ("stream_name", "é"),
    ("stream_name", "日本"),
    ("stream_name", "a:b"),
    ("stream_name", "a|b"),
    ("stream_name", "$S"),
    ("stream_name", "a=b"),
    ("stream_name", "a,b"),
    ("kv_put_on_server", "a*"),
    ("kv_put_on_server", "a.*"),
    ("kv_put_on_server", "a.>"),
    ("kv_put_on_server", "é"),
    ("consumer_name", ""),
    ("consumer_name", "é"),
];
