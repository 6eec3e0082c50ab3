//! A service that answers wrongly or too late lets nobody in.

use std::{pin::pin, time::Duration};

use async_nats::{Auth, AuthError, Client, ConnectOptions, Message};
use bus_crypto::{
    NkeyKind, PublicKey, SigningKey, SystemEntropy,
    jwt::{
        AuthRequest, AuthResponse, UserClaims, decode_auth_request, encode_auth_response,
        encode_user,
    },
};
use bus_nats::{callout::Callout, server::ServerConfig};
use futures_util::StreamExt as _;

use crate::{
    admits::VIOLATION,
    raw::{Raw, Shown},
    world::{World, key, user_of},
};

/// What servers ask, answered by hand.
struct Impostor<'a> {
    world: &'a World,
    client: Client,
    questions: async_nats::Subscriber,
}

impl<'a> Impostor<'a> {
    async fn open(world: &'a World) -> Self {
        let (user, token) = world.service_user();
        let connecting = ConnectOptions::with_auth_callback(move |nonce| {
            let mut auth = Auth::new();
            auth.jwt = Some(token.clone());
            auth.signature = Some(user.sign(&nonce).to_vec());
            async move { Ok::<_, AuthError>(auth) }
        });
        let client = connecting.connect(world.url()).await.unwrap();
        let group = Callout::GROUP.to_owned();
        let questions = client.queue_subscribe(Callout::SUBJECT, group).await.unwrap();
        client.flush().await.unwrap();
        Self { world, client, questions }
    }

    async fn question(&mut self) -> (Message, PublicKey, AuthRequest) {
        let message = self.questions.next().await.unwrap();
        let header = message.headers.as_ref().unwrap().get("Nats-Server-Xkey").unwrap();
        let server = PublicKey::parse(header.as_str()).unwrap();
        let opened = self.world.xkey.open(&server, &message.payload).unwrap();
        let request = decode_auth_request(std::str::from_utf8(&opened).unwrap()).unwrap();
        (message, server, request)
    }

    async fn answer(&self, (message, server): (&Message, &PublicKey), answer: Given) {
        let bytes = match answer {
            Given::Bytes(bytes) => bytes,
            Given::Sealed(text) => {
                self.world.xkey.seal(&SystemEntropy::new(), server, text.as_bytes()).unwrap()
            }
        };
        let reply = message.reply.clone().unwrap();
        self.client.publish(reply, bytes.into()).await.unwrap();
        self.client.flush().await.unwrap();
    }

    /// The good answer, as the service gives it.
    fn good(&self, request: &AuthRequest) -> Response {
        let world = self.world;
        let mut claims = UserClaims::new("x", request.user, *world.signer.public(), now());
        claims.issuer_account = Some(*world.agents.public());
        claims.expires_unix_s = Some(now() + 60);
        Response { request_user: request.user, server: request.server, claims }
    }

    fn sign(&self, response: &Response, signer: &SigningKey) -> Given {
        self.respond(response, Ok(encode_user(&response.claims, signer).unwrap()))
    }

    fn respond(&self, response: &Response, verdict: Result<String, String>) -> Given {
        let answer = AuthResponse {
            user: response.request_user,
            server: response.server,
            issuer: *self.world.service.public(),
            issued_at_unix_s: now(),
            verdict,
            issuer_account: None,
        };
        Given::Sealed(encode_auth_response(&answer, &self.world.service).unwrap())
    }
}

enum Given {
    Bytes(Vec<u8>),
    Sealed(String),
}

struct Response {
    request_user: PublicKey,
    server: PublicKey,
    claims: UserClaims,
}

/// One way to answer wrongly.
type Wrong = fn(&Impostor<'_>, Response) -> Given;

fn by_the_account(impostor: &Impostor<'_>, mut response: Response, account: &SigningKey) -> Given {
    response.claims.issuer = *account.public();
    response.claims.issuer_account = None;
    impostor.sign(&response, account)
}

const GARBAGE: [(&str, Wrong); 12] = [
    ("bytes", |_, _| Given::Bytes(vec![7; 40])),
    ("nothing", |_, _| Given::Bytes(Vec::new())),
    ("a sealed word", |_, _| Given::Sealed("yes".to_owned())),
    ("sealed nothing", |_, _| Given::Sealed(String::new())),
    ("a refusal", |it, response| it.respond(&response, Err("no".to_owned()))),
    ("no token", |it, response| it.respond(&response, Ok("token".to_owned()))),
    ("for another server", |it, mut response| {
        response.server = *key(NkeyKind::Server).public();
        it.sign(&response, &it.world.signer)
    }),
    ("about another user", |it, mut response| {
        response.request_user = *key(NkeyKind::User).public();
        it.sign(&response, &it.world.signer)
    }),
    ("a token about another key", |it, mut response| {
        response.claims.subject = *key(NkeyKind::User).public();
        it.sign(&response, &it.world.signer)
    }),
    ("a token that has ended", |it, mut response| {
        response.claims.expires_unix_s = Some(now() - 5);
        it.sign(&response, &it.world.signer)
    }),
    ("into the system account", |it, response| by_the_account(it, response, &it.world.system)),
    ("into an account that is not listed", |it, response| {
        by_the_account(it, response, &it.world.store)
    }),
];

#[tokio::test]
async fn garbage_lets_nobody_in() {
    let world = World::start();
    let mut impostor = Impostor::open(&world).await;
    for (name, wrong) in GARBAGE {
        let (login, answering) = (Raw::login(world.url(), Shown::Nothing), async {
            let (message, server, request) = impostor.question().await;
            let given = wrong(&impostor, impostor.good(&request));
            impostor.answer((&message, &server), given).await;
        });
        let (login, ()) = tokio::join!(login, answering);
        assert_eq!(login.err().as_deref(), Some(VIOLATION), "{name}");
    }
    // That the good answer would have let somebody in.
    let (login, answering) = (Raw::login(world.url(), Shown::Nothing), async {
        let (message, server, request) = impostor.question().await;
        let given = impostor.sign(&impostor.good(&request), &world.signer);
        impostor.answer((&message, &server), given).await;
    });
    assert!(tokio::join!(login, answering).0.is_ok());
}

#[tokio::test]
async fn an_answer_that_comes_late_lets_nobody_in() {
    let login_within = Duration::from_secs(1);
    let world = World::start_with(ServerConfig { login_within, ..ServerConfig::default() });
    let mut impostor = Impostor::open(&world).await;
    let mut login = pin!(Raw::login(world.url(), Shown::Nothing));
    let (message, server, request) = tokio::select! {
        question = impostor.question() => question,
        early = &mut login => panic!("was not asked about: {:?}", early.err()),
    };
    assert_eq!(login.await.err().as_deref(), Some(VIOLATION));
    let given = impostor.sign(&impostor.good(&request), &world.signer);
    impostor.answer((&message, &server), given).await;
    // The next one is asked about anew, and the late answer is not for it.
    let mut login = pin!(Raw::login(world.url(), Shown::Nothing));
    tokio::select! {
        _question = impostor.question() => {}
        early = &mut login => panic!("was not asked about: {:?}", early.err()),
    }
    assert_eq!(login.await.err().as_deref(), Some(VIOLATION));
}

#[tokio::test]
async fn whoever_is_not_the_service_hears_no_question() {
    let world = World::start();
    // A user of the same account that its token does not name as the service.
    let (user, token) = user_of(&world.service, |_| {});
    let connecting = ConnectOptions::with_auth_callback(move |nonce| {
        let mut auth = Auth::new();
        auth.jwt = Some(token.clone());
        auth.signature = Some(user.sign(&nonce).to_vec());
        async move { Ok::<_, AuthError>(auth) }
    });
    // The server asks the service about it instead, and there is none.
    assert!(connecting.connect(world.url()).await.is_err());
}

fn now() -> i64 {
    use bus_core::Clock as _;
    let now = bus_core::SystemClock::new().now().unix_ns() / 1_000_000_000;
    i64::try_from(now).unwrap()
}
