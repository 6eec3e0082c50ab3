//! A request: what somebody wants to do, which answers there are, and which of them allows it.

use std::time::Duration;

use bus_envelope::{EventHash, Timestamp};
use serde::{Deserialize, Serialize};

use super::{corrupt, invalid, leaf, read, text, time, write};
use crate::{Error, Result};

/// What somebody asks for, as the request's payload (JSON).
///
/// # Examples
/// ```
/// use bus_core::ApprovalRequest;
/// use std::time::Duration;
///
/// let request = ApprovalRequest::new("deploy.production", "web-1", &["yes", "no", "later"])?
///     .question("Deploy build 17 to web-1?")?
///     .run("nightly-17")?
///     .valid_for(Duration::from_secs(600))?;
/// assert!(request.can_be_used());
/// assert_eq!(ApprovalRequest::from_json(&request.to_json()?)?, request);
/// # Ok::<(), bus_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalRequest {
    action: String,
    target: String,
    choices: Vec<String>,
    approval_choice: String,
    question: Option<String>,
    run: Option<String>,
    valid_s: u32,
    answer_until: Option<Timestamp>,
    supersedes: Option<EventHash>,
}

/// A member that is at its default is not written, so the first three say all there is to say of a
/// plain request.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestForm {
    action: String,
    target: String,
    choices: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    approval_choice: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    question: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    valid_s: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    answer_until: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    supersedes: Option<String>,
}

impl ApprovalRequest {
    /// The CloudEvents type of a request.
    pub const EVENT_TYPE: &'static str = "vak.approval.requested";
    /// The longest action, in bytes.
    pub const ACTION_BYTES_MAX: usize = 128;
    /// The longest target, in bytes.
    pub const TARGET_BYTES_MAX: usize = 1024;
    /// The most choices.
    pub const CHOICES_MAX: usize = 16;
    /// The longest choice, in bytes.
    pub const CHOICE_BYTES_MAX: usize = 64;
    /// The choice that allows what is asked for, unless the request names another.
    pub const APPROVAL_CHOICE: &'static str = "yes";
    /// The longest question, in bytes.
    pub const QUESTION_BYTES_MAX: usize = 1024;
    /// The longest name of a run, in bytes.
    pub const RUN_BYTES_MAX: usize = 128;
    /// How long a verdict may be used, unless the request says otherwise: an hour.
    pub const VALID_FOR: Duration = Duration::from_secs(3600);
    /// The longest time a verdict may be used: seven days.
    pub const VALID_FOR_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

    /// A request to do `action` to `target`, to be answered with one of `choices`, of which `yes`
    /// allows it.
    ///
    /// # Errors
    /// `Invalid` when the action or a choice is empty, something is too long or holds a control
    /// character, there are fewer than two choices or too many, or one stands twice.
    pub fn new(action: &str, target: &str, choices: &[&str]) -> Result<Self> {
        let choices: Vec<String> = choices.iter().map(|choice| (*choice).to_owned()).collect();
        Self::check(RequestForm {
            action: action.to_owned(),
            target: target.to_owned(),
            choices,
            approval_choice: None,
            question: None,
            run: None,
            valid_s: None,
            answer_until: None,
            supersedes: None,
        })
    }

    /// The same, allowed by `choice` and by no other.
    ///
    /// # Errors
    /// `Invalid` when it is none of the choices.
    pub fn approval_choice(mut self, choice: &str) -> Result<Self> {
        if !self.choices.iter().any(|offered| offered == choice) {
            return Err(invalid("the approving choice is none of those that are offered"));
        }
        choice.clone_into(&mut self.approval_choice);
        Ok(self)
    }

    /// The same with a question in words, for whoever answers.
    ///
    /// # Errors
    /// `Invalid` when it is empty, too long, or holds a control character.
    pub fn question(mut self, question: &str) -> Result<Self> {
        text("question", question, 1, Self::QUESTION_BYTES_MAX)?;
        self.question = Some(question.to_owned());
        Ok(self)
    }

    /// The same for one run of work: a use has to name it.
    ///
    /// # Errors
    /// `Invalid` when it is empty, too long, or holds a control character.
    pub fn run(mut self, run: &str) -> Result<Self> {
        text("run", run, 1, Self::RUN_BYTES_MAX)?;
        self.run = Some(run.to_owned());
        Ok(self)
    }

    /// The same with a verdict that may be used for `time`, counted in whole seconds from when it
    /// is given.
    ///
    /// # Errors
    /// `Invalid` for less than a second or more than [`ApprovalRequest::VALID_FOR_MAX`].
    pub fn valid_for(mut self, time: Duration) -> Result<Self> {
        self.valid_s = valid_s(time.as_secs())?;
        Ok(self)
    }

    /// The same, expired when there is no verdict before `until`.
    #[must_use]
    pub fn answer_until(mut self, until: Timestamp) -> Self {
        self.answer_until = Some(until);
        self
    }

    /// The same in the place of an earlier request of the same agent in the same session.
    #[must_use]
    pub fn supersedes(mut self, request: EventHash) -> Self {
        self.supersedes = Some(request);
        self
    }

    /// What is to be done.
    #[must_use]
    pub fn action(&self) -> &str {
        &self.action
    }

    /// What it is to be done to; may be empty.
    #[must_use]
    pub fn target(&self) -> &str {
        &self.target
    }

    /// The answers that may be given.
    #[must_use]
    pub fn choices(&self) -> &[String] {
        &self.choices
    }

    /// The one answer that allows it.
    #[must_use]
    pub fn approving_choice(&self) -> &str {
        &self.approval_choice
    }

    /// Whether any answer allows it: its approving choice is among the choices.
    #[must_use]
    pub fn can_be_used(&self) -> bool {
        self.choices.contains(&self.approval_choice)
    }

    /// What is asked in words.
    #[must_use]
    pub fn in_words(&self) -> Option<&str> {
        self.question.as_deref()
    }

    /// The run it is for.
    #[must_use]
    pub fn of_run(&self) -> Option<&str> {
        self.run.as_deref()
    }

    /// How long a verdict on it may be used.
    #[must_use]
    pub fn validity(&self) -> Duration {
        Duration::from_secs(self.valid_s.into())
    }

    /// From when on it is expired, unless there is a verdict.
    #[must_use]
    pub const fn expires(&self) -> Option<Timestamp> {
        self.answer_until
    }

    /// Whether the time for an answer is over at `now`.
    #[must_use]
    pub fn is_expired_at(&self, now: Timestamp) -> bool {
        self.answer_until.is_some_and(|until| now >= until)
    }

    /// The request whose place it takes.
    #[must_use]
    pub const fn replaces(&self) -> Option<EventHash> {
        self.supersedes
    }

    /// Reads a request.
    ///
    /// # Errors
    /// `Corrupt` when it is not a request's JSON or breaks one of its limits.
    pub fn from_json(json: &[u8]) -> Result<Self> {
        Self::check(read(json, "is not an approval request's JSON")?).map_err(corrupt)
    }

    /// Writes it in its one canonical form.
    ///
    /// # Errors
    /// None in practice: its texts can all be written as JSON.
    pub fn to_json(&self) -> Result<Vec<u8>> {
        let default_s = Self::VALID_FOR.as_secs();
        write(&RequestForm {
            action: self.action.clone(),
            target: self.target.clone(),
            choices: self.choices.clone(),
            approval_choice: (self.approval_choice != Self::APPROVAL_CHOICE)
                .then(|| self.approval_choice.clone()),
            question: self.question.clone(),
            run: self.run.clone(),
            valid_s: (u64::from(self.valid_s) != default_s).then_some(self.valid_s),
            answer_until: self.answer_until.map(|until| until.to_string()),
            supersedes: self.supersedes.map(|request| request.to_string()),
        })
    }

    fn check(form: RequestForm) -> Result<Self> {
        text("action", &form.action, 1, Self::ACTION_BYTES_MAX)?;
        text("target", &form.target, 0, Self::TARGET_BYTES_MAX)?;
        let count = form.choices.len();
        if !(2..=Self::CHOICES_MAX).contains(&count) {
            let detail = format!("{count} choices: expected 2 to {}", Self::CHOICES_MAX);
            return Err(invalid(detail));
        }
        for (at, choice) in form.choices.iter().enumerate() {
            text("choice", choice, 1, Self::CHOICE_BYTES_MAX)?;
            if form.choices.iter().take(at).any(|earlier| earlier == choice) {
                return Err(invalid(format!("choice {} stands twice", at + 1)));
            }
        }
        // One that is not offered is read all the same: such a request can be answered and shown,
        // and never be used.
        let approval_choice =
            form.approval_choice.unwrap_or_else(|| Self::APPROVAL_CHOICE.to_owned());
        text("approval choice", &approval_choice, 1, Self::CHOICE_BYTES_MAX)?;
        let valid = form.valid_s.map_or(Self::VALID_FOR.as_secs(), u64::from);
        let until = form.answer_until.map(|text| time("answer_until", &text)).transpose()?;
        let supersedes = form.supersedes.map(|text| leaf("supersedes", &text)).transpose()?;
        let request = Self {
            action: form.action,
            target: form.target,
            choices: form.choices,
            approval_choice,
            question: None,
            run: None,
            valid_s: valid_s(valid)?,
            answer_until: until,
            supersedes,
        };
        let request = match form.question {
            Some(question) => request.question(&question)?,
            None => request,
        };
        match form.run {
            Some(run) => request.run(&run),
            None => Ok(request),
        }
    }
}

fn valid_s(seconds: u64) -> Result<u32, Error> {
    let max = ApprovalRequest::VALID_FOR_MAX.as_secs();
    match u32::try_from(seconds) {
        Ok(valid) if valid > 0 && seconds <= max => Ok(valid),
        _ => Err(invalid(format!("a verdict is valid for {seconds} s: expected 1 to {max}"))),
    }
}
