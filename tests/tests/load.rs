//! S0.2 in middle size: two hundred real agents on one embedded bus, on many threads.

use bus_stories::{Load, LoadReport, Memory};

const LOAD: Load = Load { agents: 200, tasks: 2_000 };

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_hundred_agents_do_two_thousand_tasks_within_their_memory() {
    let report = LOAD.run().await.unwrap();
    assert_eq!(report.complaints(LOAD), [""; 0]);
    assert!(report.events > 0);
}

#[test]
fn a_load_that_lost_something_is_complained_about() {
    let memory = Some([0, 0, 1 << 40, 0].map(|bytes| Memory { bytes }));
    let nothing = LoadReport { memory, runs_again: 1, left: 3, ..LoadReport::default() };
    assert_eq!(
        nothing.complaints(LOAD),
        [
            "0 tasks of 2000 were done",
            "1 runs too many, 0 redeliveries",
            "0 receipts",
            "a chain of receipts is broken",
            "0 mails of 200 came",
            "3 messages are left",
            "1099511627776 bytes were used at most: 31522816 are allowed",
        ]
    );
}
