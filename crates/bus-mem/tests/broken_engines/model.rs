//! Proves that the model test has teeth as well, and that it cuts a failing run down.

use bus_conformance::{ModelFailure, ModelTest};

use crate::{
    fault::Fault,
    harness::{BrokenHarness, Time},
};

/// The faults that random operations come upon.
const FINDABLE: [Fault; 35] = [
    Fault::StoresNothing,
    Fault::ForgetsIds,
    Fault::IgnoresExpectations,
    Fault::SplitsBatches,
    Fault::IgnoresSchedules,
    Fault::IgnoresPriorities,
    Fault::StarvesThePatient,
    Fault::IgnoresKeys,
    Fault::OnlyHidesDiscards,
    Fault::DiscardsEvidence,
    Fault::AlwaysDiscards,
    Fault::HandsOutTwice,
    Fault::ClaimsAhead,
    Fault::AcceptsLateVerdicts,
    Fault::ExtendsNothing,
    Fault::CountsNoAttempts,
    Fault::CountsReleases,
    Fault::RetriesAtOnce,
    Fault::LosesVerdicts,
    Fault::IgnoresPauses,
    Fault::RemovesNothing,
    Fault::RemovesTasksToo,
    Fault::KeepsMembersWaiting,
    Fault::MiscountsConsumers,
    Fault::CutsBatchesShort,
    Fault::UsesPositionsAgain,
    Fault::PausesForEver,
    Fault::SeesGhosts,
    Fault::CountsNoRevisions,
    Fault::DeletesNothing,
    Fault::NeverExpires,
    Fault::KeepsTheEnd,
    Fault::WatchDropsEnds,
    Fault::WatchBeginsAnew,
    Fault::WatchLosesChanges,
];

fn first_failure(fault: Fault, time: Time) -> Option<ModelFailure> {
    const SEEDS: u64 = 20;
    let make = || BrokenHarness::with(fault, time);
    (1..=SEEDS).find_map(|seed| ModelTest::new(seed, 300).run(make).err())
}

#[test]
fn the_model_finds_faults_and_cuts_them_down() {
    let mut unseen = Vec::new();
    for fault in FINDABLE {
        match first_failure(fault, Time::Stopped) {
            None => unseen.push(fault),
            Some(failure) => {
                assert!(failure.operations.len() <= 30, "{fault:?} was not cut down: {failure}");
            }
        }
    }
    assert_eq!(unseen, [], "faults that no seed came upon");
}

#[test]
fn an_engine_without_a_fault_agrees_with_the_model_in_real_time() {
    let make = || BrokenHarness::with(Fault::None, Time::Real);
    for seed in [2, 3] {
        let failure = ModelTest::new(seed, 60).run(make).err();
        assert!(failure.is_none(), "{failure:?}");
    }
}

#[test]
fn a_failing_run_is_repeated_by_its_seed() {
    let make = || BrokenHarness::with(Fault::IgnoresKeys, Time::Stopped);
    let failing = (1..=20).find_map(|seed| ModelTest::new(seed, 300).run(make).err());
    let failing = failing.expect("a seed that fails");
    let again = ModelTest::new(failing.seed, 300).run(make).err();
    assert_eq!(again.map(|failure| failure.operations), Some(failing.operations));
}
