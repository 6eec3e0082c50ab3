//! Inputs to start from, made anew on every run.
//!
//! Foreign vectors are read where they lie and never kept here; where they are missing (outside of
//! CI) our own golden data is all there is.

use std::sync::Arc;

use bus_core::{Frame, FrameId, Placement, Priority, Retention, StreamSpec};
use bus_disk::record::Record;
use bus_envelope::wire::{WireForm, compact, encode, json as json_form};
use bus_envelope::{Headers, MessageEnvelope, Timestamp};
use bus_mem::journal::Change;
use bus_runner::Batch;
use bus_subjects::{Filter, StreamName, Subject};
use bus_testdata::hex;
use serde_json::Value;

use crate::{bodies, golden, laws};

/// Envelopes as messages in all three forms, and the messages of the NATS binding.
#[must_use]
pub fn binary() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for form in [WireForm::Binary, WireForm::Json, WireForm::Compact] {
        seeds.extend(golden::envelopes().iter().map(|envelope| {
            let (headers, body) = encode(form, envelope);
            laws::write_message(&headers, &body)
        }));
    }
    seeds.extend(messages());
    seeds
}

/// The golden bundle as one text, with its tasks and without.
#[must_use]
pub fn bundle() -> Vec<Vec<u8>> {
    [golden::bundle(), &bodies::bundle::records()].map(bodies::bundle::write).to_vec()
}

/// The checkpoints of the golden bundle.
#[must_use]
pub fn checkpoint() -> Vec<Vec<u8>> {
    golden::checkpoints().iter().map(|checkpoint| checkpoint.text().into()).collect()
}

/// Golden envelopes, the conformance events, and the messages of the NATS binding.
#[must_use]
pub fn cloud_event() -> Vec<Vec<u8>> {
    let mut seeds = json_envelopes();
    seeds.extend(events());
    seeds.extend(messages());
    seeds
}

/// Golden envelopes in the compact form.
#[must_use]
pub fn compact() -> Vec<Vec<u8>> {
    golden::envelopes().iter().map(compact::encode).collect()
}

/// Records of a journal, without their lengths.
#[must_use]
pub fn journal() -> Vec<Vec<u8>> {
    let time = Timestamp::from_unix_ns(1_800_000_000_000_000_000);
    let subject = Subject::parse("vak.work.w1.coder.task");
    let (stream, id) = (StreamName::parse("WORK"), FrameId::parse("id-1"));
    let (Ok(subject), Ok(stream), Ok(id)) = (subject, stream, id) else { return Vec::new() };
    let filters = vec![Filter::all(), Filter::from(&subject)];
    let spec = StreamSpec::new(stream, filters, Retention::WorkQueue);
    let mut frame = Frame::new(subject, id, "body");
    let _added = frame.headers.add("ce-id", "7");
    let priority = Priority::HIGHEST;
    let frame = Arc::new(frame.placed(Placement { not_before: Some(time), priority, key: None }));
    let ids = [([1, 2], 3, time); 3];
    let changes = [
        Change::Declared { stream: 0, spec: &spec, key: [7; 16] },
        Change::Stored { stream: 0, seq: 1, time, frame: &frame },
        Change::Leased { consumer: 1, seq: 1, token: 2, attempt: 3, since: time, deadline: time },
        Change::Waits { consumer: 1, seq: 1, attempt: 3, since: time, handed_back: false },
        Change::Paused { consumer: 1, until: Some(time) },
        Change::StreamAt { stream: 0, last: 9, ids: &ids },
        Change::ConsumerAt { consumer: 1, from: 4, fresh: &[1, 2, 3], token: 5 },
    ];
    let records = changes.into_iter().map(Record::Change);
    let records = records.chain([Record::Opened { epoch: 1, time }]);
    records
        .map(|record| {
            let mut written = Vec::new();
            record.write(&mut written);
            written.split_off(4)
        })
        .collect()
}

/// A golden credentials file and the foreign ones.
#[must_use]
pub fn creds() -> Vec<Vec<u8>> {
    let mut seeds = vec![golden::credentials()];
    seeds.extend(texts("nats-auth/creds.json", &["text"]));
    seeds
}

/// Pairs of filters and subjects, one a line.
#[must_use]
pub fn filter() -> Vec<Vec<u8>> {
    let mut seeds = vec![b"vak.work.*.coder.task\nvak.>\nvak.work.w1.coder.task\n*.*".to_vec()];
    seeds.extend(texts("nats-subjects/match.json", &["pattern", "subject"]));
    seeds.extend(texts("nats-subjects/overlap.json", &["a", "b", "witness"]));
    seeds.extend(texts("nats-subjects/subset.json", &["outer", "inner"]));
    seeds
}

/// Golden envelopes, the conformance events, and the JSON torture suite.
#[must_use]
pub fn json() -> Vec<Vec<u8>> {
    let mut seeds = json_envelopes();
    seeds.extend(events());
    seeds.extend(torture());
    seeds
}

/// Golden tokens and their claims, and the foreign tokens.
#[must_use]
pub fn jwt() -> Vec<Vec<u8>> {
    let mut seeds = vec![golden::auth_request()];
    for token in golden::tokens() {
        seeds.extend(bodies::jwt::claims_of(&token));
        seeds.push(token.into_bytes());
    }
    seeds.extend(texts("nats-auth/jwt.json", &["token"]));
    seeds
}

/// One message of each kind.
#[must_use]
pub fn link() -> Vec<Vec<u8>> {
    bus_link::strangers::samples()
}

/// Golden keys and seeds, and the foreign ones.
#[must_use]
pub fn nkey() -> Vec<Vec<u8>> {
    let mut seeds: Vec<_> = golden::key_texts().into_iter().map(String::into_bytes).collect();
    seeds.extend(texts("nats-auth/nkey_strings.json", &["value"]));
    seeds
}

/// Proofs of the lines of the golden bundle, and of its logs going on.
#[must_use]
pub fn proof() -> Vec<Vec<u8>> {
    bodies::proof::proofs()
}

/// Batches of golden envelopes and gaps, with their version and without it.
#[must_use]
pub fn recording() -> Vec<Vec<u8>> {
    let mut batch = Batch::new();
    for envelope in golden::envelopes() {
        let _taken = batch.push(&envelope);
        let _room = batch.gap(7);
    }
    let whole = batch.encode().to_vec();
    vec![whole.iter().skip(1).copied().collect(), whole]
}

/// Revocations by the golden account.
#[must_use]
pub fn revocation() -> Vec<Vec<u8>> {
    let signed = golden::revocations().into_iter().map(|one| one.sign(golden::account()));
    signed.map(|line| line.expect("the account is the issuer").into_bytes()).collect()
}

/// Tickets by the golden account, as text and as what they say.
#[must_use]
pub fn ticket() -> Vec<Vec<u8>> {
    let texts = golden::tickets();
    let said = texts.iter().filter_map(|text| bodies::ticket::said_of(text));
    said.chain(texts.iter().map(|text| text.clone().into_bytes())).collect()
}

/// A registered subject and the foreign ones, names included.
#[must_use]
pub fn subject() -> Vec<Vec<u8>> {
    let mut seeds = vec![b"vak.receipts.w1.s1.completed".to_vec()];
    seeds.extend(texts("nats-subjects/validity.json", &["subject"]));
    seeds.extend(texts("nats-subjects/server_subject_check.json", &["subject"]));
    seeds.extend(texts("nats-subjects/names.json", &["value"]));
    seeds
}

/// A tasks file of both kinds of lines, and the JSON torture suite as lines.
#[must_use]
pub fn tasks() -> Vec<Vec<u8>> {
    let mut seeds = vec![
        b"\xef\xbb\xbfecho this\r\n\n{\"id\": \"t-1\", \"payload\": \"do that\"}\n".to_vec(),
        b"{\"id\":\"a\",\"payload\":{\"x\": [1, 2]}}\n{\"payload\":null,\"id\":\"b\"}".to_vec(),
    ];
    seeds.extend(
        torture()
            .into_iter()
            .map(|json| [b"{\"id\":\"a\",\"payload\":".as_slice(), &json, b"}\n", &json].concat()),
    );
    seeds
}

/// Terminal recordings, made-up ones and real ones, and UTF-8 of all kinds.
#[must_use]
pub fn terminal() -> Vec<Vec<u8>> {
    let mut seeds = vec![b"\x1b[1;31mred\x1b[0m 10%\r100%\x1b[K\n\xc2\x9b32mgreen".to_vec()];
    let files = [
        "terminal/fold.json",
        "terminal/partial_sequences.json",
        "terminal/xtermjs_screens.json",
        "terminal/alacritty_screens.json",
        "utf8/utf8tests.json",
    ];
    for file in files {
        let inputs = cases(file, "cases");
        let inputs = inputs.iter().filter_map(|case| case.get("hex").and_then(Value::as_str));
        seeds.extend(inputs.map(hex));
    }
    for case in cases("terminal/captures.json", "cases") {
        let chunks = case.get("chunks").and_then(Value::as_array).into_iter().flatten();
        seeds.push(chunks.filter_map(Value::as_str).flat_map(hex).collect());
    }
    seeds
}

/// Trace headers and changes of the list, one a line.
#[must_use]
pub fn traceparent() -> Vec<Vec<u8>> {
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let mut seeds = vec![format!("{parent}\nrojo=1,congo=t61rcWkgMzE\nvak=1").into_bytes()];
    seeds.extend(texts("trace-context/traceparent_parse.json", &["value"]));
    let lists = texts("trace-context/tracestate.json", &["in"]);
    seeds.extend(lists.map(|list| [parent.as_bytes(), b"\n", &list, b"\nrojo=2"].concat()));
    seeds
}

fn json_envelopes() -> Vec<Vec<u8>> {
    golden::envelopes()
        .iter()
        .map(|envelope: &MessageEnvelope| json_form::encode(envelope))
        .collect()
}

/// Foreign events and batches as JSON.
fn events() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for kind in ["valid-events", "invalid-events", "valid-batches", "invalid-batches"] {
        let tests = cases(&format!("cloudevents/conformance/{kind}.json"), "tests");
        seeds.extend(
            tests.iter().filter_map(|test| test.get("event").or(test.get("batch"))).map(bytes),
        );
    }
    let data = cases("cloudevents/json_data_cases.json", "cases");
    seeds.extend(data.iter().filter_map(|case| case.get("event")).map(bytes));
    let examples = cases("cloudevents/spec_examples.json", "cases");
    seeds.extend(examples.iter().filter_map(|case| case.get("json")).map(bytes));
    seeds
}

/// Foreign messages of the NATS binding.
fn messages() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for case in cases("cloudevents/nats_binding_cases.json", "cases") {
        let Some(list) = case.get("headers").and_then(Value::as_array) else { continue };
        let mut headers = Headers::new();
        for pair in list {
            let text = |at: usize| pair.get(at).and_then(Value::as_str).unwrap_or_default();
            // What our headers refuse is refused before the reader that is fuzzed.
            let _refused = headers.add(text(0), text(1));
        }
        let body = case.get("payload_utf8").and_then(Value::as_str).unwrap_or_default();
        seeds.push(laws::write_message(&headers, body.as_bytes()));
    }
    seeds
}

/// The JSON torture suite, its two endless inputs included.
fn torture() -> Vec<Vec<u8>> {
    let part = |case: &Value, name: &str| case.get(name).and_then(Value::as_str).map(hex);
    cases("json/jsontestsuite.json", "cases")
        .iter()
        .filter_map(|case| {
            let times = case.get("times").and_then(Value::as_u64).unwrap_or(1) as usize;
            let once = part(case, "hex").or_else(|| part(case, "repeat_hex"))?;
            Some([once.repeat(times), part(case, "then_hex").unwrap_or_default()].concat())
        })
        .collect()
}

/// The members `names` of every case of `file` that are texts, one a line.
fn texts(file: &str, names: &'static [&str]) -> impl Iterator<Item = Vec<u8>> {
    cases(file, "cases").into_iter().filter_map(|case| {
        let lines: Vec<&str> =
            names.iter().filter_map(|name| case.get(name).and_then(Value::as_str)).collect();
        (!lines.is_empty()).then(|| lines.join("\n").into_bytes())
    })
}

fn cases(file: &str, member: &str) -> Vec<Value> {
    let cases = bus_testdata::json(file).and_then(|mut json| json.get_mut(member).map(Value::take));
    match cases {
        Some(Value::Array(cases)) => cases,
        Some(_) => panic!("{file} has no list of {member}"),
        None => Vec::new(),
    }
}

fn bytes(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}
