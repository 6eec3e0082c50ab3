//! Events made elsewhere: JSON, a batch of it, or a message of the NATS binding.

use bus_envelope::{AttributeValue, CloudEvent, EnvelopeError};

use crate::laws;

/// What is read is written and read again as an equal event, in JSON and as a message.
pub fn body(data: &[u8]) -> bool {
    let one = laws::bounded(data, || CloudEvent::from_json(data));
    let batch = laws::bounded(data, || CloudEvent::batch_from_json(data));
    assert!(one.is_err() || batch.is_err(), "both an event and a batch");
    let message = laws::read_message(data).map(|(headers, payload)| {
        laws::bounded(data, || CloudEvent::from_message(&headers, &payload))
    });
    let one = judge(&one.map(|event| vec![event]));
    let batch = judge(&batch);
    let message = message.is_some_and(|message| judge(&message.map(|event| vec![event])));
    one || batch || message
}

fn judge(read: &Result<Vec<CloudEvent>, EnvelopeError>) -> bool {
    match read {
        Ok(events) => events.iter().for_each(round_trips),
        Err(error) => laws::error_is_brief(error),
    }
    read.is_ok()
}

fn round_trips(event: &CloudEvent) {
    for required in [event.id(), event.source(), event.event_type()] {
        assert!(!required.is_empty(), "a required attribute is empty");
    }
    let json = event.to_json();
    let again = CloudEvent::from_json(&json).expect("an event that was written can be read");
    assert_eq!(again, *event, "JSON changes the event");
    assert_eq!(again.to_json(), json, "the JSON is not stable");

    // A header carries text alone, and no data is an empty body there.
    let (headers, payload) = event.to_message();
    let again = CloudEvent::from_message(&headers, &payload).expect("a message can be read");
    let texts = |event: &CloudEvent| -> Vec<(String, String)> {
        let text = |value: &AttributeValue| value.to_string();
        event.attributes().map(|(name, value)| (name.to_owned(), text(value))).collect()
    };
    assert_eq!(texts(&again), texts(event), "headers change an attribute");
    assert_eq!(again.data_bytes(), event.data_bytes(), "a message changes the data");
    assert_eq!(again.to_message(), (headers, payload), "the message is not stable");
}
