//! The messages of the local socket: whatever a stranger sends, it is one message or none.

use bus_link::strangers::READERS;

use crate::laws;

/// What is read is written again as what was read, and takes no more memory than its bytes justify.
pub fn body(data: &[u8]) -> bool {
    let mut taken = false;
    for (name, read) in READERS {
        let Some(written) = laws::bounded_above(LIST_BYTES, data, || read(data)) else { continue };
        taken = true;
        assert_eq!(read(&written).as_ref(), Some(&written), "{name}: another message is read");
    }
    taken
}

/// A list has room for a megabyte before its first item is read, and is written once more here.
const LIST_BYTES: u64 = 4 << 20;
