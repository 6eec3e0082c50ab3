//! Parts of recordings: what is read is what stands there, item by item, and nothing is left over.

use bus_envelope::wire::compact;
use bus_runner::{Batch, BatchItem};
use bytes::Bytes;

use crate::laws;

/// What is read, written again, is the same bytes; an envelope in it that can be read keeps its
/// laws.
///
/// Input of another version is also taken as the items of a batch.
pub fn body(data: &[u8]) -> bool {
    let whole = judge(data);
    if data.first() == Some(&Batch::VERSION) {
        return whole;
    }
    judge(&[&[Batch::VERSION], data].concat()) || whole
}

fn judge(data: &[u8]) -> bool {
    let bytes = Bytes::copy_from_slice(data);
    match laws::bounded(data, || Batch::decode(&bytes)) {
        Ok(items) => {
            assert!(data.len() <= Batch::BYTES_MAX, "a batch of {} bytes", data.len());
            assert!((1..=Batch::ITEMS_MAX).contains(&items.len()), "{} items", items.len());
            assert_eq!(written(&items), data, "what was read is written as other bytes");
            for item in &items {
                let BatchItem::Envelope(bytes) = item else { continue };
                if let Ok(envelope) = compact::decode(bytes) {
                    laws::every_form_carries(&envelope);
                }
            }
            true
        }
        Err(error) => {
            laws::error_is_brief(&error);
            false
        }
    }
}

fn written(items: &[BatchItem]) -> Vec<u8> {
    let mut bytes = vec![Batch::VERSION];
    for item in items {
        match item {
            BatchItem::Envelope(envelope) => {
                let length = u32::try_from(envelope.len()).expect("it was read from fewer bytes");
                bytes.extend_from_slice(&length.to_be_bytes());
                bytes.extend_from_slice(envelope);
            }
            BatchItem::Gap { missed } => {
                bytes.extend_from_slice(&[0; 4]);
                bytes.extend_from_slice(&missed.to_be_bytes());
            }
        }
    }
    bytes
}
