//! Sound data of our own, the same on every run: keys, envelopes, tokens and a bundle.

use std::sync::LazyLock;

use bus_core::{Certificate, EntryTicket, Identity, Issue, Revocation};
use bus_crypto::jwt::{
    AccountClaims, AuthResponse, OperatorClaims, UserClaims, encode_account, encode_auth_response,
    encode_operator, encode_user,
};
use bus_crypto::{CryptoError, Entropy, NkeyKind, PublicKey, SigningKey, creds};
use bus_envelope::{
    ChainHead, ChainScope, Draft, EventHash, MessageEnvelope, Seal, Signature, Stamp, Timestamp,
    TraceContext, TraceState,
};
use bus_evidence::{
    BundleWriter, Checkpoint, Log, RECEIPT_COMPLETED, RECEIPT_CONTENT_TYPE, WorkReceipt,
};
use bus_subjects::{AgentId, Role, Subject};
use data_encoding::BASE64URL_NOPAD;
use uuid::Uuid;

use crate::bodies::bundle::Files;

/// The account of the golden workspace `w1`.
#[must_use]
pub fn account() -> &'static SigningKey {
    &WORLD.account
}

/// Revocations of the key of `boss`, at the first and the last time and between.
#[must_use]
pub fn revocations() -> Vec<Revocation> {
    let at = |unix_ns| Revocation::of(WORLD.boss.certificate(), Timestamp::from_unix_ns(unix_ns));
    [0, 1_767_225_600_000_000_000, 9_223_372_036_854_775_807].map(at).to_vec()
}

/// The texts of tickets: one that says as little as it can, and one that says all.
#[must_use]
pub fn tickets() -> Vec<String> {
    let ticket = |bound: bool, roles: Vec<Role>| EntryTicket {
        id: [u8::from(bound); 16],
        issuer: *WORLD.account.public(),
        workspace: "w1".parse().expect("a name"),
        agent: "boss".parse().expect("a name"),
        roles,
        session: bound.then(|| "s1".parse().expect("a name")),
        queue: bound.then(|| "coder".parse().expect("a name")),
        end: Timestamp::from_unix_ns(1_767_225_600_000_000_000),
    };
    [ticket(false, vec![Role::View]), ticket(true, Role::ALL.to_vec())]
        .map(|ticket| ticket.sign(&WORLD.account).expect("the account is the issuer").to_string())
        .to_vec()
}

/// The key of `boss`, who records.
#[must_use]
pub fn recorder() -> &'static SigningKey {
    WORLD.boss.key()
}

/// Who is in the golden workspace.
pub fn identities() -> impl Iterator<Item = &'static Identity> {
    [&WORLD.boss, &WORLD.ann].into_iter()
}

/// The golden key with this public half.
#[must_use]
pub fn signer(public: &PublicKey) -> Option<&'static SigningKey> {
    let world = &*WORLD;
    [&world.account, &world.operator, &world.server, world.boss.key(), world.ann.key()]
        .into_iter()
        .find(|key| key.public() == public)
}

/// A token with these claims, whatever they are, signed by `signer`.
#[must_use]
pub fn token(claims: &[u8], signer: &SigningKey) -> String {
    let header = BASE64URL_NOPAD.encode(br#"{"typ":"JWT","alg":"ed25519-nkey"}"#);
    let signed = format!("{header}.{}", BASE64URL_NOPAD.encode(claims));
    let signature = BASE64URL_NOPAD.encode(&signer.sign(signed.as_bytes()));
    format!("{signed}.{signature}")
}

/// The envelope, signed anew by the golden key that it names; as it is when that is none.
#[must_use]
pub fn signed(mut envelope: MessageEnvelope) -> MessageEnvelope {
    let name = envelope.signature.as_ref().map(|signature| signature.signer.clone());
    let key = name.as_deref().and_then(|name| PublicKey::parse(name).ok());
    if let Some(key) = key.as_ref().and_then(signer) {
        sign(&mut envelope, key);
    }
    envelope
}

/// The golden bundle: two tasks, one answered and one given up.
#[must_use]
pub fn bundle() -> &'static Files {
    &BUNDLE
}

/// The checkpoints of the golden bundle.
#[must_use]
pub fn checkpoints() -> Vec<Checkpoint> {
    let texts = BUNDLE.iter().filter(|(name, _)| name.ends_with(".checkpoint"));
    texts
        .map(|(_, text)| Checkpoint::parse(&String::from_utf8_lossy(text)).expect("our own"))
        .collect()
}

/// Envelopes of every kind: plain, with every optional part, and those of the bundle.
#[must_use]
pub fn envelopes() -> Vec<MessageEnvelope> {
    let plain = WORLD.story.first().expect("a task").1.clone();
    let mut full = plain.clone();
    full.signature = None;
    full.trace = full.trace.with_tracestate(TraceState::parse("rojo=1,congo=2").expect("a list"));
    full.lineage.cause = Some(EventHash::of(b"cause"));
    full.seal = Some(Seal {
        key_id: "w1.main.019b7f1e".to_owned(),
        algorithm: "AES-256-GCM".to_owned(),
        nonce: [9; 12],
    });
    full.extensions.insert("priority".to_owned(), "very high, \u{e9}".to_owned());
    full.payload = b"\xff\xfe\x00sealed".as_slice().into();
    let mut sealed_and_signed = full.clone();
    sign(&mut sealed_and_signed, recorder());
    let mut bare = plain.clone();
    (bare.signature, bare.content_type, bare.lineage.session) = (None, None, None);
    bare.payload = Vec::new().into();
    let mut text = bare.clone();
    text.content_type = Some("text/plain; charset=\"utf-8\"".to_owned());
    text.payload = b"plain".as_slice().into();
    let story = WORLD.story.iter().map(|(_, envelope)| envelope.clone());
    story.chain([full, sealed_and_signed, bare, text]).collect()
}

/// Tokens of every kind that is written here.
#[must_use]
pub fn tokens() -> Vec<String> {
    let world = &*WORLD;
    let (account, operator) = (world.account.public(), world.operator.public());
    let user = *world.ann.key().public();
    let issued = 1_767_225_600;
    let mut claims = UserClaims::new("ann", user, *account, issued);
    claims.expires_unix_s = Some(issued + 60);
    claims.audience = Some("w1".to_owned());
    claims.connection_types = vec!["STANDARD".to_owned()];
    let response = AuthResponse {
        user,
        server: *world.server.public(),
        issuer: *account,
        issued_at_unix_s: issued,
        verdict: Err("not today".to_owned()),
        issuer_account: None,
    };
    let accounts = AccountClaims::new("w1", *account, *operator, issued);
    let written = [
        encode_user(&claims, &world.account),
        encode_account(&accounts, &world.operator),
        encode_operator(&OperatorClaims::new("op", *operator, issued), &world.operator),
        encode_auth_response(&response, &world.account),
    ];
    let certificates = certificates().map(|certificate| certificate.token().to_owned());
    written.into_iter().map(|token| token.expect("sound claims")).chain(certificates).collect()
}

/// The claims of a server's question, which only servers write.
#[must_use]
pub fn auth_request() -> Vec<u8> {
    let (server, user) = (WORLD.server.public(), WORLD.ann.key().public());
    serde_json::json!({
        "aud": "nats-authorization-request", "iat": 1_767_225_600, "exp": 1_767_225_602,
        "iss": server.text(), "sub": WORLD.account.public().text(),
        "nats": {
            "type": "authorization_request", "version": 2, "user_nkey": user.text(),
            "server_id": { "name": "s", "host": "h", "id": server.text() },
            "client_info": { "host": "127.0.0.1", "kind": "Client", "type": "nats" },
            "connect_opts": { "user": "ann", "pass": "secret", "protocol": 1 }
        }
    })
    .to_string()
    .into_bytes()
}

/// A credentials file.
#[must_use]
pub fn credentials() -> Vec<u8> {
    let ann = &WORLD.ann;
    creds::render(ann.certificate().token(), ann.key()).as_bytes().to_vec()
}

/// Public keys and seeds as text, one of each kind.
#[must_use]
pub fn key_texts() -> Vec<String> {
    use NkeyKind::{Account, Cluster, Curve, Operator, Server, User};
    let mut texts = vec![PublicKey::from_bytes(Curve, [7; 32]).text()];
    for kind in [Account, Cluster, Operator, Server, User] {
        let key = key(kind, 7);
        texts.extend([key.public().text(), key.seed_text().as_str().to_owned()]);
    }
    texts
}

struct World {
    account: SigningKey,
    operator: SigningKey,
    server: SigningKey,
    boss: Identity,
    ann: Identity,
    story: Vec<(Log, MessageEnvelope)>,
}

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let account = key(NkeyKind::Account, 1);
    let agent = |name: &str, role, seed| {
        let name = AgentId::parse(name).expect("a name");
        let workspace = "w1".parse().expect("a name");
        let issue = Issue::new(workspace, name, vec![role], time(0));
        Identity::issue(&account, &issue, &Fixed(seed)).expect("sound claims")
    };
    let (boss, ann) = (agent("boss", Role::Orchestrator, 2), agent("ann", Role::Worker, 3));
    let story = story(&boss, &ann);
    let (operator, server) = (key(NkeyKind::Operator, 4), key(NkeyKind::Server, 5));
    World { operator, server, boss, ann, story, account }
});

static BUNDLE: LazyLock<Files> = LazyLock::new(|| {
    let home = tempfile::tempdir().expect("a folder");
    let place = WORLD.boss.certificate();
    let session = "s1".parse().expect("a name");
    let mut bundle =
        BundleWriter::create(home.path(), &place.workspace, &session).expect("an empty folder");
    for certificate in certificates() {
        bundle.certificate(certificate.token()).expect("a certificate of ours");
    }
    for (log, envelope) in &WORLD.story {
        bundle.append(*log, envelope).expect("an envelope of this session");
    }
    bundle.finish(WORLD.boss.key(), &place.agent).expect("a recorder");
    let entries = home.path().read_dir().expect("a folder").map(|entry| entry.expect("a file"));
    let name = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    entries.map(|entry| (name(&entry), std::fs::read(entry.path()).expect("a file"))).collect()
});

fn certificates() -> impl Iterator<Item = &'static Certificate> {
    identities().map(Identity::certificate)
}

/// Two tasks of `boss`; `ann` finishes the first and gives up the second.
fn story(boss: &Identity, ann: &Identity) -> Vec<(Log, MessageEnvelope)> {
    let task = |number: u32, before: Option<&MessageEnvelope>| {
        let draft = draft("vak.work.w1.coder.task", "vak.task", r#"{"say":"it"}"#)
            .content_type("application/json")
            .id(format!("task-{number}"));
        stamp(boss, draft, false, before)
    };
    let first = task(1, None);
    let second = task(2, Some(&first));
    let receipt = WorkReceipt {
        task_id: first.id.clone(),
        role: "coder".parse().expect("a name"),
        worker: ann.certificate().agent.clone(),
        attempt: 1,
        exit_code: 0,
        output_hash: EventHash::of(b"done"),
        stdout_bytes: 4,
        stderr_bytes: 0,
        started: time(10),
        finished: time(11),
    };
    let receipt = draft("vak.receipts.w1.s1.completed", RECEIPT_COMPLETED, &receipt.to_json())
        .content_type(RECEIPT_CONTENT_TYPE)
        .cause(first.compute_hash());
    let receipt = stamp(ann, receipt, true, None);
    let letter = draft("vak.dlq.w1.ann.failed", "vak.dlq.failed", r#"{"why":"no"}"#)
        .content_type("application/json")
        .cause(second.compute_hash());
    let letter = stamp(ann, letter, false, None);
    vec![
        (Log::Tasks, first),
        (Log::Tasks, second),
        (Log::Receipts, receipt),
        (Log::DeadLetters, letter),
    ]
}

fn draft(subject: &str, event_type: &str, payload: &(impl AsRef<[u8]> + ?Sized)) -> Draft {
    let subject = Subject::parse(subject).expect("a subject");
    Draft::new(subject, event_type, payload.as_ref().to_vec())
        .session("s1".parse().expect("a name"))
}

fn stamp(
    who: &Identity,
    draft: Draft,
    one_chain: bool,
    before: Option<&MessageEnvelope>,
) -> MessageEnvelope {
    let (certificate, subject) = (who.certificate(), draft.subject.clone());
    let incarnation = Uuid::from_u128(0x019b_7f1e_0000_7000_8000_0000_0000_0001);
    let (workspace, agent) = (certificate.workspace.clone(), certificate.agent.clone());
    let scope = if one_chain {
        ChainScope::Subject { workspace: workspace.clone(), subject }
    } else {
        let (workspace, agent) = (workspace.clone(), agent.clone());
        ChainScope::Incarnation { workspace, agent, incarnation, subject }
    };
    let head = before.map_or_else(|| ChainHead::genesis(&scope), ChainHead::of);
    let stamp = Stamp {
        id: format!("{agent}-{}-{}", draft.event_type, head.next_seq()),
        time: time(60 + head.next_seq()),
        trace: TraceContext::new([7; 16], [8; 8], 1).expect("ids"),
        workspace,
        agent,
        incarnation,
        head,
    };
    let mut envelope = draft.stamp(stamp).expect("a sound draft");
    sign(&mut envelope, who.key());
    envelope
}

fn sign(envelope: &mut MessageEnvelope, key: &SigningKey) {
    let signer = key.public().text();
    let input = envelope.signature_input_as(&envelope.compute_hash(), &signer);
    envelope.signature = Some(Signature { signer, bytes: key.sign(&input) });
}

fn key(kind: NkeyKind, seed: u8) -> SigningKey {
    SigningKey::generate(kind, &Fixed(seed)).expect("a kind that signs")
}

/// `seconds` after the certificates were issued.
fn time(seconds: u64) -> Timestamp {
    let start = Timestamp::from_unix_ns(1_767_225_600_000_000_000);
    start.plus(std::time::Duration::from_secs(seconds))
}

/// Randomness that is none: every byte is the seed.
struct Fixed(u8);

impl Entropy for Fixed {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), CryptoError> {
        bytes.fill(self.0);
        Ok(())
    }
}
