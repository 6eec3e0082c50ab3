//! Spans as an endpoint tells them: which there are, whose children, and that each is told once.

#![expect(clippy::unwrap_used, reason = "the helpers of a story that cannot be told fail it")]

use std::{
    num::NonZeroUsize,
    sync::{Arc, Mutex},
    time::Duration,
};

use bus_core::{
    Asked, Endpoint, Failure, Handled, Handler, Heard, Job, Observer, Operation, Recorded,
    RetryPolicy, Span, Stop, TaskEvent, Tracing, Worker, WorkerSpec,
};
use bus_envelope::{Draft, TraceContext};
use bus_stories::{Fault, Op, Scripted, Stage, task};
use bus_subjects::{Filter, Role, Subject};

/// Keeps what it is told.
#[derive(Default)]
struct Notes(Mutex<Vec<Note>>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Note {
    operation: Operation,
    trace: [u8; 16],
    span: [u8; 8],
    parent: Option<[u8; 8]>,
    message_id: String,
    attempt: Option<u32>,
    result: Option<&'static str>,
    failure: Option<&'static str>,
}

impl Observer for Notes {
    fn ended(&self, span: &Span<'_>) {
        assert!(span.began <= span.ended);
        self.0.lock().unwrap().push(Note {
            operation: span.operation,
            trace: *span.trace.trace_id(),
            span: *span.trace.span_id(),
            parent: span.parent,
            message_id: span.message_id.to_owned(),
            attempt: span.attempt,
            result: span.result,
            failure: span.failure,
        });
    }
}

impl Notes {
    fn taken(&self) -> Vec<Note> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    /// Those of one operation, taken so far and kept.
    fn of(&self, operation: Operation) -> Vec<Note> {
        let mut notes = self.0.lock().unwrap().clone();
        notes.retain(|note| note.operation == operation);
        notes
    }
}

/// A handler that keeps the span which its task names.
#[derive(Default)]
struct Keeping(Mutex<Option<[u8; 8]>>);

impl Handler for Keeping {
    async fn handle(&self, job: Job<'_>) -> Result<Handled, Failure> {
        *self.0.lock().unwrap() = Some(*job.message.envelope.trace.span_id());
        Ok(Handled)
    }
}

impl Keeping {
    fn span(&self) -> [u8; 8] {
        self.0.lock().unwrap().unwrap()
    }
}

/// An agent whose spans are noted.
fn observed(stage: &Stage, name: &str, role: Role) -> (Endpoint, Arc<Notes>) {
    let notes = Arc::<Notes>::default();
    let observer = Arc::clone(&notes) as Arc<dyn Observer>;
    (agent(stage, name, role, Tracing { observer: Some(observer), parent: None }), notes)
}

fn agent(stage: &Stage, name: &str, role: Role, tracing: Tracing) -> Endpoint {
    let identity = stage.certified(name, role).unwrap();
    Endpoint::traced(stage.parts(identity), tracing).unwrap()
}

fn caller(flags: u8) -> TraceContext {
    TraceContext::new([1; 16], [2; 8], flags).unwrap()
}

/// Works until the given number of deliveries has ended.
async fn work(
    endpoint: Endpoint,
    stage: &Stage,
    handler: &impl Handler,
    retries: u32,
    count: usize,
) {
    let mut spec = WorkerSpec::new(stage.queue.clone());
    spec.retry = RetryPolicy { retries_max: retries, ..RetryPolicy::default() };
    let (stop, mut ended) = (Stop::default(), Vec::<TaskEvent>::new());
    let report = |event| {
        ended.push(event);
        if ended.len() == count {
            stop.drain.cancel();
        }
    };
    Worker::new(endpoint, spec).run(handler, &stop, report).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_span_of_a_send_is_the_one_that_the_message_carries() {
    let stage = Stage::new().await.unwrap();
    let (boss, notes) = observed(&stage, "boss", Role::Orchestrator);
    let sent = boss.send(task(&stage, "a").trace(caller(1))).await.unwrap();
    let carried = boss.open(&sent.frame).unwrap().envelope.trace;
    let [note] = &notes.taken()[..] else { panic!("one send is one span") };
    assert_eq!((note.trace, note.span), (*carried.trace_id(), *carried.span_id()));
    assert_eq!((note.trace, note.parent), ([1; 16], Some([2; 8])));
    assert_eq!((note.operation, note.failure), (Operation::Send, None));
    assert_eq!(note.message_id, sent.id);
}

#[tokio::test(start_paused = true)]
async fn a_draft_without_a_trace_goes_on_from_the_callers_and_one_with_its_own_does_not() {
    let stage = Stage::new().await.unwrap();
    let tracing = Tracing { observer: None, parent: Some(caller(1)) };
    let boss = agent(&stage, "boss", Role::Orchestrator, tracing);
    let trace_of = async |draft: Draft| {
        let sent = boss.send(draft).await.unwrap();
        *boss.open(&sent.frame).unwrap().envelope.trace.trace_id()
    };
    assert_eq!(trace_of(task(&stage, "a")).await, [1; 16]);
    let own = TraceContext::new([7; 16], [8; 8], 1).unwrap();
    assert_eq!(trace_of(task(&stage, "b").trace(own)).await, [7; 16]);
}

#[tokio::test(start_paused = true)]
async fn a_trace_that_is_not_recorded_makes_no_spans_and_keeps_its_context() {
    let stage = Stage::new().await.unwrap();
    let (boss, sends) = observed(&stage, "boss", Role::Orchestrator);
    let (ann, works) = observed(&stage, "ann", Role::Worker);
    boss.send(task(&stage, "a").trace(caller(0))).await.unwrap();
    work(ann, &stage, &Scripted::failing(0), 0, 1).await;
    assert_eq!((sends.taken(), works.taken()), (vec![], vec![]));
}

#[tokio::test(start_paused = true)]
async fn each_attempt_is_a_span_below_the_send_and_its_verdict_one_below_that() {
    let stage = Stage::new().await.unwrap();
    let (boss, sends) = observed(&stage, "boss", Role::Orchestrator);
    let (ann, works) = observed(&stage, "ann", Role::Worker);
    boss.send(task(&stage, "a")).await.unwrap();
    work(ann, &stage, &Scripted::failing(1), 3, 2).await;
    let sent = sends.taken().remove(0);
    let attempts = works.of(Operation::Process);
    let told: Vec<_> = attempts.iter().map(|a| (a.attempt, a.result, a.failure)).collect();
    let expected = [(Some(1), Some("retried"), Some("failed")), (Some(2), Some("completed"), None)];
    assert_eq!(told, expected);
    for attempt in &attempts {
        assert_eq!((attempt.trace, attempt.parent), (sent.trace, Some(sent.span)));
    }
    let verdicts = [works.of(Operation::Retry), works.of(Operation::Ack)].concat();
    let parents: Vec<_> = verdicts.iter().map(|verdict| verdict.parent).collect();
    assert_eq!(parents, [Some(attempts[0].span), Some(attempts[1].span)]);
}

#[tokio::test(start_paused = true)]
async fn what_a_handler_sends_stands_below_its_attempt() {
    let stage = Stage::new().await.unwrap();
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    let (ann, works) = observed(&stage, "ann", Role::Worker);
    let sent = boss.send(task(&stage, "a")).await.unwrap();
    work(ann, &stage, &Scripted::failing(1), 0, 1).await;
    let attempt = works.of(Operation::Process).remove(0);
    assert_eq!((attempt.result, attempt.failure), (Some("dead-lettered"), Some("given-up")));
    let sends = works.of(Operation::Send);
    assert_eq!(sends.first().map(|letter| letter.parent), Some(Some(attempt.span)), "{sends:?}");
    let opened = boss.open(&sent.frame).unwrap();
    assert_eq!(attempt.parent, Some(*opened.envelope.trace.span_id()));
}

#[tokio::test(start_paused = true)]
async fn a_handler_sees_the_span_of_its_attempt_and_unobserved_the_one_the_task_came_with() {
    let stage = Stage::new().await.unwrap();
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    let (ann, works) = observed(&stage, "ann", Role::Worker);
    let (seen, unobserved) = (Keeping::default(), stage.agent("ben", Role::Worker).unwrap());
    boss.send(task(&stage, "a")).await.unwrap();
    work(ann, &stage, &seen, 0, 1).await;
    assert_eq!(seen.span(), works.of(Operation::Process)[0].span);
    let sent = boss.send(task(&stage, "b")).await.unwrap();
    work(unobserved, &stage, &seen, 0, 1).await;
    assert_eq!(seen.span(), *boss.open(&sent.frame).unwrap().envelope.trace.span_id());
}

#[tokio::test(start_paused = true)]
async fn a_send_of_unknown_outcome_is_told_once_with_what_its_repeat_finds_out() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    let (boss, notes) = observed(&stage, "boss", Role::Orchestrator);
    flaky.fail(Op::Append, "vak.work.", Fault::LostAfter, 3);
    boss.send(task(&stage, "a").id("one")).await.unwrap_err();
    assert_eq!(notes.of(Operation::Send), [], "nobody knows");
    boss.send(task(&stage, "b").id("two")).await.unwrap();
    let told: Vec<_> = notes.taken().into_iter().map(|n| (n.message_id, n.failure)).collect();
    assert_eq!(told, [("one".to_owned(), None), ("two".to_owned(), None)]);
}

#[tokio::test(start_paused = true)]
async fn a_send_that_was_dropped_is_told_by_its_repeat() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    let (boss, notes) = observed(&stage, "boss", Role::Orchestrator);
    flaky.fail(Op::Append, "vak.work.", Fault::StuckAfter, 1);
    let stuck = boss.send(task(&stage, "a").id("one"));
    tokio::time::timeout(Duration::from_secs(1), stuck).await.unwrap_err();
    boss.send(task(&stage, "b").id("two")).await.unwrap();
    let told: Vec<_> = notes.taken().into_iter().map(|n| (n.message_id, n.failure)).collect();
    assert_eq!(told, [("one".to_owned(), None), ("two".to_owned(), None)]);
}

#[tokio::test(start_paused = true)]
async fn a_letter_that_is_there_already_is_no_failure() {
    let (stage, flaky) = Stage::flaky().await.unwrap();
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    let (ann, works) = observed(&stage, "ann", Role::Worker);
    boss.send(task(&stage, "a")).await.unwrap();
    // The letter is stored and the task stays: the next worker finds the letter there.
    flaky.fail(Op::Append, "vak.dlq.", Fault::LostAfter, 3);
    work(ann, &stage, &Scripted::failing(2), 0, 1).await;
    let (ben, later) = observed(&stage, "ben", Role::Worker);
    work(ben, &stage, &Scripted::failing(2), 0, 1).await;
    let failures = [works, later].map(|notes| {
        let sends = notes.of(Operation::Send).into_iter();
        sends.filter_map(|note| note.failure).collect::<Vec<_>>()
    });
    assert_eq!(failures, [Vec::<&str>::new(), vec![]]);
}

#[tokio::test(start_paused = true)]
async fn each_message_of_a_batch_is_a_span_and_an_id_that_was_used_is_a_conflict() {
    let stage = Stage::new().await.unwrap();
    let (boss, notes) = observed(&stage, "boss", Role::Orchestrator);
    boss.send_all([task(&stage, "a"), task(&stage, "b")]).await.unwrap();
    let told = notes.taken();
    assert_eq!(told.iter().map(|note| note.failure).collect::<Vec<_>>(), [None, None]);
    assert_ne!(told[0].span, told[1].span);
    boss.send(task(&stage, "a").id("one")).await.unwrap();
    let (other, notes) = observed(&stage, "other", Role::Orchestrator);
    other.send(task(&stage, "b").id("one")).await.unwrap_err();
    let told: Vec<_> = notes.taken().into_iter().map(|note| note.failure).collect();
    assert_eq!(told, [Some("conflict")]);
}

#[tokio::test(start_paused = true)]
async fn live_events_make_no_spans_and_a_record_makes_one() {
    let stage = Stage::new().await.unwrap();
    let (ann, notes) = observed(&stage, "ann", Role::Worker);
    let tokens = Draft::new(stage.tokens().subject(), "vak.tokens", "hello".to_owned());
    ann.publish(tokens.content_type("text/plain")).await.unwrap();
    assert_eq!(notes.taken(), []);
    let record = || Draft::new(stage.receipts().subject(), "vak.receipt", "{}".to_owned()).id("r");
    let stored = ann.record(record().content_type("application/json")).await.unwrap();
    assert!(matches!(stored, Recorded::Stored(_)));
    let again = ann.record(record().content_type("application/json")).await.unwrap();
    assert_eq!(again, Recorded::AlreadyThere);
    assert_eq!(notes.taken().len(), 1);
}

/// Asks one question and has an observed worker do something with it; the spans of the worker.
async fn questioned(with: impl AsyncFnOnce(&Endpoint, Box<Heard>)) -> Vec<Note> {
    let stage = Stage::new().await.unwrap();
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    let (coder, notes) = observed(&stage, "coder-1", Role::Worker);
    let filter = Filter::parse("vak.call.w1.coder.*").unwrap();
    let mut calls = coder.calls(filter, NonZeroUsize::MIN).await.unwrap();
    let subject = Subject::parse("vak.call.w1.coder.review").unwrap();
    let question = Draft::new(subject, "vak.call", "is this right?").trace(caller(1));
    let (_asked, ()) = tokio::join!(boss.ask(question, Duration::from_secs(9)), async {
        let Some(Asked::Question(heard)) = calls.next().await else { unreachable!("no question") };
        with(&coder, heard).await;
    });
    notes.of(Operation::Process)
}

#[tokio::test(start_paused = true)]
async fn a_question_that_nobody_answers_ends_its_span_as_unanswered() {
    let spans = questioned(async |_, heard| drop(heard)).await;
    let [span] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!((span.trace, span.failure), ([1; 16], Some("unanswered")));
}

#[tokio::test(start_paused = true)]
async fn a_question_that_is_answered_twice_has_one_span() {
    let spans = questioned(async |coder, heard| {
        coder.answer(&heard, Ok("yes".into())).await.unwrap();
        coder.answer(&heard, Ok("no".into())).await.unwrap_err();
    })
    .await;
    let [span] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!(span.failure, None);
}
