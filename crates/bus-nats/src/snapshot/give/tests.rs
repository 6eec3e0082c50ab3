//! What a stream became held to what it was.

use super::*;

fn object(value: Value) -> Object {
    match value {
        Value::Object(object) => object,
        other => panic!("{other} is no object"),
    }
}

#[test]
fn the_notes_of_the_server_are_no_difference() {
    let was = object(json!({ "name": "S", "metadata": { "vak.spec": "x" }, "sealed": false }));
    let noted = json!({ "vak.spec": "x", "_nats.ver": "2.15.1" });
    let is = object(json!({ "name": "S", "metadata": noted, "max_age": 0 }));
    assert_eq!(config_differences(&was, &is), Vec::<String>::new());
}

#[test]
fn every_setting_that_changed_is_told() {
    let was =
        object(json!({ "max_msgs": 5, "deny_delete": true, "metadata": { "vak.spec": "x" } }));
    let is =
        object(json!({ "max_msgs": 6, "metadata": { "vak.spec": "y" }, "allow_direct": true }));
    let told = config_differences(&was, &is).join("; ");
    for name in ["max_msgs is 6, was 5", "deny_delete is null", "metadata is", "allow_direct is"] {
        assert!(told.contains(name), "{told}");
    }
}

#[test]
fn a_state_that_is_another_is_told() {
    let was = object(json!({ "messages": 5, "first_seq": 1, "last_seq": 9, "consumer_count": 1 }));
    for name in ["messages", "first_seq", "last_seq", "consumer_count", "num_deleted"] {
        let mut is = was.clone();
        is.insert(name.to_owned(), json!(7));
        let told = state_differences(&Object::new(), &was, &is);
        assert_eq!(told.len(), 1, "{name}: {told:?}");
    }
}

#[test]
fn of_messages_that_end_by_themselves_there_may_be_fewer() {
    let was = object(json!({ "messages": 5, "first_seq": 1, "last_seq": 9 }));
    let fewer = object(json!({ "messages": 2, "first_seq": 8, "last_seq": 10 }));
    let ages = object(json!({ "allow_msg_ttl": true }));
    assert_eq!(state_differences(&ages, &was, &fewer), Vec::<String>::new());
    let older = object(json!({ "messages": 5, "first_seq": 1, "last_seq": 8 }));
    assert_eq!(state_differences(&ages, &was, &older), ["last_seq is 8, was 9"]);
}

#[test]
fn of_a_stream_without_messages_it_does_not_matter_where_they_begin() {
    let was = object(json!({ "messages": 0, "first_seq": 0, "last_seq": 0 }));
    let is = object(json!({ "messages": 0, "first_seq": 1, "last_seq": 0 }));
    assert_eq!(state_differences(&Object::new(), &was, &is), Vec::<String>::new());
}
