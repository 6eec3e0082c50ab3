//! Answers come to the calls that asked, and nobody else.

use futures_util::{StreamExt, future::join_all};

use super::*;

/// Answers each question with its own body, in a task of its own.
async fn echo(place: &Place) -> (Arc<Connection>, tokio::task::JoinHandle<()>) {
    let answerer = place.connect().await;
    let mut asked = answerer.subscribe_fenced(OP, "ask").await.unwrap();
    let connection = Arc::clone(&answerer);
    let answering = tokio::spawn(async move {
        while let Some(question) = asked.next().await {
            let reply = question.reply.unwrap();
            connection.publish(OP, reply, None, None, question.payload).await.unwrap();
        }
    });
    (answerer, answering)
}

#[tokio::test(flavor = "multi_thread")]
async fn each_of_many_calls_gets_its_own_answer() {
    let place = Place::start();
    let (_answerer, _answering) = echo(&place).await;
    let asker = place.connect().await;
    let asking = (0..5_000_u32).map(|number| {
        let asker = Arc::clone(&asker);
        tokio::spawn(async move {
            let question = Bytes::copy_from_slice(&number.to_be_bytes());
            let answer = asker.request(OP, "ask", None, question.clone()).await.unwrap();
            assert_eq!(answer.payload, question);
        })
    });
    for asked in join_all(asking.collect::<Vec<_>>()).await {
        asked.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_several_is_told_which_answered_what() {
    let place = Place::start();
    let (_answerer, _answering) = echo(&place).await;
    let asker = place.connect().await;
    let mut told = vec![Vec::new(); 3];
    let asking = asker.request_each(OP, (&["ask", "nobody", "ask"], body("?")), |at, answer| {
        told[at].push((answer.status.map(|status| status.as_u16()), answer.payload));
    });
    asking.await.unwrap();
    let (echoed, unheard) = ((None, body("?")), (Some(503), Bytes::new()));
    assert_eq!(told, [vec![echoed.clone()], vec![unheard], vec![echoed]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_several_is_denied_soon_when_he_may_not() {
    let (place, auth) = Place::of_user(deny_publish(&["ask"]));
    let asker = place.connect_as(auth).await;
    let begun = Instant::now();
    let asking = asker.request_each(OP, (&["ask", "ask"], body("?")), |_, _| {});
    assert_eq!(asking.await.unwrap_err().kind(), ErrorKind::Denied);
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_several_does_not_know_the_outcome_once_one_is_sent() {
    let place = Place::start();
    let (_answerer, _answering) = echo(&place).await;
    let asker = place.connect().await;
    for (subjects, outcome) in
        [(["ask", "no subject"], Outcome::Unknown), (["no subject", "ask"], Outcome::NotDone)]
    {
        let failed = asker.request_each(OP, (&subjects, body("?")), |_, _| {}).await.unwrap_err();
        assert_eq!(said(&failed), (ErrorKind::Invalid, outcome), "{subjects:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_cannot_be_opened_to_its_end_leaves_no_task() {
    let key = user();
    let deny = vec!["_INBOX.>".to_owned()];
    let subscribe = SubjectPermission { deny, ..SubjectPermission::default() };
    let permissions = Permissions { subscribe, ..Permissions::default() };
    let place = Place::start_with(config_of(&key, Some(permissions)));
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let auth = NatsAuth::Nkey(key);
    let opened = Connection::open(NatsOptions { auth, ..place.options() }).await;
    assert_eq!(opened.unwrap_err().kind(), ErrorKind::Denied);
    let gone = async {
        while tasks() > before {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SOON, gone).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_had_no_timer_at_first_ends_in_time() {
    let place = Place::start();
    let answer_wait = Duration::from_millis(2_700);
    let options = NatsOptions { answer_wait, ..place.options() };
    let (asker, silent) = (Connection::open(options).await.unwrap(), place.connect().await);
    let _heard = silent.subscribe_fenced(OP, "ask").await.unwrap();
    let begun = Instant::now();
    let late = asker.request(OP, "ask", None, body("?")).await.unwrap_err();
    assert_eq!(said(&late), (ErrorKind::Timeout, Outcome::Unknown));
    let took = begun.elapsed();
    assert!(took >= answer_wait && took < answer_wait + SOON / 2, "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_hears_answers_for_a_connection_that_is_gone() {
    let place = Place::start();
    let connection = place.connect().await;
    let answers = Arc::downgrade(&connection.answers);
    connection.request(OP, "nobody", None, Bytes::new()).await.unwrap_err();
    drop(connection);
    // The client may be handing out an answer at this moment.
    let gone = async {
        while answers.upgrade().is_some() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SOON, gone).await.unwrap();
}
