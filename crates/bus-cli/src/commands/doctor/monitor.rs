//! What a server says of itself on its monitoring port: how it syncs, which no client can ask.

use std::time::Duration;

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use super::checks::Sync;
use crate::error::{CliError, Exit};

/// The monitoring port of a server.
pub(super) struct Monitor {
    host: String,
}

impl Monitor {
    /// Reads an address such as `http://127.0.0.1:8222`.
    ///
    /// # Errors
    /// When it is none.
    pub(super) fn parse(url: &str) -> Result<Self, CliError> {
        let host = url.strip_prefix("http://").map(|rest| rest.trim_end_matches('/'));
        let host = host.filter(|host| host.contains(':') && !host.contains(['/', '@']));
        match host {
            Some(host) => Ok(Self { host: host.to_owned() }),
            // What was given may hold a password.
            None => Err(CliError::usage(
                "--monitor: expected http://HOST:PORT, the server's http_port, without a login",
            )
            .next("ask on the server's machine, or through a tunnel")),
        }
    }

    /// Asks how it syncs.
    ///
    /// # Errors
    /// When nobody answers, or it is no nats-server with streams.
    pub(super) async fn sync(&self) -> Result<Sync, CliError> {
        let failed = |why: String| {
            CliError::new(Exit::Unreachable, format!("http://{}/varz: {why}", self.host))
                .next("see that the server has http_port, and that this machine reaches it")
        };
        let asked = timeout(WITHIN, get(&self.host)).await;
        let answer = asked.map_err(|_late| failed("no answer in time".to_owned()))?;
        let answer = answer.map_err(|error| failed(error.to_string()))?;
        read(&answer).ok_or_else(|| failed("that is no nats-server with streams".to_owned()))
    }
}

async fn get(host: &str) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(host).await?;
    let request = format!("GET /varz HTTP/1.0\r\nHost: {host}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await?;
    Ok(answer)
}

/// What an answer says, if it is one.
fn read(answer: &[u8]) -> Option<Sync> {
    let text = std::str::from_utf8(answer).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    if head.split(' ').nth(1) != Some("200") {
        return None;
    }
    let told: Value = serde_json::from_str(body).ok()?;
    let config = told.get("jetstream")?.get("config")?;
    if config.get("sync_always").and_then(Value::as_bool) == Some(true) {
        return Some(Sync::Seen(None));
    }
    let every = config.get("sync_interval").and_then(Value::as_u64)?;
    Some(Sync::Seen(Some(Duration::from_nanos(every))))
}

const WITHIN: Duration = Duration::from_secs(5);
const ANSWER_BYTES_MAX: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_address_of_a_monitoring_port_is_taken() {
        for url in ["http://127.0.0.1:8222", "http://host:8222/", "http://[::1]:8222"] {
            assert!(Monitor::parse(url).is_ok(), "{url}");
        }
        for url in ["host:8222", "https://host:8222", "http://host", "http://u:p@host:1", ""] {
            let error = Monitor::parse(url).err().unwrap();
            assert!(!error.to_string().contains("u:p"), "{error}");
        }
    }

    #[test]
    fn a_server_that_always_syncs_and_one_that_does_not_are_told_apart() {
        let answer = |config: &str| {
            let body = format!("{{\"jetstream\":{{\"config\":{{{config}}}}}}}");
            read(format!("HTTP/1.0 200 OK\r\nX: y\r\n\r\n{body}").as_bytes())
        };
        let always = answer("\"sync_interval\":120000000000,\"sync_always\":true");
        assert_eq!(always, Some(Sync::Seen(None)));
        let often = answer("\"sync_interval\":120000000000");
        assert_eq!(often, Some(Sync::Seen(Some(Duration::from_secs(120)))));
    }

    #[test]
    fn what_is_no_answer_of_a_server_with_streams_is_none() {
        for answer in [
            "",
            "HTTP/1.0 200 OK\r\n\r\n{}",
            "HTTP/1.0 200 OK\r\n\r\n{\"jetstream\":{}}",
            "HTTP/1.0 404 Not Found\r\n\r\n{\"jetstream\":{\"config\":{\"sync_always\":true}}}",
            "HTTP/1.0 200 OK\r\n\r\nno json",
        ] {
            assert_eq!(read(answer.as_bytes()), None, "{answer}");
        }
    }
}
