//! What is stored is read back whole, whatever is damaged in it.

use bus_core::{Expect, Frame, FrameId};
use bus_envelope::Draft;
use bus_subjects::Address;

use super::*;
use crate::swarm::tests::fleet;

#[tokio::test]
async fn a_damaged_record_is_a_trouble_and_the_others_are_read() {
    let (_dir, plan, fleet) = fleet(&["a"]).await;
    let (workspace, session) = (fleet.orchestrator.workspace().clone(), fleet.session.clone());
    let role = plan.role.clone();
    let task = Address::Task { workspace: workspace.clone(), role }.subject();
    let sent = fleet.orchestrator.send(Draft::new(task, "vak.task", "a")).await.unwrap();
    let subject = Address::Receipt { workspace, session }.subject();
    let id = |text| FrameId::parse(text).unwrap();
    let damaged = Frame::new(subject.clone(), id("damaged"), "no envelope");
    let whole = Frame { subject, id: id("whole"), ..sent.frame };
    for frame in [damaged, whole] {
        fleet.engine.append(frame, Expect::Any).await.unwrap();
    }
    let ledger = Ledger::new(1);
    let stored = read((&fleet, &Seen::default()), &ledger).await;
    assert_eq!(stored.receipts.len(), 1);
    let troubles = ledger.state().troubles;
    assert!(troubles.len() == 1 && troubles[0].contains("record 1 is damaged"), "{troubles:?}");
}
