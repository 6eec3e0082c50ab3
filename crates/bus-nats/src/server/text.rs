//! Writes a configuration in the server's own language.

use std::path::Path;

use page::{Page, bytes_max, path, quoted, span};

use super::{
    config::{ServerConfig, SyncPolicy},
    error::ServerError,
};

mod doors;
mod login;
mod page;

/// Writes all of `config` for a server that works in `dir`; in `ports` it says which ports it took.
pub(super) fn render(
    config: &ServerConfig,
    dir: &Path,
    ports: Option<&Path>,
) -> Result<String, ServerError> {
    let store = path("dir", dir)?;
    let mut page = Page::default();
    page.line("server_name", quoted("name", &config.name)?);
    page.listen(config.listen);
    if let Some(monitor) = config.monitor {
        page.line("http", quoted("monitor", &monitor.to_string())?);
    }
    if let Some(ports) = ports {
        page.line("ports_file_dir", path("dir", ports)?);
    }
    page.line("max_payload", config.payload_bytes_max);
    page.line("max_control_line", config.control_line_bytes_max);
    page.line("write_deadline", span("write_deadline", config.write_deadline)?);
    page.line("ping_interval", span("ping_interval", config.ping_interval)?);
    page.line("ping_max", 2);
    page.line("lame_duck_duration", span("lame_duck_duration", config.lame_duck_duration)?);
    page.line("lame_duck_grace_period", span("lame_duck_grace", config.lame_duck_grace)?);
    // Its lines go into the log of whoever started it, which knows the time.
    page.line("logtime", "false");
    if config.is_linked() {
        page.open("feature_flags");
        // Without it an acknowledgement names no domain, and one that crosses a leaf link settles
        // whatever task has the same number there.
        page.line("js_ack_fc_v2", "true");
        page.close();
    }
    jetstream(&mut page, config, store)?;
    login::write(&mut page, config, dir)?;
    doors::write(&mut page, config)?;
    Ok(page.text)
}

fn jetstream(page: &mut Page, config: &ServerConfig, store: String) -> Result<(), ServerError> {
    page.open("jetstream");
    page.line("store_dir", store);
    if let Some(domain) = &config.domain {
        page.line("domain", quoted("domain", domain)?);
    }
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
