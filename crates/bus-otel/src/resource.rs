//! Who tells spans: the resource of OpenTelemetry.

use opentelemetry_proto::tonic::{common::v1::KeyValue, resource::v1};

use crate::{
    Pair,
    span::{text, whole},
};

/// The process that tells spans, and what its users say of it besides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// The service's name.
    pub service: String,
    /// The program's version.
    pub version: &'static str,
    /// The process's id.
    pub process: u32,
    /// Further attributes. One of a name that stands above is left out.
    pub attributes: Vec<Pair>,
}

impl Resource {
    pub(crate) fn to_proto(&self) -> v1::Resource {
        let mut attributes: Vec<KeyValue> = vec![
            text("service.name", &self.service),
            text("service.version", self.version),
            whole("process.pid", i64::from(self.process)),
            text("telemetry.sdk.name", "vakbus"),
            text("telemetry.sdk.language", "rust"),
            text("telemetry.sdk.version", self.version),
        ];
        for Pair { name, value } in &self.attributes {
            if attributes.iter().all(|known| known.key != *name) {
                attributes.push(text(name, value));
            }
        }
        v1::Resource { attributes, ..v1::Resource::default() }
    }
}
