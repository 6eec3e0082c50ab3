//! The JSON form of an envelope: there is one text for one envelope.

use bus_envelope::wire::json;

use crate::laws;

/// What is read is written again as the very same bytes, and every other form carries it.
pub fn body(data: &[u8]) -> bool {
    match laws::bounded(data, || json::decode(data)) {
        Ok(envelope) => {
            assert_eq!(json::encode(&envelope), data, "the text is not the canonical one");
            laws::every_form_carries(&envelope);
            true
        }
        Err(error) => {
            laws::error_is_brief(&error);
            false
        }
    }
}
