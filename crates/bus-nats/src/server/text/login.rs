//! Who may connect, in the server's language.

use std::path::Path;

use bus_crypto::jwt::{Permissions, SubjectPermission};

use super::{
    Page, ServerError,
    page::{list, path, quoted, span},
};
use crate::server::config::{Authorization, NkeyUser, Resolver, ServerConfig};

pub(super) fn write(page: &mut Page, config: &ServerConfig, dir: &Path) -> Result<(), ServerError> {
    let patience = span("login_within", config.login_within)?;
    match &config.authorization {
        Authorization::Open => {}
        Authorization::Nkeys(users) => {
            page.open("authorization");
            page.line("timeout", patience);
            page.begin("users: [");
            for user in users {
                nkey_user(page, user)?;
            }
            page.end("]");
            page.close();
        }
        Authorization::Jwt { operator, system_account, accounts } => {
            page.open("authorization");
            page.line("timeout", patience);
            page.close();
            page.line("operator", quoted("authorization.operator", operator)?);
            page.line("system_account", quoted("authorization", &system_account.text())?);
            resolver(page, config.resolver, dir)?;
            page.open("resolver_preload");
            for (account, token) in accounts {
                page.line(&account.text(), quoted("authorization.accounts", token)?);
            }
            page.close();
            if let Some(sentinel) = &config.sentinel {
                page.line("default_sentinel", quoted("sentinel", sentinel)?);
            }
        }
    }
    Ok(())
}

fn resolver(page: &mut Page, resolver: Resolver, dir: &Path) -> Result<(), ServerError> {
    let (interval, timeout) = match resolver {
        Resolver::Memory => {
            page.line("resolver", "MEMORY");
            return Ok(());
        }
        Resolver::Full { interval, timeout } => (interval, timeout),
    };
    page.open("resolver");
    page.line("type", "full");
    page.line("dir", path("dir", &dir.join("jwt"))?);
    // What a deletion takes away, an older token could bring back.
    page.line("allow_delete", "false");
    page.line("interval", span("resolver.interval", interval)?);
    page.line("timeout", span("resolver.timeout", timeout)?);
    page.close();
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
                page.line(word, list("permissions", subjects.iter().map(String::as_str))?);
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
