//! Direct gets from a stream that may not have been made yet.
//!
//! Nobody answers a direct get of a stream that is not there, and nobody does while a stream of
//! several copies has none that may answer. Only the word of whoever keeps the list tells them
//! apart.

use bus_core::{Error, ErrorKind, Result};
use serde::de::IgnoredAny;

use super::{Api, ApiFailure, GetRequest, RawStored, new_stream_pauses};

impl Api {
    /// As [`Api::get`]; nothing when the stream is not there.
    ///
    /// # Errors
    /// `Unavailable` when it is there and nobody answers for it, or when it may not be asked which
    /// of the two it is.
    pub(crate) async fn get_if_made(
        &self,
        op: &'static str,
        stream: &str,
        wanted: &GetRequest,
    ) -> Result<Vec<RawStored>, ApiFailure> {
        let mut pauses = new_stream_pauses();
        loop {
            match self.get(op, stream, wanted).await {
                Err(ApiFailure::Bus(error)) if error.kind() == ErrorKind::NotFound => {}
                got => return got,
            }
            if !self.is_made(op, stream).await? {
                return Ok(Vec::new());
            }
            match pauses.next() {
                Some(pause) => tokio::time::sleep(pause).await,
                None => {
                    return Err(
                        unheard(op, stream, "it has no leader now, or it was never made").into()
                    );
                }
            }
        }
    }

    /// Who may not make it is not told whether it was made: then it counts as made.
    async fn is_made(&self, op: &'static str, stream: &str) -> Result<bool> {
        if !self.keeps_itself() {
            return Ok(true);
        }
        match self.ask::<IgnoredAny>(op, &format!("STREAM.INFO.{stream}")).await {
            Ok(_) => Ok(true),
            Err(failure) if failure.err_code() == Some(NO_STREAM) => Ok(false),
            Err(failure) => {
                let error = failure.into_error(op, stream);
                if error.kind() != ErrorKind::Denied {
                    return Err(error);
                }
                Err(unheard(op, stream, "whether it is there may not be asked").because(error))
            }
        }
    }
}

fn unheard(op: &'static str, stream: &str, why: &str) -> Error {
    let why = format!("the stream does not answer: {why}");
    Error::new(ErrorKind::Unavailable, op, why).at(stream)
}

const NO_STREAM: u32 = 10_059;
