//! What a refusal of the server means here.

use bus_core::{Error, ErrorKind};

use super::{Refusal, WRONG_LAST, WRONG_LAST_OF_COPIES};

impl Refusal {
    /// The error that a caller can act on.
    pub(super) fn into_error(self, op: &'static str) -> Error {
        let Self { code, err_code, description } = self;
        let said = format!("the server refuses: {description} ({err_code})");
        let kind = match err_code {
            STORE_FAILED if description == MESSAGES_MAX => return Error::stream_full(op, said),
            WRONG_LAST | WRONG_LAST_OF_COPIES => ErrorKind::Conflict,
            10_059 | 10_014 | 10_037 => ErrorKind::NotFound,
            10_065 | 10_058 | 10_148 | 10_100 | 10_099 | 10_070 | 10_201 => ErrorKind::Conflict,
            STORE_FAILED | 10_047 | 10_026 | 10_002 | 10_023 | 10_027 | 10_028 => ErrorKind::Full,
            10_054 => ErrorKind::TooLarge,
            10_057 | 10_110 => ErrorKind::Denied,
            // Too few servers for the copies, now at least.
            10_005 | 10_074 => ErrorKind::Unavailable,
            _ if code == 400 => ErrorKind::Invalid,
            _ => ErrorKind::Unavailable,
        };
        Error::new(kind, op, said)
    }
}

/// Whatever the store itself refuses, in its words.
const STORE_FAILED: u32 = 10_077;

/// Those for the bound of a stream's messages.
const MESSAGES_MAX: &str = "maximum messages exceeded";
