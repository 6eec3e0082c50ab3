//! The board of a consumer: the messages that JetStream's own queue cannot place.
//!
//! JetStream hands out in the order of storing, counts every delivery and knows no rests, lanes or
//! keys. So a message that was handed back, failed, lost its lease, has a placement or was pulled
//! while nobody waited is kept as an [`Entry`] in a stream that all engines share. Every step of
//! an entry is a compare-and-set on its state, so two members never hold it at once. A [`View`] is
//! what one engine knows of the board: a hint for which entry to try, never a promise.

pub(crate) use self::{
    entry::{Entry, Standing},
    fetch::{Fetch, MayFetch},
    place::{BoardPart, BoardPlace},
    turn::{KeyTurn, Turn},
    view::{Pick, View},
};

mod entry;
mod fetch;
mod place;
mod turn;
mod view;
