//! The socket without any run: whom it lets in, and what strangers can do to it.

use std::{
    io::{Read, Write},
    net::Shutdown,
    os::unix::{fs::PermissionsExt, net::UnixStream},
    path::{Path, PathBuf},
    time::Duration,
};

use bus_crypto::SystemEntropy;
use bytes::BytesMut;
use data_encoding::HEXLOWER;
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

use super::{
    frames::{Frame, Hello, Kind},
    *,
};

/// The longest wait for an answer.
const LIMIT: Duration = Duration::from_secs(30);

/// A socket, and the runtime that serves it.
struct Open {
    runtime: Runtime,
    socket: EmitSocket,
}

fn open() -> Open {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let guard = runtime.enter();
    let socket = EmitSocket::open(&SystemEntropy::new()).unwrap();
    drop(guard);
    Open { runtime, socket }
}

/// What is answered to `bytes`, the last word of it.
fn answer(path: &Path, bytes: &[u8]) -> Option<Frame> {
    let mut stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    // It may have hung up before it read all.
    let _refused = stream.write_all(bytes);
    let _refused = stream.shutdown(Shutdown::Write);
    let mut came = Vec::new();
    let _reset = stream.read_to_end(&mut came);
    let mut came = BytesMut::from(&came[..]);
    let mut last = None;
    while let Ok(Some(frame)) = Frame::decode(&mut came) {
        last = Some(frame);
    }
    last
}

fn hello(v: u32, token: &str) -> Vec<u8> {
    let hello = Hello { v, token: token.to_owned(), stream: "main".to_owned() };
    Frame::new(Kind::Hello, serde_json::to_vec(&hello).unwrap()).encode()
}

fn refusal(path: &Path, bytes: &[u8]) -> String {
    let answer = answer(path, bytes).unwrap();
    assert_eq!(answer.kind, Kind::Refused);
    String::from_utf8(answer.bytes.to_vec()).unwrap()
}

#[test]
fn only_its_user_enters_the_directory() {
    let open = open();
    let directory = open.socket.path().parent().map(PathBuf::from).unwrap();
    let mode = std::fs::metadata(directory).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn nothing_is_left_of_a_socket_that_is_dropped() {
    let Open { runtime, socket } = open();
    let directory = socket.path().parent().map(PathBuf::from).unwrap();
    let other = socket.clone();
    drop(socket);
    assert!(directory.exists());
    drop(other);
    drop(runtime);
    assert!(!directory.exists());
}

#[test]
fn what_a_killed_process_left_is_swept_and_what_lives_is_not() {
    let parent = tempfile::tempdir().unwrap();
    let named = |name: &str| parent.path().join(name);
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let living =
        runtime.block_on(async { EmitSocket::open_in(&named("vakbus-0000000000000001")).unwrap() });
    // Its owner had it locked, and is gone.
    std::fs::create_dir(named("vakbus-0000000000000002")).unwrap();
    std::fs::write(named("vakbus-0000000000000002/lock"), "").unwrap();
    drop(std::os::unix::net::UnixListener::bind(named("vakbus-0000000000000002/emit")).unwrap());
    for others in ["vakbus-0000000000000003", "vakbus-mine", "other-0000000000000004"] {
        std::fs::create_dir(named(others)).unwrap();
    }
    std::fs::write(named("vakbus-mine/lock"), "").unwrap();
    socket::sweep(parent.path());
    let mut left: Vec<_> = std::fs::read_dir(parent.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    let expected = [
        "other-0000000000000004",
        "vakbus-0000000000000001",
        "vakbus-0000000000000003",
        "vakbus-mine",
    ];
    assert_eq!(left, expected);
    assert!(living.path().exists());
}

#[test]
fn a_token_that_is_not_known_is_refused() {
    let open = open();
    let said = refusal(&open.socket.path(), &hello(1, "00"));
    assert_eq!(said, "the run is not known, or has ended");
}

#[test]
fn a_client_learns_why_it_is_refused() {
    let open = open();
    let refused = EmitClient::connect(&open.socket.path(), "00", "main").unwrap_err();
    assert!(matches!(refused, EmitError::Refused { reason } if reason.contains("not known")));
}

#[test]
fn a_client_of_another_version_is_told_both() {
    let open = open();
    let said = refusal(&open.socket.path(), &hello(2, "00"));
    assert_eq!(said, "the client speaks version 2, the runner 1");
}

#[test]
fn a_runner_that_is_gone_cannot_be_reached() {
    let Open { runtime, socket } = open();
    let path = socket.path();
    drop((socket, runtime));
    let error = EmitClient::connect(&path, "00", "main").unwrap_err();
    assert!(matches!(error, EmitError::Unreachable(_)), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_strangers_send_is_refused_and_the_socket_goes_on(
        sent in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..600), 1..4),
        is_framed in any::<bool>(),
    ) {
        let open = open();
        for bytes in &sent {
            let framed = Frame::new(Kind::Hello, bytes.clone()).encode();
            let bytes = if is_framed { &framed } else { bytes };
            // None: it was reset while it still sent.
            let answer = answer(&open.socket.path(), bytes);
            prop_assert!(answer.is_none_or(|answer| answer.kind == Kind::Refused));
        }
        let said = refusal(&open.socket.path(), &hello(1, "00"));
        prop_assert_eq!(said, "the run is not known, or has ended");
        drop(open.runtime);
    }
}

#[test]
fn messages_are_as_the_specification_says() {
    let vectors: Value = serde_json::from_str(VECTORS).unwrap();
    let cases = vectors["cases"].as_array().unwrap();
    for case in cases {
        let hex = case["in"]["hex"].as_str().unwrap();
        let mut came = BytesMut::from(&HEXLOWER.decode(hex.as_bytes()).unwrap()[..]);
        let mut messages = Vec::new();
        let found = loop {
            match Frame::decode(&mut came) {
                Ok(Some(Frame { kind, bytes })) => {
                    let name = format!("{kind:?}").to_lowercase();
                    messages.push(json!([name, HEXLOWER.encode(&bytes)]));
                }
                Ok(None) => break json!({ "messages": messages, "left": came.len() }),
                Err(_) => break json!({ "refused": "message" }),
            }
        };
        assert_eq!(found, case["out"], "{}", case["id"]);
    }
    assert_eq!(cases.len(), 10);
}

const VECTORS: &str = include_str!("../../../../docs/spec/vectors/emits.json");
