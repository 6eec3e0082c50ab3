//! What crosses the link between a machine's own server and its hub, and what never does.
//!
//! Both keep the same subjects. What crossed would be stored twice, and an answer of the one store
//! could be sent into the other (ADR 0024). So only what nobody stores crosses; what is sent to the
//! hub goes through an outbox (ADR 0025).

use bus_subjects::{AddressKind, Filter, Plane, WorkspaceId};

/// What crosses, beside the answers to calls: events, states and calls, but no samples of
/// latest-value subjects, which stores keep.
#[must_use]
pub fn live_filters(workspace: &WorkspaceId) -> Vec<Filter> {
    let is_live =
        |kind: &AddressKind| kind.plane() != Plane::Durable && *kind != AddressKind::Telemetry;
    let live = AddressKind::ALL.into_iter().filter(is_live);
    live.map(|kind| kind.filter(Some(workspace))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::permissions::{Layout, leaf_denies};

    #[test]
    fn whatever_has_a_kind_is_denied_or_crosses_and_never_both() {
        let workspace: WorkspaceId = "w1".parse().unwrap();
        let denied = leaf_denies(&Layout::of(&workspace).unwrap()).unwrap();
        let crossing = live_filters(&workspace);
        for kind in AddressKind::ALL {
            let filter = kind.filter(Some(&workspace));
            let is_in = |filters: &[Filter]| filters.iter().any(|one| one.covers(&filter));
            assert_ne!(is_in(&denied), is_in(&crossing), "{filter}");
        }
        let both = |one: &&Filter| denied.iter().any(|denied| denied.overlaps(one));
        assert_eq!(crossing.iter().find(both), None);
    }

    #[test]
    fn no_interface_of_a_store_crosses() {
        let layout = Layout::of(&"w1".parse().unwrap()).unwrap();
        let denied = leaf_denies(&layout).unwrap();
        for subject in [
            "$JS.API.STREAM.DELETE.VAK_WORK_w1",
            "$JS.ACK.VAK_WORK_w1.worker_coder.1.1.1.1.0",
            "vakj.DIRECT.GET.VAK_RECEIPTS",
            "vakp.5._.vak.work.w1.coder.task",
            "vakq.VAK_WORK_w1.worker_coder.m._.1.state",
            "$KV.VAK_CLAIMS_w1.t",
            "vakblob.VAK_RESULTS_w1.m.k",
        ] {
            let subject = subject.parse().unwrap();
            assert!(denied.iter().any(|filter| filter.matches(&subject)), "{subject}");
        }
    }
}
