//! One armful of records: judged, sent in runs, written down, and only then out of the outbox.

use std::time::Duration;

use bus_envelope::EventHash;
use bus_subjects::{Address, AddressKind, AgentId};
use futures_util::future::join_all;

use super::{CourierEvent, LEASE, Shift, ask::Told};
use crate::{
    Courier, Delivery, Error, ErrorKind, Expect, Frame, OutboxRecord, Receipt, RecordState, Result,
    Verdict, outbox::Record, settle_all,
};

/// A record that the courier holds.
pub(super) struct Parcel<'a> {
    pub(super) delivery: &'a Delivery,
    /// How it leaves the courier's hands; handed back until something else is known.
    pub(super) verdict: &'a mut Verdict,
    /// Whose outbox it is from; `None` when its subject does not say.
    pub(super) agent: Option<AgentId>,
    /// What the hub is to store; `None` when it cannot be read.
    pub(super) frame: Option<Frame>,
    /// The id and the leaf hash of the envelope in it, when it was found to be good.
    pub(super) envelope: Option<(String, EventHash)>,
}

/// What is to be done with parcels that stand together.
enum Group<'a> {
    /// It came to its end before; it has only to leave the outbox.
    Ended(Parcel<'a>, Verdict),
    /// It must not be carried.
    Refused(Parcel<'a>, String),
    /// They go to one stream of the hub.
    Run(Vec<Parcel<'a>>),
}

/// What is known of a record before it is sent.
enum Judged {
    Ended(Verdict),
    Refused(String),
    Good(String, EventHash),
}

impl Shift<'_> {
    /// Carries `held`, and settles each that came to its end; the others are handed back.
    pub(super) async fn carry(&mut self, held: Vec<Delivery>) -> Result<()> {
        let mut verdicts = vec![Verdict::Release { after: Duration::ZERO }; held.len()];
        let carried = tokio::select! {
            carried = self.carry_all(&held, &mut verdicts) => carried,
            lost = keep(&held) => Err(lost),
        };
        let settled = settle_all(held.into_iter().zip(verdicts).collect()).await;
        self.rooms.handed_back();
        carried?;
        settled.into_iter().collect()
    }

    async fn carry_all(&mut self, held: &[Delivery], verdicts: &mut [Verdict]) -> Result<()> {
        let courier = self.courier;
        courier.home.check_certificate("carry")?;
        let judged = join_all(held.iter().map(|delivery| courier.judge(delivery))).await;
        let mut groups: Vec<Group<'_>> = Vec::new();
        for ((delivery, verdict), judged) in held.iter().zip(verdicts).zip(judged) {
            let (agent, frame, judged) = judged?;
            let mut parcel = Parcel { delivery, verdict, agent, frame, envelope: None };
            match judged {
                Judged::Ended(verdict) => groups.push(Group::Ended(parcel, verdict)),
                Judged::Refused(reason) => groups.push(Group::Refused(parcel, reason)),
                Judged::Good(id, hash) => {
                    parcel.envelope = Some((id, hash));
                    match groups.last_mut() {
                        Some(Group::Run(run)) if may_join(run, &parcel) => run.push(parcel),
                        _ => groups.push(Group::Run(vec![parcel])),
                    }
                }
            }
        }
        for group in groups {
            if self.stop.is_cancelled() {
                return Ok(());
            }
            match group {
                Group::Ended(parcel, verdict) => {
                    self.rooms.left(&parcel);
                    *parcel.verdict = verdict;
                }
                Group::Refused(parcel, reason) => {
                    self.rooms.left(&parcel);
                    self.refuse(parcel, reason).await?;
                }
                Group::Run(run) => self.send(run).await?,
            }
        }
        Ok(())
    }

    /// Sends what goes to one stream: as a batch, in halves of one that got no answer, and one by
    /// one when the hub refuses it.
    async fn send(&mut self, run: Vec<Parcel<'_>>) -> Result<()> {
        // The next one stands at the end.
        let mut parts = vec![(run, false)];
        while let Some((mut part, unsure)) = parts.pop() {
            if part.len() > 1 {
                // A part before it may have found that there is no room.
                part = self.passing(part)?;
            }
            if part.len() < 2 {
                if !self.send_each(part, unsure).await? {
                    return Ok(());
                }
                continue;
            }
            let hub = &self.courier.hub;
            let frames = || part.iter().filter_map(|parcel| parcel.frame.clone()).collect();
            match self.ask(&part, || hub.append_all(frames())).await? {
                Told::Stored(receipts) => self.arrived(part, receipts).await?,
                Told::Stopped => return Ok(()),
                // It may be too much for the way there.
                Told::Unanswered => {
                    let rest = part.split_off(part.len() / 2);
                    parts.extend([(rest, true), (part, true)]);
                }
                // Which of them it is about turns out one by one.
                Told::Refused { is_unsure, .. } | Told::Full { is_unsure, .. } => {
                    if !self.send_each(part, unsure || is_unsure).await? {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// Those for which there may be room.
    fn passing<'a>(&mut self, part: Vec<Parcel<'a>>) -> Result<Vec<Parcel<'a>>> {
        let mut passing = Vec::with_capacity(part.len());
        for mut parcel in part {
            if self.rooms.lets_pass(&mut parcel)? {
                passing.push(parcel);
            }
        }
        Ok(passing)
    }

    /// Sends one after the other, of which a copy may have been stored when that is `unsure`; says
    /// whether the courier goes on.
    async fn send_each(&mut self, run: Vec<Parcel<'_>>, unsure: bool) -> Result<bool> {
        let hub = &self.courier.hub;
        for mut parcel in run {
            // The one before it may have found that there is none.
            if !self.rooms.lets_pass(&mut parcel)? {
                continue;
            }
            let Some(frame) = parcel.frame.clone() else { continue };
            let asked = std::slice::from_ref(&parcel);
            match self.ask(asked, || hub.append(frame.clone(), Expect::Any)).await? {
                Told::Stored(receipt) => self.arrived(vec![parcel], vec![receipt]).await?,
                Told::Stopped | Told::Unanswered => return Ok(false),
                // Others do not wait for a mailbox that nobody empties; those of its own subject
                // do, so that their order stays.
                Told::Full { error, .. } => {
                    let at = self.courier.home.clock().now();
                    let state = RecordState::Again { why: error.to_string(), tries: 1, at };
                    let _noted = self.courier.note(&parcel, state).await;
                    self.rooms.full(&mut parcel);
                }
                Told::Refused { error, is_unsure } => {
                    let mut reason = format!("the hub refuses it: {error}");
                    if unsure || is_unsure {
                        reason.push_str("; an earlier copy may have been stored");
                    }
                    self.refuse(parcel, reason).await?;
                }
            }
        }
        Ok(true)
    }

    /// Writes down what the hub has stored.
    async fn arrived(&mut self, run: Vec<Parcel<'_>>, receipts: Vec<Receipt>) -> Result<()> {
        if run.len() != receipts.len() {
            let detail = "the hub did not answer for each record";
            return Err(Error::new(ErrorKind::Unavailable, "carry", detail).unknown());
        }
        let courier = self.courier;
        let parcels = run.iter().zip(&receipts);
        let ours =
            join_all(parcels.map(|(parcel, receipt)| courier.is_ours(parcel, receipt))).await;
        let mut stored = Vec::with_capacity(run.len());
        for ((parcel, receipt), is_ours) in run.into_iter().zip(receipts).zip(ours) {
            if is_ours? {
                stored.push((parcel, receipt));
            } else {
                let reason = "something else is stored at the hub under its id".to_owned();
                self.refuse(parcel, reason).await?;
            }
        }
        let at = courier.home.clock().now();
        let state = |receipt: &Receipt| {
            let (stream, seq) = (receipt.stream.clone(), receipt.seq);
            RecordState::AtHub { stream, seq, at, is_duplicate: receipt.duplicate }
        };
        let noting = stored.iter().map(|(parcel, receipt)| courier.note(parcel, state(receipt)));
        let written = join_all(noting).await;
        for ((parcel, receipt), mut written) in stored.into_iter().zip(written) {
            let mut full = 0_u32;
            while let Err(error) = written {
                // A home that does not answer says nothing about its room.
                full += u32::from(error.kind() == ErrorKind::Full);
                // Asked again the hub might store it again: this is about the outbox alone.
                match error.kind() {
                    // What leaves makes room; what stays is sent again some day.
                    ErrorKind::Full if full >= FULL_TRIES => {
                        let id = &parcel.delivery.frame.id;
                        tracing::warn!(%id, %error, "a record is at the hub, and its state untold");
                        break;
                    }
                    ErrorKind::Closed => return Err(error),
                    _ if self.stop.is_cancelled() => return Err(error),
                    _ => self.rest(error).await,
                }
                written = courier.note(&parcel, state(&receipt)).await;
            }
            *parcel.verdict = Verdict::Ack;
            self.rests = 0;
            if let Some(agent) = parcel.agent {
                let id = parcel.delivery.frame.id.to_string();
                tracing::debug!(%id, %agent, stream = %receipt.stream, "a record is at the hub");
                (self.report)(CourierEvent::Carried { id, agent, receipt });
            }
        }
        Ok(())
    }
}

impl Courier {
    /// Reads a record, and says what is known of it.
    async fn judge(&self, delivery: &Delivery) -> Result<(Option<AgentId>, Option<Frame>, Judged)> {
        let (outer, workspace) = (&*delivery.frame, self.home.workspace());
        let Ok(Address::Outbox { agent, .. }) = Address::parse(&outer.subject) else {
            let reason = "its subject is no outbox's".to_owned();
            return Ok((None, None, Judged::Refused(reason)));
        };
        let known = OutboxRecord::find(&**self.home.engine(), workspace, &agent, &outer.id).await?;
        // Ids may come again: what was said of one stored record is not said of another.
        let known =
            known.filter(|known| (known.seq, known.since) == (delivery.seq, delivery.stored));
        let record = Record::unpack(workspace, outer);
        let judged = match (known.map(|known| known.state), &record) {
            (Some(RecordState::AtHub { .. }), _) => Judged::Ended(Verdict::Ack),
            (Some(RecordState::Refused { reason, .. }), _) => {
                Judged::Ended(Verdict::Reject { reason })
            }
            (_, Err(error)) => Judged::Refused(error.to_string()),
            (_, Ok(record)) => self.check(record)?,
        };
        Ok((Some(agent), record.ok().map(|record| record.frame), judged))
    }

    /// Whether a record may be carried: the courier lends its rights to nobody.
    fn check(&self, record: &Record) -> Result<Judged> {
        Ok(match self.home.check_frame(&record.frame) {
            // Whether it is good is not known now.
            Err(error) if error.kind() == ErrorKind::Unavailable => return Err(error),
            Err(error) => Judged::Refused(error.to_string()),
            Ok((envelope, _)) if envelope.lineage.agent != record.agent => {
                let (signer, of) = (&envelope.lineage.agent, &record.agent);
                Judged::Refused(format!("signed by {signer} and put into the outbox of {of}"))
            }
            Ok((envelope, hash)) => Judged::Good(envelope.id, hash),
        })
    }

    /// Whether what the hub has stored under the id is this record. What has left the stream
    /// already, or may not be read there, is taken for it.
    async fn is_ours(&self, parcel: &Parcel<'_>, receipt: &Receipt) -> Result<bool> {
        if !receipt.duplicate {
            return Ok(true);
        }
        match self.hub.read(receipt.stream.clone(), receipt.seq).await {
            Ok(stored) => {
                Ok(stored.is_none_or(|stored| Some(&stored.frame) == parcel.frame.as_ref()))
            }
            Err(error) => match error.kind() {
                // Whatever stands there, it is not the frame that was signed.
                ErrorKind::Corrupt => Ok(false),
                ErrorKind::Denied | ErrorKind::NotFound | ErrorKind::Unsupported => Ok(true),
                _ => Err(error),
            },
        }
    }

    /// Writes down what became of a record.
    pub(super) async fn note(&self, parcel: &Parcel<'_>, state: RecordState) -> Result<()> {
        let Some(agent) = parcel.agent.clone() else { return Ok(()) };
        let subject = parcel.frame.as_ref().map(|frame| frame.subject.to_string());
        let record = OutboxRecord::of(parcel.delivery, agent, subject, state);
        record.write(&**self.home.engine(), self.home.workspace()).await
    }
}

/// Whether a parcel can go with a run: to the same stream, and not too much at once.
fn may_join(run: &[Parcel<'_>], parcel: &Parcel<'_>) -> bool {
    let kind = |parcel: &Parcel<'_>| -> Option<AddressKind> {
        Address::kind_of(&parcel.frame.as_ref()?.subject).ok()
    };
    let bytes = |parcel: &Parcel<'_>| parcel.frame.as_ref().map_or(0, Frame::bytes);
    run.first().is_some_and(|first| kind(first) == kind(parcel))
        && run.iter().map(bytes).sum::<usize>().saturating_add(bytes(parcel)) <= RUN_BYTES_MAX
}

/// Holds the leases; ends with the error that says they are lost.
async fn keep(held: &[Delivery]) -> Error {
    loop {
        tokio::time::sleep(LEASE / 3).await;
        for extended in join_all(held.iter().map(Delivery::extend)).await {
            match extended {
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::LeaseLost | ErrorKind::NotFound | ErrorKind::Closed
                    ) =>
                {
                    return error;
                }
                // It is tried again before the lease ends.
                Ok(()) | Err(_) => {}
            }
        }
    }
}

/// How much is sent in one batch: 4 MiB.
const RUN_BYTES_MAX: usize = 4 << 20;
/// How often a state is written to a home that has no room.
const FULL_TRIES: u32 = 4;
