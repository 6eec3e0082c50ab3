//! The compact form of an envelope: there is one run of bytes for one envelope.

use bus_envelope::wire::compact;
use bytes::Bytes;

use crate::laws;

/// What is read is written again as the very same bytes, with a copied and with a shared payload.
pub fn body(data: &[u8]) -> bool {
    let read = laws::bounded(data, || compact::decode(data));
    let shared = compact::decode_shared(&Bytes::copy_from_slice(data));
    assert_eq!(read, shared, "a shared payload makes a difference");
    match read {
        Ok(envelope) => {
            assert_eq!(compact::encode(&envelope), data, "the bytes are not the canonical ones");
            laws::every_form_carries(&envelope);
            true
        }
        Err(error) => {
            laws::error_is_brief(&error);
            false
        }
    }
}
