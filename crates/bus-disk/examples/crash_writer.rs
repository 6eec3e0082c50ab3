//! Appends without end and prints the id of each message that was answered, until it is killed.
//!
//! `crash_writer DIR LIFE`: ids are `LIFE-kept-…` and `LIFE-task-…`. It settles the tasks one after
//! the other and prints those as `done ID`. The tests kill it at random moments and look what is
//! left.

use std::{io::Write, time::Duration};

use bus_core::{
    Bus, ConsumerSpec, Error, ErrorKind, Expect, Frame, FrameId, Result, Retention, StreamSpec,
    Verdict,
};
use bus_disk::{DiskBus, DiskOptions};
use bus_subjects::{ConsumerName, Filter, StreamName, Subject};

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(dir), Some(life)) = (arguments.next(), arguments.next()) else {
        return Err(Error::new(ErrorKind::Invalid, "crash_writer", "expected DIR and LIFE"));
    };
    let bus = DiskBus::open(DiskOptions::new(dir))?;
    let stream = StreamName::parse("WORK")?;
    let filter = Filter::parse("work.>")?;
    let spec = StreamSpec::new(stream.clone(), vec![filter.clone()], Retention::WorkQueue);
    bus.declare(spec).await?;
    let (name, lease) = (ConsumerName::parse("worker")?, Duration::from_secs(3600));
    let filter = Filter::parse("work.task")?;
    let consumer = ConsumerSpec { stream, name, filter, lease };
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(settle(bus.clone(), consumer));
    for writer in 0..4 {
        for kind in ["kept", "task"] {
            tasks.spawn(write(bus.clone(), kind, format!("{life}-{kind}-{writer}")));
        }
    }
    while let Some(ended) = tasks.join_next().await {
        let failed = |error| Error::new(ErrorKind::Unavailable, "join", format!("{error}"));
        ended.map_err(failed)??;
    }
    Ok(())
}

async fn write(bus: DiskBus, kind: &str, name: String) -> Result<()> {
    let subject = Subject::parse(&format!("work.{kind}"))?;
    for number in 0_u32.. {
        let id = FrameId::parse(&format!("{name}-{number}"))?;
        bus.append(Frame::new(subject.clone(), id.clone(), vec![b'x'; 300]), Expect::Any).await?;
        tell(format_args!("stored {id}\n"))?;
    }
    Ok(())
}

async fn settle(bus: DiskBus, consumer: ConsumerSpec) -> Result<()> {
    let mut member = bus.consume(consumer).await?;
    while let Some(delivery) = member.next().await {
        let delivery = delivery?;
        let id = delivery.frame.id.clone();
        delivery.settle(Verdict::Ack).await?;
        tell(format_args!("done {id}\n"))?;
        // Not more than are appended: some must be left.
        tokio::time::sleep(Duration::from_micros(500)).await;
    }
    Ok(())
}

fn tell(line: std::fmt::Arguments<'_>) -> Result<()> {
    let mut out = std::io::stdout().lock();
    // One write a line: a kill leaves whole lines.
    let written = out.write_all(line.to_string().as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| Error::new(ErrorKind::Unavailable, "print", error.to_string()))
}
