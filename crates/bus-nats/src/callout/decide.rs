//! Whether somebody is admitted, and what the token says that admits it. Nothing is read here but
//! what comes in as an argument.

use std::{sync::Arc, time::Duration};

use bus_core::{Admission, Admitted, Door, Entrant, Error, ErrorKind, Result};
use bus_crypto::jwt::{UserClaims, encode_user};
use bus_envelope::Timestamp;

use super::{
    AdmittedUser, CalloutLimits, OP, denied,
    question::{Question, unix_s},
    used::use_up,
    workspaces::{Served, Workspaces},
};
use crate::permissions::permissions;

/// Somebody is admitted.
#[derive(Debug)]
pub(super) struct Decision {
    /// Who, as what.
    pub(super) user: AdmittedUser,
    /// What its token says.
    pub(super) claims: UserClaims,
    served: Arc<Served>,
}

/// Decides about `question` at the time `now`. A ticket is [used up](Decision::use_up) last, when
/// nothing else stands in the way.
///
/// # Errors
/// Whatever the reason is: the user is not admitted.
pub(super) fn decide(
    question: &Question,
    admission: &Admission,
    (workspaces, limits): (&Workspaces, CalloutLimits),
    now: Timestamp,
) -> Result<Decision> {
    let door = question.door()?;
    let admitted = admission.admit(&question.shown()?.proof(), door, now)?;
    let served = workspaces.get(admitted.entrant.workspace())?;
    let account = match &admitted.entrant {
        Entrant::Member(certificate) => certificate.issuer,
        Entrant::Bearer(ticket) => ticket.issuer,
    };
    if account != served.account {
        return Err(denied("the workspace has another account here than the one that vouches"));
    }
    let claims = claims(question, &admitted, &served, (door, limits, now))?;
    let request = question.request();
    let user = AdmittedUser {
        user: request.user,
        server: request.server,
        client_id: request.client_id,
        until: claims.expires_unix_s.map_or(now, seconds),
        entrant: admitted.entrant,
    };
    Ok(Decision { user, claims, served })
}

impl Decision {
    /// Uses up the ticket that the user came with, if it did.
    ///
    /// # Errors
    /// Whatever the reason is: the user is not admitted.
    pub(super) async fn use_up(&self, now: Timestamp) -> Result<()> {
        match &self.user.entrant {
            Entrant::Member(_) => Ok(()),
            Entrant::Bearer(ticket) => use_up(&*self.served.tickets, ticket, now).await,
        }
    }

    /// The token that lets the user in, signed for its workspace's account.
    ///
    /// # Errors
    /// `TooLarge` when it does not fit into one.
    pub(super) fn token(&self) -> Result<String> {
        encode_user(&self.claims, &self.served.signer).map_err(|error| {
            Error::new(ErrorKind::TooLarge, OP, "the token cannot be made").because(error)
        })
    }
}

fn claims(
    question: &Question,
    admitted: &Admitted,
    served: &Served,
    (door, limits, now): (Door, CalloutLimits, Timestamp),
) -> Result<UserClaims> {
    let Admitted { entrant, policy, until } = admitted;
    let life = match entrant {
        Entrant::Member(_) => limits.life,
        Entrant::Bearer(_) => limits.ticket_life,
    };
    let (issued, end) = (unix_s(now), end_of(now, life, *until));
    if end <= issued {
        return Err(denied("the right ends within this second"));
    }
    let granted = permissions(policy, entrant.agent(), &served.layout).map_err(|error| {
        let why = "the rights cannot be told to a server";
        Error::new(ErrorKind::Denied, OP, why).at(entrant.agent()).because(error)
    })?;
    let (subject, issuer) = (question.request().user, *served.signer.public());
    let mut claims = UserClaims::new(entrant.agent().as_str(), subject, issuer, issued);
    claims.issuer_account = Some(served.account);
    claims.expires_unix_s = Some(end);
    claims.permissions = granted;
    claims.connection_types = vec![connection_type(door)?.to_owned()];
    claims.tags = vec![format!("workspace:{}", entrant.workspace())];
    claims.tags.extend(entrant.roles().iter().map(|role| format!("role:{}", role.as_str())));
    Ok(claims)
}

/// The second in which the token ends: never after `until`.
fn end_of(now: Timestamp, life: Duration, until: Option<Timestamp>) -> i64 {
    let end = now.plus(life);
    unix_s(until.map_or(end, |until| until.min(end)))
}

fn connection_type(door: Door) -> Result<&'static str> {
    match door {
        Door::Nats => Ok("STANDARD"),
        Door::WebSocket => Ok("WEBSOCKET"),
        Door::Link => Err(denied("that is no door of a server")),
    }
}

fn seconds(unix_s: i64) -> Timestamp {
    Timestamp::from_unix_ns(i128::from(unix_s) * 1_000_000_000)
}
