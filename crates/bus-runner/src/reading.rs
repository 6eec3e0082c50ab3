//! Reads what a command wrote when it is there, so that a silent command costs no buffer.

use std::io;
use std::os::fd::OwnedFd;

use rustix::buffer::spare_capacity;
use rustix::io::retry_on_intr;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::output::CHUNK_BYTES_MAX;

/// Waits for bytes and takes up to [`CHUNK_BYTES_MAX`] of them while more are there; none at the
/// end. Cancel safe.
///
/// # Errors
/// Those of reading; bytes that came before one are returned first.
pub(crate) async fn read(descriptor: &AsyncFd<OwnedFd>) -> io::Result<Vec<u8>> {
    loop {
        let mut ready = descriptor.readable().await?;
        let mut bytes = Vec::with_capacity(CHUNK_BYTES_MAX);
        let ended = loop {
            let read = ready.try_io(|descriptor| {
                let read =
                    retry_on_intr(|| rustix::io::read(descriptor, spare_capacity(&mut bytes)));
                Ok(read?)
            });
            match read {
                Ok(Ok(1..)) if bytes.len() < CHUNK_BYTES_MAX => {}
                Ok(read) => break Some(read.map(drop)),
                Err(_nothing_more_now) => break None,
            }
        };
        match ended {
            // What ended it is met again by the next call.
            _ if !bytes.is_empty() => return Ok(bytes),
            Some(ended) => return ended.map(|()| bytes),
            None => {}
        }
    }
}

/// Prepares a descriptor for [`read`].
///
/// # Errors
/// When the system refuses to watch it.
#[expect(deprecated, reason = "its successor is unsafe; an OwnedFd keeps what that one asks for")]
pub(crate) fn readable(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    rustix::io::ioctl_fionbio(&descriptor, true)?;
    AsyncFd::with_interest(descriptor, Interest::READABLE)
}
