//! What a daemon does when something happens: a command that it runs, or a place that it tells.

use std::fmt;

use crate::http::HttpUrl;

/// A hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Hook {
    /// A line for `sh -c`.
    Command(String),
    /// Where it is posted.
    Url(HttpUrl),
}

impl Hook {
    /// Reads a hook: what begins as a URL does (`word://`) is one, the rest is a command.
    ///
    /// # Errors
    /// What was expected.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if HttpUrl::is_meant(text) {
            return HttpUrl::parse(text.trim()).map(Self::Url);
        }
        if text.trim().is_empty() || text.contains('\0') {
            return Err("expected a command for the shell, or an https URL".to_owned());
        }
        Ok(Self::Command(text.to_owned()))
    }

    /// All of it, for the settings file alone: it may hold a secret.
    pub(super) fn whole(&self) -> String {
        match self {
            Self::Command(line) => line.clone(),
            Self::Url(url) => url.whole(),
        }
    }
}

impl fmt::Display for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(line) => f.write_str(line),
            Self::Url(url) => url.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_a_url_is_never_run() {
        for text in ["HTTPS://host/x", "Https://host/x", " https://host/x", "http://LOCALHOST/x"] {
            assert!(matches!(Hook::parse(text), Ok(Hook::Url(_))), "{text}");
        }
        for text in ["HTTP://host/x", "htps://host/x", "ftp://host/x", "wss+x://host", "https://"] {
            assert!(Hook::parse(text).is_err(), "{text}");
        }
        for text in ["curl https://host/x", "./x://y", "a b://c"] {
            assert!(matches!(Hook::parse(text), Ok(Hook::Command(_))), "{text}");
        }
    }

    #[test]
    fn the_token_in_a_url_is_never_shown() {
        for text in ["https://host:8443/canary", "https://host/?canary", "https://host/a?b=canary"]
        {
            let hook = Hook::parse(text).unwrap();
            let shown = format!("{hook} {hook:?}");
            assert!(shown.contains("https://host"), "{shown}");
            assert!(!shown.contains("canary"), "{shown}");
            assert_eq!(Hook::parse(&hook.whole()).unwrap(), hook);
        }
    }
}
