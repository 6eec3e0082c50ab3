//! Where the commands of README.md run.

use super::*;
use crate::repo;
use crate::scratch::Scratch;

#[test]
fn the_clone_holds_what_could_be_committed_and_nothing_else() {
    let scratch = Scratch::new("clone").unwrap();
    let (from, to) = (scratch.folder("from").unwrap(), scratch.folder("to").unwrap());
    std::fs::create_dir(from.join("folder")).unwrap();
    for (file, text) in [(".gitignore", "/target\n"), ("folder/kept", "a"), ("target", "b")] {
        std::fs::write(from.join(file), text).unwrap();
    }
    sandbox::commit(&from).unwrap();
    std::fs::write(from.join("new"), "c").unwrap();
    sandbox::copy(&from, &to).unwrap();
    sandbox::commit(&to).unwrap();
    assert_eq!(repo::files_in(&to).unwrap(), [".gitignore", "folder/kept", "new"]);
    assert!(!to.join("target").exists());
}
