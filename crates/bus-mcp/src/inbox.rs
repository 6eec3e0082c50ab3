//! The agent's mailbox as its client sees it: what came and is not acknowledged, held until then.
//!
//! From the first look on, messages are taken as they come and their leases kept, so that a waiting
//! client is woken. When this ends they are handed back, and come to whoever reads next.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bus_core::{ApprovalVerdict, Endpoint, ErrorKind, Mail, Mailbox};
use bus_envelope::{EventHash, TraceContext};
use bus_subjects::AgentId;
use serde_json::{Value, json};
use tokio::{
    sync::{Notify, watch},
    time::{Instant, MissedTickBehavior, interval_at, sleep, sleep_until, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    answer::{Answer, Refused},
    data,
};

/// What is held of a mailbox.
#[derive(Debug, Clone)]
pub(crate) struct Inbox(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    endpoint: Endpoint,
    lease: Duration,
    letters: Mutex<Vec<Arc<Letter>>>,
    /// How it stands; told anew with every message that comes.
    standing: watch::Sender<Standing>,
    /// Told when there is room for more.
    room: Notify,
    is_begun: AtomicBool,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// How the reading of a mailbox stands.
#[derive(Debug, Clone, Default)]
pub(crate) struct Standing {
    /// How many messages came.
    pub came: u64,
    /// Whether what was there at the beginning is read.
    is_settled: bool,
    /// Why it cannot be read now.
    trouble: Option<Refused>,
}

/// A message that is held.
#[derive(Debug)]
struct Letter {
    id: String,
    shown: Value,
    origin: Option<Origin>,
    was_shown: AtomicBool,
    /// Its lease. The lock keeps a message from being extended while it is acknowledged.
    mail: tokio::sync::Mutex<Option<Mail>>,
}

/// What an answer to a message has to name.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    pub from: AgentId,
    pub hash: EventHash,
    pub trace: TraceContext,
}

impl Inbox {
    pub(crate) fn new(endpoint: Endpoint, lease: Duration) -> Self {
        Self(Arc::new(Inner {
            endpoint,
            lease,
            letters: Mutex::default(),
            standing: watch::Sender::default(),
            room: Notify::new(),
            is_begun: AtomicBool::new(false),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        }))
    }

    /// Everything that is held, once what was there is read.
    pub(crate) async fn list(&self) -> Answer {
        self.settled().await?;
        let letters = self.0.letters().clone();
        Ok(shown(&letters))
    }

    /// What was not shown yet, as soon as there is some.
    pub(crate) async fn wait(&self, limit: Duration) -> Answer {
        let until = Instant::now() + limit;
        let mut standing = self.changes();
        self.settled().await?;
        loop {
            standing.mark_unchanged();
            let mut new = self.0.letters().clone();
            new.retain(|letter| !letter.was_shown.load(Ordering::Relaxed));
            if !new.is_empty() {
                return Ok(shown(&new));
            }
            tokio::select! {
                changed = standing.changed() => if changed.is_err() { return Err(closed()) },
                () = sleep_until(until) => return Ok(shown(&[])),
                () = self.0.stop.cancelled() => return Err(closed()),
            }
        }
    }

    /// Takes a message out of the mailbox.
    pub(crate) async fn ack(&self, id: &str) -> Answer {
        let letter = self.0.find(id)?;
        let mail = letter.mail.lock().await.take().ok_or_else(|| unknown(id))?;
        // Whatever comes of it, it is not held any more: what was not taken out comes again.
        self.0.forget(&letter);
        match mail.content {
            Ok(_) => mail.ack().await?,
            Err(_) => mail.reject("its reader gave it up unopened").await?,
        }
        Ok(json!({ "message": id, "state": "acknowledged" }))
    }

    /// Whom and what an answer to a message is for.
    pub(crate) fn origin(&self, id: &str) -> Result<Origin, Refused> {
        let letter = self.0.find(id)?;
        letter.origin.clone().ok_or_else(|| {
            Refused::new("corrupt", format!("message {id} cannot be opened, so nobody is answered"))
        })
    }

    /// Begins to read, if nobody has, and tells of what comes.
    pub(crate) fn changes(&self) -> watch::Receiver<Standing> {
        if !self.0.is_begun.swap(true, Ordering::Relaxed) {
            let inner = Arc::clone(&self.0);
            self.0.tasks.spawn(async move { inner.run().await });
        }
        self.0.standing.subscribe()
    }

    /// Hands back everything that is held.
    pub(crate) async fn end(&self) {
        self.0.stop.cancel();
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }

    /// Returns when what was there at the beginning is read.
    async fn settled(&self) -> Result<(), Refused> {
        let mut standing = self.changes();
        let settled = standing.wait_for(|now| now.is_settled || now.trouble.is_some());
        let now = tokio::select! {
            now = settled => now.map_err(|_| closed())?.clone(),
            () = self.0.stop.cancelled() => return Err(closed()),
        };
        now.trouble.map_or(Ok(()), Err)
    }
}

impl Inner {
    /// Reads until it is stopped; a bus that is away is waited for.
    async fn run(&self) {
        while !self.stop.is_cancelled() {
            let trouble = tokio::select! {
                biased;
                () = self.stop.cancelled() => break,
                trouble = self.read() => trouble,
            };
            tracing::warn!("the mailbox cannot be read now: {}", trouble.reason);
            self.standing.send_modify(|now| now.trouble = Some(trouble));
            tokio::select! {
                () = self.stop.cancelled() => {}
                () = sleep(AWAY) => {}
            }
        }
        let held = std::mem::take(&mut *self.letters());
        for letter in held {
            if let Some(mail) = letter.mail.lock().await.take() {
                // Best effort: else its lease runs out.
                let _released = mail.later(Duration::ZERO).await;
            }
        }
    }

    /// Takes what comes; returns why that cannot go on.
    async fn read(&self) -> Refused {
        let mut mailbox = match self.endpoint.mailbox(self.lease).await {
            Ok(mailbox) => mailbox,
            Err(error) => return error.into(),
        };
        self.standing.send_modify(|now| now.trouble = None);
        let third = (self.lease / 3).max(Duration::from_millis(1));
        let mut ticks = interval_at(Instant::now() + third, third);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let has_room = self.letters().len() < HELD_MAX;
            let is_settled = self.standing.borrow().is_settled;
            tokio::select! {
                mail = next(&mut mailbox, is_settled), if has_room => match mail {
                    Next::Mail(mail) => self.take(*mail).await,
                    Next::Nothing => self.settle(),
                    Next::Ended(refused) => return refused,
                },
                _tick = ticks.tick() => self.extend().await,
                () = self.room.notified() => {}
            }
            if !has_room {
                self.settle();
            }
        }
    }

    fn settle(&self) {
        self.standing.send_if_modified(|now| !std::mem::replace(&mut now.is_settled, true));
    }

    async fn take(&self, mail: Mail) {
        let is_verdict = mail
            .content
            .as_ref()
            .is_ok_and(|opened| opened.envelope.event_type == ApprovalVerdict::EVENT_TYPE);
        if is_verdict {
            // It is there to be used once, by who waits for it.
            let _released = mail.later(VERDICTS_REST).await;
            return;
        }
        let letter = Arc::new(Letter::new(mail));
        {
            let mut letters = self.letters();
            // One whose lease was lost comes again.
            letters.retain(|known| known.id != letter.id);
            letters.push(letter);
        }
        self.standing.send_modify(|now| now.came = now.came.saturating_add(1));
    }

    /// Keeps the leases of what is held; what is lost comes again.
    async fn extend(&self) {
        let letters = self.letters().clone();
        for letter in letters {
            let held = letter.mail.lock().await;
            let Some(mail) = held.as_ref() else { continue };
            match mail.extend().await {
                Err(error) if error.kind() == ErrorKind::LeaseLost => self.forget(&letter),
                // An engine that is away may be back before the lease is over.
                _ => {}
            }
        }
    }

    fn find(&self, id: &str) -> Result<Arc<Letter>, Refused> {
        let found = self.letters().iter().find(|letter| letter.id == id).cloned();
        found.ok_or_else(|| unknown(id))
    }

    fn forget(&self, letter: &Arc<Letter>) {
        self.letters().retain(|held| !Arc::ptr_eq(held, letter));
        self.room.notify_one();
    }

    fn letters(&self) -> MutexGuard<'_, Vec<Arc<Letter>>> {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Letter {
    fn new(mail: Mail) -> Self {
        let (id, mut shown, origin) = match &mail.content {
            Ok(opened) => {
                let envelope = &opened.envelope;
                let origin = Origin {
                    from: envelope.lineage.agent.clone(),
                    hash: opened.hash,
                    trace: envelope.trace.clone(),
                };
                (envelope.id.clone(), data::message(opened), Some(origin))
            }
            Err(error) => {
                let id = mail.id().to_string();
                let reason = data::clean(error.to_string().as_bytes());
                let shown = json!({
                    "id": id,
                    "from": { "agent": null, "key": null, "verified": false },
                    "unopened": { "kind": error.kind().as_str(), "reason": reason },
                });
                (id, shown, None)
            }
        };
        if let Some(shown) = shown.as_object_mut() {
            shown.insert("delivery".to_owned(), json!(mail.attempt()));
        }
        let mail = tokio::sync::Mutex::new(Some(mail));
        Self { id, shown, origin, was_shown: AtomicBool::new(false), mail }
    }
}

/// What a look at a mailbox gives.
enum Next {
    Mail(Box<Mail>),
    /// Nothing for a moment: it is read to its end.
    Nothing,
    Ended(Refused),
}

async fn next(mailbox: &mut Mailbox, is_settled: bool) -> Next {
    let mail = match is_settled {
        true => mailbox.next().await,
        false => match timeout(MOMENT, mailbox.next()).await {
            Ok(mail) => mail,
            Err(_) => return Next::Nothing,
        },
    };
    match mail {
        Some(Ok(mail)) => Next::Mail(Box::new(mail)),
        Some(Err(error)) => Next::Ended(error.into()),
        None => Next::Ended(closed()),
    }
}

fn shown(letters: &[Arc<Letter>]) -> Value {
    let messages: Vec<Value> = letters
        .iter()
        .map(|letter| {
            letter.was_shown.store(true, Ordering::Relaxed);
            letter.shown.clone()
        })
        .collect();
    json!({ "messages": messages })
}

fn unknown(id: &str) -> Refused {
    let reason = format!("no message {id} is held: it was acknowledged, or comes again");
    Refused::new("not-found", reason).next("inbox_list says what is there")
}

fn closed() -> Refused {
    Refused::new("closed", "the bus was closed")
}

/// How many messages are held at a time; more wait in the mailbox.
const HELD_MAX: usize = 64;

/// After how long without a message a mailbox counts as read to its end.
const MOMENT: Duration = Duration::from_millis(500);

/// How long a mailbox that cannot be read is left alone.
const AWAY: Duration = Duration::from_secs(1);

/// How long the answer to an approval rests that is handed back.
const VERDICTS_REST: Duration = Duration::from_secs(1);
