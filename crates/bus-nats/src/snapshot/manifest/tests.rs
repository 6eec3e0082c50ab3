//! The manifest: what it says, and which texts are none.

use serde_json::json;

use super::*;

fn object(value: Value) -> Object {
    match value {
        Value::Object(object) => object,
        other => panic!("{other} is no object"),
    }
}

fn entry(stream: &str) -> Entry {
    Entry {
        stream: stream.to_owned(),
        bytes: 3,
        sha256: hex(Sha256::digest("abc")),
        config: object(json!({ "name": stream, "subjects": ["a.>"] })),
        state: object(json!({ "messages": 7, "last_seq": 18_446_744_073_709_551_615_u64 })),
    }
}

/// The text of a manifest of `streams`, in a directory of its own.
fn written(streams: &[&str]) -> (tempfile::TempDir, String) {
    let home = tempfile::tempdir().unwrap();
    let (folder, _made) = Folder::empty(&home.path().join("backup")).unwrap();
    let left_out = vec!["VAK_LATEST".to_owned()];
    let head = Head { server: "2.15.1".to_owned(), made_at: "now".to_owned(), left_out };
    let streams = streams.iter().map(|name| entry(name)).collect();
    Manifest { head, streams }.write(&folder).unwrap();
    let text = std::fs::read_to_string(folder.path().join(MANIFEST)).unwrap();
    (home, text)
}

#[test]
fn what_is_written_is_read_again() {
    let (_home, text) = written(&["ONE", "TWO"]);
    let read = Manifest::parse(&text).ok().unwrap();
    assert_eq!(read.sum().messages, 14);
    assert_eq!(read.sum().left_out, ["VAK_LATEST"]);
    let [one, two] = &read.streams[..] else { panic!("not two") };
    assert_eq!((one.stream.as_str(), two.stream.as_str()), ("ONE", "TWO"));
    assert_eq!(number(&one.state, "last_seq"), u64::MAX);
}

#[test]
fn a_manifest_that_was_changed_in_one_bit_is_none() {
    let (_home, text) = written(&["ONE", "TWO"]);
    for at in 0..text.len() {
        for bit in 0..8 {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1 << bit;
            let Ok(changed) = String::from_utf8(bytes) else { continue };
            assert!(Manifest::parse(&changed).is_err(), "bit {bit} of byte {at}");
        }
    }
}

#[test]
fn a_manifest_that_was_cut_is_none() {
    let (_home, text) = written(&["ONE"]);
    for bytes in 0..text.len() {
        assert!(Manifest::parse(&text[..bytes]).is_err(), "{bytes} bytes");
    }
}

#[test]
fn a_name_that_no_server_gives_a_stream_is_refused() {
    for name in ["", "..", "a.b", "a/b", "a\\b", "a b", "*", ">", "a\u{7}"] {
        let (_home, text) = written(&[name]);
        let why = Manifest::parse(&text).err();
        assert_eq!(why, Some("names a stream that cannot be one"), "{name:?}");
    }
}

#[test]
fn the_file_of_a_stream_is_one_name_whatever_the_stream_is_called() {
    let long = "x".repeat(255);
    for name in ["../../etc/passwd", "a/b", "..", long.as_str(), "ä:b"] {
        let file = file_name(0, name);
        let parts: Vec<_> = Path::new(&file).components().collect();
        assert!(matches!(parts[..], [std::path::Component::Normal(_)]), "{file}");
        assert!(file.len() < 255 && file.is_ascii(), "{file}");
    }
    assert_ne!(file_name(0, "a:b"), file_name(1, "a_b"));
}
