//! A client that asks for everything and reads nothing.

use std::{
    io::{Read, Write},
    net::TcpStream,
    num::NonZeroUsize,
    time::Duration,
};

use bus_core::{BucketMirror, Buckets, Bus, FeedItem, Overflow, Put, Revision};
use bus_nats::server::ServerConfig;
use bus_subjects::Filter;
use tokio::time::{Instant, timeout};

use crate::{
    scale::Scale,
    stage::{KEYS, SOON, Stage, bucket, follow, frame, key},
};

pub(crate) async fn a_watch_that_is_never_read_slows_nobody(scale: Scale) -> String {
    let stage = Stage::new().await;
    let sluggard = stage.another().await;
    let open = || sluggard.watch(bucket(), Filter::all(), Revision::START);
    let (mut unread, mut late) = (open().await.unwrap(), BucketMirror::new());
    let mut read = stage.bus.watch(bucket(), Filter::all(), Revision::START).await.unwrap();
    let mut followed = BucketMirror::new();
    let (puts, mut longest) = (scale.pick(1_500, 50_000), Duration::ZERO);
    for n in 0..puts {
        let (name, value) = (key(&format!("k{}", n % KEYS)), Put::new(vec![7; 4_000]));
        let begun = Instant::now();
        stage.bus.put(bucket(), name, value).await.unwrap();
        longest = longest.max(begun.elapsed());
        if n % 500 == 0 {
            follow(&stage.bus, &mut read, &mut followed).await;
        }
    }
    assert!(longest < Duration::from_secs(1), "a put took {longest:?}");
    follow(&stage.bus, &mut read, &mut followed).await;
    // Asked for at last, it tells everything that counts.
    follow(&stage.bus, &mut unread, &mut late).await;
    format!("{puts} values past a watch that was not read; the slowest put {longest:?}")
}

/// The sluggard loses the oldest and is told; the publisher and all others notice nothing.
pub(crate) async fn a_subscriber_that_never_reads_slows_nobody(scale: Scale) -> String {
    let stage = Stage::new().await;
    let (sluggard, reader) = (stage.another().await, stage.another().await);
    let few = Overflow::DropOldest { capacity: NonZeroUsize::new(64).unwrap() };
    let many = Overflow::DropOldest { capacity: NonZeroUsize::new(1 << 20).unwrap() };
    let mut unread = sluggard.subscribe(events(), few).await.unwrap();
    let mut read = reader.subscribe(events(), many).await.unwrap();
    let count = scale.pick(20_000_u64, 500_000);
    let begun = Instant::now();
    for n in 0..count {
        stage.bus.publish(frame("vak.events.w1.s1.tokens", &n.to_string())).await.unwrap();
    }
    let took = begun.elapsed();
    for n in 0..count {
        let item = timeout(SOON, read.next()).await.expect("a frame is missing");
        let FeedItem::Frame(frame) = item.unwrap() else { panic!("a reader missed some") };
        assert_eq!(frame.id.as_str(), n.to_string());
    }
    let (mut heard, mut missed) = (0, 0);
    while heard + missed < count {
        match timeout(SOON, unread.next()).await.expect("its frames are missing").unwrap() {
            FeedItem::Frame(_) => heard += 1,
            FeedItem::Gap { missed: more } => missed += more,
        }
    }
    assert!(heard <= 64 + 8, "{heard} were kept for the sluggard");
    format!("{count} frames in {} ms; the sluggard heard {heard} and was told of {missed}", {
        took.as_millis()
    })
}

/// Whoever speaks the protocol and never reads is sent away by the server, and nobody else.
pub(crate) async fn a_connection_that_never_reads_is_cut_off_alone(scale: Scale) -> String {
    let config = ServerConfig { write_deadline: Duration::from_secs(1), ..ServerConfig::default() };
    let stage = Stage::with(config).await;
    let address = stage.server.url().trim_start_matches("nats://").to_owned();
    let mut sluggard = TcpStream::connect(address).unwrap();
    sluggard.write_all(b"CONNECT {\"verbose\":false}\r\nSUB > 1\r\nPING\r\n").unwrap();
    let capacity = NonZeroUsize::new(1 << 16).unwrap();
    let mut read = stage.bus.subscribe(events(), Overflow::DropOldest { capacity }).await.unwrap();
    let count = scale.pick(120_u64, 1_000);
    for n in 0..count {
        let mut large = frame("vak.events.w1.s1.tokens", &n.to_string());
        large.body = vec![b'x'; 1 << 20].into();
        stage.bus.publish(large).await.unwrap();
        let item = timeout(SOON, read.next()).await.expect("a frame is missing");
        let FeedItem::Frame(frame) = item.unwrap() else { panic!("a reader missed some") };
        assert_eq!(frame.id.as_str(), n.to_string());
    }
    // What it was sent is less than everything: then the server gave it up.
    sluggard.set_read_timeout(Some(SOON)).unwrap();
    let mut sent = 0_u64;
    let mut buffer = vec![0; 1 << 20];
    loop {
        match sluggard.read(&mut buffer) {
            Ok(0) => break,
            Ok(bytes) => sent += bytes as u64,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
            Err(error) => panic!("it is still connected: {error}"),
        }
    }
    assert!(sent < count << 20, "it was sent everything");
    format!(
        "{count} frames of 1 MiB past a connection that took {} MiB and was cut off",
        sent >> 20
    )
}

fn events() -> Filter {
    Filter::parse("vak.events.w1.s1.tokens").unwrap()
}
