//! A directory copied as any program copies it.

use std::path::Path;

/// Copies a directory as it is, for its owner alone.
pub(crate) fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;

    std::fs::DirBuilder::new().mode(0o700).create(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            match std::fs::copy(entry.path(), target) {
                // It was a segment in the making, which has its name by now.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                copied => drop(copied?),
            }
        }
    }
    Ok(())
}
