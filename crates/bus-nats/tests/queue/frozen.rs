//! Engines that stand still for a while, with what they have.

use std::time::Duration;

use bus_conformance::wait_out;
use bus_core::{Bus as _, ErrorKind, Verdict};
use bus_testserver::TestServer;
use tokio::runtime::Builder;

use crate::{
    append,
    board::{FRAMES, STATES, on_board, raw},
    bus, declare, member, next, task, what,
};

#[test]
fn a_task_that_somebody_else_did_meanwhile_does_not_come_back() {
    let server = TestServer::start();
    // Nothing of an engine moves while nobody runs its runtime.
    let frozen = Builder::new_current_thread().enable_all().build().unwrap();
    let living = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (still, held) = frozen.block_on(async {
        let bus = bus(&server).await;
        declare(&bus).await;
        append(&bus, task("t0")).await;
        let held = next(&mut member(&bus).await).await;
        (bus, held)
    });
    let (client, other) = living.block_on(async {
        let other = bus(&server).await;
        let again = next(&mut member(&other).await).await;
        assert_eq!(what(&again), ("t0".to_owned(), 2));
        again.settle(Verdict::Ack).await.unwrap();
        // A record that says that it is gone goes by itself.
        wait_out(Duration::from_secs(3)).await;
        let client = raw(&server).await;
        assert_eq!(on_board(&client, STATES).await.len(), 1, "it is known to be over");
        (client, other)
    });
    frozen.block_on(async {
        let late = held.settle(Verdict::Ack).await.unwrap_err();
        assert_eq!(late.kind(), ErrorKind::LeaseLost, "{late}");
        still.close().await.unwrap();
    });
    living.block_on(async {
        assert_eq!(on_board(&client, FRAMES).await, [""; 0], "it is on the board again");
        other.close().await.unwrap();
    });
}
