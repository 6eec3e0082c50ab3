//! One question to a server, straight on the wire: a cluster is asked before any client is there.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    time::Duration,
};

/// What the server at `url` answers on `subject`; in words what went wrong.
pub(crate) fn ask(url: &str, subject: &str, body: &str) -> Result<String, String> {
    talk(url, subject, body).map_err(|error| format!("{url} {subject}: {error}"))
}

fn talk(url: &str, subject: &str, body: &str) -> std::io::Result<String> {
    let address = url.split_once("://").map_or(url, |(_, address)| address);
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(ANSWER_WITHIN))?;
    let mut answers = BufReader::new(stream.try_clone()?);
    let text = format!(
        "CONNECT {{\"verbose\":false,\"headers\":true,\"no_responders\":true}}\r\n\
         SUB _INBOX.ready 1\r\nPUB {subject} _INBOX.ready {}\r\n{body}\r\n",
        body.len()
    );
    stream.write_all(text.as_bytes())?;
    loop {
        let mut line = String::new();
        if answers.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        if line.starts_with("HMSG ") || line.starts_with("-ERR") {
            return Err(std::io::Error::other(line.trim_end().to_owned()));
        }
        let Some(head) = line.strip_prefix("MSG ") else { continue };
        let length = head.trim_end().rsplit(' ').next().and_then(|text| text.parse().ok());
        let mut answer = vec![0; length.unwrap_or(0)];
        answers.read_exact(&mut answer)?;
        return Ok(String::from_utf8_lossy(&answer).into_owned());
    }
}

/// A server that nobody leads says nothing for a while.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
