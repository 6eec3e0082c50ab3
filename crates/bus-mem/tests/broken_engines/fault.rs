//! What can be wrong with an engine.

/// Lists the faults of an engine that answers, and the few that are more than wrong answers.
macro_rules! faults {
    ($($fault:ident),* $(,)?) => {
        /// What is wrong with an engine.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Fault {
            None,
            NeverAnswers,
            Panics,
            Unreachable,
            /// Nothing: what it promises to keep over a restart, it keeps.
            ForgetsNothing,
            $($fault,)*
        }

        /// The faults of an engine that answers, one thing wrong with each.
        pub(crate) const WRONG_ANSWERS: &[Fault] = &[$(Fault::$fault,)*];
    };
}

faults![
    LosesEverySecondFrame,
    PublishesTwice,
    HidesGaps,
    MiscountsGaps,
    EndsAtAGap,
    SubscribesLate,
    PublishWaits,
    PublishesPlacements,
    KeepsNoSamples,
    KeepsEverySubject,
    StoresNothing,
    ForgetsIds,
    IgnoresExpectations,
    MixesUpNames,
    SplitsBatches,
    CutsBatchesShort,
    IgnoresSchedules,
    IgnoresPriorities,
    StarvesThePatient,
    IgnoresKeys,
    OnlyHidesDiscards,
    DiscardsEvidence,
    AlwaysDiscards,
    UsesPositionsAgain,
    HandsOutTwice,
    ClaimsAhead,
    AcceptsLateVerdicts,
    ExtendsNothing,
    CountsNoAttempts,
    CountsReleases,
    RetriesAtOnce,
    LosesVerdicts,
    IgnoresPauses,
    PausesForEver,
    PausesEverybody,
    RemovesNothing,
    RemovesTasksToo,
    KeepsMembersWaiting,
    MiscountsConsumers,
    IgnoresFilters,
    SeesGhosts,
    CountsNoRevisions,
    DeletesNothing,
    NeverExpires,
    KeepsTheEnd,
    MixesUpEnds,
    WatchDropsEnds,
    WatchIsNeverCurrent,
    WatchBeginsEmpty,
    WatchBeginsAnew,
    WatchLosesChanges,
    ShowsBlobsEarly,
    DamagesBlobs,
    DigestsPartByPart,
    DropsEmptyBlobs,
    ReadsWhatIsThereNow,
    ListsBackwards,
    RefusesRepeats,
    MisnamesErrors,
    StaysOpen,
    PromisesTooMuch,
    ForgetsEverything,
];
