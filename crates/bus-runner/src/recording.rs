//! Recordings: what live events said, kept for who comes late, and shown as one with what follows.

mod batch;
mod history;
mod kind;
mod recorder;
mod shelf;
mod splice;
mod viewer;

pub use self::{
    batch::{Batch, BatchError, BatchItem, Pushed},
    history::{History, Past, PastItem, Window},
    kind::{RecordingKind, RecordingKinds},
    recorder::{Recorded, Recorder, RecordingPolicy},
    splice::{Splice, Spliced},
    viewer::{Viewed, Viewer},
};
