//! Signed checkpoints: one text for one content, and nobody's signature but the signer's.

use bus_evidence::Checkpoint;

use crate::{golden, laws};

/// What is read is the text as it was; it verifies under our key only if we signed that body.
pub fn body(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else { return false };
    signs(text);
    match laws::bounded(data, || Checkpoint::parse(text)) {
        Ok(read) => {
            assert_eq!(read.text(), text, "the checkpoint is another text");
            let head = format!("{}\n{}\n", read.origin(), read.size());
            assert!(text.starts_with(&head), "origin or size are not those of the text");
            let signatures = read.signatures().len();
            assert!((1..=Checkpoint::SIGNATURES_MAX).contains(&signatures), "signatures");
            if read.verify(golden::recorder().public()).is_ok() {
                let ours = golden::checkpoints();
                let known = |ours: &Checkpoint| {
                    (ours.origin(), ours.size(), ours.root())
                        == (read.origin(), read.size(), read.root())
                };
                assert!(ours.iter().any(known), "a signature fits what nobody signed");
            }
            true
        }
        Err(error) => {
            laws::error_is_brief(&error);
            false
        }
    }
}

/// Whatever can be signed can be read and verified.
fn signs(text: &str) {
    let (origin, name) = text.split_once('\n').unwrap_or((text, "recorder"));
    let name = name.lines().last().unwrap_or("recorder");
    let key = golden::recorder();
    if let Ok(signed) = Checkpoint::sign(origin, u64::MAX, [5; 32], name, key)
        && signed.text().len() <= Checkpoint::BYTES_MAX
    {
        let read = Checkpoint::parse(signed.text());
        assert_eq!(read.as_ref(), Ok(&signed), "what was signed is read otherwise");
        assert_eq!(signed.verify(key.public()), Ok(()), "its own signature does not fit");
    }
}
