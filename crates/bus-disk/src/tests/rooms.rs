//! A disk without room: what makes room is still taken, and the rest goes on when there is some.

use super::*;
use crate::files::faulty::Fault;

fn admits(opened: &Opened, frees: bool) -> Result<()> {
    opened.store.journal.admit("append", 64, frees)
}

fn wants_segment(opened: &Opened) -> bool {
    let stock = opened.store.supply.lock();
    stock.wants_next && stock.next.is_none()
}

/// A store that has no room for another segment.
fn full() -> (FaultyFiles, Opened) {
    let files = FaultyFiles::default();
    // The first one, and the one after it.
    files.set(Fault::Room(2 * SIZES.segment));
    let opened = Opened::on(&files, Sync::Always).unwrap();
    let mut seq = 0;
    while admits(&opened, false).is_ok() {
        seq += 1;
        opened.say_safely(seq, seq).unwrap();
        assert!(seq < 1_000, "never full");
        // These segments are so small that the keeper may need longer than to fill one.
        while wants_segment(&opened) && admits(&opened, false).is_ok() {
            std::thread::park_timeout(std::time::Duration::from_millis(1));
        }
    }
    (files, opened)
}

#[test]
fn a_full_disk_refuses_new_things_and_says_what_to_do() {
    let (files, opened) = full();
    let refused = admits(&opened, false).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Full);
    assert_eq!(refused.outcome(), bus_core::Outcome::NotDone);
    assert!(refused.to_string().contains("no room on the disk of /data"), "{refused}");
    assert_eq!(reopened(&files, Keep::Synced).unwrap(), opened.model());
}

#[test]
fn a_full_disk_still_takes_what_makes_room() {
    let (_files, opened) = full();
    admits(&opened, true).unwrap();
    opened.say_safely(1, 999).unwrap();
}

#[test]
fn it_goes_on_by_itself_when_there_is_room_again() {
    let (files, opened) = full();
    files.set(Fault::Room(100 * SIZES.segment));
    let mut tries = 0;
    while admits(&opened, false).is_err() {
        // The keeper looks four times a second.
        std::thread::park_timeout(std::time::Duration::from_millis(20));
        tries += 1;
        assert!(tries < 1_000, "it never goes on");
    }
    opened.say_safely(1, 1_000).unwrap();
}
