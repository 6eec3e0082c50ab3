//! One kind of record that is kept: its last ones, and what comes after them.

use std::collections::VecDeque;

use bus_core::{Endpoint, Follow, Result, Seq, Stored, planes};
use bus_envelope::wire;
use bus_subjects::{Address, AddressKind, Filter, SessionId, StreamName};

use crate::args::TailKind;

/// A record of a kind.
pub(super) struct Record {
    pub(super) kind: TailKind,
    pub(super) stored: Stored,
}

/// The records of one kind in their stream.
pub(super) struct Source {
    kind: TailKind,
    endpoint: Endpoint,
    stream: StreamName,
    filter: Filter,
    session: Option<SessionId>,
    follow: Follow,
}

impl Source {
    /// The source of a kind that is kept; none for one that is heard live.
    ///
    /// # Errors
    /// `Denied` when the agent may not read that kind; those of the engine.
    pub(super) async fn open(
        endpoint: &Endpoint,
        kind: TailKind,
        session: Option<&SessionId>,
    ) -> Result<Option<Self>> {
        let workspace = endpoint.workspace();
        let of_session = |kind: AddressKind, address: fn(_, _) -> Address| match session {
            Some(session) => Filter::from(&address(workspace.clone(), session.clone()).subject()),
            None => kind.filter(Some(workspace)),
        };
        let (stream, filter) = match kind {
            TailKind::Tokens | TailKind::Terminal | TailKind::Alerts => return Ok(None),
            TailKind::Tasks => {
                (planes::work_stream(workspace)?, AddressKind::Task.filter(Some(workspace)))
            }
            TailKind::Receipts => {
                let address = |workspace, session| Address::Receipt { workspace, session };
                (planes::receipts_stream()?, of_session(AddressKind::Receipt, address))
            }
            TailKind::DeadLetters => {
                let all = AddressKind::DeadLetter.filter(Some(workspace));
                (planes::dead_letters_stream()?, all)
            }
            TailKind::Approvals => {
                let address = |workspace, session| Address::Approval { workspace, session };
                (planes::approvals_stream()?, of_session(AddressKind::Approval, address))
            }
        };
        let follow = Follow::at_end(endpoint.clone(), stream.clone(), filter.clone()).await?;
        let (endpoint, session) = (endpoint.clone(), session.cloned());
        Ok(Some(Self { kind, endpoint, stream, filter, session, follow }))
    }

    /// The last `count` records before what [`Source::look`] finds. Looks at a part that grows
    /// until there are enough, so what is long ago costs nobody anything.
    ///
    /// # Errors
    /// Those of the engine.
    pub(super) async fn last(&self, count: usize) -> Result<VecDeque<Record>> {
        let (end, mut width) = (self.follow.position().0, WIDTH_MIN);
        loop {
            let from = end.saturating_sub(width).max(1);
            let last = self.between(from, end, count).await?;
            if last.len() >= count || from == 1 {
                return Ok(last);
            }
            width = width.saturating_mul(8);
        }
    }

    async fn between(&self, from: u64, end: u64, count: usize) -> Result<VecDeque<Record>> {
        let (stream, filter) = (self.stream.clone(), self.filter.clone());
        let mut records = self.endpoint.replay_from(stream, filter, Seq(from)).await?;
        let mut last = VecDeque::new();
        while let Some(stored) = records.next().await {
            let stored = stored?;
            if stored.seq.0 >= end {
                break;
            }
            if self.is_meant(&stored) && count > 0 {
                if last.len() == count {
                    last.pop_front();
                }
                last.push_back(Record { kind: self.kind, stored });
            }
        }
        Ok(last)
    }

    /// Adds what is new to `records`, [`NEW_MAX`] of them at most; says whether that was all.
    ///
    /// # Errors
    /// Those of the engine; what was added before is not read again.
    pub(super) async fn look(&mut self, records: &mut Vec<Record>) -> Result<bool> {
        let (kind, mut new) = (self.kind, Vec::new());
        let looked = self.follow.look_some(NEW_MAX, |stored| new.push(stored)).await;
        let meant = new.into_iter().filter(|stored| self.is_meant(stored));
        records.extend(meant.map(|stored| Record { kind, stored }));
        Ok(looked? < NEW_MAX)
    }

    /// What cannot be read is of no session.
    fn is_meant(&self, stored: &Stored) -> bool {
        let Some(session) = &self.session else { return true };
        let envelope = wire::decode(&stored.frame.headers, &stored.frame.body);
        envelope.is_ok_and(|envelope| envelope.lineage.session.as_ref() == Some(session))
    }
}

/// How far back the first look goes.
const WIDTH_MIN: u64 = 256;

/// How many new records are held at a time.
const NEW_MAX: u64 = 256;
