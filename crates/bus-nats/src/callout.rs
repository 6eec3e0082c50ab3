//! The service that admits users: servers ask it about everybody who comes without a token of a
//! workspace, and it answers with one, or not at all.
//!
//! A server believes whatever answers, so all that keeps strangers out is here: who is let in says
//! [`Admission`], the same as at the socket of a machine, and what a token gives is made of that
//! and of nothing that a client says. Servers run in operator mode: in their other mode they let
//! an answer put anybody into any account.

use std::{
    fmt,
    future::Future,
    pin::pin,
    sync::{Arc, Mutex as StdMutex, PoisonError},
    time::Duration,
};

use async_nats::{Message, Subscriber};
use bus_core::{Admission, Buckets, Error, ErrorKind, Result};
use bus_crypto::{
    NkeyKind, PublicKey, SigningKey, SystemEntropy, XKey,
    jwt::{Permissions, SubjectPermission},
};
use bus_envelope::Timestamp;
use bus_subjects::WorkspaceId;
use futures_util::{FutureExt as _, StreamExt as _, stream::FuturesUnordered};
use tokio::{sync::Mutex, time::timeout};

use self::{
    admitted::AdmittedUsers, answer::Answer, counts::Counts, decide::decide, kick::Kicker,
    question::Question, workspaces::Workspaces,
};
use crate::{
    claims::ServerClaims,
    connection::{Connection, USER_INFO},
    options::NatsOptions,
};

pub use self::{admitted::AdmittedUser, counts::CalloutStats};

mod admitted;
mod answer;
mod counts;
mod decide;
mod kick;
mod question;
mod used;
mod workspaces;

/// One instance of the service. Start several: servers share their questions out among them, and
/// what a dead one was asked is refused.
pub struct Callout {
    connection: Arc<Connection>,
    questions: Mutex<Subscriber>,
    keys: CalloutKeys,
    admission: Admission,
    limits: CalloutLimits,
    workspaces: Workspaces,
    admitted: AdmittedUsers,
    kicker: Option<Kicker>,
    counts: Counts,
}

/// The keys of the service.
pub struct CalloutKeys {
    /// What questions are sealed for: the `xkey` in the token of `account`.
    pub xkey: XKey,
    /// Who signs answers: the key of `account`, or one of its signing keys.
    pub responder: SigningKey,
    /// The account in which servers ask. It holds this service and the sentinel, nobody else.
    pub account: PublicKey,
}

/// A workspace whose members are admitted.
pub struct CalloutWorkspace {
    /// The account of its agents.
    pub account: PublicKey,
    /// A signing key of `account`, which stands in its token; never the account's own.
    pub signer: SigningKey,
    /// Where its used tickets are noted. All instances use the same buckets.
    pub tickets: Arc<dyn Buckets>,
}

/// What an instance bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CalloutLimits {
    /// How many questions are thought about at once; the next one is refused (64).
    pub questions_max: usize,
    /// How long a question is thought about; then it is not answered, and the server refuses
    /// (1 s, less than the server's own patience).
    pub think_max: Duration,
    /// How long the owner of a key is let in for, before it is asked again (1 h). A certificate
    /// that ends earlier ends it earlier.
    pub life: Duration,
    /// How long the bearer of a ticket is let in for (10 min), at most to the ticket's end.
    pub ticket_life: Duration,
    /// How many admitted users are known at once; the next one is refused (65,536).
    pub admitted_max: usize,
    /// How many of those one agent's key may be (256). The next one takes the place of its oldest,
    /// which is cut off.
    pub admitted_each_max: usize,
}

impl Callout {
    /// The subject on which servers ask.
    pub const SUBJECT: &str = "$SYS.REQ.USER.AUTH";

    /// The queue group of all instances.
    pub const GROUP: &str = "vakbus-callout";

    /// Connects as a user of the account `keys.account`, and is ready: questions that come from
    /// now on wait for [`run`](Self::run).
    ///
    /// # Errors
    /// `Invalid` (a key of the wrong kind, an address), `Denied` (the server knows no such user,
    /// or does not let it hear questions), `Unavailable`.
    pub async fn open(
        options: NatsOptions,
        keys: CalloutKeys,
        admission: Admission,
        limits: CalloutLimits,
    ) -> Result<Self> {
        keys.check()?;
        let connection = Connection::open(options).await?;
        let mark = connection.violation_mark();
        let questions = connection.subscribe_in(OP, Self::SUBJECT, Self::GROUP).await?;
        connection.confirm(OP, mark, Self::SUBJECT).await?;
        Ok(Self {
            connection,
            questions: Mutex::new(questions),
            keys,
            admission,
            limits,
            workspaces: Workspaces::default(),
            admitted: AdmittedUsers::new(limits),
            kicker: None,
            counts: Counts::default(),
        })
    }

    /// Has `servers` cut off users whose right ends, at once. Without that they stay until their
    /// tokens end, and [`ended`](Self::ended) tells them.
    #[must_use]
    pub fn kicking(mut self, servers: ServerClaims) -> Self {
        self.kicker = Some(Kicker::new(servers));
        self
    }

    /// Admits members of `workspace` from now on, as far as the admission lets them in.
    ///
    /// # Errors
    /// `Invalid` when the signer is no signing key, or the account is the one of this service.
    pub fn serve(&self, workspace: WorkspaceId, served: CalloutWorkspace) -> Result<()> {
        if served.account == self.keys.account {
            return Err(invalid("nobody is admitted into the account of the service itself"));
        }
        self.workspaces.insert(workspace, served)
    }

    /// Admits nobody of `workspace` any more.
    pub fn leave(&self, workspace: &WorkspaceId) {
        self.workspaces.remove(workspace);
    }

    /// Answers questions until `until` is over, and then those that have come; after that it is
    /// asked nothing more. One call at a time.
    ///
    /// Dropped, it leaves what it was asked unanswered, and servers refuse that.
    ///
    /// # Errors
    /// `Denied` when no server lets the service in any more, `Closed`.
    pub async fn run(&self, until: impl Future<Output = ()>) -> Result<()> {
        let mut questions = self.questions.lock().await;
        let (mut until, mut cutting) = (pin!(until), pin!(self.cut_off()));
        let mut states = self.connection.states();
        let mut thinking = FuturesUnordered::new();
        // Refusing what is too much takes a place, too, until the refusal is sent.
        let most = self.limits.questions_max.saturating_mul(2);
        loop {
            let is_idle = thinking.is_empty();
            tokio::select! {
                () = &mut until => break,
                _answered = thinking.next(), if !is_idle => {}
                question = questions.next(), if thinking.len() < most => match question {
                    Some(question) => {
                        let is_crowded = thinking.len() >= self.limits.questions_max;
                        thinking.push(self.attend(question, is_crowded));
                    }
                    None => return Err(ended("the bus is closed")),
                },
                _ended = states.wait_for(|state| state.is_final()) => {
                    return Err(ended("no server lets the service in any more"));
                }
                () = &mut cutting => {}
            }
        }
        // From here on others are asked; what is here already is answered here.
        let _gone = questions.drain().await;
        let _reached = self.connection.fence(OP).await;
        while let Some(Some(question)) = questions.next().now_or_never() {
            thinking.push(self.attend(question, false));
        }
        while thinking.next().await.is_some() {}
        // The answers have left this process before it ends.
        let _reached = self.connection.fence(OP).await;
        Ok(())
    }

    /// What happened so far.
    #[must_use]
    pub fn stats(&self) -> CalloutStats {
        self.counts.read(self.admitted.count(self.admission.clock().now()))
    }

    /// The admitted users whose right has ended before their tokens do, and those that had to go
    /// for newer ones of their key, each told once. Whoever uses [`kicking`](Self::kicking) has
    /// them cut off and need not ask.
    #[must_use]
    pub fn ended(&self) -> Vec<AdmittedUser> {
        self.admitted.take_ended(&self.admission, self.admission.clock().now())
    }

    /// What the service needs on a server, and nothing wider; `agent` is the name of its inbox,
    /// `_INBOX.<agent>`.
    #[must_use]
    pub fn permissions(agent: &str) -> Permissions {
        let inbox = format!("_INBOX.{agent}.>");
        let only = |allow: &[&str]| SubjectPermission {
            allow: allow.iter().map(|&subject| subject.to_owned()).collect(),
            deny: Vec::new(),
        };
        let questions = format!("{} {}", Self::SUBJECT, Self::GROUP);
        Permissions {
            publish: only(&[ANSWERS, USER_INFO, &inbox]),
            subscribe: only(&[&questions, &inbox]),
            response: None,
        }
    }

    /// Thinks about one message and answers it.
    async fn attend(&self, message: Message, is_crowded: bool) {
        self.counts.asked();
        let now = self.admission.clock().now();
        let header = message.headers.as_ref().and_then(|headers| headers.get(SERVER_XKEY));
        let header = header.map(|value| value.as_str());
        let opened = Question::open(&self.keys, header, &message.payload, now);
        let (question, reply) = match (opened, message.reply) {
            (Ok(question), Some(reply)) => (question, reply),
            (opened, _) => {
                let reason = opened.err().map(|error| error.to_string());
                tracing::warn!(reason, "what came is no server's question: it is not answered");
                return self.counts.garbage();
            }
        };
        let token = if is_crowded {
            self.counts.crowded();
            Err(Error::new(ErrorKind::Full, OP, "as many questions as are thought about at once"))
        } else {
            match timeout(self.limits.think_max, self.think(&question, now)).await {
                Ok(thought) => thought,
                Err(_late) => {
                    tracing::warn!(server = question.server_name(), "a question took too long");
                    return self.counts.late();
                }
            }
        };
        match &token {
            Ok(_) => self.counts.admitted(),
            Err(error) => {
                tracing::info!(server = question.server_name(), %error, "a user is not admitted");
                self.counts.refused();
            }
        }
        let answer = Answer { question: &question, token: token.ok(), now };
        let sealed = match answer.seal(&self.keys, &SystemEntropy::new()) {
            Ok(sealed) => sealed,
            Err(error) => return tracing::warn!(%error, "an answer cannot be sealed"),
        };
        if let Err(error) = self.connection.publish(OP, reply, None, None, sealed.into()).await {
            tracing::warn!(%error, "an answer was not sent");
        }
    }

    /// The token for whom `question` is about.
    async fn think(&self, question: &Question, now: Timestamp) -> Result<String> {
        let decision = decide(question, &self.admission, (&self.workspaces, self.limits), now)?;
        let token = decision.token()?;
        // A ticket that finds no room is good another time.
        let noted = self.admitted.note(decision.user.clone(), now)?;
        decision.use_up(now).await?;
        // Whoever lost the right in between was not in the list when that was told.
        let entrant = &decision.user.entrant;
        self.admission.check_at(entrant, self.admission.clock().now())?;
        noted.keep();
        tracing::info!(
            workspace = %entrant.workspace(), agent = %entrant.agent(),
            server = question.server_name(), host = question.client_host(), "a user is admitted"
        );
        Ok(token)
    }

    /// Has users cut off as their rights end, for ever.
    async fn cut_off(&self) {
        let Some(kicker) = &self.kicker else { return std::future::pending().await };
        let mut changes = self.admission.changes();
        loop {
            kicker.add(self.ended());
            let again = async {
                match kicker.kick_all(self.admission.clock().now()).await {
                    Some(wait) => tokio::time::sleep(wait).await,
                    None => self.admitted.replaced().await,
                }
            };
            tokio::select! {
                // The sender lives as long as the admission. A server that does not answer is not
                // waited for when somebody else is to be cut off.
                _changed = changes.changed() => {}
                () = again => {}
            }
        }
    }
}

impl CalloutKeys {
    fn check(&self) -> Result<()> {
        let keys = [self.responder.public(), &self.account];
        if keys.iter().any(|key| key.kind() != NkeyKind::Account) {
            return Err(invalid("answers are signed by an account or its signing key"));
        }
        Ok(())
    }
}

impl Default for CalloutLimits {
    fn default() -> Self {
        Self {
            questions_max: 64,
            think_max: Duration::from_secs(1),
            life: Duration::from_secs(3_600),
            ticket_life: Duration::from_secs(600),
            admitted_max: 65_536,
            admitted_each_max: 256,
        }
    }
}

impl fmt::Debug for Callout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callout").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

impl fmt::Debug for CalloutKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CalloutKeys").field("account", &self.account).finish_non_exhaustive()
    }
}

impl fmt::Debug for CalloutWorkspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CalloutWorkspace").field("account", &self.account).finish_non_exhaustive()
    }
}

fn lock<T>(shared: &StdMutex<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn invalid(why: &'static str) -> Error {
    Error::new(ErrorKind::Invalid, OP, why)
}

fn denied(why: &'static str) -> Error {
    Error::new(ErrorKind::Denied, OP, why)
}

fn ended(why: &'static str) -> Error {
    Error::new(ErrorKind::Closed, OP, why)
}

const OP: &str = "admit";
/// Where servers wait for answers.
const ANSWERS: &str = "$SYS._INBOX.>";
/// The header that names the key which an answer is sealed for.
const SERVER_XKEY: &str = "Nats-Server-Xkey";

#[cfg(test)]
mod tests;
