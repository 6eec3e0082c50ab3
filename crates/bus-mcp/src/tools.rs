//! The tools as a table: what each is for, what it takes, and who is offered it.

mod args;
mod table;

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

pub(crate) use self::{args::Args, table::TOOLS};

/// One tool.
#[derive(Debug)]
pub(crate) struct Spec {
    pub name: &'static str,
    pub title: &'static str,
    pub about: &'static str,
    pub needs: Needs,
    pub params: &'static [Param],
    /// Whether it changes nothing.
    pub reads_only: bool,
}

/// Which part of the agent a tool acts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Any agent has a mailbox.
    Agent,
    /// One that hands out tasks and sends messages.
    Sender,
    /// One that takes tasks and asks for approvals.
    Worker,
}

/// What a tool takes.
#[derive(Debug)]
pub(crate) struct Param {
    pub name: &'static str,
    pub kind: Kind,
    pub about: &'static str,
    pub required: bool,
}

/// What an argument has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Texts,
    Json,
    Flag,
    /// A number from 0 to `max`.
    Number {
        max: u64,
    },
}

impl Param {
    pub(crate) const fn new(name: &'static str, kind: Kind, about: &'static str) -> Self {
        Self { name, kind, about, required: false }
    }

    pub(crate) const fn required(self) -> Self {
        Self { required: true, ..self }
    }

    fn schema(&self) -> Value {
        let mut schema = match self.kind {
            Kind::Text => json!({ "type": "string" }),
            Kind::Texts => json!({ "type": "array", "items": { "type": "string" } }),
            Kind::Json => json!({}),
            Kind::Flag => json!({ "type": "boolean" }),
            Kind::Number { max } => json!({ "type": "integer", "minimum": 0, "maximum": max }),
        };
        if let Some(schema) = schema.as_object_mut() {
            schema.insert("description".to_owned(), json!(self.about));
        }
        schema
    }
}

impl Spec {
    /// The tool of this name.
    pub(crate) fn find(name: &str) -> Option<&'static Self> {
        TOOLS.iter().find(|tool| tool.name == name)
    }

    /// As clients are told of it.
    pub(crate) fn tool(&self) -> Tool {
        let annotations = ToolAnnotations::with_title(self.title)
            .read_only(self.reads_only)
            .destructive(false)
            .open_world(true);
        Tool::new(self.name, self.about, self.schema()).with_annotations(annotations)
    }

    fn schema(&self) -> Arc<JsonObject> {
        let properties: JsonObject =
            self.params.iter().map(|param| (param.name.to_owned(), param.schema())).collect();
        let required: Vec<&str> =
            self.params.iter().filter(|param| param.required).map(|param| param.name).collect();
        let mut schema = JsonObject::new();
        schema.insert("type".to_owned(), json!("object"));
        schema.insert("properties".to_owned(), Value::Object(properties));
        schema.insert("required".to_owned(), json!(required));
        schema.insert("additionalProperties".to_owned(), json!(false));
        Arc::new(schema)
    }
}
