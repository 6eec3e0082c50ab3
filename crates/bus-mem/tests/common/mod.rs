//! What several test targets of this engine share.

mod mem;

pub(crate) use mem::Mem;
