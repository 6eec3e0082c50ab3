//! Spans as a collector gets them: which they are, and that they are in nobody's way.

use bus_testserver::TestServer;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use rustix::process::Signal;

use crate::{
    collector::Collector,
    daemon_support::Daemon,
    nats_support::Machine,
    support::{Gate, Lines, Outcome, Place, Running, run},
};

/// A daemon, and a collector that commands send their spans to.
struct Scene {
    place: Place,
    daemon: Daemon,
    collector: Collector,
}

impl Scene {
    fn new() -> Self {
        let place = Place::new();
        let daemon = Daemon::start(&place);
        Self { place, daemon, collector: Collector::new() }
    }

    fn command(&self, args: &[&str]) -> std::process::Command {
        let mut command = self.place.command();
        self.collector.of(command.args(args));
        command
    }

    fn does(&self, args: &[&str]) -> Outcome {
        let outcome = run(self.command(args), "");
        assert_eq!(outcome.code, Some(0), "{args:?}: {outcome:?}");
        outcome
    }

    /// Works through the queue of the role `r` with a shell script.
    fn work(&self, script: &str, args: &[&str]) -> Outcome {
        let worker = ["worker", "--role", "r", "--until-empty"];
        run(self.command(&[&worker, args, &["--", "sh", "-c", script, "sh"]].concat()), "")
    }
}

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

const CALLER: &str = "00f067aa0ba902b7";

fn in_trace(command: &mut std::process::Command, flags: &str) {
    command.env("TRACEPARENT", format!("00-{TRACE}-{CALLER}-{flags}"));
}

#[test]
fn a_task_from_its_sending_to_its_receipt_is_one_trace() {
    let scene = Scene::new();
    let mut sending = scene.command(&["task", "send", "--role", "r", "--id", "t-1", "hello"]);
    in_trace(&mut sending, "01");
    assert_eq!(run(sending, "").code, Some(0));
    let vakbus = env!("CARGO_BIN_EXE_vakbus");
    let script = "printf %s \"$TRACEPARENT\" >seen; \"$0\" inbox send cli done";
    let worker = ["worker", "--role", "r", "--until-empty", "--", "sh", "-c", script, vakbus];
    scene.does(&worker);

    let sent = scene.collector.span("send vak.work.default.r.task");
    sent.is(SpanKind::Producer, CALLER);
    let process = scene.collector.span("process vak.work.default.r.task");
    process.is(SpanKind::Consumer, &sent.id);
    assert_eq!(process.links, std::slice::from_ref(&sent.id));
    assert_eq!(scene.place.read("seen"), format!("00-{TRACE}-{}-01", process.id));
    let mail = scene.collector.span("send vak.agent.default.{agent}.inbox");
    mail.is(SpanKind::Producer, &process.id);
    let receipt = scene.collector.span("send vak.receipts.default.{session}.completed");
    receipt.is(SpanKind::Producer, &process.id);
    let ack = scene.collector.span("ack vak.work.default.r.task");
    ack.is(SpanKind::Client, &process.id);
    for span in scene.collector.spans() {
        assert_eq!((span.trace.as_str(), span.is_error), (TRACE, false), "{span:#?}");
    }
    for span in [&sent, &process, &ack] {
        assert_eq!(span.attributes["messaging.message.id"], "t-1");
        assert_eq!(span.attributes["messaging.system"], "vakbus");
        assert_eq!(span.attributes["messaging.message.body.size"], "5");
    }
    assert_eq!(process.attributes["vakbus.task.result"], "completed");
    assert_eq!(process.attributes["messaging.client.id"], "cli-worker");
    scene.daemon.stop();
}

#[test]
fn mail_is_received_below_its_sending_and_acknowledged_below_that() {
    let scene = Scene::new();
    scene.does(&["inbox", "send", "cli", "hello"]);
    scene.does(&["inbox", "read"]);
    let sent = scene.collector.span("send vak.agent.default.{agent}.inbox");
    sent.is(SpanKind::Producer, "");
    let received = scene.collector.span("receive vak.agent.default.{agent}.inbox");
    received.is(SpanKind::Client, &sent.id);
    assert_eq!(received.links, [sent.id]);
    let ack = scene.collector.span("ack vak.agent.default.{agent}.inbox");
    ack.is(SpanKind::Client, &received.id);
    scene.daemon.stop();
}

#[test]
fn a_question_and_its_answer_are_one_trace() {
    let scene = Scene::new();
    let mut responder = Running::start(scene.command(&["reply", "judge.review", "--", "cat"]));
    responder.says("answering judge.review");
    scene.does(&["request", "judge.review", "hello"]);
    responder.signal(Signal::INT);
    assert_eq!(responder.ended().code, Some(0));
    let asked = scene.collector.span("send vak.call.default.judge.review");
    asked.is(SpanKind::Producer, "");
    let process = scene.collector.span("process vak.call.default.judge.review");
    process.is(SpanKind::Consumer, &asked.id);
    let answer = scene.collector.span("send");
    answer.is(SpanKind::Producer, &process.id);
    scene.daemon.stop();
}

#[test]
fn what_fails_says_how_and_what_is_said_is_in_no_span() {
    let scene = Scene::new();
    scene.does(&["task", "send", "--role", "r", "canary-of-payload"]);
    let script = "cat; echo canary-of-failure >&2; exit 3";
    let worked = scene.work(script, &["--max-retries", "0"]);
    assert!(worked.stderr.contains("canary-of-failure"), "{worked:?}");
    let process = scene.collector.span("process vak.work.default.r.task");
    assert!(process.is_error, "{process:#?}");
    assert_eq!(process.attributes["error.type"], "given-up");
    assert_eq!(process.attributes["vakbus.task.result"], "dead-lettered");
    let letter = scene.collector.span("send vak.dlq.default.{agent}.failed");
    letter.is(SpanKind::Producer, &process.id);
    let reject = scene.collector.span("reject vak.work.default.r.task");
    reject.is(SpanKind::Client, &process.id);
    for post in scene.collector.posts() {
        let text = String::from_utf8_lossy(&post.body).into_owned();
        assert!(!text.contains("canary"), "{text:?}");
    }
    scene.daemon.stop();
}

#[test]
fn a_trace_that_its_caller_does_not_record_is_not_exported() {
    let scene = Scene::new();
    let mut sending = scene.command(&["task", "send", "--role", "r", "hello"]);
    in_trace(&mut sending, "00");
    assert_eq!(run(sending, "").code, Some(0));
    assert_eq!(scene.work("true", &[]).code, Some(0));
    assert!(scene.collector.spans().is_empty(), "{:#?}", scene.collector.spans());
    scene.daemon.stop();
}

#[test]
fn live_events_make_no_spans() {
    let scene = Scene::new();
    scene.does(&["pub", "tokens", "--session", "s1", "hello"]);
    assert!(scene.collector.spans().is_empty(), "{:#?}", scene.collector.spans());
    scene.daemon.stop();
}

#[test]
fn a_swarm_tells_the_spans_of_all_its_agents() {
    let (place, collector) = (Place::new(), Collector::new());
    let mut swarm = place.command();
    collector.of(swarm.args(["swarm", "--workers", "2", "--", "true"]));
    assert_eq!(run(swarm, "a\nb\nc\n").code, Some(0));
    let spans = collector.spans();
    let named = |name: &str| {
        let of_name = spans.iter().filter(|span| span.name == name);
        of_name.collect::<Vec<_>>()
    };
    let sends = named("send vak.work.default.worker.task");
    let works = named("process vak.work.default.worker.task");
    assert_eq!((sends.len(), works.len()), (3, 3), "{spans:#?}");
    for send in sends {
        let work = works.iter().find(|work| work.trace == send.trace).unwrap();
        assert_eq!(work.parent, send.id);
    }
}

#[test]
fn requests_are_what_the_variables_say() {
    let (place, collector) = (Place::new(), Collector::new());
    let mut sending = place.command();
    collector.of(sending.args(["task", "send", "hello"]));
    sending
        .env("OTEL_SERVICE_NAME", "fleet")
        .env("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=a%20b")
        .env("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20canary,x-tenant=t1");
    assert_eq!(run(sending, "").code, Some(0));
    let posts = collector.posts();
    let [post] = &posts[..] else { panic!("{posts:?}") };
    assert_eq!(post.line, "POST /v1/traces HTTP/1.1");
    assert_eq!(post.headers["content-type"], "application/x-protobuf");
    assert_eq!(post.headers["authorization"], "Bearer canary");
    assert_eq!(post.headers["x-tenant"], "t1");
    let resource = post.resource();
    assert_eq!(resource["service.name"], "fleet");
    assert_eq!(resource["deployment.environment.name"], "a b");
}

#[test]
fn a_service_that_is_named_among_the_attributes_has_that_name_unless_another_says_it() {
    let (place, collector) = (Place::new(), Collector::new());
    let attributes = ("OTEL_RESOURCE_ATTRIBUTES", "service.name=among,host.name=h");
    for (more, name) in [(None, "among"), (Some(("OTEL_SERVICE_NAME", "fleet")), "fleet")] {
        let mut sending = place.command();
        collector.of(sending.args(["task", "send", "hello"]));
        sending.env_remove("OTEL_SERVICE_NAME").envs([attributes]).envs(more);
        assert_eq!(run(sending, "").code, Some(0));
        let posts = collector.posts();
        let resource = posts.last().unwrap().resource();
        assert_eq!((&resource["service.name"][..], &resource["host.name"][..]), (name, "h"));
    }
}

#[test]
fn the_variable_for_traces_alone_names_the_whole_place() {
    let (place, collector) = (Place::new(), Collector::new());
    let mut sending = place.command();
    collector.of(sending.args(["task", "send", "hello"]));
    sending.env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", format!("{}/spans", collector.url));
    assert_eq!(run(sending, "").code, Some(0));
    assert_eq!(collector.posts()[0].line, "POST /spans HTTP/1.1");
}

#[test]
fn a_settings_file_names_the_collector_too() {
    let (place, collector) = (Place::new(), Collector::new());
    let set = place.run(&["config", "set", "otel.endpoint", &format!("{}/base/", collector.url)]);
    assert_eq!(set.code, Some(0), "{set:?}");
    assert_eq!(place.run(&["task", "send", "hello"]).code, Some(0));
    assert_eq!(collector.posts()[0].line, "POST /base/v1/traces HTTP/1.1");
}

#[test]
fn headers_are_never_shown() {
    let place = Place::new();
    let collector = Collector::answering(Some("HTTP/1.1 401 No\r\ncontent-length: 0\r\n\r\n"));
    let with_headers = |args: &[&str]| {
        let mut command = place.command();
        collector.of(command.args(args));
        command.env("OTEL_EXPORTER_OTLP_HEADERS", "authorization=canary-1,x-key=canary-2");
        let outcome = run(command, "");
        let all = format!("{}{}", outcome.stdout, outcome.stderr);
        assert!(!all.contains("canary"), "{all}");
        outcome
    };
    let sent = with_headers(&["task", "send", "-vvv", "hello"]);
    assert_eq!(sent.code, Some(0), "{sent:?}");
    assert!(sent.stderr.contains("spans are not exported: the server answered 401"), "{sent:?}");
    assert_eq!(collector.posts()[0].headers["authorization"], "canary-1");
    let shown = with_headers(&["config", "show"]);
    assert!(shown.stdout.contains("OTEL_EXPORTER_OTLP_HEADERS"), "{shown:?}");
    assert!(shown.stdout.contains("(a secret, from the environment)"), "{shown:?}");
    with_headers(&["config", "show", "--json", "--origin"]);
    with_headers(&["config", "set", "otel.headers", "x=canary"]);
}

#[test]
fn a_wrong_setting_is_told_by_its_name_before_anything_is_done() {
    let local = "http://127.0.0.1:9";
    for (variable, value, endpoint, what) in [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "canary", None, "expected a URL"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://u:canary@host", None, "without user and password"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "host:4318/canary", None, "expected a URL"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", Some(local), "grpc is not spoken here"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "canary", Some(local), "expected one of"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "a=1,canary", Some(local), "number 2 is none"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "a=canary%0A", Some(local), "none that HTTP allows"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "a=canary", Some("http://host:9"), "expected https"),
        ("OTEL_RESOURCE_ATTRIBUTES", "canary", Some(local), "number 1 is none"),
        ("VAKBUS_OTEL_EXIT_WAIT", "canary", Some(local), "expected a span of time"),
    ] {
        let place = Place::new();
        let mut command = place.command();
        command.args(["task", "send", "hello"]);
        if let Some(endpoint) = endpoint {
            command.env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint);
        }
        let outcome = run(
            {
                command.env(variable, value);
                command
            },
            "",
        );
        outcome.is_wrong_call(what);
        assert!(outcome.stderr.contains(variable), "{variable}: {outcome:?}");
        assert!(!outcome.stderr.contains("canary"), "{variable}: {outcome:?}");
        assert!(!place.path("data").exists(), "{variable}: something was done");
    }
}

#[test]
fn what_switches_spans_off_does_so_whatever_else_is_set() {
    let collector = Collector::new();
    for (name, value) in
        [("OTEL_SDK_DISABLED", "TRUE"), ("OTEL_TRACES_EXPORTER", "none"), ("VAKBUS_OTEL", "off")]
    {
        let place = Place::new();
        let mut wrong = place.command();
        wrong.args(["task", "send", "hello"]).env(name, value);
        wrong.env("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317");
        assert_eq!(run(wrong, "").code, Some(0), "{name}");
        let mut command = place.command();
        collector.of(command.args(["task", "send", "hello"]));
        command.env(name, value).env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
        assert_eq!(run(command, "").code, Some(0), "{name}");
    }
    assert!(collector.posts().is_empty());
}

#[test]
fn what_exports_no_spans_does_not_mind_variables_of_others() {
    let place = Place::new();
    let long = "x".repeat(500);
    for (args, name, value) in [
        (&["completions", "bash"][..], "OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317"),
        (&["config", "show"], "OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317"),
        (&["task", "send", "a"], "OTEL_EXPORTER_OTLP_PROTOCOL", "x"),
        (&["task", "send", "b"], "OTEL_SERVICE_NAME", &long),
    ] {
        let mut command = place.command();
        command.args(args).env(name, value);
        let outcome = run(command, "");
        assert_eq!(outcome.code, Some(0), "{name}: {outcome:?}");
        assert!(!outcome.stdout.contains(value), "{name}: {outcome:?}");
    }
}

#[test]
fn headers_for_traces_alone_come_before_those_for_all() {
    let (place, collector) = (Place::new(), Collector::new());
    let mut sending = place.command();
    collector.of(sending.args(["task", "send", "hello"]));
    sending
        .env("OTEL_EXPORTER_OTLP_HEADERS", "authorization=canary,x-other=1")
        .env("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "authorization=mine");
    assert_eq!(run(sending, "").code, Some(0));
    let post = collector.posts().remove(0);
    assert_eq!(post.headers["authorization"], "mine");
    assert!(!post.headers.contains_key("x-other"), "{post:?}");
}

#[test]
fn a_collector_that_hangs_costs_a_command_its_wait_and_a_warning() {
    let (place, collector) = (Place::new(), Collector::answering(None));
    let mut command = place.command();
    collector.of(command.args(["task", "send", "--json", "--id", "t-1", "hello"]));
    let outcome = run(
        {
            command.env("VAKBUS_OTEL_EXIT_WAIT", "50ms");
            command
        },
        "",
    );
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.stdout.contains("t-1"), "{outcome:?}");
    assert!(outcome.stderr.contains("warning: spans are lost"), "{outcome:?}");
    assert!(outcome.stderr.contains("otel.exit_wait"), "{outcome:?}");
    let listed = place.run(&["task", "ls", "--json"]);
    assert!(listed.stdout.contains("t-1"), "{listed:?}");
}

#[test]
fn a_collector_that_is_away_costs_a_command_a_warning_and_the_count_of_lost_spans() {
    let (place, (url, _nobody)) = (Place::new(), nobody());
    let mut command = place.command();
    command.args(["task", "send", "hello"]).env("OTEL_EXPORTER_OTLP_ENDPOINT", url);
    command.env("VAKBUS_OTEL_EXIT_WAIT", "60s");
    let outcome = run(command, "");
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(outcome.stderr.matches("spans are").count(), 1, "{outcome:?}");
    assert!(outcome.stderr.contains("spans are not exported"), "{outcome:?}");
    assert!(outcome.stderr.contains("1 spans were lost"), "{outcome:?}");
}

/// A place on this machine where nobody listens, for as long as the socket is held.
fn nobody() -> (String, tokio::net::TcpSocket) {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    (format!("http://{}", socket.local_addr().unwrap()), socket)
}

#[test]
fn what_ends_a_command_by_a_signal_lets_its_spans_out_first() {
    let scene = Scene::new();
    let pipe = scene.place.pipe("begun");
    let begun = Lines::through(&pipe);
    let mut gate = Gate::at(&scene.place.pipe("gate"));
    let worker = ["worker", "--role", "r", "--", "sh", "-c", "echo x >begun; read x <gate"];
    let mut worker = scene.place.start(&worker);
    worker.says("serving r");
    let sender = scene.command(&["task", "send", "--role", "r", "--wait", "hello"]);
    let mut sender = Running::start(sender);
    // Its span is told by then.
    sender.says("sent task");
    begun.next().unwrap();
    // Not Ctrl-C: whoever runs the tests in the background has that ignored, which is kept.
    sender.signal(Signal::TERM);
    assert_eq!(sender.ended().code, None, "it ends by the signal, as without spans");
    scene.collector.span("send vak.work.default.r.task");
    gate.open_for(1);
    worker.signal(Signal::TERM);
    assert_eq!(worker.ended().code, Some(0));
    scene.daemon.stop();
}

#[test]
fn a_collector_that_hangs_keeps_a_signal_back_for_a_moment_alone() {
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let collector = Collector::answering(None);
    let mut sending = place.command();
    collector.of(sending.args(["task", "send", "--role", "r", "--wait", "hello"]));
    // Far longer than anybody here waits for a command.
    sending.env("VAKBUS_OTEL_EXIT_WAIT", "1h");
    let sender = Running::start(sending);
    collector.waits_for_posts(1);
    sender.signal(Signal::TERM);
    assert_eq!(sender.ended().code, None);
    daemon.stop();
}

#[test]
fn what_a_collector_has_no_time_for_is_posted_again() {
    let busy = Some("HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n");
    let taken = Some("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    let collector = Collector::answering_in_turn(vec![busy, taken]);
    let place = Place::new();
    let daemon = Daemon::start(&place);
    let mut sending = place.command();
    collector.of(sending.args(["task", "send", "--role", "r", "--wait", "hello"]));
    let sender = Running::start(sending);
    collector.waits_for_posts(2);
    let [first, second] = &collector.posts()[..] else { panic!("{:?}", collector.posts()) };
    assert_eq!(first.body, second.body);
    let worked = place.run(&["worker", "--role", "r", "--until-empty", "--", "true"]);
    assert_eq!((worked.code, sender.ended().code), (Some(0), Some(0)));
    daemon.stop();
}

#[test]
fn on_nats_servers_the_trace_is_the_same_and_the_system_is_named() {
    let server = TestServer::start();
    let (machine, collector) = (Machine::new(&server), Collector::new());
    let does = |args: &[&str]| {
        let mut command = machine.command(args);
        let outcome = run(
            {
                collector.of(&mut command);
                command
            },
            "",
        );
        assert_eq!(outcome.code, Some(0), "{args:?}: {outcome:?}");
    };
    does(&["task", "send", "--role", "r", "hello"]);
    does(&["worker", "--role", "r", "--until-empty", "--", "true"]);
    let sent = collector.span("send vak.work.default.r.task");
    let process = collector.span("process vak.work.default.r.task");
    process.is(SpanKind::Consumer, &sent.id);
    assert_eq!(sent.trace, process.trace);
    for span in collector.spans() {
        assert_eq!(span.attributes["messaging.system"], "nats", "{span:#?}");
    }
}

#[test]
fn a_worker_that_is_stopped_lets_its_spans_out() {
    let scene = Scene::new();
    let pipe = scene.place.pipe("ended");
    let ended = Lines::through(&pipe);
    scene.does(&["task", "send", "--role", "r", "hello"]);
    let worker = ["worker", "--role", "r", "--", "sh", "-c", "echo x >ended"];
    let worker = Running::start(scene.command(&worker));
    ended.next().unwrap();
    worker.signal(Signal::INT);
    assert_eq!(worker.ended().code, Some(0));
    let process = scene.collector.span("process vak.work.default.r.task");
    assert_eq!(process.attributes["vakbus.task.result"], "completed");
    scene.daemon.stop();
}
