//! Reads a data directory: the newest picture, then the journal since it was begun.

use std::{
    cell::Cell,
    path::{Path, PathBuf},
};

use bus_core::Result;

use crate::{
    batch::BatchHeader,
    files::Files,
    home::Home,
    record::Record,
    segment::{ScanError, Segment, Tail, damaged, unavailable, write_zeros},
    snapshot::{self, Snapshot},
};

/// How far an opening has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Records that were read.
    pub records: u64,
    /// Bytes that were read.
    pub bytes: u64,
}

/// Where the journal goes on.
pub(crate) struct Recovered {
    /// The last position.
    pub(crate) last: u64,
    /// The segment that is written next, up to its end.
    pub(crate) current: Segment,
    /// The one after it, when it is there already.
    pub(crate) next: Option<Segment>,
    /// Segments that hold something, with the first position of each; the current one last.
    pub(crate) live: Vec<(u64, u64)>,
    /// Segments that nobody needs.
    pub(crate) spare: Vec<u64>,
    /// The picture that was read.
    pub(crate) snapshot: Option<Snapshot>,
    /// Bytes of the journal since then.
    pub(crate) bytes: u64,
}

/// Reads everything in `home` and hands the records to `take`, in order.
///
/// # Errors
/// `Corrupt` with file and offset when something is damaged or missing that had been safe;
/// `Unavailable` when a file cannot be read; what `take` says.
pub(crate) fn recover(
    files: &dyn Files,
    home: &Home,
    segment_bytes: u64,
    take: &mut dyn FnMut(Record<'_>) -> Result<()>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Recovered> {
    let records = Cell::new(0);
    let mut take = |record: Record<'_>| {
        records.set(records.get() + 1);
        take(record)
    };
    let snapshot = snapshot::read_newest(files, home, &mut take)?;
    let dir = home.journal();
    let (numbers, spare) = numbers(files, &dir, snapshot.as_ref())?;
    if numbers.is_empty() {
        // Little is written into most new directories: they are made quickly.
        let first = Segment::prepare(files, &dir, 1, (segment_bytes, ZEROED_AT_FIRST), None);
        let current = first.map_err(|error| unavailable(&dir, error))?;
        let live = vec![(1, 1)];
        return Ok(Recovered { last: 0, current, next: None, live, spare, snapshot, bytes: 0 });
    }
    let mut reader = Reader::new(files, dir, snapshot);
    for number in numbers {
        reader.segment(number, &mut take)?;
        progress(Progress { records: records.get(), bytes: reader.bytes });
    }
    reader.finish(spare)
}

/// The segments that count, in order, and those that the picture made needless.
fn numbers(
    files: &dyn Files,
    dir: &Path,
    snapshot: Option<&Snapshot>,
) -> Result<(Vec<u64>, Vec<u64>)> {
    let names = files.list(dir).map_err(|error| unavailable(dir, error))?;
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| Segment::number_of(name)).collect();
    numbers.sort_unstable();
    let begin = snapshot.map_or(1, |snapshot| snapshot.segment);
    let spare = numbers.iter().copied().take_while(|number| *number < begin).collect();
    numbers.retain(|number| *number >= begin);
    for (number, expected) in numbers.iter().zip(begin..) {
        if *number != expected {
            return Err(damaged(&Segment::path(dir, expected), 0, "it is missing"));
        }
    }
    if numbers.is_empty() && snapshot.is_some() {
        return Err(damaged(&Segment::path(dir, begin), 0, "it is missing"));
    }
    Ok((numbers, spare))
}

/// Goes through the segments one after the other.
struct Reader<'a> {
    files: &'a dyn Files,
    dir: PathBuf,
    snapshot: Option<Snapshot>,
    /// The position that comes next, once one is known.
    next: Option<u64>,
    /// The last segment that holds a batch, and how it ends.
    last: Option<(Segment, Tail)>,
    /// Segments behind it, which hold none.
    empty: Vec<(Segment, Tail)>,
    live: Vec<(u64, u64)>,
    bytes: u64,
}

impl<'a> Reader<'a> {
    fn new(files: &'a dyn Files, dir: PathBuf, snapshot: Option<Snapshot>) -> Self {
        let next = if snapshot.is_some() { None } else { Some(1) };
        Self {
            files,
            dir,
            snapshot,
            next,
            last: None,
            empty: Vec::new(),
            live: Vec::new(),
            bytes: 0,
        }
    }

    fn segment(
        &mut self,
        number: u64,
        take: &mut dyn FnMut(Record<'_>) -> Result<()>,
    ) -> Result<()> {
        let segment = Segment::open(self.files, &self.dir, number)?;
        let path = Segment::path(&self.dir, number);
        let content = segment.content().map_err(|error| unavailable(&path, error))?;
        let known = self.snapshot.as_ref().map_or(0, |snapshot| snapshot.position);
        let (before, mut first) = (self.next, None);
        let scanned = segment.batches(&content, before, |_at, header, records| {
            first.get_or_insert(header.first);
            take_since(known, header, records, take)
        });
        let tail = scanned.map_err(|error| match error {
            ScanError::Damaged { at, why } => damaged(&path, at, why),
            ScanError::Taken(why) => {
                let text = why.to_string();
                damaged(&path, 0, text).because(why)
            }
        })?;
        let Some(first) = first else {
            self.empty.push((segment, tail));
            return Ok(());
        };
        if before.is_none() && first > known + 1 {
            let why = format!("it begins at position {first}, the picture ends at {known}");
            return Err(damaged(&path, Segment::HEADER_BYTES as usize, why));
        }
        // What stands before a batch had been safe when that was written.
        let torn = self.last.iter().chain(&self.empty).find(|(_, tail)| tail.is_torn);
        if let Some((torn, tail)) = torn {
            let path = Segment::path(&self.dir, torn.number);
            return Err(damaged(&path, tail.end, "batches follow in the next segment"));
        }
        self.empty.clear();
        self.next = tail.next;
        self.live.push((number, first));
        self.bytes += tail.end as u64;
        self.last = Some((segment, tail));
        Ok(())
    }

    fn finish(mut self, spare: Vec<u64>) -> Result<Recovered> {
        let mut rest = self.empty.into_iter();
        let Some((mut current, tail)) = self.last.take().or_else(|| rest.next()) else {
            return Err(damaged(&self.dir, 0, "it holds no segment"));
        };
        let known = self.snapshot.as_ref().map_or(0, |snapshot| snapshot.position);
        let last = self.next.map_or(known, |next| next.saturating_sub(1));
        let told = self.snapshot.as_ref().map_or(0, |snapshot| snapshot.end);
        if last < told {
            let why = format!("it ends at position {last}, the picture tells of {told}");
            return Err(damaged(&Segment::path(&self.dir, current.number), tail.end, why));
        }
        if self.live.is_empty() {
            self.live.push((current.number, last + 1));
        }
        current.end = tail.end as u64;
        if tail.is_torn {
            tracing::warn!(segment = current.number, at = tail.end, "a torn tail was cut");
            wipe(&self.dir, &current, tail.end)?;
        }
        let mut next = None;
        for (segment, tail) in rest {
            if next.is_some() {
                // Its number comes again: it must not stand among the spare ones by then.
                let path = Segment::path(&self.dir, segment.number);
                self.files.remove(&path).map_err(|error| unavailable(&path, error))?;
                continue;
            }
            if tail.is_torn {
                wipe(&self.dir, &segment, tail.end)?;
            }
            next = Some(segment);
        }
        let (live, snapshot, bytes) = (self.live, self.snapshot, self.bytes);
        Ok(Recovered { last, current, next, live, spare, snapshot, bytes })
    }
}

/// Hands out the records of a batch that come after `known`.
fn take_since(
    known: u64,
    header: BatchHeader,
    records: &[u8],
    take: &mut dyn FnMut(Record<'_>) -> Result<()>,
) -> Result<()> {
    if header.next() <= known + 1 {
        return Ok(());
    }
    let mut position = header.first;
    Record::read_all(records, header.count, |record| {
        let is_new = position > known;
        position += 1;
        if is_new { take(record) } else { Ok(()) }
    })
}

/// Makes sure that nothing behind the end is ever taken for a batch that follows.
fn wipe(dir: &Path, segment: &Segment, end: usize) -> Result<()> {
    let wiped = write_zeros(&*segment.file, end as u64, segment.bytes);
    let wiped = wiped.and_then(|()| segment.file.sync());
    wiped.map_err(|error| unavailable(&Segment::path(dir, segment.number), error))
}

/// How much of the first segment is zeroed.
const ZEROED_AT_FIRST: u64 = 16 * 1024;
