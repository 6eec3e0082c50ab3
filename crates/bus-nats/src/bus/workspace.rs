//! Everything that a workspace needs on its servers, made by whoever sets it up.

use bus_core::{Result, StreamSpec};
use bus_subjects::BucketName;

use super::NatsBus;
use crate::permissions::Layout;

impl NatsBus {
    /// Makes every stream, bucket and record that the workspace of `layout` needs: agents make
    /// none of them. What is there already stays as it is.
    ///
    /// # Errors
    /// `Denied` to agents, whose account keeps nothing. Of streams of frames `Conflict` when one
    /// is there otherwise; `Full`, `Closed`; `Timeout` and `Unavailable` with a part done: calling
    /// it again does the rest.
    pub async fn declare_workspace(&self, layout: &Layout) -> Result<()> {
        for stream in layout.streams()? {
            self.streams.declare(stream).await?;
        }
        self.declare_own_streams().await?;
        for bucket in layout.buckets() {
            self.declare_bucket(bucket).await?;
        }
        for bucket in layout.blobs() {
            self.declare_blobs(bucket).await?;
        }
        Ok(())
    }

    /// Makes the streams of the engine itself: the board of its queues, and the latest samples.
    ///
    /// # Errors
    /// As [`NatsBus::declare_bucket`].
    pub async fn declare_own_streams(&self) -> Result<()> {
        const OP: &str = "declare own streams";
        self.queues.make_board(OP).await?;
        self.live.make_samples(OP).await
    }

    /// Makes a bucket of values, unless it is there.
    ///
    /// # Errors
    /// `Denied` to agents, whose account keeps nothing; `Full`, `Closed`; `Timeout` and
    /// `Unavailable` with outcome unknown.
    pub async fn declare_bucket(&self, bucket: &BucketName) -> Result<()> {
        self.buckets.make("declare bucket", bucket).await
    }

    /// Makes a bucket of blobs, unless it is there.
    ///
    /// # Errors
    /// As [`NatsBus::declare_bucket`].
    pub async fn declare_blobs(&self, bucket: &BucketName) -> Result<()> {
        self.blobs.make("declare blobs", bucket).await
    }

    /// Takes it for granted that `stream` was declared so, where the servers may not be asked: a
    /// stream beside those of the layout that the options name.
    pub fn take_as_declared(&self, stream: StreamSpec) {
        self.streams.take_as_declared(stream);
    }
}
