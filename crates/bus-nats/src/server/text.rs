//! Writes a configuration in the server's own language.
//!
//! Every string stands in double quotes. What could end the quotes early or be read as an escape is
//! refused rather than escaped: no path or token needs it, and a mistake would be a hole.

use std::{
    fmt::{Display, Write},
    path::Path,
    time::Duration,
};

use bus_crypto::jwt::{Permissions, SubjectPermission};

use super::{
    config::{Authorization, NkeyUser, ServerConfig, ServerTls, SyncPolicy},
    error::ServerError,
};

/// Writes all of `config` for a server that works in `dir`.
pub(super) fn render(config: &ServerConfig, dir: &Path) -> Result<String, ServerError> {
    let store = path("dir", dir)?;
    let mut page = Page::default();
    // The server writes -1 for "choose one".
    let port = if config.listen.port() == 0 { -1 } else { i32::from(config.listen.port()) };
    page.line("server_name", quoted("name", &config.name)?);
    page.line("host", quoted("listen", &config.listen.ip().to_string())?);
    page.line("port", port);
    if let Some(monitor) = config.monitor {
        page.line("http", quoted("monitor", &monitor.to_string())?);
    }
    page.line("ports_file_dir", path("dir", &dir.join(PORTS))?);
    page.line("max_payload", config.payload_bytes_max);
    page.line("write_deadline", span("write_deadline", config.write_deadline)?);
    page.line("ping_interval", span("ping_interval", config.ping_interval)?);
    page.line("ping_max", 2);
    page.line("lame_duck_duration", span("lame_duck_duration", config.lame_duck_duration)?);
    page.line("lame_duck_grace_period", span("lame_duck_grace", config.lame_duck_grace)?);
    // Its lines go into the log of whoever started it, which knows the time.
    page.line("logtime", "false");
    jetstream(&mut page, config, store)?;
    authorization(&mut page, &config.authorization)?;
    if let Some(files) = &config.tls {
        tls(&mut page, files)?;
    }
    Ok(page.text)
}

fn jetstream(page: &mut Page, config: &ServerConfig, store: String) -> Result<(), ServerError> {
    page.open("jetstream");
    page.line("store_dir", store);
    match config.sync {
        SyncPolicy::Always => page.line("sync_interval", "always"),
        SyncPolicy::Every(interval) => page.line("sync_interval", span("sync", interval)?),
    }
    if let Some(bytes) = config.memory_bytes_max {
        page.line("max_memory_store", bytes_max("memory_bytes_max", bytes)?);
    }
    if let Some(bytes) = config.file_bytes_max {
        page.line("max_file_store", bytes_max("file_bytes_max", bytes)?);
    }
    page.open("limits");
    // Without it the server caps every stream at 1,000 consumers; a mailbox is one consumer.
    page.line("default_max_consumers", -1);
    page.close();
    page.close();
    Ok(())
}

fn authorization(page: &mut Page, who: &Authorization) -> Result<(), ServerError> {
    match who {
        Authorization::Open => {}
        Authorization::Nkeys(users) => {
            page.open("authorization");
            page.begin("users: [");
            for user in users {
                nkey_user(page, user)?;
            }
            page.end("]");
            page.close();
        }
        Authorization::Jwt { operator, system_account, accounts } => {
            page.line("operator", quoted("authorization.operator", operator)?);
            page.line("system_account", quoted("authorization", &system_account.text())?);
            page.line("resolver", "MEMORY");
            page.open("resolver_preload");
            for (account, token) in accounts {
                page.line(&account.text(), quoted("authorization.accounts", token)?);
            }
            page.close();
        }
    }
    Ok(())
}

fn nkey_user(page: &mut Page, user: &NkeyUser) -> Result<(), ServerError> {
    page.begin("{");
    page.line("nkey", quoted("authorization", &user.key.text())?);
    if let Some(permissions) = &user.permissions {
        permit(page, permissions)?;
    }
    page.end("}");
    Ok(())
}

fn permit(page: &mut Page, permissions: &Permissions) -> Result<(), ServerError> {
    page.open("permissions");
    let directions = [("publish", &permissions.publish), ("subscribe", &permissions.subscribe)];
    for (name, SubjectPermission { allow, deny }) in directions {
        page.open(name);
        // An empty list is left out, as in a token: everything is allowed, nothing is denied.
        for (word, subjects) in [("allow", allow), ("deny", deny)] {
            if !subjects.is_empty() {
                let subjects = subjects.iter().map(|subject| quoted("permissions", subject));
                let subjects: Result<Vec<_>, _> = subjects.collect();
                page.line(word, format!("[{}]", subjects?.join(", ")));
            }
        }
        page.close();
    }
    if let Some(response) = permissions.response {
        page.open("allow_responses");
        page.line("max", response.answers_max);
        page.line("expires", format!("\"{}ns\"", response.ttl_ns));
        page.close();
    }
    page.close();
    Ok(())
}

fn tls(page: &mut Page, files: &ServerTls) -> Result<(), ServerError> {
    page.open("tls");
    page.line("cert_file", path("tls.cert", &files.cert)?);
    page.line("key_file", path("tls.key", &files.key)?);
    if let Some(ca) = &files.ca {
        page.line("ca_file", path("tls.ca", ca)?);
    }
    page.line("verify", files.verify);
    page.close();
    Ok(())
}

/// The text as it grows.
#[derive(Default)]
struct Page {
    text: String,
    depth: usize,
}

impl Page {
    fn line(&mut self, name: &str, value: impl Display) {
        let indent = self.depth * 2;
        // Writing to a string cannot fail.
        let _ignored = writeln!(self.text, "{:indent$}{name}: {value}", "");
    }

    fn begin(&mut self, head: &str) {
        let indent = self.depth * 2;
        let _ignored = writeln!(self.text, "{:indent$}{head}", "");
        self.depth += 1;
    }

    fn end(&mut self, foot: &str) {
        self.depth = self.depth.saturating_sub(1);
        let indent = self.depth * 2;
        let _ignored = writeln!(self.text, "{:indent$}{foot}", "");
    }

    fn open(&mut self, name: &str) {
        self.begin(&format!("{name} {{"));
    }

    fn close(&mut self) {
        self.end("}");
    }
}

fn quoted(field: &'static str, text: &str) -> Result<String, ServerError> {
    if let Some(bad) = text.chars().find(|c| c.is_control() || ['"', '\\'].contains(c)) {
        let reason =
            format!("expected no quotes, backslashes and control characters, found {bad:?}");
        return Err(ServerError::config(field, reason));
    }
    if text.is_empty() {
        return Err(ServerError::config(field, "expected a text that is not empty"));
    }
    Ok(format!("\"{text}\""))
}

fn path(field: &'static str, path: &Path) -> Result<String, ServerError> {
    let text = path.to_str().ok_or_else(|| ServerError::config(field, "expected UTF-8"))?;
    // The server reads a relative path from its own folder, which nobody here thinks of.
    if !path.is_absolute() {
        return Err(ServerError::config(field, format!("expected an absolute path, not {text}")));
    }
    quoted(field, text)
}

fn span(field: &'static str, span: Duration) -> Result<String, ServerError> {
    if span < Duration::from_millis(1) || span > SPAN_MOST {
        return Err(ServerError::config(field, format!("expected 1 ms to {SPAN_MOST:?}")));
    }
    let is_whole = span.subsec_millis() == 0;
    Ok(if is_whole {
        format!("\"{}s\"", span.as_secs())
    } else {
        format!("\"{}ms\"", span.as_millis())
    })
}

fn bytes_max(field: &'static str, bytes: u64) -> Result<i64, ServerError> {
    // The server takes 0 for "no limit of mine" and counts in signed numbers.
    let fits = i64::try_from(bytes).ok().filter(|bytes| *bytes > 0);
    fits.ok_or_else(|| ServerError::config(field, "expected 1 to 2^63-1 bytes"))
}

/// The folder in the server's directory for the file that says which ports it took.
pub(super) const PORTS: &str = "ports";
/// Ten years: what the server's own clock arithmetic holds easily.
const SPAN_MOST: Duration = Duration::from_secs(10 * 365 * 86_400);
