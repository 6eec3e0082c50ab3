//! The arguments of one call, held to what its tool takes. Every refusal names the argument.

use std::time::Duration;

use bus_core::Endpoint;
use data_encoding::BASE64;
use rmcp::model::JsonObject;
use serde_json::Value;

use super::{Kind, Spec};
use crate::answer::Refused;

/// Arguments whose names and types were checked.
#[derive(Debug)]
pub(crate) struct Args(JsonObject);

/// Something to send: what it is, and its bytes.
#[derive(Debug)]
pub(crate) struct Content {
    pub content_type: &'static str,
    pub bytes: Vec<u8>,
}

impl Args {
    /// Holds `given` to what `tool` takes. What is `null` counts as left out.
    pub(crate) fn check(tool: &Spec, given: Option<JsonObject>) -> Result<Self, Refused> {
        let mut given = given.unwrap_or_default();
        given.retain(|name, value| !value.is_null() || is_json(tool, name));
        for (name, value) in &given {
            let Some(param) = tool.params.iter().find(|param| param.name == name) else {
                let known: Vec<&str> = tool.params.iter().map(|param| param.name).collect();
                let reason = format!("{} takes no such argument: {}", tool.name, known.join(", "));
                return Err(Refused::argument(name, reason));
            };
            check(param.kind, value).map_err(|reason| Refused::argument(name, reason))?;
        }
        match tool.params.iter().find(|param| param.required && !given.contains_key(param.name)) {
            Some(missing) => Err(Refused::argument(missing.name, "is needed")),
            None => Ok(Self(given)),
        }
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str)
    }

    /// The text of an argument that the tool needs.
    pub(crate) fn needed(&self, name: &str) -> Result<&str, Refused> {
        self.text(name).ok_or_else(|| Refused::argument(name, "is needed"))
    }

    /// A text that has a form of its own.
    pub(crate) fn parsed<T, E: std::fmt::Display>(
        &self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<Option<T>, Refused> {
        let parsed = self.text(name).map(parse).transpose();
        parsed.map_err(|error| Refused::argument(name, error))
    }

    pub(crate) fn texts(&self, name: &str) -> Option<Vec<&str>> {
        let texts = self.0.get(name).and_then(Value::as_array)?;
        Some(texts.iter().filter_map(Value::as_str).collect())
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        self.0.get(name).and_then(Value::as_bool).unwrap_or(false)
    }

    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.0.get(name).and_then(Value::as_u64)
    }

    pub(crate) fn seconds(&self, name: &str) -> Option<Duration> {
        self.number(name).map(Duration::from_secs)
    }

    /// What is to be sent: exactly one of `text`, `json` and `base64`.
    pub(crate) fn content(&self) -> Result<Content, Refused> {
        self.content_if_any()?
            .ok_or_else(|| Refused::argument("text", "one of text, json and base64 is needed"))
    }

    /// As [`Args::content`]; none when there is none.
    pub(crate) fn content_if_any(&self) -> Result<Option<Content>, Refused> {
        let (text, json, base64) = (self.text("text"), self.0.get("json"), self.text("base64"));
        let content = match (text, json, base64) {
            (None, None, None) => return Ok(None),
            (Some(text), None, None) => {
                Content { content_type: TEXT, bytes: text.as_bytes().to_vec() }
            }
            (None, Some(json), None) => {
                Content { content_type: JSON, bytes: json.to_string().into_bytes() }
            }
            (None, None, Some(text)) => {
                let bytes = BASE64.decode(text.as_bytes());
                let bytes = bytes.map_err(|error| Refused::argument("base64", error))?;
                Content { content_type: "application/octet-stream", bytes }
            }
            _ => return Err(Refused::argument("text", "only one of text, json and base64")),
        };
        let (bytes, max) = (content.bytes.len(), Endpoint::PAYLOAD_BYTES_MAX);
        if bytes > max {
            let reason = format!("the body has {bytes} bytes: at most {max} are allowed");
            return Err(
                Refused::new("too-large", reason).next("store it elsewhere and send where it is")
            );
        }
        Ok(Some(content))
    }
}

fn is_json(tool: &Spec, name: &str) -> bool {
    tool.params.iter().any(|param| param.name == name && param.kind == Kind::Json)
}

fn check(kind: Kind, value: &Value) -> Result<(), String> {
    let expected = match kind {
        Kind::Json => return Ok(()),
        Kind::Text if value.is_string() => return Ok(()),
        Kind::Text => "a text".to_owned(),
        Kind::Flag if value.is_boolean() => return Ok(()),
        Kind::Flag => "true or false".to_owned(),
        Kind::Texts => match value.as_array() {
            Some(items) if items.iter().all(Value::is_string) => return Ok(()),
            _ => "a list of texts".to_owned(),
        },
        Kind::Number { max } => match value.as_u64() {
            Some(number) if number <= max => return Ok(()),
            _ => format!("a whole number from 0 to {max}"),
        },
    };
    Err(format!("expected {expected}"))
}

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";
