//! The settings that exist: their names, kinds, variables, and which of them need trust.

use super::value::Kind;

macro_rules! keys {
    ($($variant:ident = $name:literal, $kind:expr, [$($variable:literal),+], $rank:ident,
       $default:expr, $about:literal;)*) => {
        /// A setting.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) enum Key {
            $(#[doc = $about] $variant,)*
        }

        impl Key {
            /// All settings, in the order in which they are shown.
            pub(crate) const ALL: &[Self] = &[$(Self::$variant),*];

            /// Its dotted name in a file.
            pub(crate) const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// What it holds.
            pub(crate) const fn kind(self) -> Kind {
                match self { $(Self::$variant => $kind,)* }
            }

            /// The variables of the environment that set it; the first that is set counts.
            pub(crate) const fn variables(self) -> &'static [&'static str] {
                match self { $(Self::$variant => &[$($variable),+],)* }
            }

            const fn rank(self) -> Rank {
                match self { $(Self::$variant => Rank::$rank,)* }
            }

            /// What holds when nobody sets it, as text.
            pub(crate) const fn default_text(self) -> Option<&'static str> {
                match self { $(Self::$variant => $default,)* }
            }

            /// What it does, in one line.
            pub(crate) const fn about(self) -> &'static str {
                match self { $(Self::$variant => $about,)* }
            }
        }
    };
}

/// Who may set a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rank {
    /// Any project.
    Project,
    /// The user, or a project that the user trusts: it decides where messages, keys and the
    /// machine's room go.
    Trusted,
}

keys! {
    Workspace = "workspace", Kind::Workspace, ["VAKBUS_WORKSPACE"], Project,
        Some("default"), "the workspace to act in";
    DataDir = "data_dir", Kind::Path, ["VAKBUS_DATA_DIR"], Trusted,
        None, "where keys, certificates and stored messages are kept";
    SecretsFile = "secrets_file", Kind::Path, ["VAKBUS_SECRETS_FILE"], Trusted,
        None, "the private file of secrets; secrets.env in the data home when not set";
    Color = "color", Kind::Color, ["VAKBUS_COLOR"], Project,
        Some("auto"), "when to use colours: auto, always or never";
    NatsUrl = "server.bus.nats_url", Kind::Url, ["VAKBUS_NATS_URL", "VAK_BUS_NATS_URL"], Trusted,
        None, "the NATS server to use instead of this machine's own engine";
    NatsProfile = "server.bus.profile", Kind::Word(&["development", "synced", "replicated"]),
        ["VAKBUS_NATS_PROFILE"], Trusted,
        Some("development"), "how its servers keep what is stored: development, synced or replicated";
    NatsTls = "server.bus.tls", Kind::Word(&["auto", "required", "first"]), ["VAKBUS_NATS_TLS"],
        Trusted, Some("auto"),
        "encryption: auto (where the server or the URL asks for it), required, or first";
    NatsTlsCa = "server.bus.tls_ca", Kind::Path, ["VAKBUS_NATS_TLS_CA"], Trusted,
        None, "the PEM file of who may vouch for its servers; the system's when not set";
    NatsTlsCert = "server.bus.tls_cert", Kind::Path, ["VAKBUS_NATS_TLS_CERT"], Trusted,
        None, "a certificate to show to its servers, in PEM";
    NatsTlsPrivate = "server.bus.tls_key", Kind::Path, ["VAKBUS_NATS_TLS_KEY"], Trusted,
        None, "the private file with the key of that certificate, in PEM";
    NatsCreds = "server.bus.creds", Kind::Path, ["VAKBUS_NATS_CREDS"], Trusted,
        None, "the private file of credentials to log in with at its servers";
    WorkspaceSecretEnv = "server.bus.workspace_secret_env", Kind::Variable,
        ["VAKBUS_WORKSPACE_SECRET_ENV"], Trusted,
        None, "the name of the variable that holds the workspace's secret";
    Sync = "daemon.sync", Kind::Sync, ["VAKBUS_SYNC"], Trusted,
        Some("always"), "when stored messages reach the disk: always, or at this interval";
    Socket = "daemon.socket", Kind::Path, ["VAKBUS_SOCKET"], Trusted,
        None, "the daemon's socket; run/bus.sock in the data home when not set";
    OnDeadLetter = "hooks.on_dead_letter", Kind::Hook, ["VAKBUS_ON_DEAD_LETTER"], Trusted,
        None, "what vakbus up does about each dead letter: a command, or an https URL to post to";
    OnApproval = "hooks.on_approval", Kind::Hook, ["VAKBUS_ON_APPROVAL"], Trusted,
        None, "what vakbus up does about each approval that is asked for: a command, or a URL";
    OtelExport = "otel.export", Kind::Word(&["on", "off"]), ["VAKBUS_OTEL"], Trusted,
        Some("on"), "off: no spans are exported, whatever a collector's variables say";
    OtelEndpoint = "otel.endpoint", Kind::Collector,
        ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"], Trusted,
        None, "the collector that spans are exported to, by its URL";
    OtelProtocol = "otel.protocol", Kind::Word(&["http/protobuf", "http/json", "grpc"]),
        ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"], Trusted,
        Some("http/protobuf"), "how they are exported; http/protobuf is the one that is spoken here";
    OtelServiceName = "otel.service_name", Kind::Text, ["OTEL_SERVICE_NAME"], Trusted,
        Some("vakbus"), "the service that they are told as";
    OtelExitWait = "otel.exit_wait", Kind::Duration, ["VAKBUS_OTEL_EXIT_WAIT"], Trusted,
        Some("2s"), "how long a command waits at its end for the last of them to be taken";
    MaxRetries = "worker.max_retries", Kind::Count { max: u32::MAX as u64 },
        ["VAKBUS_MAX_RETRIES"], Project,
        Some("3"), "how often a failed task is tried again";
    Backoff = "worker.backoff", Kind::Duration, ["VAKBUS_BACKOFF"], Project,
        Some("1s"), "the delay before the first retry";
    SubscriptionsMax = "limits.subscriptions_max", LIMIT, ["VAKBUS_LIMITS_SUBSCRIPTIONS_MAX"],
        Trusted, Some("1000000"), "live subscriptions at one time";
    StreamsMax = "limits.streams_max", LIMIT, ["VAKBUS_LIMITS_STREAMS_MAX"], Trusted,
        Some("10000"), "streams";
    ConsumersMax = "limits.consumers_per_stream_max", LIMIT,
        ["VAKBUS_LIMITS_CONSUMERS_PER_STREAM_MAX"], Trusted,
        Some("100000"), "consumers of one stream";
    BucketsMax = "limits.buckets_max", LIMIT, ["VAKBUS_LIMITS_BUCKETS_MAX"], Trusted,
        Some("10000"), "buckets";
    KeysMax = "limits.keys_per_bucket_max", LIMIT, ["VAKBUS_LIMITS_KEYS_PER_BUCKET_MAX"], Trusted,
        Some("1000000"), "keys that hold a value in one bucket";
    BucketBytesMax = "limits.bucket_bytes_max", LIMIT, ["VAKBUS_LIMITS_BUCKET_BYTES_MAX"], Trusted,
        Some("1073741824"), "bytes of all buckets";
    TombstonesMax = "limits.tombstones_per_bucket_max", LIMIT,
        ["VAKBUS_LIMITS_TOMBSTONES_PER_BUCKET_MAX"], Trusted,
        Some("10000"), "ended keys of one bucket that watches still hear of";
    WatchesMax = "limits.watches_max", LIMIT, ["VAKBUS_LIMITS_WATCHES_MAX"], Trusted,
        Some("100000"), "watches at one time";
    BlobBytesMax = "limits.blob_bytes_max", LIMIT, ["VAKBUS_LIMITS_BLOB_BYTES_MAX"], Trusted,
        Some("4294967296"), "bytes of all blobs";
}

impl Key {
    /// The setting of this dotted name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|key| key.name() == name)
    }

    /// Whether a project has to be trusted before it may set this.
    pub(crate) fn is_privileged(self) -> bool {
        self.rank() == Rank::Trusted
    }

    /// Whether `name` is a table that holds settings.
    pub(crate) fn is_table(name: &str) -> bool {
        Self::ALL
            .iter()
            .any(|key| key.name().strip_prefix(name).is_some_and(|rest| rest.starts_with('.')))
    }

    /// Whether a variable of the environment of this name sets something.
    pub(crate) fn is_set_by(variable: &str) -> bool {
        Self::ALL.iter().any(|key| key.variables().contains(&variable))
    }
}

/// The known name that somebody who wrote `name` most probably meant.
///
/// The same last part in another table comes first, then the fewest typing mistakes.
pub(crate) fn nearest(name: &str) -> Option<&'static str> {
    let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    let names = || Key::ALL.iter().map(|key| key.name());
    if let Some(moved) = names().find(|known| last(known) == last(name)) {
        return Some(moved);
    }
    let mistakes = |known: &str| {
        let whole = strsim::damerau_levenshtein(known, name);
        whole.min(strsim::damerau_levenshtein(&last(known), &last(name)))
    };
    let nearest = names().min_by_key(|known| mistakes(known))?;
    let allowed = (last(name).chars().count() / 3).clamp(1, 4);
    (mistakes(nearest) <= allowed).then_some(nearest)
}

const LIMIT: Kind = Kind::Count { max: i64::MAX as u64 };
