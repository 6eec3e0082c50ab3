//! What the reply subject of a delivered message says.

use super::*;

#[test]
fn a_position_is_read_from_a_reply_subject() {
    let position = Position::parse("$JS.ACK.KV_B.w1.1.7.3.1800000000000000001.5").unwrap();
    assert_eq!((position.seq, position.delivered, position.pending), (7, 3, 5));
    assert_eq!(position.time.unix_ns(), 1_800_000_000_000_000_001);
}

#[test]
fn a_position_is_read_when_the_server_names_domain_and_account() {
    for reply in ["$JS.ACK._.HASH.KV_B.w1.1.7.3.18.5.rnd", "$JS.ACK.leaf.HASH.KV_B.w1.1.7.3.18.5"] {
        let position = Position::parse(reply).unwrap();
        assert_eq!((position.seq, position.delivered, position.pending), (7, 3, 5), "{reply}");
    }
}

#[test]
fn no_position_is_read_from_anything_else() {
    for reply in ["", "_INBOX.a", "$JS.ACK.", "$JS.ACK.KV_B.w1.1.7.3", "$JS.ACK.a.b.1.x.3.4.5"] {
        assert!(Position::parse(reply).is_none(), "{reply}");
    }
}
