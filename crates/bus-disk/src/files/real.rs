//! The file system of the machine.

use std::{
    fs::{DirBuilder, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt},
    path::Path,
};

use rustix::fs::OFlags;

use super::{Files, Handle};

/// Files of the machine, made for their owner alone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RealFiles;

impl Files for RealFiles {
    fn create(&self, path: &Path) -> io::Result<Box<dyn Handle>> {
        let mut options = options();
        Ok(Box::new(options.create_new(true).mode(0o600).open(path)?))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn Handle>> {
        Ok(Box::new(options().open(path)?))
    }

    fn read(&self, path: &Path) -> io::Result<Box<dyn Handle>> {
        Ok(Box::new(options().write(false).open(path)?))
    }

    fn is_dir(&self, path: &Path) -> io::Result<bool> {
        Ok(std::fs::symlink_metadata(path)?.is_dir())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(dir)? {
            let name = entry?.file_name().into_string();
            names.push(name.map_err(|_| io::Error::other("a file name is not UTF-8"))?);
        }
        Ok(names)
    }

    fn make_dir(&self, path: &Path) -> io::Result<()> {
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            made => made,
        }
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }
}

impl Handle for File {
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        let mut read = 0;
        while let Some(rest) = into.get_mut(read..).filter(|rest| !rest.is_empty()) {
            match FileExt::read_at(self, rest, at + read as u64) {
                Ok(0) => break,
                Ok(bytes) => read += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(read)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.write_all_at(bytes, at)
    }

    #[cfg(target_os = "linux")]
    fn allocate(&self, bytes: u64) -> io::Result<()> {
        let mode = rustix::fs::FallocateFlags::empty();
        match rustix::fs::fallocate(self, mode, 0, bytes) {
            // What is written afterwards takes the room then.
            Err(rustix::io::Errno::OPNOTSUPP) => self.set_len(bytes),
            done => Ok(done?),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.set_len(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    // The bits are those of the system, whatever the sign of its type.
    options.read(true).write(true).custom_flags(OFlags::NOFOLLOW.bits() as i32);
    options
}
