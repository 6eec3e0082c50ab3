//! Consumers: claimed from, settled, paused and removed.

use std::num::NonZeroUsize;

use bus_core::{ConsumerSpec, Deliveries, Delivery, Result, Verdict, settle_all};
use bus_subjects::ConsumerName;
use tokio::time::timeout;

use super::{AT_ONCE, LEASE, NEVER, SOON, Side, parsed, pick, seen, stored::told};
use crate::operation::{How, Operation, When};

impl Side {
    pub(super) async fn play_queued(
        &mut self,
        operation: &Operation,
        other: Option<&str>,
    ) -> String {
        match operation {
            Operation::Claim { consumer, many } => self.claim(*consumer, *many, other).await,
            Operation::Settle { held, how } => {
                let Some(held) = pick(*held, self.held.len()) else { return NOTHING.to_owned() };
                let delivery = self.held.swap_remove(held);
                let what = format!("{delivery:?}");
                format!(
                    "{what} {}",
                    told(delivery.settle(how.verdict()).await, |()| "settled".into())
                )
            }
            Operation::SettleAll { how } => {
                let held = std::mem::take(&mut self.held).into_iter();
                let verdicts = held.map(|delivery| (delivery, how.verdict())).collect();
                let answers = settle_all(verdicts).await.into_iter();
                answers.map(|answer| told(answer, |()| "settled ".into())).collect()
            }
            Operation::Extend { held } => {
                let Some(held) = pick(*held, self.held.len()) else { return NOTHING.to_owned() };
                told(self.held[held].extend().await, |()| "extended".into())
            }
            Operation::Pause { consumer, when } => {
                let spec = self.consumer(*consumer);
                let until = (*when == When::Never).then(|| when.time());
                let paused = self.engine.pause(spec.stream, spec.name, until).await;
                told(paused, |()| "paused".into())
            }
            Operation::Remove { consumer } => self.remove(*consumer).await,
            other => format!("{other:?} is nothing queued"),
        }
    }

    /// Two consumers a stream; those of a work queue share nothing, the others overlap.
    fn consumer(&self, consumer: u8) -> ConsumerSpec {
        let (stream, is_second) = (consumer / 2, consumer % 2 == 1);
        let subject = match stream {
            0 => Some(u8::from(is_second)),
            _ => is_second.then_some(0),
        };
        ConsumerSpec {
            stream: self.stream(stream),
            name: parsed(ConsumerName::parse(&format!("c{consumer}"))),
            filter: self.filter(stream, subject),
            lease: LEASE,
        }
    }

    /// Two members take turns: what one gives up the other gets.
    async fn claim(&mut self, consumer: u8, many: u8, other: Option<&str>) -> String {
        let spec = self.consumer(consumer);
        if !self.members.contains_key(&consumer) {
            let mut members = Vec::new();
            for _ in 0..2 {
                match self.engine.consume(spec.clone()).await {
                    Ok(member) => members.push(member),
                    Err(error) => return seen(&error),
                }
            }
            self.members.insert(consumer, members);
        }
        let Some(members) = self.members.get_mut(&consumer) else { return NOTHING.to_owned() };
        members.rotate_left(1);
        let mut claimed = Vec::new();
        // One after the other: how many come at once is left to the engine.
        for at in 0..usize::from(many) {
            let wanted = other.map(|other| other.lines().nth(at).is_some_and(|one| one != NOTHING));
            match next(&mut members[0], wanted).await {
                None => {
                    claimed.push(NOTHING.to_owned());
                    break;
                }
                Some(Ok(delivery)) => {
                    claimed.push(shown(&delivery));
                    self.held.push(delivery);
                }
                Some(Err(error)) => claimed.push(seen(&error)),
            }
        }
        claimed.join("\n")
    }

    async fn remove(&mut self, consumer: u8) -> String {
        let spec = self.consumer(consumer);
        let removed = self.engine.remove_consumer(spec.stream, spec.name).await;
        let mut all = told(removed, |was_there| format!("was there: {was_there}"));
        for mut member in self.members.remove(&consumer).unwrap_or_default() {
            let item = timeout(SOON, member.next()).await;
            let item = item.map_or("silence".to_owned(), |item| match item {
                None => "the end".to_owned(),
                Some(item) => told(item, |delivery| shown(&delivery)),
            });
            all.push_str(&format!("\na member: {item}"));
        }
        all
    }
}

impl How {
    fn verdict(self) -> Verdict {
        match self {
            Self::Ack => Verdict::Ack,
            Self::Reject => Verdict::Reject { reason: "no good".to_owned() },
            Self::Retry(when) => Verdict::Retry { after: when.rest() },
            Self::Release(when) => Verdict::Release { after: when.rest() },
        }
    }
}

/// What `member` gets; `wanted` says whether the other engine gave something, and without it what
/// is not there at once is not there.
async fn next(member: &mut Deliveries, wanted: Option<bool>) -> Option<Result<Delivery>> {
    let one = async {
        let many = member.next_many(NonZeroUsize::MIN).await?;
        many.map(|mut many| many.pop()).transpose()
    };
    match wanted {
        None => timeout(AT_ONCE, one).await.ok().flatten(),
        Some(wanted) => timeout(if wanted { SOON } else { NEVER }, one).await.ok().flatten(),
    }
}

fn shown(delivery: &Delivery) -> String {
    let Delivery { frame, seq, attempt, lease, .. } = delivery;
    format!("{} attempt {attempt} for {lease:?}: {:?}", seq.0, **frame)
}

const NOTHING: &str = "nothing";
