//! From rules to grants: each rule becomes what an engine sends and hears to execute it.

use bus_subjects::{
    AclPolicy, Action, AddressKind, AgentId, BucketName, Effect, Filter, Rule, RuleSet,
};

use super::{
    CALL_ANSWERS, PermissionsError,
    layout::{Consumers, Layout, Store},
    steering::steer,
};
use crate::queue::pattern::intersect;

/// What was found to be granted, in no order.
pub(super) struct Grants {
    pub(super) publish: List,
    pub(super) subscribe: List,
}

/// One direction.
#[derive(Default)]
pub(super) struct List {
    pub(super) allow: Vec<Filter>,
    pub(super) deny: Vec<Filter>,
}

type Granted<T = ()> = Result<T, PermissionsError>;

impl Grants {
    pub(super) fn of(policy: &AclPolicy, agent: &AgentId, layout: &Layout) -> Granted<Self> {
        let mut grants = Self { publish: List::default(), subscribe: List::default() };
        // The server's word on this connection, and the agent's own inbox: see `permissions`.
        grants.allow("$SYS.REQ.USER.INFO")?;
        grants.allow(&format!("_INBOX.{agent}.>"))?;
        let mut maker = Maker { policy, agent, layout, grants };
        for rule in policy.rules() {
            match (rule.effect, rule.action) {
                (Effect::Deny, action) => maker.deny(action, rule)?,
                (Effect::Allow, Action::Publish) => maker.publish(&rule)?,
                (Effect::Allow, Action::Subscribe) => maker.subscribe(&rule)?,
            }
        }
        Ok(maker.grants)
    }

    /// Lets a subject be published.
    pub(super) fn allow(&mut self, subject: &str) -> Granted {
        self.publish.allow.push(Filter::parse(subject)?);
        Ok(())
    }

    /// Lets `verb` of the API be asked.
    pub(super) fn ask(&mut self, verb: &str) -> Granted {
        self.allow(&format!("{}.{verb}", Layout::API_PREFIX))
    }

    fn hear(&mut self, subject: &str) -> Granted {
        self.subscribe.allow.push(Filter::parse(subject)?);
        Ok(())
    }

    /// Lets the consumer `name` of a queue be made for exactly `part`, pulled and acknowledged,
    /// with its records on the board, and the bell of placed messages be heard.
    pub(super) fn consume(&mut self, store: &Store, name: &str, part: &Filter) -> Granted {
        let stream = &store.name;
        let placed = placed(part.as_str());
        self.ask(&format!("CONSUMER.CREATE.{stream}.{name}.{part}"))?;
        self.ask(&format!("CONSUMER.CREATE.{stream}.{name}+p.{placed}"))?;
        for name in [name.to_owned(), format!("{name}+p")] {
            self.ask(&format!("CONSUMER.INFO.{stream}.{name}"))?;
            self.ask(&format!("CONSUMER.MSG.NEXT.{stream}.{name}"))?;
            // The second form names the domain and the account's hash in front, and may end in a
            // random level. By its length alone it is told from the first form of another
            // consumer, which would be named in front.
            self.allow(&format!("$JS.ACK.{stream}.{name}.{PLACE}"))?;
            self.allow(&format!("$JS.ACK.*.*.{stream}.{name}.{PLACE}"))?;
            self.allow(&format!("$JS.ACK.*.*.{stream}.{name}.{PLACE}.*"))?;
        }
        self.allow(&format!("vakq.{stream}.{name}.>"))?;
        self.see_board(&format!("{stream}.{name}.>"))?;
        self.hear(&placed)?;
        self.hear(&format!("$JS.EVENT.ADVISORY.CONSUMER.DELETED.{stream}.{name}"))
    }

    /// Lets the records that begin with `part` be read, and be followed as they change.
    pub(super) fn see_board(&mut self, part: &str) -> Granted {
        let (board, part) = (Layout::BOARD, Filter::parse(&format!("vakq.{part}"))?);
        self.ask(&format!("DIRECT.GET.{board}.{part}"))?;
        self.follow(board, &part)
    }

    /// Lets `part` of a stream be read in order by a consumer of any name, which nobody else can
    /// guess. Not of a queue: nobody else's consumer has a name that is known there.
    fn follow(&mut self, stream: &str, part: &Filter) -> Granted {
        self.ask(&format!("CONSUMER.CREATE.{stream}.*.{part}"))?;
        self.ask(&format!("CONSUMER.MSG.NEXT.{stream}.*"))
    }
}

/// Turns one rule after the other into grants.
struct Maker<'a> {
    policy: &'a AclPolicy,
    agent: &'a AgentId,
    layout: &'a Layout,
    grants: Grants,
}

impl Maker<'_> {
    fn publish(&mut self, rule: &Rule) -> Granted {
        let filter = &rule.filter;
        if is_denied(&self.policy.publish, filter) {
            return Ok(());
        }
        match levels(filter).as_slice() {
            ["$KV", bucket, _, ..] => {
                bucket_of(rule, bucket)?;
                self.grants.allow(filter.as_str())
            }
            ["$O", bucket, "M", keys @ ..] if !keys.is_empty() => {
                self.without_part_of_denied(rule)?;
                self.write_blobs(bucket_of(rule, bucket)?, &keys.join("."))
            }
            ["$JS", "API", verb @ ..] => {
                self.without_part_of_denied(rule)?;
                steer(self.policy, self.layout, rule, verb, &mut self.grants)
            }
            first => {
                self.check_place(rule, first)?;
                self.grants.allow(filter.as_str())?;
                self.of_stores(filter, |maker, store, part| maker.append(rule, store, part))
            }
        }
    }

    fn subscribe(&mut self, rule: &Rule) -> Granted {
        let filter = &rule.filter;
        if is_denied(&self.policy.subscribe, filter) {
            return Ok(());
        }
        match levels(filter).as_slice() {
            ["$KV", bucket, keys @ ..] if !keys.is_empty() => {
                self.without_part_of_denied(rule)?;
                self.read_bucket(rule, &bucket_of(rule, bucket)?, keys)
            }
            ["$O", bucket, "M", keys @ ..] => {
                self.without_part_of_denied(rule)?;
                self.read_blobs(rule, &bucket_of(rule, bucket)?, keys)
            }
            first => {
                self.check_place(rule, first)?;
                self.grants.hear(filter.as_str())?;
                let calls = AddressKind::Call.filter(Some(self.layout.workspace()));
                if calls.overlaps(filter) {
                    self.grants.allow(CALL_ANSWERS)?;
                }
                self.of_stores(filter, |maker, store, part| maker.read(rule, store, part))
            }
        }
    }

    fn deny(&mut self, action: Action, rule: Rule) -> Granted {
        let filter = &rule.filter;
        let list = match action {
            Action::Publish => &mut self.grants.publish,
            Action::Subscribe => &mut self.grants.subscribe,
        };
        match levels(filter).as_slice() {
            ["*" | ">", ..] => return refused(&rule, "it reaches what the bus itself sends"),
            // What is granted there is made only of rules that no denial touches.
            ["$JS" | "$O", ..] => return Ok(()),
            ["$KV", ..] if action == Action::Subscribe => return Ok(()),
            _ => list.deny.push(filter.clone()),
        }
        let queues = self.layout.stores().filter(|store| store.consumers.is_some());
        for whole in queues.flat_map(Store::parts) {
            if let Some(part) = intersect(filter, whole) {
                list.deny.push(Filter::parse(&placed(&part))?);
            }
        }
        Ok(())
    }

    /// Lets tasks and letters be stored, and what is stored be read by who goes on from it.
    fn append(&mut self, rule: &Rule, store: &Store, part: &Filter) -> Granted {
        if store.consumers.is_some() {
            self.grants.allow(&placed(part.as_str()))?;
        }
        let is_shared =
            |kind: AddressKind| store.parts().contains(&kind.filter(Some(self.layout.workspace())));
        let shared = [
            AddressKind::Task,
            AddressKind::DeadLetter,
            AddressKind::Receipt,
            AddressKind::Approval,
        ];
        let heard = &self.policy.subscribe;
        if !shared.into_iter().any(is_shared) || is_denied(heard, part) {
            return Ok(());
        }
        apart(rule, part, Action::Subscribe, heard)?;
        apart(rule, part, Action::Publish, &self.policy.publish)?;
        self.read_last(store, part)
    }

    /// Lets what is stored be read and, when it is one queue's, be consumed.
    fn read(&mut self, rule: &Rule, store: &Store, part: &Filter) -> Granted {
        let heard = &self.policy.subscribe;
        if is_denied(heard, part) {
            return Ok(());
        }
        apart(rule, part, Action::Subscribe, heard)?;
        // Read by position, it may be anything that the stream keeps.
        if is_read_whole(store, heard) {
            self.grants.ask(&format!("DIRECT.GET.{}", store.name))?;
        }
        self.read_last(store, part)?;
        match (store.consumers, levels(part).get(3)) {
            (Some(Consumers::OfOwner(prefix)), Some(owner)) if *owner != "*" => {
                self.grants.consume(store, &format!("{prefix}{owner}"), part)
            }
            (Some(_), _) => Ok(()),
            // Samples are not replayed.
            (None, _) if store.name.as_str() == Layout::LATEST => Ok(()),
            // Replayed by a reader of its own: no other way of reading says of what.
            (None, _) => self.grants.follow(store.name.as_str(), part),
        }
    }

    fn read_last(&mut self, store: &Store, part: &Filter) -> Granted {
        self.grants.ask(&format!("DIRECT.GET.{}.{part}", store.name))?;
        if store.consumers.is_some() {
            self.grants.ask(&format!("DIRECT.GET.{}.{}", store.name, placed(part.as_str())))?;
        }
        Ok(())
    }

    fn read_bucket(&mut self, rule: &Rule, bucket: &BucketName, keys: &[&str]) -> Granted {
        if keys.last() == Some(&"*") && !self.layout.is_flat(bucket) {
            return refused(rule, "a right that ends in * cannot be kept out of deeper keys");
        }
        let (filter, grants) = (&rule.filter, &mut self.grants);
        grants.ask(&format!("DIRECT.GET.KV_{bucket}.{filter}"))?;
        grants.follow(&format!("KV_{bucket}"), filter)?;
        if is_whole(keys) {
            // It can be asked for the names of all keys.
            grants.ask(&format!("STREAM.INFO.KV_{bucket}"))?;
        }
        Ok(())
    }

    fn read_blobs(&mut self, rule: &Rule, bucket: &BucketName, keys: &[&str]) -> Granted {
        let [keys @ ("*" | ">")] = keys else {
            return refused(rule, "pieces of blobs can only be read all or none");
        };
        if *keys == "*" && !self.layout.is_flat(bucket) {
            return refused(rule, "a right that ends in * cannot be kept out of deeper keys");
        }
        self.grants.ask(&format!("DIRECT.GET.VKB_{bucket}.vakblob.{bucket}.m.{keys}"))?;
        self.grants.ask(&format!("DIRECT.GET.VKB_{bucket}"))
    }

    fn write_blobs(&mut self, bucket: BucketName, keys: &str) -> Granted {
        let manifests = format!("vakblob.{bucket}.m.{keys}");
        self.grants.ask(&format!("DIRECT.GET.VKB_{bucket}.{manifests}"))?;
        self.grants.allow(&manifests)?;
        self.grants.allow(&format!("vakblob.{bucket}.p.*"))?;
        self.grants.allow(&format!("vakblob.{bucket}.d.*"))
    }

    /// Calls `make` for each stream that keeps a part of what `filter` names.
    fn of_stores(
        &mut self,
        filter: &Filter,
        mut make: impl FnMut(&mut Self, &Store, &Filter) -> Granted,
    ) -> Granted {
        let layout = self.layout;
        let parts =
            layout.stores().flat_map(|store| store.parts().iter().map(move |it| (store, it)));
        for (store, whole) in parts {
            if let Some(part) = intersect(filter, whole) {
                make(self, store, &Filter::parse(&part)?)?;
            }
        }
        Ok(())
    }

    /// Refuses what is neither an address of this workspace nor a subject of the agent's own.
    fn check_place(&self, rule: &Rule, levels: &[&str]) -> Granted {
        match levels {
            ["_INBOX", owner, _, ..] if *owner == self.agent.as_str() => Ok(()),
            ["_INBOX", ..] => refused(rule, "answers are their asker's alone"),
            ["vak", _, workspace, ..]
                if !["*", ">", self.layout.workspace().as_str()].contains(workspace) =>
            {
                refused(rule, "it is another workspace's")
            }
            ["vak", ..] => Ok(()),
            ["*" | ">", ..] => refused(rule, "it reaches what the bus itself sends"),
            [first, ..] if first.starts_with("vak") || first.starts_with(['$', '_']) => {
                refused(rule, "the bus or the server keeps its own things there")
            }
            _ => Ok(()),
        }
    }

    /// Refuses a rule of which a part is denied, where no denial can be granted beside it.
    fn without_part_of_denied(&self, rule: &Rule) -> Granted {
        let rules = match rule.action {
            Action::Publish => &self.policy.publish,
            Action::Subscribe => &self.policy.subscribe,
        };
        apart(rule, &rule.filter, rule.action, rules)
    }
}

/// Whether all of `filter` is denied.
pub(super) fn is_denied(rules: &RuleSet, filter: &Filter) -> bool {
    rules.deny.iter().any(|deny| deny.covers(filter))
}

/// Refuses `rule` when a denial takes a part of what it gives.
fn apart(rule: &Rule, part: &Filter, action: Action, rules: &RuleSet) -> Granted {
    let Some(deny) = rules.deny.iter().find(|deny| deny.overlaps(part)) else { return Ok(()) };
    let beside = Rule { effect: Effect::Deny, action, filter: deny.clone() };
    Err(PermissionsError::Unrepresentable { rule: rule.clone(), beside })
}

/// Whether all that `store` keeps may be heard.
pub(super) fn is_read_whole(store: &Store, heard: &RuleSet) -> bool {
    store.parts().iter().all(|part| {
        heard.allow.iter().any(|allow| allow.covers(part))
            && !heard.deny.iter().any(|deny| deny.overlaps(part))
    })
}

pub(super) fn refused<T>(rule: &Rule, reason: &'static str) -> Granted<T> {
    Err(PermissionsError::Refused { rule: rule.clone(), reason })
}

fn bucket_of(rule: &Rule, name: &str) -> Granted<BucketName> {
    match BucketName::parse(name) {
        Ok(bucket) => Ok(bucket),
        Err(_) => refused(rule, "it names no single bucket"),
    }
}

/// Whether the keys are all keys of a bucket, or all of one level.
fn is_whole(keys: &[&str]) -> bool {
    matches!(keys, ["*" | ">"])
}

/// Where messages of a queue are kept that have a placement.
fn placed(filter: &str) -> String {
    format!("{}*.*.{filter}", crate::codec::PLACED)
}

fn levels(filter: &Filter) -> Vec<&str> {
    filter.as_str().split('.').collect()
}

/// What an acknowledgement says of its message: attempts, two positions, time, and what is left.
const PLACE: &str = "*.*.*.*.*";
