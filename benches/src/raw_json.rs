//! The members of a JSON event as bare `serde_json` writes them: nothing is checked but UTF-8 and
//! the grammar.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Every member of a plain, signed event with a payload that is JSON, borrowed.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Raw<'a> {
    specversion: &'a str,
    id: &'a str,
    source: &'a str,
    r#type: &'a str,
    time: &'a str,
    subject: &'a str,
    datacontenttype: &'a str,
    vakversion: &'a str,
    workspace: &'a str,
    session: &'a str,
    agent: &'a str,
    incarnation: &'a str,
    seq: &'a str,
    prevhash: &'a str,
    traceparent: &'a str,
    signer: &'a str,
    signature: &'a str,
    priority: &'a str,
    #[serde(borrow)]
    data: &'a RawValue,
}

impl<'a> Raw<'a> {
    /// The same members with another payload.
    pub(crate) fn with_data(&self, data: &'a RawValue) -> Self {
        Self { data, ..*self }
    }
}
