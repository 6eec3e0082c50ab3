//! The users of a deployment: kept as long as they are right, made again before they end.

use std::time::Duration;

use bus_crypto::{
    NkeyKind, SigningKey, SystemEntropy, Zeroizing, creds,
    jwt::{Permissions, SubjectPermission, UserClaims, decode_user, encode_user},
};
use bus_nats::permissions::{CALL_ANSWERS, Layout, live_filters, permissions};
use bus_subjects::{AclPolicy, AddressKind, AgentId, Filter, RuleSet, WorkspaceId};

use crate::{
    error::{CliError, Exit},
    operator::{MachineUser, now_unix_s},
};

/// A user that a machine needs.
pub(super) struct Wanted<'a> {
    account: &'a SigningKey,
    name: String,
    connection: &'static str,
    /// From where it may log in; from everywhere when there is none.
    sources: Vec<String>,
    permissions: Permissions,
}

impl<'a> Wanted<'a> {
    /// The server of a machine, as a workspace's agents there reach those of the cluster: live
    /// events, calls and their answers cross, and nothing that is stored.
    ///
    /// # Errors
    /// None in practice: the filters of the planes are valid.
    pub(super) fn link(
        account: &'a SigningKey,
        machine: &str,
        workspace: &WorkspaceId,
    ) -> Result<Self, CliError> {
        let mut allow: Vec<String> =
            live_filters(workspace).iter().map(|filter| filter.as_str().to_owned()).collect();
        // Where calls are answered, and no other inbox of the account.
        allow.push(CALL_ANSWERS.to_owned());
        let both = SubjectPermission { allow, deny: Vec::new() };
        let permissions =
            Permissions { publish: both.clone(), subscribe: both, ..Permissions::default() };
        let name = format!("link-{machine}");
        Ok(Self { account, name, connection: LEAF, sources: Vec::new(), permissions })
    }

    /// The server of a machine, as it is told of accounts. It gives the others none, and takes no
    /// part in what they say to each other: neither their events nor their JetStream cross.
    pub(super) fn system(account: &'a SigningKey, machine: &str) -> Self {
        let only = |allow: &[&str]| SubjectPermission {
            allow: allow.iter().copied().map(str::to_owned).collect(),
            deny: Vec::new(),
        };
        let (publish, subscribe) = (only(&SAYS_TO_SERVERS), only(&HEARS_OF_SERVERS));
        let permissions = Permissions { publish, subscribe, ..Permissions::default() };
        let name = format!("system-{machine}");
        Self { account, name, connection: LEAF, sources: Vec::new(), permissions }
    }

    /// Who keeps house on the machine's own server: everything in the store of a workspace there.
    /// At the servers of the cluster, which know the same account, it is nobody.
    pub(super) fn keeper(store: &'a SigningKey, machine: &str) -> Self {
        let (name, sources) = (format!("keeper-{machine}"), vec![THIS_MACHINE.to_owned()]);
        let permissions = Permissions::default();
        Self { account: store, name, connection: CLIENT, sources, permissions }
    }

    /// The courier of a machine, which carries tasks and letters to the cluster and reads nothing.
    ///
    /// # Errors
    /// None in practice: its rights can be told a server.
    pub(super) fn courier(
        account: &'a SigningKey,
        machine: &str,
        workspace: &WorkspaceId,
    ) -> Result<Self, CliError> {
        let name = format!("courier-{machine}");
        let agent = AgentId::parse(&name)?;
        let to = [AddressKind::Task, AddressKind::Inbox];
        let allow = to.map(|kind| kind.filter(Some(workspace))).to_vec();
        let publish = RuleSet { allow, deny: Vec::new() };
        let answers = Filter::parse(&format!("_INBOX.{agent}.>"))?;
        let subscribe = RuleSet { allow: vec![answers], deny: Vec::new() };
        let policy = AclPolicy { publish, subscribe };
        let permissions = permissions(&policy, &agent, &Layout::of(workspace)?)
            .map_err(|error| CliError::new(Exit::Failed, error.to_string()))?;
        Ok(Self { account, name, connection: CLIENT, sources: Vec::new(), permissions })
    }

    /// The credentials that are there when they are right, for two weeks more at least; else new
    /// ones.
    ///
    /// # Errors
    /// When there is no randomness.
    pub(super) fn kept_or_new(&self, there: Option<&str>) -> Result<Zeroizing<String>, CliError> {
        let now = now_unix_s();
        if let Some(there) = there.filter(|there| self.is_right(there, now)) {
            return Ok(Zeroizing::new(there.to_owned()));
        }
        let key = SigningKey::generate(NkeyKind::User, &SystemEntropy::new())?;
        let mut claims = UserClaims::new(&*self.name, *key.public(), *self.account.public(), now);
        claims.expires_unix_s = Some(now.saturating_add(seconds(LIFETIME)));
        claims.connection_types = vec![self.connection.to_owned()];
        claims.limits.source_networks.clone_from(&self.sources);
        claims.permissions = self.permissions.clone();
        Ok(creds::render(&encode_user(&claims, self.account)?, &key))
    }

    fn is_right(&self, there: &str, now: i64) -> bool {
        let Ok(credentials) = creds::parse(there) else { return false };
        let Ok(claims) = decode_user(credentials.jwt()) else { return false };
        let lasts = claims.expires_unix_s.is_some_and(|end| end > now + seconds(RENEWED_BEFORE));
        lasts
            && claims.subject == *credentials.key().public()
            && claims.issued_by(self.account.public()).is_ok()
            && claims.name == self.name
            && claims.connection_types == [self.connection]
            && claims.limits.source_networks == self.sources
            && claims.permissions == self.permissions
    }
}

/// Whose credentials these are; none when they are no credentials.
pub(super) fn user_of(text: &str) -> Option<MachineUser> {
    let credentials = creds::parse(text).ok()?;
    let claims = decode_user(credentials.jwt()).ok()?;
    let account = claims.issuer_account.unwrap_or(claims.issuer);
    Some(MachineUser { key: claims.subject, account })
}

fn seconds(time: Duration) -> i64 {
    i64::try_from(time.as_secs()).unwrap_or(i64::MAX)
}

/// What a machine's server says to those of the cluster: it asks for tokens, and answers whoever
/// gives it one.
const SAYS_TO_SERVERS: [&str; 3] = [PACK, LOOKUP, "_INBOX.>"];
/// What it hears of them: the tokens that it asked for, and what the operator asks and tells.
const HEARS_OF_SERVERS: [&str; 4] = ["$SYS._INBOX.>", PING, LOOKUP, "$SYS.REQ.CLAIMS.UPDATE"];
const PACK: &str = "$SYS.REQ.CLAIMS.PACK";
const LOOKUP: &str = "$SYS.REQ.ACCOUNT.*.CLAIMS.LOOKUP";
const PING: &str = "$SYS.REQ.SERVER.PING";
const THIS_MACHINE: &str = "127.0.0.1/32";
const LEAF: &str = "LEAFNODE";
const CLIENT: &str = "STANDARD";
/// How long a user of a deployment lives, and how long before that it is made again.
const LIFETIME: Duration = Duration::from_secs(90 * 24 * 3600);
const RENEWED_BEFORE: Duration = Duration::from_secs(14 * 24 * 3600);

#[cfg(test)]
mod tests {
    use super::*;

    fn account() -> SigningKey {
        SigningKey::generate(NkeyKind::Account, &SystemEntropy::new()).unwrap()
    }

    #[test]
    fn credentials_that_are_right_are_kept_and_others_are_not() {
        let (account, other) = (account(), account());
        let wanted = Wanted::system(&account, "m1");
        let made = wanted.kept_or_new(None).unwrap();
        assert_eq!(*wanted.kept_or_new(Some(&made)).unwrap(), *made);
        for changed in [
            Wanted::system(&other, "m1"),
            Wanted::system(&account, "m2"),
            Wanted::link(&account, "m1", &"w".parse().unwrap()).unwrap(),
        ] {
            assert_ne!(*changed.kept_or_new(Some(&made)).unwrap(), *made);
        }
    }

    #[test]
    fn credentials_are_made_again_two_weeks_before_they_end() {
        let account = account();
        let wanted = Wanted::system(&account, "m1");
        let made = wanted.kept_or_new(None).unwrap();
        let (now, day) = (now_unix_s(), 24 * 3600);
        assert!(wanted.is_right(&made, now + 75 * day));
        assert!(!wanted.is_right(&made, now + 77 * day));
    }

    #[test]
    fn a_link_carries_no_inbox_but_those_where_calls_are_answered() {
        let account = account();
        let wanted = Wanted::link(&account, "m1", &"w".parse().unwrap()).unwrap();
        for side in [wanted.permissions.publish, wanted.permissions.subscribe] {
            let inboxes = side.allow.iter().filter(|subject| subject.starts_with("_INBOX"));
            assert_eq!(inboxes.collect::<Vec<_>>(), ["_INBOX.*.call.>"]);
        }
    }

    #[test]
    fn a_machines_server_takes_no_part_in_what_servers_say_to_each_other() {
        let account = account();
        let made = Wanted::system(&account, "m1").kept_or_new(None).unwrap();
        let claims = decode_user(creds::parse(&made).unwrap().jwt()).unwrap();
        let (says, hears) = (&claims.permissions.publish, &claims.permissions.subscribe);
        assert_eq!(
            says.allow,
            ["$SYS.REQ.CLAIMS.PACK", "$SYS.REQ.ACCOUNT.*.CLAIMS.LOOKUP", "_INBOX.>"]
        );
        assert_eq!(
            hears.allow,
            [
                "$SYS._INBOX.>",
                "$SYS.REQ.SERVER.PING",
                "$SYS.REQ.ACCOUNT.*.CLAIMS.LOOKUP",
                "$SYS.REQ.CLAIMS.UPDATE",
            ]
        );
    }

    #[test]
    fn who_keeps_house_on_a_machine_is_let_in_there_alone() {
        let account = account();
        let made = Wanted::keeper(&account, "m1").kept_or_new(None).unwrap();
        let claims = decode_user(creds::parse(&made).unwrap().jwt()).unwrap();
        assert_eq!(claims.limits.source_networks, ["127.0.0.1/32"]);
        assert_eq!(claims.connection_types, ["STANDARD"]);
    }

    #[test]
    fn a_courier_may_send_tasks_and_letters_and_hear_nothing_but_its_answers() {
        let account = account();
        let wanted = Wanted::courier(&account, "m1", &"w".parse().unwrap()).unwrap();
        let (publish, subscribe) = (wanted.permissions.publish, wanted.permissions.subscribe);
        for allowed in ["vak.work.w.*.task", "vak.agent.w.*.inbox"] {
            assert!(publish.allow.iter().any(|subject| subject == allowed), "{publish:?}");
        }
        assert_eq!(subscribe.allow, ["_INBOX.courier-m1.>"]);
    }
}
