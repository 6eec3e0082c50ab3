//! The faults that can be planted in the broker, each of which the ledger must find.

/// What a deliberately broken broker does wrong, now and then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// Takes a verdict on a lease that is over.
    SettlesLate,
    /// Says that a task is removed and hands it out again.
    ForgetsAck,
    /// Loses a task after it has said that it is stored.
    LosesTask,
    /// Says that a task is stored and does not store it.
    StoresNothing,
    /// Hands a leased task out again.
    HandsOutTwice,
    /// Counts every attempt as the first one.
    LosesAttempts,
    /// Lets a failed task return before its rest is over.
    RetriesEarly,
    /// Counts a hand-back as an attempt.
    CountsRelease,
    /// Says that a lease was extended and does nothing.
    ForgetsExtension,
    /// Lets all leases run out when the clock steps back.
    TakesJumpForTime,
    /// Stores a second copy of an id that it should know.
    ForgetsId,
    /// Takes a new id for a known one.
    InventsDuplicate,
    /// Says that a dead letter is stored and does not store it.
    DropsLetter,
    /// Stores a receipt although the head has moved on.
    ForksHead,
    /// Changes a stored receipt.
    AltersReceipt,
    /// Counts a task as waiting that is not there.
    MiscountsLag,
    /// Stores the first half of a batch and answers for all of it.
    TearsBatch,
    /// Says that a message was discarded and keeps it.
    KeepsDiscarded,
    /// Hands out in a pause.
    IgnoresPause,
    /// Hands out tasks of one key side by side.
    IgnoresKey,
    /// Hands out tasks before their time.
    IgnoresSchedule,
    /// Hands out all tasks as if they were equally urgent.
    IgnoresPriority,
    /// Takes a new consumer for the one that was removed.
    KeepsRemoved,
    /// Hands out a live event after the one that follows it.
    ReordersLive,
    /// Tells a slow listener a wrong number of missed events.
    MiscountsGap,
}

impl Fault {
    /// Every fault there is.
    pub const ALL: &'static [Self] = &[
        Self::SettlesLate,
        Self::ForgetsAck,
        Self::LosesTask,
        Self::StoresNothing,
        Self::HandsOutTwice,
        Self::LosesAttempts,
        Self::RetriesEarly,
        Self::CountsRelease,
        Self::ForgetsExtension,
        Self::TakesJumpForTime,
        Self::ForgetsId,
        Self::InventsDuplicate,
        Self::DropsLetter,
        Self::ForksHead,
        Self::AltersReceipt,
        Self::MiscountsLag,
        Self::TearsBatch,
        Self::KeepsDiscarded,
        Self::IgnoresPause,
        Self::IgnoresKey,
        Self::IgnoresSchedule,
        Self::IgnoresPriority,
        Self::KeepsRemoved,
        Self::ReordersLive,
        Self::MiscountsGap,
    ];

    /// How it is called on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SettlesLate => "settles-late",
            Self::ForgetsAck => "forgets-ack",
            Self::LosesTask => "loses-task",
            Self::StoresNothing => "stores-nothing",
            Self::HandsOutTwice => "hands-out-twice",
            Self::LosesAttempts => "loses-attempts",
            Self::RetriesEarly => "retries-early",
            Self::CountsRelease => "counts-release",
            Self::ForgetsExtension => "forgets-extension",
            Self::TakesJumpForTime => "takes-jump-for-time",
            Self::ForgetsId => "forgets-id",
            Self::InventsDuplicate => "invents-duplicate",
            Self::DropsLetter => "drops-letter",
            Self::ForksHead => "forks-head",
            Self::AltersReceipt => "alters-receipt",
            Self::MiscountsLag => "miscounts-lag",
            Self::TearsBatch => "tears-batch",
            Self::KeepsDiscarded => "keeps-discarded",
            Self::IgnoresPause => "ignores-pause",
            Self::IgnoresKey => "ignores-key",
            Self::IgnoresSchedule => "ignores-schedule",
            Self::IgnoresPriority => "ignores-priority",
            Self::KeepsRemoved => "keeps-removed",
            Self::ReordersLive => "reorders-live",
            Self::MiscountsGap => "miscounts-gap",
        }
    }

    /// The fault of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|fault| fault.name() == name)
    }
}
