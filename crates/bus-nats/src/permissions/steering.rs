//! The rules about streams and consumers themselves, which are written as a server's API is asked.

use bus_subjects::{AclPolicy, Rule};

use super::{
    PermissionsError,
    grants::{Grants, is_read_whole, refused},
    layout::{Consumers, Layout, Store},
};

/// Grants what `verb` (the levels behind `$JS.API`) needs.
pub(super) fn steer(
    policy: &AclPolicy,
    layout: &Layout,
    rule: &Rule,
    verb: &[&str],
    grants: &mut Grants,
) -> Result<(), PermissionsError> {
    let known = |stream: &str| match layout.store(stream) {
        Some(store) => Ok(store),
        None => refused(rule, "it is no stream of this workspace"),
    };
    match verb {
        // Asks the host for a backup (ADR 0008); of a server nobody asks for one.
        ["STREAM", "SNAPSHOT", stream] => known(stream).map(|_| ()),
        ["STREAM", "INFO", stream] => {
            let store = known(stream)?;
            grants.ask(&format!("STREAM.INFO.{}", store.name))?;
            if store.consumers.is_none() || check_read(policy, rule, store).is_err() {
                return Ok(());
            }
            // What waits in a queue is counted by its consumers and on the board.
            grants.ask(&format!("CONSUMER.LIST.{}", store.name))?;
            grants.see_board(&format!("{}.>", store.name))
        }
        ["STREAM", "MSG", "DELETE", stream] => {
            let Store { name, consumers, .. } = known(stream)?;
            grants.ask(&format!("STREAM.MSG.DELETE.{name}"))?;
            if consumers.is_none() {
                return Ok(());
            }
            // Every consumer is told on the board.
            grants.ask(&format!("CONSUMER.LIST.{name}"))?;
            see_records(policy, rule, known(stream)?, grants)?;
            grants.allow(&format!("vakq.{name}.*.*.*.*.state"))?;
            grants.allow(&format!("vakq.{name}.*.frame.*.*"))
        }
        ["CONSUMER", "LIST", stream] => {
            let store = known(stream)?;
            grants.ask(&format!("CONSUMER.LIST.{}", store.name))?;
            see_records(policy, rule, store, grants)
        }
        ["CONSUMER", "DELETE", stream, consumer] => match known(stream)? {
            store @ Store { consumers: Some(Consumers::Only(name)), .. }
                if ["*", name].contains(consumer) =>
            {
                // Who takes the one consumer over goes on with it.
                check_read(policy, rule, store)?;
                for name in [(*name).to_owned(), format!("{name}+p")] {
                    grants.ask(&format!("CONSUMER.DELETE.{stream}.{name}"))?;
                }
                let mut parts = store.parts().iter();
                parts.try_for_each(|part| grants.consume(store, name, part))
            }
            _ => refused(rule, "its consumers are not taken over"),
        },
        ["CONSUMER", "PAUSE", stream, consumer] if *consumer != ">" => {
            let name = &known(stream)?.name;
            grants.ask(&format!("CONSUMER.PAUSE.{name}.{consumer}"))?;
            grants.ask(&format!("CONSUMER.INFO.{name}.{consumer}"))?;
            grants.allow(&format!("vakq.{name}.{consumer}.*._.pause"))
        }
        _ => refused(rule, "only who sets up the workspace does that"),
    }
}

/// The records of a queue hold its messages: they are for who may read those.
fn see_records(
    policy: &AclPolicy,
    rule: &Rule,
    store: &Store,
    grants: &mut Grants,
) -> Result<(), PermissionsError> {
    check_read(policy, rule, store)?;
    grants.see_board(&format!("{}.>", store.name))
}

/// Refuses the rule to who may not read all of the queue.
fn check_read(policy: &AclPolicy, rule: &Rule, store: &Store) -> Result<(), PermissionsError> {
    if !is_read_whole(store, &policy.subscribe) {
        return refused(rule, "it needs the right to read all of the queue");
    }
    Ok(())
}
