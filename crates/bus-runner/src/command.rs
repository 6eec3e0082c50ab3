//! What to run: program, arguments with a place for the task's text, environment and time limits.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

use crate::terminal::Terminal;

/// A command that is run once for each task.
///
/// `Debug` prints the names of variables, never their values.
#[derive(Clone, PartialEq, Eq)]
pub struct CommandSpec {
    /// The program: a path, or a name that is looked up in `PATH`. `{}` has no meaning here.
    pub program: OsString,
    /// The arguments. Each `{}` in each of them becomes the task's text.
    pub args: Vec<OsString>,
    /// Variables set for the child on top of the inherited ones; they win over `env_removed`.
    pub env: Vec<(OsString, OsString)>,
    /// Variables that are not inherited, beside [`SECRET_VARIABLES`], which never are.
    pub env_removed: Vec<OsString>,
    /// The working directory; the caller's when `None`.
    pub cwd: Option<PathBuf>,
    /// How long the command may run, counted from its start; no limit when `None`.
    pub timeout: Option<Duration>,
    /// How long the process group has between `SIGTERM` and `SIGKILL`, and how long its output may
    /// stay open after the command itself has ended. Default [`GRACE_DEFAULT`].
    pub grace: Duration,
    /// The terminal that the command writes to; pipes when `None`, the default. With a terminal
    /// `COLUMNS` and `LINES` are not inherited, and `TERM` is `xterm-256color` unless it is set.
    pub terminal: Option<Terminal>,
}

impl CommandSpec {
    /// Creates a command with the inherited environment, no time limit and the default grace.
    ///
    /// # Examples
    /// ```
    /// let spec = bus_runner::CommandSpec::new("echo", ["task: {}"]);
    /// assert!(spec.takes_text());
    /// ```
    pub fn new<P, A>(program: P, args: A) -> Self
    where
        P: Into<OsString>,
        A: IntoIterator,
        A::Item: Into<OsString>,
    {
        Self {
            program: program.into(),
            args: args.into_iter().map(Into::into).collect(),
            env: Vec::new(),
            env_removed: Vec::new(),
            cwd: None,
            timeout: None,
            grace: GRACE_DEFAULT,
            terminal: None,
        }
    }

    /// Tells whether an argument holds `{}`; if none does, the text has to travel on stdin.
    #[must_use]
    pub fn takes_text(&self) -> bool {
        self.args.iter().any(|arg| find(arg.as_bytes()).is_some())
    }

    /// Returns the command with every `{}` of every argument replaced by `text`.
    ///
    /// The text goes into the argument as it is: no shell sees it, and a `{}` inside the text is
    /// left alone.
    ///
    /// # Errors
    /// [`CommandError::NulInText`] when `text` holds a NUL and an argument needs it,
    /// [`CommandError::SecretVariable`] when `env` sets one of [`SECRET_VARIABLES`], and
    /// [`CommandError::BadVariable`] when a variable's name is empty or holds `=` or NUL, or its
    /// value a NUL. Nothing has been started.
    pub fn for_text(&self, text: &str) -> Result<PreparedCommand, CommandError> {
        if text.contains('\0') && self.takes_text() {
            return Err(CommandError::NulInText);
        }
        self.check_variables()?;
        let mut spec = self.clone();
        spec.args = self.args.iter().map(|arg| filled(arg, text)).collect();
        Ok(PreparedCommand { spec })
    }

    fn check_variables(&self) -> Result<(), CommandError> {
        for (name, value) in &self.env {
            let shown = || name.to_string_lossy().into_owned();
            if SECRET_VARIABLES.iter().any(|secret| name == secret) {
                return Err(CommandError::SecretVariable { name: shown() });
            }
            if !is_variable_name(name) || value.as_bytes().contains(&0) {
                return Err(CommandError::BadVariable { name: shown() });
            }
        }
        match self.env_removed.iter().find(|name| !is_variable_name(name)) {
            Some(name) => {
                Err(CommandError::BadVariable { name: name.to_string_lossy().into_owned() })
            }
            None => Ok(()),
        }
    }
}

impl fmt::Debug for CommandSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&OsStr> = self.env.iter().map(|(name, _value)| name.as_os_str()).collect();
        f.debug_struct("CommandSpec")
            .field("program", &self.program)
            .field("args", &self.args)
            .field("env_names", &names)
            .field("env_removed", &self.env_removed)
            .field("cwd", &self.cwd)
            .field("timeout", &self.timeout)
            .field("grace", &self.grace)
            .field("terminal", &self.terminal.as_ref().map(Terminal::size))
            .finish()
    }
}

/// A command whose arguments hold the text of one task; made by [`CommandSpec::for_text`].
///
/// `Debug` prints neither the arguments (they hold the task) nor the values of variables.
#[derive(Clone, PartialEq, Eq)]
pub struct PreparedCommand {
    spec: CommandSpec,
}

impl PreparedCommand {
    /// Returns the program as it was given.
    #[must_use]
    pub fn program(&self) -> &OsStr {
        &self.spec.program
    }

    /// Returns the arguments with the task's text in place.
    #[must_use]
    pub fn args(&self) -> &[OsString] {
        &self.spec.args
    }

    /// Returns the time limit of the run.
    #[must_use]
    pub fn timeout(&self) -> Option<Duration> {
        self.spec.timeout
    }

    /// Returns the time between `SIGTERM` and `SIGKILL`.
    #[must_use]
    pub fn grace(&self) -> Duration {
        self.spec.grace
    }

    pub(crate) fn terminal(&self) -> Option<&Terminal> {
        self.spec.terminal.as_ref()
    }

    pub(crate) fn cwd(&self) -> Option<&PathBuf> {
        self.spec.cwd.as_ref()
    }

    /// Returns the names of all variables that the child does not inherit.
    pub(crate) fn env_removed(&self) -> impl Iterator<Item = &OsStr> {
        let secrets = SECRET_VARIABLES.iter().map(OsStr::new);
        let of_a_terminal = self.spec.terminal.iter().flat_map(|_| TERMINAL_SIZE_VARIABLES);
        let own = self.spec.env_removed.iter().map(OsString::as_os_str);
        secrets.chain(of_a_terminal.map(OsStr::new)).chain(own)
    }

    /// Returns the kind of terminal to tell the command; `None` when it is told already.
    pub(crate) fn term(&self) -> Option<(&OsStr, &OsStr)> {
        let is_set = |(name, _value): &(OsString, OsString)| name == TERM_VAR;
        let is_inherited = std::env::var_os(TERM_VAR).is_some_and(|term| !term.is_empty())
            && !self.spec.env_removed.iter().any(|name| name == TERM_VAR);
        let is_told = self.spec.env.iter().any(is_set) || is_inherited;
        let is_wanted = self.spec.terminal.is_some() && !is_told;
        is_wanted.then(|| (OsStr::new(TERM_VAR), OsStr::new(TERM_DEFAULT)))
    }

    pub(crate) fn env(&self) -> &[(OsString, OsString)] {
        &self.spec.env
    }
}

impl fmt::Debug for PreparedCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedCommand")
            .field("program", &self.spec.program)
            .field("args_count", &self.spec.args.len())
            .finish_non_exhaustive()
    }
}

/// Why a command cannot be prepared for a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// The text holds a NUL, which no argument of a process can carry.
    #[error("the text holds a NUL, which an argument cannot carry")]
    NulInText,
    /// A secret of the bus was to be handed to a command (D10).
    #[error("the variable {name} holds a secret of the bus and is never given to a command")]
    SecretVariable {
        /// The variable's name.
        name: String,
    },
    /// A variable that the system cannot represent.
    #[error("the variable {name:?} needs a name without = and NUL, and a value without NUL")]
    BadVariable {
        /// The variable's name, as far as it is text.
        name: String,
    },
}

/// The variables that hold secrets of the bus; no command inherits them (D10).
///
/// The variable that `workspace_secret_env` names belongs into [`CommandSpec::env_removed`] when
/// it has another name.
pub const SECRET_VARIABLES: [&str; 5] = [
    BUS_NATS_JWT_VAR,
    BUS_NATS_NKEY_SEED_VAR,
    WORKSPACE_SECRET_VAR,
    OTEL_HEADERS_VAR,
    OTEL_TRACES_HEADERS_VAR,
];

/// The headers for a collector of spans, a login mostly: OpenTelemetry's own name for them.
pub const OTEL_HEADERS_VAR: &str = "OTEL_EXPORTER_OTLP_HEADERS";

/// As [`OTEL_HEADERS_VAR`], for spans alone.
pub const OTEL_TRACES_HEADERS_VAR: &str = "OTEL_EXPORTER_OTLP_TRACES_HEADERS";

/// The variables of the secrets that a NATS server asks for.
pub const NATS_SECRET_VARIABLES: [&str; 2] = [BUS_NATS_JWT_VAR, BUS_NATS_NKEY_SEED_VAR];

/// The variable of the NATS credentials JWT (S0.61).
pub const BUS_NATS_JWT_VAR: &str = "VAK_BUS_NATS_CREDENTIALS_JWT";

/// The variable of the NATS nkey seed (S0.62).
pub const BUS_NATS_NKEY_SEED_VAR: &str = "VAK_BUS_NATS_NKEY_SEED";

/// The variable of the workspace's secret, unless `workspace_secret_env` names another.
pub const WORKSPACE_SECRET_VAR: &str = "VAKBUS_WORKSPACE_SECRET";

/// The default time between `SIGTERM` and `SIGKILL`.
pub const GRACE_DEFAULT: Duration = Duration::from_secs(2);

/// A size in the environment would belie the terminal's own, which may change.
const TERMINAL_SIZE_VARIABLES: [&str; 2] = ["COLUMNS", "LINES"];

const TERM_VAR: &str = "TERM";
const TERM_DEFAULT: &str = "xterm-256color";

fn is_variable_name(name: &OsStr) -> bool {
    let bytes = name.as_bytes();
    !bytes.is_empty() && !bytes.iter().any(|byte| matches!(byte, 0 | b'='))
}

/// Replaces each `{}` of the argument; what is put in is not looked at again.
fn filled(arg: &OsStr, text: &str) -> OsString {
    let mut rest = arg.as_bytes();
    let mut out = Vec::with_capacity(rest.len());
    while let Some((before, after)) = find(rest) {
        out.extend_from_slice(before);
        out.extend_from_slice(text.as_bytes());
        rest = after;
    }
    out.extend_from_slice(rest);
    OsString::from_vec(out)
}

/// Splits around the first `{}`.
fn find(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = bytes.windows(PLACE.len()).position(|window| window == PLACE)?;
    let (before, rest) = bytes.split_at_checked(at)?;
    Some((before, rest.get(PLACE.len()..)?))
}

const PLACE: &[u8] = b"{}";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn args_for(args: &[&str], text: &str) -> Vec<OsString> {
        CommandSpec::new("x", args).for_text(text).unwrap().args().to_vec()
    }

    #[test]
    fn every_place_in_every_argument_becomes_the_text() {
        assert_eq!(args_for(&["{}", "a{}b{}", "plain", "{ }"], "T"), ["T", "aTbT", "plain", "{ }"]);
    }

    #[test]
    fn places_inside_the_text_stay() {
        assert_eq!(args_for(&["<{}>"], "a{}b"), ["<a{}b>"]);
    }

    #[test]
    fn an_argument_that_is_not_utf8_keeps_its_bytes() {
        let arg = OsString::from_vec(b"\xff{}\xfe".to_vec());
        let command = CommandSpec::new("x", [arg]).for_text("é").unwrap();
        assert_eq!(command.args(), [OsString::from_vec(b"\xff\xc3\xa9\xfe".to_vec())]);
    }

    #[test]
    fn nul_is_refused_where_an_argument_needs_the_text() {
        let spec = CommandSpec::new("x", ["{}"]);
        assert_eq!(spec.for_text("a\0b"), Err(CommandError::NulInText));
    }

    #[test]
    fn nul_is_no_matter_where_no_argument_needs_the_text() {
        assert!(CommandSpec::new("cat", ["-"]).for_text("a\0b").is_ok());
    }

    #[test]
    fn a_secret_of_the_bus_is_not_handed_over_on_purpose_either() {
        let mut spec = CommandSpec::new("x", ["{}"]);
        spec.env.push(("VAK_BUS_NATS_NKEY_SEED".into(), "SU".into()));
        let name = "VAK_BUS_NATS_NKEY_SEED".to_owned();
        assert_eq!(spec.for_text("t"), Err(CommandError::SecretVariable { name }));
    }

    #[test]
    fn variables_without_a_proper_name_are_refused() {
        for (name, value) in [("", "v"), ("A=B", "v"), ("A\0", "v"), ("A", "v\0")] {
            let mut spec = CommandSpec::new("x", ["{}"]);
            spec.env.push((name.into(), value.into()));
            let refused = Err(CommandError::BadVariable { name: name.to_owned() });
            assert_eq!(spec.for_text("t"), refused, "{name:?}={value:?}");
        }
    }

    #[test]
    fn debug_shows_neither_values_nor_the_task() {
        let mut spec = CommandSpec::new("x", ["{}"]);
        spec.env.push(("NAME".into(), "hidden-value".into()));
        let shown = format!("{spec:?} {:?}", spec.for_text("hidden-task").unwrap());
        assert!(shown.contains("NAME") && !shown.contains("hidden"), "{shown}");
    }

    proptest! {
        #[test]
        fn filling_equals_the_replacement_of_strings(arg in "[{}a ]{0,12}", text in "[{}b\u{e9}]{0,6}") {
            prop_assert_eq!(args_for(&[&arg], &text), [OsString::from(arg.replace("{}", &text))]);
        }
    }
}
