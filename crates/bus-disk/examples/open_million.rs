//! Fills a data directory with live records and tells how long opening it takes.
//!
//! `open_million DIR [RECORDS]`: a million records of 256 bytes by default.
#![expect(clippy::print_stdout, reason = "the time is what this program tells")]

use bus_core::{
    Bus, Clock, Error, ErrorKind, Frame, FrameId, Result, Retention, StreamSpec, SystemClock,
};
use bus_disk::{DiskBus, DiskOptions};
use bus_subjects::{Filter, StreamName, Subject};
use bytes::Bytes;

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let usage = || Error::new(ErrorKind::Invalid, "open_million", "expected DIR [RECORDS]");
    let dir = arguments.next().ok_or_else(usage)?;
    let records = arguments.next().map_or(Ok(1_000_000), |text| text.parse());
    let records: usize = records.map_err(|_| usage())?;
    fill(&dir, records).await?;
    let clock = SystemClock::new();
    let before = clock.now();
    let bus = DiskBus::open(DiskOptions::new(&dir))?;
    let took = clock.now().since(before);
    let pending = bus.lag(StreamName::parse("WORK")?).await?.pending;
    println!("{pending} records, opened in {took:?}");
    bus.close().await
}

async fn fill(dir: &str, records: usize) -> Result<()> {
    let bus = DiskBus::open(DiskOptions::new(dir))?;
    let filters = vec![Filter::parse("work.>")?];
    bus.declare(StreamSpec::new(StreamName::parse("WORK")?, filters, Retention::WorkQueue)).await?;
    let (subject, body) = (Subject::parse("work.task")?, Bytes::from(vec![b'x'; 256]));
    for batch in 0..records.div_ceil(Frame::BATCH_MAX) {
        let numbers = batch * Frame::BATCH_MAX..records.min((batch + 1) * Frame::BATCH_MAX);
        let frame = |number| {
            let id = FrameId::parse(&format!("record-{number}"))?;
            Ok(Frame::new(subject.clone(), id, body.clone()))
        };
        bus.append_all(numbers.map(frame).collect::<Result<_>>()?).await?;
    }
    bus.close().await
}
