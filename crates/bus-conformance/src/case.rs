//! A promise under its name, and the code that asks an engine to keep it.

use bus_core::{BoxFuture, Durability, Promises};

use crate::{check::CaseResult, context::Context};

/// One promise of the bus as a trial.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    /// The promise as a sentence; the traits' documentation cites it.
    pub(crate) name: &'static str,
    /// What it asks of the engine beyond the traits.
    pub(crate) needs: Needs,
    /// The code.
    pub(crate) run: Run,
}

/// The code of a case.
pub(crate) type Run = for<'a> fn(&'a Context) -> BoxFuture<'a, CaseResult>;

/// What a case asks of an engine beyond the traits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Nothing: every engine is held to it.
    Nothing,
    /// A broker that can be stopped and started again; such a case runs alone.
    Restart,
    /// Minutes or hours of time, which only a clock that the harness moves can give.
    MovableTime,
}

impl Case {
    /// Why the case does not apply to an engine with these promises and this kind of time, or
    /// `None` when it does.
    pub(crate) fn excuse(&self, promises: &Promises, virtual_time: bool) -> Option<&'static str> {
        match self.needs {
            Needs::Nothing => None,
            Needs::Restart if promises.durability > Durability::Memory => None,
            Needs::Restart => Some("promises durability memory: nothing outlives its process"),
            Needs::MovableTime if virtual_time => None,
            Needs::MovableTime => Some("waits for minutes of a clock that nobody can move on"),
        }
    }

    /// Whether no other case may use the broker meanwhile.
    pub(crate) fn is_alone(&self) -> bool {
        self.needs == Needs::Restart
    }
}

/// Lists case functions as [`Case`]s under their own names.
macro_rules! cases {
    ($needs:ident: $($name:ident),* $(,)?) => {
        &[$($crate::case::Case {
            name: stringify!($name),
            needs: $crate::case::Needs::$needs,
            run: |context| Box::pin($name(context)),
        }),*]
    };
}

pub(crate) use cases;
