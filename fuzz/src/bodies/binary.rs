//! An envelope as a message: headers that say which form it has, and a body.

use bus_envelope::wire::{self, WireForm};

use crate::laws;

/// What is read keeps its payload, and every form carries it.
pub fn body(data: &[u8]) -> bool {
    let Some((headers, payload)) = laws::read_message(data) else { return false };
    match laws::bounded(data, || wire::decode(&headers, &payload)) {
        Ok(envelope) => {
            if WireForm::of(&headers) == Ok(WireForm::Binary) {
                assert_eq!(envelope.payload, payload, "the payload was changed");
            }
            laws::every_form_carries(&envelope);
            true
        }
        Err(error) => {
            laws::error_is_brief(&error);
            false
        }
    }
}
