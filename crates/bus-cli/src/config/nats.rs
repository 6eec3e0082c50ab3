//! What the settings say about NATS servers.

use std::path::Path;

use bus_nats::{NatsTls, Profile};

use super::{Config, Held, Key, Origin, Value};
use crate::error::CliError;

impl Config {
    /// The NATS servers to use instead of this machine's own engine, and where that is said.
    pub(crate) fn nats_url(&self) -> Option<(&str, &Origin)> {
        match self.get(Key::NatsUrl)? {
            Held { value: Value::Url(url), origin } => Some((url, origin)),
            _ => None,
        }
    }

    /// How the NATS servers keep what is stored.
    pub(crate) fn nats_profile(&self) -> Profile {
        match self.word(Key::NatsProfile) {
            Some("synced") => Profile::Synced,
            Some("replicated") => Profile::Replicated,
            _ => Profile::Development,
        }
    }

    /// The file of credentials to log in with at the NATS servers.
    pub(crate) fn nats_creds(&self) -> Option<&Path> {
        self.path(Key::NatsCreds)
    }

    /// How connections to NATS servers are encrypted.
    ///
    /// # Errors
    /// A certificate without its key, or a key without its certificate.
    pub(crate) fn nats_tls(&self) -> Result<NatsTls, CliError> {
        let file = |key| self.path(key).map(Path::to_owned);
        let client = match (file(Key::NatsTlsCert), file(Key::NatsTlsPrivate)) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => {
                let (cert, key) = (Key::NatsTlsCert.name(), Key::NatsTlsPrivate.name());
                return Err(CliError::usage(format!("{cert} and {key} go together"))
                    .next("set both or neither: vakbus config show --origin"));
            }
        };
        let mode = self.word(Key::NatsTls);
        Ok(NatsTls {
            required: matches!(mode, Some("required" | "first")),
            first: mode == Some("first"),
            roots: file(Key::NatsTlsCa).into_iter().collect(),
            client,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{super::SettingsFile, *};
    use crate::error::Exit;

    fn read(text: &str) -> Config {
        let (path, text) = (PathBuf::from("/p/vakbus.toml"), text.to_owned());
        let file = SettingsFile { path, text, is_foreign: false };
        Config::merge([file.layer(Origin::User).unwrap()])
    }

    #[test]
    fn a_configured_server_is_known_with_where_it_is_said() {
        let config = read("server.bus.nats_url = \"nats://h\"");
        let (url, origin) = config.nats_url().unwrap();
        assert_eq!((url, origin.to_string().as_str()), ("nats://h", "/p/vakbus.toml:1"));
        assert!(Config::default().nats_url().is_none());
    }

    #[test]
    fn servers_of_one_cluster_are_named_with_commas_between_them() {
        let config = read("server.bus.nats_url = \"nats://a:4222,tls://b:4222\"");
        assert_eq!(config.nats_url().unwrap().0, "nats://a:4222,tls://b:4222");
        for wrong in ["nats://a,", "nats://a,b", "nats://a, nats://b", ",nats://a"] {
            let error = Key::NatsUrl.kind().read(wrong, Path::new("")).unwrap_err();
            assert!(error.starts_with("expected a URL such as"), "{wrong}: {error}");
        }
    }

    #[test]
    fn a_password_in_any_of_the_urls_is_refused() {
        for wrong in ["nats://u:p@a", "nats://a,nats://u:p@b", "tls://u:p,q@a"] {
            let error = Key::NatsUrl.kind().read(wrong, Path::new("")).unwrap_err();
            assert!(error.contains("without user and password"), "{wrong}: {error}");
        }
    }

    #[test]
    fn the_profile_is_the_weakest_unless_it_is_set() {
        assert_eq!(Config::default().nats_profile(), Profile::Development);
        let config = read("server.bus.profile = \"replicated\"");
        assert_eq!(config.nats_profile(), Profile::Replicated);
    }

    #[test]
    fn a_word_that_a_setting_does_not_know_is_refused_with_those_it_knows() {
        let error = Key::NatsProfile.kind().read("safe", Path::new("")).unwrap_err();
        assert_eq!(error, "expected one of \"development\", \"synced\", \"replicated\"");
    }

    #[test]
    fn encryption_before_the_first_word_is_never_done_without() {
        let tls = read("server.bus.tls = \"first\"").nats_tls().unwrap();
        assert!(tls.required && tls.first);
        let tls = Config::default().nats_tls().unwrap();
        assert!(!tls.required && !tls.first && tls.roots.is_empty() && tls.client.is_none());
    }

    #[test]
    fn a_certificate_and_its_key_are_set_together() {
        let error = read("server.bus.tls_cert = \"/c\"").nats_tls().unwrap_err();
        assert_eq!(error.code(), Exit::Usage);
        let text = "server.bus.tls_cert = \"/c\"\nserver.bus.tls_key = \"/k\"";
        assert!(read(text).nats_tls().unwrap().client.is_some());
    }
}
