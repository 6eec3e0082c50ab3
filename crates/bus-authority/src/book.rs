//! The book of approvals: a fold over what is stored about them.

use std::collections::HashMap;

use bus_core::{EndKind, Endpoint, Opened, Result, Seq, Stored, planes};
use bus_envelope::{EventHash, wire};
use bus_subjects::{Address, AddressKind, AgentId, Filter, SessionId};

use crate::{
    Approval, ApprovalName, End, Event, Found,
    reading::{self, Said},
};

/// Every approval of a session or a workspace with what became of it, for who may read requests and
/// receipts.
///
/// Records of one subject are shown to it in their order; the two streams may be read one after the
/// other. Its size is bounded by that of what is stored.
#[derive(Debug, Clone, Default)]
pub struct Book {
    /// By position of the request: the order in which they were asked.
    pages: Vec<Approval>,
    by_leaf: HashMap<EventHash, usize>,
    /// The newest request under each id that somebody chose in a session.
    by_id: HashMap<(SessionId, AgentId, String), EventHash>,
    /// Ends whose request was not seen yet.
    early: HashMap<EventHash, Vec<(SessionId, Event)>>,
    passed_over: u64,
}

impl Book {
    /// Reads what is stored about the approvals of `session`, or of all sessions.
    ///
    /// # Errors
    /// `Denied` when the agent may not read approvals and receipts; `NotFound` when their streams
    /// are not declared; `Closed`, `Unavailable`.
    pub async fn read(endpoint: &Endpoint, session: Option<&SessionId>) -> Result<Self> {
        let mut book = Self::default();
        let workspace = endpoint.workspace().clone();
        let (approvals, receipts) = match session.cloned() {
            None => (
                AddressKind::Approval.filter(Some(&workspace)),
                AddressKind::Receipt.filter(Some(&workspace)),
            ),
            Some(session) => {
                let of = |address: Address| Filter::from(&address.subject());
                let (workspace, again) = (workspace.clone(), session.clone());
                (
                    of(Address::Approval { workspace: workspace.clone(), session }),
                    of(Address::Receipt { workspace, session: again }),
                )
            }
        };
        for (stream, filter) in
            [(planes::approvals_stream()?, approvals), (planes::receipts_stream()?, receipts)]
        {
            let mut records = endpoint.replay(stream, filter).await?;
            while let Some(stored) = records.next().await {
                book.see(endpoint, &stored?);
            }
        }
        Ok(book)
    }

    /// Checks, opens and takes in one more stored record, and says which approval it moved.
    /// Receipts of tasks are passed by unopened; what cannot be opened is counted.
    pub fn see(&mut self, endpoint: &Endpoint, stored: &Stored) -> Option<EventHash> {
        let frame = &stored.frame;
        if Address::kind_of(&frame.subject) == Ok(AddressKind::Receipt) {
            let envelope = wire::decode(&frame.headers, &frame.body).ok()?;
            EndKind::of(&envelope.event_type)?;
        }
        // What was signed while its key was valid counts, whatever became of the key since.
        match endpoint.open_record(stored) {
            Ok(opened) => self.apply(stored.seq, &opened, endpoint.is_by_resolver(&opened)),
            Err(error) => {
                tracing::warn!(seq = stored.seq.0, %error, "a record of an approval is refused");
                self.passed_over = self.passed_over.saturating_add(1);
                None
            }
        }
    }

    /// Takes in the record stored at `seq`, checked and opened; `may_resolve` says whether its
    /// signer is an operator and no worker. Says which approval it moved.
    pub fn apply(&mut self, seq: Seq, opened: &Opened, may_resolve: bool) -> Option<EventHash> {
        let session = reading::session_of(opened)?;
        match reading::read(seq, opened, may_resolve)? {
            Said::About(leaf, event) => self.about(leaf, session, *event),
            Said::Asked { asked, instead_of } => {
                let leaf = opened.hash;
                if self.by_leaf.contains_key(&leaf) {
                    return None;
                }
                let lineage = &opened.envelope.lineage;
                let by = lineage.agent.clone();
                let old = self.by_id.insert((session.clone(), by.clone(), asked.id.clone()), leaf);
                // A newer question under an id takes the place of the older one.
                for old in instead_of.into_iter().chain(old) {
                    let (at, instead) = (opened.envelope.time, Some(asked.id.clone()));
                    let kind = EndKind::Superseded;
                    let end = End { kind, leaf, seq, by: by.clone(), at, instead };
                    self.about(old, session.clone(), Event::Closed { end, may_resolve: false });
                }
                let mut approval = Approval::asked(leaf, session, by, *asked);
                for (session, event) in self.early.remove(&leaf).unwrap_or_default() {
                    if session == *approval.session() {
                        approval.see(event);
                    }
                }
                self.by_leaf.insert(leaf, self.pages.len());
                self.pages.push(approval);
                Some(leaf)
            }
        }
    }

    /// Every approval, in the order in which they were asked for.
    #[must_use]
    pub fn list(&self) -> &[Approval] {
        &self.pages
    }

    /// The approval with this leaf.
    #[must_use]
    pub fn get(&self, leaf: &EventHash) -> Option<&Approval> {
        self.pages.get(*self.by_leaf.get(leaf)?)
    }

    /// The approval that `name` stands for.
    #[must_use]
    pub fn find(&self, name: &ApprovalName) -> Found<&Approval> {
        name.find(self.pages.iter().map(|approval| {
            let id = approval.request().map(|asked| asked.id.clone()).unwrap_or_default();
            (approval.leaf(), id, approval)
        }))
    }

    /// How many records could not be opened, so that nothing is known of them.
    #[must_use]
    pub const fn passed_over(&self) -> u64 {
        self.passed_over
    }

    fn about(&mut self, leaf: EventHash, session: SessionId, event: Event) -> Option<EventHash> {
        let Some(approval) = self.by_leaf.get(&leaf).and_then(|page| self.pages.get_mut(*page))
        else {
            // Streams are read one after the other; on its own subject nothing comes too early.
            if matches!(event, Event::Ended(_)) {
                self.early.entry(leaf).or_default().push((session, event));
            }
            return None;
        };
        (*approval.session() == session && approval.see(event)).then_some(leaf)
    }
}
