//! What a user may do, as NATS writes it into a token.

/// Which subjects a user may publish and subscribe to. Empty lists allow everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Permissions {
    /// Publishing.
    pub publish: SubjectPermission,
    /// Subscribing.
    pub subscribe: SubjectPermission,
    /// Leave to answer requests on their reply subjects, whatever `publish` says.
    pub response: Option<ResponsePermission>,
}

/// One direction of [`Permissions`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SubjectPermission {
    /// What is allowed; empty means everything.
    pub allow: Vec<String>,
    /// What is refused, even if allowed above.
    pub deny: Vec<String>,
}

/// How often and how long a request may be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponsePermission {
    /// The most answers to one request; -1 for any number.
    pub answers_max: i64,
    /// How long answers are taken, in nanoseconds; -1 for ever.
    pub ttl_ns: i64,
}

/// How much, from where and when a user may use a connection. -1 means no limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserLimits {
    /// Subscriptions.
    pub subscriptions_max: i64,
    /// Bytes in all.
    pub data_bytes_max: i64,
    /// Bytes of one message.
    pub payload_bytes_max: i64,
    /// Networks (CIDR) to connect from; empty means anywhere.
    pub source_networks: Vec<String>,
    /// Times of day to be connected in; empty means always.
    pub times: Vec<TimeRange>,
    /// The time zone of `times`.
    pub times_location: Option<String>,
}

impl Default for UserLimits {
    /// No limits.
    fn default() -> Self {
        Self {
            subscriptions_max: -1,
            data_bytes_max: -1,
            payload_bytes_max: -1,
            source_networks: Vec::new(),
            times: Vec::new(),
            times_location: None,
        }
    }
}

/// From `start` to `end`, both `HH:MM:SS`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TimeRange {
    /// The beginning.
    pub start: String,
    /// The end.
    pub end: String,
}
