//! Bytes of strangers: whatever comes, the server stays and serves the others.

use std::time::Duration;

use proptest::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::support::{Raw, Site, append, declare, settle_down, stored};
use crate::wire::{Packet, ToServer};

/// Runs `attack` under a stopped clock, and asks the server for something afterwards.
fn survives<F: Future<Output = ()>>(attack: impl FnOnce(std::sync::Arc<Site>) -> F) {
    let builder = &mut tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let site = std::sync::Arc::new(Site::open());
        let bus = site.client("honest").await;
        declare(&bus).await;
        attack(site.clone()).await;
        settle_down().await;
        append(&bus, "t1").await;
        assert_eq!(stored(&*site.engine).await, ["t1"]);
    });
}

#[test]
fn a_length_beyond_all_bounds_costs_nothing() {
    survives(|site| async move {
        let mut stream = site.pipe();
        stream.write_all(&u32::MAX.to_le_bytes()).await.unwrap();
        let mut rest = Vec::new();
        let closed = tokio::time::timeout(Duration::from_secs(1), stream.read_to_end(&mut rest));
        closed.await.expect("the server hangs up at once").unwrap();
    });
}

#[test]
fn every_message_of_ours_out_of_its_turn_is_survived() {
    let words = [
        ToServer::Publish,
        ToServer::Credit { id: 7, items: 1 },
        ToServer::Want { id: 7, round: 1, max: 1 },
        ToServer::Unwant { id: 7 },
        ToServer::Part { id: 7 },
        ToServer::Whole { id: 7 },
        ToServer::End { id: 7 },
        ToServer::Bye,
    ];
    for words in words {
        survives(|site| async move {
            let mut raw = Raw::admitted(&site, "rude").await;
            raw.send(&words).await;
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48,
        failure_persistence: None,
        ..Default::default()
    })]

    #[test]
    fn bytes_of_strangers_let_nobody_in(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        survives(|site| async move {
            let mut stream = site.pipe();
            let _hung_up = stream.write_all(&bytes).await;
            drop(stream);
            settle_down().await;
            assert_eq!(site.pipes.connections(), 1);
        });
    }

    #[test]
    fn bytes_of_a_client_harm_nobody_else(
        messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..20)
    ) {
        survives(|site| async move {
            let mut raw = Raw::admitted(&site, "rude").await;
            for message in &messages {
                if !raw.send_bytes(message).await {
                    return;
                }
            }
        });
    }

    #[test]
    fn a_changed_byte_of_a_message_harms_nobody_else(at in 0_usize..64, to in any::<u8>()) {
        survives(|site| async move {
            let mut raw = Raw::admitted(&site, "rude").await;
            let call = crate::wire::Call::Consume((&super::support::coders()).into());
            let packet = Packet::new(&ToServer::Call { id: 1, call }).unwrap();
            let mut bytes = packet.as_bytes().to_vec();
            if let Some(byte) = bytes.get_mut(at) {
                *byte = to;
            }
            let _hung_up = raw.0.write_all(&bytes).await;
        });
    }
}
