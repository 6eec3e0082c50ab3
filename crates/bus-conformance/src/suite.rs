//! The suite: every case against one engine, as trials of a test target or as JSON lines.

use std::{
    collections::BTreeMap,
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError, RwLock},
    thread,
    time::Duration,
};

use libtest_mimic::{Arguments, Completion, Trial as MimicTrial};

use crate::{
    CaseOutcome, CaseReport, Harness, case::Case, cases::all, declared::Declared, trial::Trial,
};

/// Every promise of the bus, ready to be asked of one engine.
///
/// The suite lists its cases itself, so an engine can neither forget nor choose.
#[derive(Clone)]
pub struct Suite(Arc<Inner>);

struct Inner {
    make: Make,
    /// For the cases that restart the broker, when they have a harness of their own.
    restarts: Option<Make>,
    declared: Option<Declared>,
    limit: Duration,
    /// Held for writing by a case that must be alone, for reading by all others.
    gate: RwLock<()>,
}

/// Makes a harness anew.
type Make = Box<dyn Fn() -> Arc<dyn Harness> + Send + Sync>;

impl Suite {
    /// The variable that turns the output of [`Suite::run`] into JSON lines when it is `1`.
    pub const JSON_VARIABLE: &'static str = "VAKBUS_CONFORMANCE_JSON";

    /// A suite that makes its harness anew for each case with `make`; 30 seconds of real time
    /// for each case.
    pub fn new<H: Harness>(make: impl Fn() -> H + Send + Sync + 'static) -> Self {
        Self(Arc::new(Inner {
            make: Box::new(move || Arc::new(make())),
            restarts: None,
            declared: None,
            limit: Duration::from_secs(30),
            gate: RwLock::new(()),
        }))
    }

    /// Asks the cases that restart the broker of what `make` makes instead: for an engine that
    /// keeps what it stored only in some of its uses.
    ///
    /// Each of these harnesses needs a broker of its own, for their cases run beside all others.
    #[must_use]
    pub fn restarts<H: Harness>(mut self, make: impl Fn() -> H + Send + Sync + 'static) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.restarts = Some(Box::new(move || Arc::new(make())));
        }
        self
    }

    /// Compares the cases that do not apply with `lock`, lines of `<engine> <case> <reason>`:
    /// an exception that is not declared, or declared and not one, is a failure.
    #[must_use]
    pub fn declared(mut self, lock: &str) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.declared = Some(Declared::new(lock));
        }
        self
    }

    /// Gives each case `limit` of real time; a case that hangs longer fails.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.limit = limit;
        }
        self
    }

    /// Runs as the `main` of a test target: arguments as `cargo test` passes them, all failures
    /// shown; with [`Suite::JSON_VARIABLE`] one JSON line for each case on stdout instead.
    ///
    /// Success means that no case failed.
    #[must_use]
    pub fn run(&self) -> ExitCode {
        let mut arguments = Arguments::from_args();
        let threads = *arguments.test_threads.get_or_insert_with(|| self.threads());
        let wants_json = std::env::var(Self::JSON_VARIABLE).is_ok_and(|value| value == "1");
        if !wants_json || arguments.list {
            return libtest_mimic::run(&arguments, self.trials()).exit_code();
        }
        let names = self.trials().into_iter().filter(|trial| !arguments.is_filtered_out(trial));
        let names: Vec<_> = names.map(|trial| trial.name().to_owned()).collect();
        let wants = |name: &str| names.iter().any(|wanted| wanted == name);
        let reports = self.reports(threads, wants, print_line);
        ExitCode::from(u8::from(reports.iter().any(CaseReport::is_failure)))
    }

    /// Runs the cases whose names `wants`, and returns what became of each in the suite's order.
    pub fn outcomes(&self, wants: impl Fn(&str) -> bool) -> Vec<CaseReport> {
        self.reports(self.threads(), wants, |_| ())
    }

    fn trials(&self) -> Vec<MimicTrial> {
        let trial = |(number, (area, case)): (usize, (&'static str, &'static Case))| {
            let suite = self.clone();
            let judge = move || suite.judge(number, area, case).outcome;
            MimicTrial::ignorable_test(case.name, move || match judge() {
                CaseOutcome::Passed => Ok(Completion::Completed),
                CaseOutcome::Failed { reason } => Err(reason.into()),
                CaseOutcome::NotApplicable { reason } => Ok(Completion::ignored_with(reason)),
            })
        };
        all().enumerate().map(trial).collect()
    }

    /// As many as the machine has; more when the cases mostly wait for time to pass.
    fn threads(&self) -> usize {
        const WHERE_TIME_IS_REAL: usize = 16;
        let machine = thread::available_parallelism().map_or(1, usize::from);
        if (self.0.make)().virtual_time() { machine } else { machine.max(WHERE_TIME_IS_REAL) }
    }

    /// Lets `threads` threads take the wanted cases from one list, and tells the reports in the
    /// suite's order, each as soon as those before it are there.
    fn reports(
        &self,
        threads: usize,
        wants: impl Fn(&str) -> bool,
        tell: impl Fn(&CaseReport) + Sync,
    ) -> Vec<CaseReport> {
        let wanted = all().enumerate().filter(|(_, (_, case))| wants(case.name));
        let wanted: Vec<_> = wanted.enumerate().collect();
        let (left, done) = (Mutex::new(wanted.into_iter()), Mutex::new(InOrder::default()));
        let take = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
        let work = || {
            while let Some((place, (number, (area, case)))) = take() {
                let report = self.judge(number, area, case);
                done.lock().unwrap_or_else(PoisonError::into_inner).put(place, report, &tell);
            }
        };
        thread::scope(|scope| {
            for _ in 0..threads.max(1) {
                scope.spawn(work);
            }
        });
        done.into_inner().unwrap_or_else(PoisonError::into_inner).told
    }

    fn judge(&self, number: usize, area: &'static str, case: &'static Case) -> CaseReport {
        let gate = &self.0.gate;
        let (mut _alone, mut _shared) = (None, None);
        let apart = self.0.restarts.as_ref().filter(|_| case.is_alone());
        if case.is_alone() && apart.is_none() {
            _alone = Some(gate.write().unwrap_or_else(PoisonError::into_inner));
        } else {
            _shared = Some(gate.read().unwrap_or_else(PoisonError::into_inner));
        }
        let harness = apart.unwrap_or(&self.0.make)();
        let report = Trial { area, case, number, harness }.run(self.0.limit);
        match &self.0.declared {
            Some(declared) => declared.compare(report),
            None => report,
        }
    }
}

/// Reports in the order of the cases, whatever order they are made in.
#[derive(Debug, Default)]
struct InOrder {
    told: Vec<CaseReport>,
    early: BTreeMap<usize, CaseReport>,
}

impl InOrder {
    fn put(&mut self, place: usize, report: CaseReport, tell: impl Fn(&CaseReport)) {
        self.early.insert(place, report);
        while let Some(report) = self.early.remove(&self.told.len()) {
            tell(&report);
            self.told.push(report);
        }
    }
}

impl std::fmt::Debug for Suite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Suite").field("limit", &self.0.limit).finish_non_exhaustive()
    }
}

/// Runs every case against the engine that `make` supplies, as the `main` of a test target.
#[must_use]
pub fn run<H: Harness>(make: impl Fn() -> H + Send + Sync + 'static) -> ExitCode {
    Suite::new(make).run()
}

/// The names of all cases, in the suite's order.
pub fn case_names() -> impl Iterator<Item = &'static str> {
    all().map(|(_, case)| case.name)
}

#[expect(clippy::print_stdout, reason = "the lines on stdout are what the variable asks for")]
fn print_line(report: &CaseReport) {
    println!("{}", report.to_json());
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use bus_core::{BoxFuture, Durability, Engine, Error, ErrorKind, Promises, Result};

    use super::*;

    #[test]
    fn reports_are_told_in_order_whatever_order_they_are_made_in() {
        let (mut reports, told) = (InOrder::default(), Mutex::new(Vec::new()));
        for (place, case) in [(2, "third"), (0, "first"), (3, "fourth"), (1, "second")] {
            let outcome = CaseOutcome::Passed;
            let report = CaseReport { engine: "mem", area: "Leases", case, outcome };
            reports.put(place, report, |report| told.lock().unwrap().push(report.case));
        }
        assert_eq!(told.into_inner().unwrap(), ["first", "second", "third", "fourth"]);
    }

    #[test]
    fn cases_that_restart_are_asked_of_their_own_harness() {
        let suite = Suite::new(|| Unreachable("others", None));
        let suite = suite.restarts(|| Unreachable("restarts", None));
        let reports = suite.outcomes(|name| name == RESTART || name == OTHER);
        let asked: Vec<_> = reports.iter().map(|report| (report.case, report.engine)).collect();
        assert_eq!(asked, [(OTHER, "others"), (RESTART, "restarts")]);
    }

    #[test]
    fn cases_that_restart_on_their_own_harness_run_beside_the_others() {
        let both = Arc::new(Barrier::new(2));
        let (here, there) = (Arc::clone(&both), both);
        let suite = Suite::new(move || Unreachable("others", Some(Arc::clone(&here))));
        let suite = suite.restarts(move || Unreachable("restarts", Some(Arc::clone(&there))));
        for report in suite.reports(2, |name| name == RESTART || name == OTHER, |_| ()) {
            let CaseOutcome::Failed { reason } = report.outcome else { panic!("{report:?}") };
            assert!(reason.contains("nobody is there"), "they met: {reason}");
        }
    }

    const RESTART: &str = "a_restart_keeps_buckets";
    const OTHER: &str = "every_subscriber_hears_every_frame";

    /// Lets nobody connect, after all who try to have met.
    struct Unreachable(&'static str, Option<Arc<Barrier>>);

    impl Harness for Unreachable {
        fn name(&self) -> &'static str {
            self.0
        }

        fn promises(&self) -> Promises {
            Promises { engine: self.0, durability: Durability::Synced, shared: true }
        }

        fn connect<'a>(&'a self, _who: &'a str) -> BoxFuture<'a, Result<Arc<dyn Engine>>> {
            Box::pin(async {
                if let Some(all) = &self.1 {
                    all.wait();
                }
                Err(Error::new(ErrorKind::Unavailable, "connect", "nobody is there"))
            })
        }

        fn restart(&self) -> BoxFuture<'_, Result<()>> {
            Box::pin(async { Ok(()) })
        }

        fn virtual_time(&self) -> bool {
            false
        }

        fn elapse(&self, by: Duration) -> BoxFuture<'_, ()> {
            Box::pin(crate::wait_out(by))
        }
    }
}
