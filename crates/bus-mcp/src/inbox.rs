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
use serde_json::{Value, json};
use tokio::{
    sync::{Notify, watch},
    time::{Instant, MissedTickBehavior, interval_at, sleep, sleep_until, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::answer::{Answer, Refused};

use self::letter::Letter;
pub(crate) use self::letter::Origin;

mod letter;

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
        self.settled(Instant::now()).await?;
        let letters = self.0.letters().clone();
        Ok(self.shown(&letters))
    }

    /// What was not shown yet, as soon as there is some.
    pub(crate) async fn wait(&self, limit: Duration) -> Answer {
        let until = Instant::now() + limit;
        let mut standing = self.changes();
        self.settled(until).await?;
        loop {
            standing.mark_unchanged();
            let mut new = self.0.letters().clone();
            new.retain(|letter| !letter.was_shown.load(Ordering::Relaxed));
            if !new.is_empty() {
                return Ok(self.shown(&new));
            }
            if self.0.is_full() {
                return Err(full());
            }
            tokio::select! {
                changed = standing.changed() => {
                    if changed.is_err() {
                        return Err(closed());
                    }
                    if let Some(trouble) = standing.borrow().trouble.clone() {
                        return Err(trouble);
                    }
                }
                () = sleep_until(until) => return Ok(self.shown(&[])),
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

    /// Messages, and whether there may be more than can be held.
    fn shown(&self, letters: &[Arc<Letter>]) -> Value {
        let mut answer = shown(letters);
        if self.0.is_full()
            && let Some(answer) = answer.as_object_mut()
        {
            answer.insert("full".to_owned(), json!(true));
        }
        answer
    }

    /// Returns when what was there at the beginning is read, soon after `until` at the latest.
    async fn settled(&self, until: Instant) -> Result<(), Refused> {
        let mut standing = self.changes();
        let settled = standing.wait_for(|now| now.is_settled || now.trouble.is_some());
        let now = tokio::select! {
            now = settled => now.map_err(|_| closed())?.clone(),
            () = self.0.stop.cancelled() => return Err(closed()),
            () = sleep_until(until + OPENS_WITHIN) => {
                return Err(Refused::new("timeout", "the mailbox was not opened in time"));
            }
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
            let has_room = !self.is_full();
            if !has_room {
                self.settle();
            }
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
            // One whose lease was lost comes again. Its sender chose its id, and so may another.
            letters.retain(|known| known.id != letter.id || known.hash() != letter.hash());
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

    /// The message with this hash, or with this id where one alone has it.
    fn find(&self, name: &str) -> Result<Arc<Letter>, Refused> {
        let letters = self.letters();
        let has_hash = |letter: &&Arc<Letter>| letter.hash().is_some_and(|hash| hash == name);
        if let Some(letter) = letters.iter().find(has_hash) {
            return Ok(Arc::clone(letter));
        }
        let mut with_id = letters.iter().filter(|letter| letter.id == name);
        match (with_id.next(), with_id.next()) {
            (None, _) => Err(unknown(name)),
            (Some(letter), None) => Ok(Arc::clone(letter)),
            (Some(_), Some(_)) => Err(ambiguous(name)),
        }
    }

    fn is_full(&self) -> bool {
        self.letters().len() >= HELD_MAX
    }

    fn forget(&self, letter: &Arc<Letter>) {
        self.letters().retain(|held| !Arc::ptr_eq(held, letter));
        self.room.notify_one();
    }

    fn letters(&self) -> MutexGuard<'_, Vec<Arc<Letter>>> {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner)
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

fn ambiguous(id: &str) -> Refused {
    let reason = format!("several messages are held that their senders gave the id {id}");
    Refused::new("ambiguous", reason).next("name the one that is meant by its hash")
}

fn full() -> Refused {
    let reason = format!("{HELD_MAX} messages are held and were shown; more may wait behind them");
    Refused::new("full", reason).next("inbox_ack takes out what is read")
}

fn closed() -> Refused {
    Refused::new("closed", "the bus was closed")
}

/// How many messages are held at a time; more wait in the mailbox.
const HELD_MAX: usize = 64;

/// How much longer than it was asked to a call waits for a mailbox to be opened.
const OPENS_WITHIN: Duration = Duration::from_secs(10);

/// After how long without a message a mailbox counts as read to its end.
const MOMENT: Duration = Duration::from_millis(500);

/// How long a mailbox that cannot be read is left alone.
const AWAY: Duration = Duration::from_secs(1);

/// How long the answer to an approval rests that is handed back.
const VERDICTS_REST: Duration = Duration::from_secs(1);
