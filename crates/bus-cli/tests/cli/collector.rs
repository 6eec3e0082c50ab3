//! A collector of spans: a real HTTP server of these tests that reads what OTLP sends.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::Command,
    sync::{Arc, Condvar, Mutex},
    thread,
};

use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{KeyValue, any_value::Value},
    trace::v1::{Span, span::SpanKind, status::StatusCode},
};
use prost::Message;

use crate::support::LIMIT;

/// What it was sent, and where.
pub(crate) struct Collector {
    pub(crate) url: String,
    posts: Arc<Posts>,
}

#[derive(Default)]
struct Posts {
    all: Mutex<Vec<Post>>,
    more: Condvar,
}

/// One request.
#[derive(Debug, Clone)]
pub(crate) struct Post {
    /// The first line.
    pub(crate) line: String,
    /// Its headers, with names in small letters.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

/// A span as tests compare it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) name: String,
    pub(crate) kind: SpanKind,
    pub(crate) trace: String,
    pub(crate) id: String,
    /// Empty for a root.
    pub(crate) parent: String,
    pub(crate) links: Vec<String>,
    pub(crate) is_error: bool,
    pub(crate) attributes: BTreeMap<String, String>,
}

impl Collector {
    /// One that takes everything.
    pub(crate) fn new() -> Self {
        Self::answering(Some("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"))
    }

    /// One that answers so, or never.
    pub(crate) fn answering(answer: Option<&'static str>) -> Self {
        Self::answering_in_turn(vec![answer])
    }

    /// One that gives these answers in turn, or none; all that come later get the last one.
    pub(crate) fn answering_in_turn(answers: Vec<Option<&'static str>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let posts = Arc::<Posts>::default();
        let heard = Arc::clone(&posts);
        thread::spawn(move || {
            let mut unanswered = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let Some(post) = Post::read(&stream) else { continue };
                let count = {
                    let mut posts = heard.all.lock().unwrap();
                    posts.push(post);
                    heard.more.notify_all();
                    posts.len()
                };
                match answers[count.min(answers.len()) - 1] {
                    Some(answer) => stream.write_all(answer.as_bytes()).unwrap(),
                    None => unanswered.push(stream),
                }
            }
        });
        Self { url, posts }
    }

    /// Has `command` send its spans here, and wait for that on a busy machine too.
    pub(crate) fn of<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", &self.url).env("VAKBUS_OTEL_EXIT_WAIT", "60s")
    }

    pub(crate) fn posts(&self) -> Vec<Post> {
        self.posts.all.lock().unwrap().clone()
    }

    /// Waits until so many requests have come.
    pub(crate) fn waits_for_posts(&self, count: usize) {
        let posts = self.posts.all.lock().unwrap();
        let waited = self.posts.more.wait_timeout_while(posts, LIMIT, |all| all.len() < count);
        let (all, waited) = waited.unwrap();
        assert!(!waited.timed_out(), "never {count} requests: {all:?}");
    }

    /// All spans that came, in the order in which they came.
    pub(crate) fn spans(&self) -> Vec<Seen> {
        let spans = |post: &Post| {
            let request = ExportTraceServiceRequest::decode(&post.body[..]).unwrap();
            let scopes = request.resource_spans.into_iter().flat_map(|told| told.scope_spans);
            scopes.flat_map(|scope| scope.spans).map(Seen::of).collect::<Vec<_>>()
        };
        self.posts().iter().flat_map(spans).collect()
    }

    /// The one span of this name.
    pub(crate) fn span(&self, name: &str) -> Seen {
        let mut found = self.spans();
        found.retain(|span| span.name == name);
        let [one] = &found[..] else { panic!("not one {name:?}: {:#?}", self.spans()) };
        one.clone()
    }
}

impl Post {
    /// Reads one request; none when it breaks off.
    fn read(stream: &TcpStream) -> Option<Self> {
        let mut reader = BufReader::new(stream);
        let mut text = || {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            Some(line.trim_end().to_owned())
        };
        let (line, mut headers) = (text()?, BTreeMap::new());
        loop {
            let header = text()?;
            let Some((name, value)) = header.split_once(": ") else { break };
            headers.insert(name.to_lowercase(), value.to_owned());
        }
        let mut body = vec![0; headers.get("content-length")?.parse().ok()?];
        reader.read_exact(&mut body).ok()?;
        Some(Self { line, headers, body })
    }

    /// What is said of who sent it.
    pub(crate) fn resource(&self) -> BTreeMap<String, String> {
        let request = ExportTraceServiceRequest::decode(&self.body[..]).unwrap();
        shown(&request.resource_spans[0].resource.as_ref().unwrap().attributes)
    }
}

impl Seen {
    fn of(span: Span) -> Self {
        let is_error = span.status.as_ref().is_some_and(|s| s.code() == StatusCode::Error);
        Self {
            kind: span.kind(),
            trace: hex(&span.trace_id),
            id: hex(&span.span_id),
            parent: hex(&span.parent_span_id),
            links: span.links.iter().map(|link| hex(&link.span_id)).collect(),
            is_error,
            attributes: shown(&span.attributes),
            name: span.name,
        }
    }

    pub(crate) fn is(&self, kind: SpanKind, parent: &str) {
        assert_eq!((self.kind, self.parent.as_str()), (kind, parent), "{self:#?}");
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn shown(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let value = |pair: &KeyValue| match pair.value.clone().unwrap().value.unwrap() {
        Value::StringValue(text) => text,
        Value::IntValue(number) => number.to_string(),
        Value::BoolValue(is) => is.to_string(),
        other => panic!("{other:?}"),
    };
    attributes.iter().map(|pair| (pair.key.clone(), value(pair))).collect()
}
