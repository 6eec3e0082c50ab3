//! A file system in memory that dies at a chosen step, loses what was not synced, and runs full.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard},
};

use super::{Files, Handle, dice::Dice};

/// The file system; clones are the same one.
#[derive(Clone, Default)]
pub(crate) struct FaultyFiles(Arc<Mutex<Disk>>);

/// What a power cut leaves of what was written and not synced.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Keep {
    /// Everything, as after the end of the process alone.
    All,
    /// Nothing, neither content nor names.
    Synced,
    /// All names, and of the content only what was synced.
    Names,
    /// Of each file, only the last of several writes: they went to the disk out of order.
    LastWrite,
    /// Of each write any sectors, and of each directory its names or those that were safe: what
    /// this seed says.
    Some(u64),
}

/// What goes wrong.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    /// The machine stops at this step, counted from 0; of a write, that many bytes were done.
    StopAt { step: u64, bytes: usize },
    /// Every sync of a file fails from now on.
    NoSync,
    /// Every write into a file fails from now on.
    NoWrite,
    /// Nothing can be changed from now on.
    ReadOnly,
    /// So many bytes can still be allocated.
    Room(u64),
}

type Names = BTreeMap<PathBuf, Arc<Mutex<Node>>>;

#[derive(Default)]
struct Disk {
    names: Names,
    synced_names: Names,
    /// The directories that were made; those that hold them have always been there.
    dirs: BTreeSet<PathBuf>,
    synced_dirs: BTreeSet<PathBuf>,
    steps: u64,
    stop: Option<(u64, usize)>,
    has_stopped: bool,
    no_sync: bool,
    no_write: bool,
    read_only: bool,
    room: Option<u64>,
}

#[derive(Default, Clone)]
struct Node {
    content: Vec<u8>,
    synced: Vec<u8>,
    /// Where the writes since the last sync went, and how long they were.
    unsynced: Vec<(usize, usize)>,
}

impl FaultyFiles {
    /// Lets `fault` happen.
    pub(crate) fn set(&self, fault: Fault) {
        let mut disk = self.lock();
        match fault {
            Fault::StopAt { step, bytes } => disk.stop = Some((step, bytes)),
            Fault::NoSync => disk.no_sync = true,
            Fault::NoWrite => disk.no_write = true,
            Fault::ReadOnly => disk.read_only = true,
            Fault::Room(bytes) => disk.room = Some(bytes),
        }
    }

    /// How many steps were done.
    pub(crate) fn steps(&self) -> u64 {
        self.lock().steps
    }

    /// What the next start of the machine finds.
    pub(crate) fn restarted(&self, keep: Keep) -> Self {
        let disk = self.lock();
        let mut dice = Dice(if let Keep::Some(seed) = keep { seed } else { 0 });
        let dirs = match keep {
            Keep::Synced => &disk.synced_dirs,
            _ => &disk.dirs,
        };
        let mut copies = HashMap::new();
        let mut names = BTreeMap::new();
        for (name, node) in disk.names_after(keep, &mut dice) {
            let is_lost =
                name.ancestors().any(|dir| disk.dirs.contains(dir) && !dirs.contains(dir));
            if !is_lost {
                let copy = copies.entry(Arc::as_ptr(&node)).or_insert_with(|| {
                    let content = node.lock().unwrap().after(keep, &mut dice);
                    let synced = content.clone();
                    Arc::new(Mutex::new(Node { content, synced, unsynced: Vec::new() }))
                });
                names.insert(name, Arc::clone(copy));
            }
        }
        let (synced_names, synced_dirs) = (names.clone(), dirs.clone());
        let dirs = dirs.clone();
        let disk = Disk { synced_names, names, dirs, synced_dirs, ..Disk::default() };
        Self(Arc::new(Mutex::new(disk)))
    }

    /// Changes what a file holds, as a broken disk does.
    pub(crate) fn damage(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        let node = Arc::clone(self.lock().names.get(path).unwrap());
        change(&mut node.lock().unwrap().content);
    }

    /// The names there are, in order.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        self.lock().names.keys().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().unwrap()
    }
}

impl Node {
    fn after(&self, keep: Keep, dice: &mut Dice) -> Vec<u8> {
        let mut content = self.synced.clone();
        let mut arrive = |at: usize, end: usize| {
            content.resize(content.len().max(end), 0);
            content[at..end].copy_from_slice(&self.content[at..end]);
        };
        match keep {
            Keep::All => return self.content.clone(),
            Keep::Synced | Keep::Names => {}
            Keep::LastWrite => {
                let last = self.unsynced.last();
                last.into_iter().for_each(|(at, bytes)| arrive(*at, at + bytes));
            }
            Keep::Some(_) => {
                for &(at, bytes) in &self.unsynced {
                    // All of it, none of it, or every sector for itself.
                    let fate = dice.below(4);
                    let (mut place, end) = (at, at + bytes);
                    while place < end {
                        let next = (place / SECTOR + 1) * SECTOR;
                        if fate == 0 || (fate > 1 && dice.is_heads()) {
                            arrive(place, next.min(end));
                        }
                        place = next;
                    }
                }
            }
        }
        content
    }
}

impl Disk {
    /// Does one step, and says how many bytes of it when the machine stops in the middle.
    fn step(&mut self) -> io::Result<Option<usize>> {
        if self.has_stopped {
            return Err(io::Error::other("the machine has stopped"));
        }
        let step = self.steps;
        self.steps += 1;
        match self.stop {
            Some((stop, bytes)) if stop == step => {
                self.has_stopped = true;
                Ok(Some(bytes))
            }
            _ => Ok(None),
        }
    }

    fn whole_step(&mut self) -> io::Result<()> {
        if self.read_only {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        match self.step()? {
            None => Ok(()),
            Some(_) => Err(io::Error::other("the machine stops")),
        }
    }

    fn names_after(&self, keep: Keep, dice: &mut Dice) -> Names {
        match keep {
            Keep::All | Keep::Names | Keep::LastWrite => self.names.clone(),
            Keep::Synced => self.synced_names.clone(),
            Keep::Some(_) => {
                let mut chosen = HashMap::new();
                let mut is_new = |path: &Path| {
                    let dir = path.parent().map(Path::to_owned);
                    *chosen.entry(dir).or_insert_with(|| dice.is_heads())
                };
                let new = self.names.iter().map(|name| (name, true));
                let old = self.synced_names.iter().map(|name| (name, false));
                let kept = new.chain(old).filter(|((path, _), of_new)| is_new(path) == *of_new);
                kept.map(|((path, node), _)| (path.clone(), Arc::clone(node))).collect()
            }
        }
    }

    /// Whether a directory was made, or holds something.
    fn is_dir(&self, path: &Path) -> bool {
        let is_below = |name: &PathBuf| name != path && name.starts_with(path);
        self.dirs.contains(path) || self.names.keys().any(is_below)
    }

    fn node(&self, path: &Path) -> io::Result<Arc<Mutex<Node>>> {
        self.names.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Files for FaultyFiles {
    fn create(&self, path: &Path) -> io::Result<Box<dyn Handle>> {
        let mut disk = self.lock();
        disk.whole_step()?;
        if disk.names.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let node = Arc::<Mutex<Node>>::default();
        disk.names.insert(path.to_owned(), Arc::clone(&node));
        Ok(Box::new(Open { files: self.clone(), node }))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn Handle>> {
        let disk = self.lock();
        if disk.read_only {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        let node = disk.node(path)?;
        Ok(Box::new(Open { files: self.clone(), node }))
    }

    fn read(&self, path: &Path) -> io::Result<Box<dyn Handle>> {
        let node = self.lock().node(path)?;
        Ok(Box::new(Open { files: self.clone(), node }))
    }

    fn is_dir(&self, path: &Path) -> io::Result<bool> {
        let disk = self.lock();
        if disk.is_dir(path) {
            return Ok(true);
        }
        disk.node(path).map(|_| false)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut disk = self.lock();
        disk.whole_step()?;
        let node = disk.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        disk.names.insert(to.to_owned(), node);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut disk = self.lock();
        disk.whole_step()?;
        disk.names.remove(path).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let disk = self.lock();
        let below =
            disk.names.keys().chain(&disk.dirs).filter_map(|path| path.strip_prefix(dir).ok());
        let names = below.filter_map(|path| path.iter().next()?.to_str());
        Ok(names.map(str::to_owned).collect::<BTreeSet<_>>().into_iter().collect())
    }

    fn make_dir(&self, path: &Path) -> io::Result<()> {
        let mut disk = self.lock();
        if disk.is_dir(path) {
            return Ok(());
        }
        disk.whole_step()?;
        disk.dirs.insert(path.to_owned());
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut disk = self.lock();
        disk.whole_step()?;
        let names: Vec<_> =
            disk.names.iter().map(|(path, node)| (path.clone(), Arc::clone(node))).collect();
        disk.synced_names.retain(|path, _| path.parent() != Some(dir));
        disk.synced_names.extend(names.into_iter().filter(|(path, _)| path.parent() == Some(dir)));
        let dirs: Vec<_> =
            disk.dirs.iter().filter(|path| path.parent() == Some(dir)).cloned().collect();
        disk.synced_dirs.extend(dirs);
        Ok(())
    }
}

/// An open file, which lives on without a name.
struct Open {
    files: FaultyFiles,
    node: Arc<Mutex<Node>>,
}

impl Handle for Open {
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        let node = self.node.lock().unwrap();
        let rest = node.content.get(at as usize..).unwrap_or_default();
        let bytes = rest.len().min(into.len());
        into[..bytes].copy_from_slice(&rest[..bytes]);
        Ok(bytes)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let mut disk = self.files.lock();
        if disk.read_only || disk.no_write {
            return Err(io::Error::other("input/output error"));
        }
        let done = disk.step()?;
        drop(disk);
        let written = &bytes[..done.unwrap_or(bytes.len()).min(bytes.len())];
        let mut node = self.node.lock().unwrap();
        let at = at as usize;
        let end = node.content.len().max(at + written.len());
        node.content.resize(end, 0);
        node.content[at..at + written.len()].copy_from_slice(written);
        node.unsynced.push((at, written.len()));
        done.map_or(Ok(()), |_| Err(io::Error::other("the machine stops")))
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        let mut disk = self.files.lock();
        disk.whole_step()?;
        match disk.room {
            Some(room) if room < bytes => return Err(io::ErrorKind::StorageFull.into()),
            Some(room) => disk.room = Some(room - bytes),
            None => {}
        }
        self.node.lock().unwrap().content.resize(bytes as usize, 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut disk = self.files.lock();
        disk.whole_step()?;
        if disk.no_sync {
            return Err(io::Error::other("input/output error"));
        }
        let mut node = self.node.lock().unwrap();
        node.synced = node.content.clone();
        node.unsynced.clear();
        Ok(())
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.node.lock().unwrap().content.len() as u64)
    }
}

/// What a disk writes whole or not at all.
const SECTOR: usize = 512;
