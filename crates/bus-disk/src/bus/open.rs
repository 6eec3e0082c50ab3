//! From a directory to a bus.

use std::{
    io,
    sync::{Arc, atomic::AtomicUsize},
};

use bus_core::Result;
use bus_envelope::Timestamp;
use bus_mem::{
    InMemoryBus, PictureCursor,
    core::Image,
    journal::{Journal, Statement},
};

use super::Core;
use crate::{
    DiskBus, DiskOptions,
    blobs::{BlobFiles, BlobIndex},
    files::{Files, RealFiles},
    home::Home,
    journal::DiskJournal,
    keeper::{Sizes, Source},
    record::{BlobRecord, Record},
    store::Store,
};

/// Takes the directory, reads it, and goes on in a new epoch.
pub(super) fn open(options: DiskOptions, sizes: Sizes) -> Result<DiskBus> {
    let home = Home::take(&options.dir, options.clock.now())?;
    open_on((Arc::new(RealFiles), home), options, sizes, Arc::new)
}

/// Reads the directory, which is taken already, and goes on in a new epoch; its broker says its
/// changes to what `keep` makes of the journal.
pub(crate) fn open_on<J: Journal>(
    (files, home): (Arc<dyn Files>, Home),
    options: DiskOptions,
    sizes: Sizes,
    keep: impl FnOnce(DiskJournal) -> Arc<J>,
) -> Result<DiskBus> {
    let DiskOptions { sync, limits, clock, progress, .. } = options;
    let (mut image, mut index, mut epoch) = (Image::new(limits), BlobIndex::default(), 0);
    let mut take = |record: Record<'_>| {
        match record {
            Record::Change(change) => image.apply(change)?,
            Record::Opened { epoch: opened, .. } => epoch = epoch.max(opened),
            Record::BlobStored(_) | Record::BlobRemoved { .. } => index.apply(&record),
        }
        Ok(())
    };
    let mut tell = |done| progress(done);
    let setup = (sync, sizes);
    let store = Store::open(Arc::clone(&files), home, setup, &mut take, &mut tell)?;
    let (epoch, time) = (epoch + 1, clock.now().max(image.latest()));
    store.journal.write(&Record::Opened { epoch, time });
    store.wait_safe()?;
    let place = (files, Arc::clone(&store.home));
    let blobs = BlobFiles::open(place, store.journal.clone(), index, limits.blob_bytes_max)?;
    let blobs = Arc::new(blobs);
    let journal = keep(store.journal.clone());
    let mem = InMemoryBus::journaled(clock, limits, journal, image, epoch);
    store.take_pictures(source(mem.connect(), Arc::clone(&blobs), (epoch, time)));
    let connections = AtomicUsize::new(1);
    let core = Core { store, blobs, connections, durability: sync.durability() };
    Ok(DiskBus::of(mem, Arc::new(core)))
}

/// Hands out all that lives, one lock at a time.
fn source(mem: InMemoryBus, blobs: Arc<BlobFiles>, (epoch, time): (u64, Timestamp)) -> Source {
    Box::new(move |take| {
        take(Record::Opened { epoch, time })?;
        for (bucket, blob) in blobs.all() {
            let (info, file) = (&blob.info, blob.file);
            let (key, bytes, digest) = (&info.key, info.bytes, info.digest);
            take(Record::BlobStored(BlobRecord { bucket: &bucket, key, file, bytes, digest }))?;
        }
        picture(&mem, take)
    })
}

fn picture(
    mem: &InMemoryBus,
    take: &mut dyn FnMut(Record<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let (mut cursor, mut statements) = (PictureCursor::default(), Vec::<Statement>::new());
    loop {
        let goes_on = mem.picture(&mut cursor, &mut statements);
        for statement in statements.drain(..) {
            take(Record::Change(statement.change()))?;
        }
        if !goes_on {
            return Ok(());
        }
    }
}
