//! A reader with a planted fault, which every fuzzing loop must find.

/// Reads `bus`, a length and so many bytes, and trusts the length: that is the fault.
pub fn body(data: &[u8]) -> bool {
    let Some((length, content)) = data.strip_prefix(b"bus").and_then(|rest| rest.split_first())
    else {
        return false;
    };
    let payload = &content[..usize::from(*length)];
    assert!(payload.len() <= data.len(), "a part is longer than the whole");
    true
}

/// One sound input. The coverage-guided loop is not given it: it must find `bus` by itself.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    vec![b"bus\x03abc".to_vec()]
}
