//! Who logs in at a NATS server: a key, or a token and its key, and never a text on the command
//! line or in a settings file (D10).

use std::sync::Arc;

use bus_crypto::{Credentials, NkeyKind, SigningKey, SystemEntropy};
use bus_nats::NatsAuth;
use bus_runner::{BUS_NATS_JWT_VAR, BUS_NATS_NKEY_SEED_VAR};
use zeroize::Zeroizing;

use crate::{
    error::{CliError, Exit},
    home::Home,
    secrets::Secrets,
};

/// Who logs in, and who says so. Holds the key itself; it has no `Debug`.
#[derive(Clone)]
pub(crate) enum Login {
    /// Nobody in particular.
    Nobody,
    /// The secrets of this process.
    Secrets(NatsAuth),
    /// The key that `vakbus up --nats` made in the data home.
    Home(NatsAuth),
}

/// The file of the data home with the key that its own server knows.
const LOGIN_FILE: &str = "nats.nk";

impl Login {
    /// The token and key of the secrets, or their key alone, or the data home's key.
    ///
    /// # Errors
    /// A token without its key, and texts that are neither; they are not quoted.
    pub(super) fn of_secrets(secrets: &Secrets, home: &Home) -> Result<Self, CliError> {
        let token = secrets.bus_secret(BUS_NATS_JWT_VAR)?;
        let seed = secrets.bus_secret(BUS_NATS_NKEY_SEED_VAR)?;
        // One line feed at the end comes from a file (D10).
        let line = |text: &str| text.strip_suffix('\n').unwrap_or(text).to_owned();
        let wrong = |name: &str, error: &dyn std::fmt::Display| {
            CliError::usage(format!("{name}: {error}"))
                .next("take it from the credentials that the server's operator gave you")
        };
        match (token, seed) {
            (Some(token), Some(seed)) => {
                let token = Zeroizing::new(line(&token.text));
                let seed = Zeroizing::new(line(&seed.text));
                let credentials = Credentials::from_parts(&token, &seed)
                    .map_err(|error| wrong(BUS_NATS_JWT_VAR, &error))?;
                Ok(Self::Secrets(NatsAuth::Jwt(Arc::new(credentials))))
            }
            (None, Some(seed)) => {
                let seed = Zeroizing::new(line(&seed.text));
                let key = user_key(&seed).map_err(|error| wrong(BUS_NATS_NKEY_SEED_VAR, &error))?;
                Ok(Self::Secrets(NatsAuth::Nkey(Arc::new(key))))
            }
            (Some(_), None) => {
                let what =
                    format!("{BUS_NATS_JWT_VAR} is set, and {BUS_NATS_NKEY_SEED_VAR} is not");
                Err(CliError::usage(what).next("set both: a token is of no use without its seed"))
            }
            (None, None) => Self::of_home(home),
        }
    }

    /// The data home's key, or nobody when it has none.
    ///
    /// # Errors
    /// When its file cannot be read, is not private or is damaged.
    pub(super) fn of_home(home: &Home) -> Result<Self, CliError> {
        if !home.below(LOGIN_FILE).exists() {
            return Ok(Self::Nobody);
        }
        let key = read_key(home)?;
        Ok(Self::Home(NatsAuth::Nkey(Arc::new(key))))
    }

    /// The data home's key, made when there is none.
    ///
    /// # Errors
    /// As [`Self::of_home`]; when it cannot be written.
    pub(crate) fn make(home: &Home) -> Result<SigningKey, CliError> {
        if !home.below(LOGIN_FILE).exists() {
            home.create()?;
            let key = SigningKey::generate(NkeyKind::User, &SystemEntropy::new())?;
            home.write_new(LOGIN_FILE, &key.seed_text())?;
        }
        read_key(home)
    }

    pub(super) fn auth(&self) -> NatsAuth {
        match self {
            Self::Nobody => NatsAuth::None,
            Self::Secrets(auth) | Self::Home(auth) => auth.clone(),
        }
    }

    /// What to do when the server refuses it.
    pub(super) fn advice(&self) -> String {
        match self {
            Self::Nobody => format!(
                "put the login that its operator gave you into {BUS_NATS_NKEY_SEED_VAR} (with a \
                 token: {BUS_NATS_JWT_VAR} as well), or into the secrets file"
            ),
            Self::Secrets(_) => format!(
                "see that {BUS_NATS_NKEY_SEED_VAR} and {BUS_NATS_JWT_VAR} are of this server, and \
                 that its operator has not taken them back"
            ),
            Self::Home(_) => format!(
                "the key in {LOGIN_FILE} of the data directory is of another server; put this \
                 one's into {BUS_NATS_NKEY_SEED_VAR}"
            ),
        }
    }
}

fn read_key(home: &Home) -> Result<SigningKey, CliError> {
    let text = home.read(LOGIN_FILE)?;
    user_key(text.trim_end()).map_err(|error| {
        let path = home.path().join(LOGIN_FILE);
        CliError::new(Exit::Failed, format!("{} is damaged: {error}", path.display()))
            .next("put back your copy of it")
    })
}

fn user_key(seed: &str) -> Result<SigningKey, String> {
    let key = SigningKey::from_seed_text(seed).map_err(|error| error.to_string())?;
    match key.public().kind() {
        NkeyKind::User => Ok(key),
        _ => Err("expected the seed of a user (SU…)".to_owned()),
    }
}
