//! Where a message stands, in the two ways in which the conventions name it: whole, and without
//! what is different for each of many.

use bus_subjects::{Address, AddressKind, Subject};

/// The subject without the ids of sessions, agents, rooms and keys; `None` when it has none of
/// them, or when nobody knows what its levels mean.
pub(crate) fn template(subject: &Subject) -> Option<String> {
    let kind = Address::kind_of(subject).ok()?;
    let is_of_a_run = queue(subject).is_some_and(|queue| queue.starts_with(SWARM));
    let (place, word) = match kind {
        AddressKind::Tokens
        | AddressKind::Terminal
        | AddressKind::Telemetry
        | AddressKind::Alert
        | AddressKind::Receipt
        | AddressKind::Approval => (3, "{session}"),
        AddressKind::Inbox
        | AddressKind::DeadLetter
        | AddressKind::KeyGrant
        | AddressKind::Outbox => (3, "{agent}"),
        AddressKind::RoomMessage | AddressKind::RoomControl => (3, "{room}"),
        AddressKind::History | AddressKind::Condition => (4, "{key}"),
        AddressKind::Task if is_of_a_run => (3, SWARMS),
        // Somebody wrote these names down: they are few.
        AddressKind::Task | AddressKind::Call | AddressKind::StateChanged => return None,
    };
    let levels = subject.as_str().split('.').enumerate();
    let shown: Vec<&str> =
        levels.map(|(at, level)| if at == place { word } else { level }).collect();
    Some(shown.join("."))
}

/// What the name of a span says of the subject; nothing of one that nobody registered, such as the
/// place of an answer.
pub(crate) fn shown<'a>(subject: &'a Subject, template: Option<&'a str>) -> Option<&'a str> {
    match template {
        Some(template) => Some(template),
        None => Address::kind_of(subject).is_ok().then(|| subject.as_str()),
    }
}

/// Whether it is the place of one answer, which goes with it and whose name says nothing: no role
/// may publish to a subject that nobody registered.
pub(crate) fn is_of_an_answer(subject: &Subject) -> bool {
    Address::kind_of(subject).is_err()
}

/// The workspace of a registered subject.
pub(crate) fn workspace(subject: &Subject) -> Option<&str> {
    Address::kind_of(subject).ok()?;
    subject.as_str().split('.').nth(2)
}

/// The name of the consumer that all workers of a queue share, without the id of a swarm's run.
pub(crate) fn group(subject: &Subject) -> Option<String> {
    let queue = queue(subject)?;
    Some(format!("worker_{}", if queue.starts_with(SWARM) { SWARMS } else { queue }))
}

/// The queue of a task.
fn queue(subject: &Subject) -> Option<&str> {
    match Address::kind_of(subject).ok()? {
        AddressKind::Task => subject.as_str().split('.').nth(3),
        _ => None,
    }
}

/// How the queue of a swarm's run begins; the rest is the run's id.
const SWARM: &str = "swarm-";

/// All of these queues.
const SWARMS: &str = "swarm-{run}";

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> (Option<String>, Option<String>) {
        let subject = Subject::parse(text).unwrap();
        let template = template(&subject);
        let shown = shown(&subject, template.as_deref()).map(str::to_owned);
        (template, shown)
    }

    #[test]
    fn ids_of_which_there_are_many_are_in_no_template() {
        for (subject, template) in [
            ("vak.receipts.acme.s1.completed", "vak.receipts.acme.{session}.completed"),
            ("vak.agent.acme.ann.inbox", "vak.agent.acme.{agent}.inbox"),
            ("vak.room.acme.r1.message", "vak.room.acme.{room}.message"),
            ("vak.history.acme.tokens.s1", "vak.history.acme.tokens.{key}"),
            ("vak.work.acme.swarm-0192.task", "vak.work.acme.swarm-{run}.task"),
        ] {
            let template = Some(template.to_owned());
            assert_eq!(told(subject), (template.clone(), template));
        }
    }

    #[test]
    fn a_queue_and_a_call_are_shown_by_their_own_names() {
        for subject in ["vak.work.acme.coder.task", "vak.call.acme.git.clone"] {
            assert_eq!(told(subject), (None, Some(subject.to_owned())));
        }
    }

    #[test]
    fn the_workers_of_all_swarms_are_one_group() {
        let group = |text| group(&Subject::parse(text).unwrap());
        let swarm = group("vak.work.acme.swarm-0192.task");
        assert_eq!(swarm.as_deref(), Some("worker_swarm-{run}"));
        assert_eq!(group("vak.work.acme.swarmer.task").as_deref(), Some("worker_swarmer"));
        assert_eq!(group("vak.agent.acme.ann.inbox"), None);
    }

    #[test]
    fn a_subject_that_nobody_registered_is_in_no_span_name() {
        assert_eq!(told("somewhere.else"), (None, None));
    }
}
