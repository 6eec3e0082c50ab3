//! Where a message stands, in the two ways in which the conventions name it: whole, and without
//! what is different for each of many.

use bus_subjects::{Address, AddressKind, Subject};

/// The subject without the ids of sessions, agents, rooms and keys; `None` when it has none of
/// them, or when nobody knows what its levels mean.
pub(crate) fn template(subject: &Subject) -> Option<String> {
    let kind = Address::kind_of(subject).ok()?;
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

/// The workspace of a registered subject.
pub(crate) fn workspace(subject: &Subject) -> Option<&str> {
    Address::kind_of(subject).ok()?;
    subject.as_str().split('.').nth(2)
}

/// The name of the consumer that all workers of a queue share.
pub(crate) fn group(subject: &Subject) -> Option<String> {
    match Address::kind_of(subject).ok()? {
        AddressKind::Task => Some(format!("worker_{}", subject.as_str().split('.').nth(3)?)),
        _ => None,
    }
}

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
    fn a_subject_that_nobody_registered_is_in_no_span_name() {
        assert_eq!(told("somewhere.else"), (None, None));
    }
}
