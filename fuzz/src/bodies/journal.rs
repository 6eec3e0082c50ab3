//! The records of a journal: there is one run of bytes for one record.

use bus_disk::record::Record;

use crate::laws;

/// What is read is written again as the very same bytes.
pub fn body(data: &[u8]) -> bool {
    let read = laws::bounded(data, || {
        Record::read(data, |record| {
            let mut written = Vec::new();
            record.write(&mut written);
            Ok(written)
        })
    });
    match read {
        Ok(written) => {
            let (length, payload) = written.split_at(4);
            assert_eq!(payload, data, "the bytes are not the canonical ones");
            assert_eq!(length, (data.len() as u32).to_le_bytes(), "the length is another one");
            true
        }
        Err(error) => {
            laws::error_is_brief(&error);
            false
        }
    }
}
