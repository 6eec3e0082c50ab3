//! Laws of a batch: what goes in comes out, and it never grows over its bounds.

use bus_envelope::wire::compact;
use bus_runner::{Batch, BatchError, BatchItem, Pushed};
use bytes::Bytes;
use proptest::prelude::*;

use crate::event;

proptest! {
    #[test]
    fn what_was_put_in_is_read_in_its_order(
        parts in proptest::collection::vec((0_u64..4, 0_usize..3000), 1..40),
    ) {
        let (mut batch, mut wanted) = (Batch::new(), Vec::<BatchItem>::new());
        for (seq, (missed, bytes)) in (1..).zip(parts) {
            let envelope = event(1, seq, &vec![7; bytes]);
            prop_assert_eq!(batch.push(&envelope), Pushed::Taken);
            wanted.push(BatchItem::Envelope(compact::encode(&envelope).into()));
            prop_assert!(batch.gap(missed));
            if missed > 0 {
                wanted.push(BatchItem::Gap { missed });
            }
        }
        prop_assert_eq!(Batch::decode(&batch.encode()).unwrap(), wanted);
    }

    #[test]
    fn whatever_is_read_as_a_batch_has_items_that_fill_it(
        bytes in proptest::collection::vec(prop_oneof![Just(0_u8), Just(1), any::<u8>()], 0..64),
    ) {
        let bytes = Bytes::from(bytes);
        if let Ok(items) = Batch::decode(&bytes) {
            let lengths = items.iter().map(|item| match item {
                BatchItem::Envelope(bytes) => 4 + bytes.len(),
                BatchItem::Gap { .. } => 12,
            });
            prop_assert_eq!(lengths.sum::<usize>() + 1, bytes.len());
        }
    }
}

#[test]
fn a_batch_that_is_full_takes_nothing_more_and_can_be_read() {
    let (mut batch, mut seq) = (Batch::new(), 0);
    let refused = loop {
        seq += 1;
        match batch.push(&event(1, seq, &[7; 60_000])) {
            Pushed::Taken => {}
            refused => break refused,
        }
    };
    assert_eq!((refused, batch.events()), (Pushed::Full, 6));
    let bytes = batch.encode();
    assert!(bytes.len() <= Batch::BYTES_MAX);
    assert_eq!(Batch::decode(&bytes).unwrap().len(), 6);
}

#[test]
fn a_batch_has_at_most_so_many_items() {
    let (mut batch, mut seq) = (Batch::new(), 0);
    while batch.gap(1) && batch.push(&event(1, seq + 1, b"")) == Pushed::Taken {
        seq += 1;
    }
    let items = Batch::decode(&batch.encode()).unwrap();
    assert!(items.len() <= Batch::ITEMS_MAX, "{}", items.len());
    let more: Vec<u8> = [0, 0, 0, 1, 7].repeat(Batch::ITEMS_MAX + 1);
    let more = Bytes::from([vec![Batch::VERSION], more].concat());
    assert!(matches!(Batch::decode(&more), Err(BatchError::Items { .. })));
}

#[test]
fn an_event_that_no_batch_holds_is_told_from_one_that_comes_next() {
    let mut batch = Batch::new();
    assert_eq!(batch.push(&event(1, 1, &vec![7; Batch::BYTES_MAX])), Pushed::TooLarge);
    assert!(batch.is_empty());
    assert_eq!(batch.push(&event(1, 1, &vec![7; 200_000])), Pushed::Taken);
    assert_eq!(batch.push(&event(1, 2, &vec![7; 200_000])), Pushed::Full);
}

#[test]
fn gaps_that_follow_each_other_are_one() {
    let mut batch = Batch::new();
    assert!(batch.gap(2) && batch.gap(0) && batch.gap(u64::MAX));
    assert_eq!(batch.missed(), u64::MAX);
    let items = Batch::decode(&batch.encode()).unwrap();
    assert_eq!(items, [BatchItem::Gap { missed: u64::MAX }]);
}

#[test]
fn more_bytes_than_a_batch_may_have_are_not_read() {
    let bytes = Bytes::from(vec![1; Batch::BYTES_MAX + 1]);
    assert!(matches!(Batch::decode(&bytes), Err(BatchError::TooLarge { .. })));
}
