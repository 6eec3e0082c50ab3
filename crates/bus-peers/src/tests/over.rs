//! The promises of a bus once more, of one that shares its registry.

mod support {
    pub(super) use crate::tests::{over_engine::Over, support::*};

    pub(super) type Stage = Staged<Over>;
}

#[path = "impostors.rs"]
mod impostors;
#[path = "inbox.rs"]
mod inbox;
#[path = "many.rs"]
mod many;
#[path = "publish.rs"]
mod publish;
#[path = "registry.rs"]
mod registry;
