//! Laws of the registry, whatever is done to it and whenever.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use bus_envelope::Timestamp;
use proptest::prelude::*;

use crate::{BusError, Command, Done, Limits, PeerTarget, Registry, SecretHash};

#[derive(Debug, Clone)]
enum Act {
    Register(u8, u32),
    Heartbeat(usize, bool),
    Attach(usize, bool),
    Detach(usize),
    Deregister(usize, bool),
    Wait(u64),
}

fn any_act() -> impl Strategy<Value = Act> {
    let honest = prop::bool::weighted(0.9);
    prop_oneof![
        3 => (0_u8..3, 0_u32..64).prop_map(|(definition, draw)| Act::Register(definition, draw)),
        2 => (0_usize..64, honest).prop_map(|(who, honest)| Act::Heartbeat(who, honest)),
        3 => (0_usize..64, honest).prop_map(|(who, honest)| Act::Attach(who, honest)),
        1 => (0_usize..64).prop_map(Act::Detach),
        1 => (0_usize..64, honest).prop_map(|(who, honest)| Act::Deregister(who, honest)),
        2 => (0_u64..12).prop_map(Act::Wait),
    ]
}

/// What the registry should hold, written down as plainly as can be.
#[derive(Debug, Clone)]
struct Known {
    id: String,
    definition: String,
    secret: u8,
    heard: Timestamp,
    attached: usize,
    is_over: bool,
}

const LEASE: Duration = Duration::from_secs(16);

fn secret(number: u8) -> SecretHash {
    SecretHash::from_bytes([number; 32])
}

proptest! {
    #[test]
    fn the_registry_holds_what_was_told_and_no_more(
        acts in prop::collection::vec(any_act(), 1..120),
    ) {
        let limits = Limits { lease: LEASE, ..Limits::default() };
        let mut registry = Registry::new(limits);
        let mut known: Vec<Known> = Vec::new();
        let mut now = Timestamp::from_unix_ns(0);
        for act in acts {
            if let Act::Wait(seconds) = act {
                now = now.plus(Duration::from_secs(seconds));
            }
            for one in &mut known {
                one.is_over |= now.since(one.heard) >= LEASE;
            }
            let step = step(&mut registry, &mut known, act, now);
            if let Err(why) = step {
                prop_assert!(false, "{}", why);
            }
            check(&registry, &known, now)?;
        }
        let ids: HashSet<_> = known.iter().map(|one| &one.id).collect();
        prop_assert_eq!(ids.len(), known.len());
    }
}

/// Does one act on both; says what differs.
fn step(
    registry: &mut Registry,
    known: &mut Vec<Known>,
    act: Act,
    now: Timestamp,
) -> Result<(), String> {
    let number = known.len();
    let (who, honest) = match act {
        Act::Wait(_) => {
            registry.apply(Command::Tick, now);
            return Ok(());
        }
        Act::Register(definition, draw) => {
            let secret_number = u8::try_from(number).unwrap();
            let definition_id = format!("d{definition}");
            let command = Command::Register {
                definition_id: definition_id.clone(),
                project: None,
                suffixes: std::array::from_fn(|at| draw + u32::try_from(at).unwrap()),
                secret: secret(secret_number),
            };
            match registry.apply(command, now).done {
                Ok(Done::Registered(meta)) => known.push(Known {
                    id: meta.instance_id,
                    definition: definition_id,
                    secret: secret_number,
                    heard: now,
                    attached: 0,
                    is_over: false,
                }),
                Err(BusError::InstanceIdCollision { .. }) => {}
                other => return Err(format!("{other:?}")),
            }
            return Ok(());
        }
        Act::Heartbeat(who, honest) | Act::Attach(who, honest) | Act::Deregister(who, honest) => {
            (who, honest)
        }
        Act::Detach(who) => (who, true),
    };
    if known.is_empty() {
        return Ok(());
    }
    let one = &mut known[who % number];
    let proof = secret(if honest { one.secret } else { one.secret ^ 0xff });
    let instance_id = one.id.clone();
    let command = match act {
        Act::Heartbeat(..) => Command::Heartbeat { instance_id, secret: proof },
        Act::Attach(..) => Command::Attach { instance_id, secret: proof },
        Act::Deregister(..) => Command::Deregister { instance_id, secret: proof },
        _ => Command::Detach { instance_id },
    };
    let done = registry.apply(command, now).done;
    let expected = match (&act, one.is_over, honest) {
        (Act::Detach(_), ..) => "ok",
        (_, true, _) => "instance-gone",
        (_, false, false) => "wrong-secret",
        (_, false, true) => "ok",
    };
    let got = done.as_ref().map_or_else(BusError::code, |_| "ok");
    if got != expected {
        return Err(format!("{act:?} came to {got}, not to {expected}"));
    }
    if !one.is_over && honest {
        match act {
            Act::Heartbeat(..) => one.heard = now,
            Act::Attach(..) => (one.heard, one.attached) = (now, one.attached + 1),
            Act::Deregister(..) => one.is_over = true,
            _ => one.attached = one.attached.saturating_sub(1),
        }
    }
    Ok(())
}

fn check(registry: &Registry, known: &[Known], now: Timestamp) -> Result<(), TestCaseError> {
    let live: Vec<&Known> = known.iter().filter(|one| !one.is_over).collect();
    let held: Vec<&str> = registry.live(now).map(|live| live.meta.instance_id.as_str()).collect();
    let expected: Vec<&str> = live.iter().map(|one| one.id.as_str()).collect();
    prop_assert_eq!(held, expected);
    let mut newest: HashMap<&str, &Known> = HashMap::new();
    for one in &live {
        let before = newest.get(one.definition.as_str());
        if before.is_none_or(|before| one.attached > 0 || before.attached == 0) {
            newest.insert(&one.definition, one);
        }
    }
    for definition in ["d0", "d1", "d2"] {
        let target = PeerTarget::Definition(definition.to_owned());
        let found = registry.resolve(&target, now).ok().map(|live| live.meta.instance_id.as_str());
        prop_assert_eq!(found, newest.get(definition).map(|one| one.id.as_str()));
    }
    for one in known {
        let target = PeerTarget::Instance(one.id.clone());
        let found = registry.resolve(&target, now).ok().map(|live| live.meta.instance_id.clone());
        prop_assert_eq!(found, (!one.is_over).then(|| one.id.clone()));
        let is_sender = registry.sender(&one.id, &secret(one.secret), now).is_ok();
        prop_assert_eq!(is_sender, !one.is_over);
        prop_assert!(registry.sender(&one.id, &secret(one.secret ^ 0xff), now).is_err());
    }
    Ok(())
}
