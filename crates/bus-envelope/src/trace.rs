//! W3C trace context: which trace an event belongs to, and which span caused it.

use std::fmt;

use data_encoding::HEXLOWER;

use crate::TraceState;

/// A valid trace id, span id and flags, with the vendors' `tracestate`.
///
/// The trace id is bound by the seal and the signature; span id, flags and `tracestate` may change
/// on the way. Of the flags only the two that the W3C defines (sampled, random) are kept.
///
/// ```
/// use bus_envelope::TraceContext;
///
/// let parent =
///     TraceContext::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00", None)?;
/// let child = parent.child_span([7; 8]);
/// assert_eq!(child.traceparent(), "00-4bf92f3577b34da6a3ce929d0e0e4736-0707070707070707-00");
/// # Ok::<(), bus_envelope::TraceError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct TraceContext {
    trace_id: [u8; 16],
    span_id: [u8; 8],
    flags: u8,
    tracestate: TraceState,
}

/// Why a trace header is refused; a new trace has to be started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The text is not a `traceparent`.
    #[error("traceparent is refused: expected 00-<32 hex digits>-<16 hex digits>-<2 hex digits>")]
    Traceparent,
    /// All bytes of the trace id are zero.
    #[error("trace id is refused: all its bytes are zero")]
    ZeroTraceId,
    /// All bytes of the span id are zero.
    #[error("span id is refused: all its bytes are zero")]
    ZeroSpanId,
    /// The list, a key or a value breaks the rules of `tracestate`.
    #[error("tracestate is refused: {reason}")]
    Tracestate {
        /// What was expected.
        reason: &'static str,
    },
}

impl TraceContext {
    /// The flag that says that the caller may have recorded this trace.
    pub const SAMPLED: u8 = 0x01;

    /// The flag that says that the right half of the trace id is random.
    pub const RANDOM: u8 = 0x02;

    /// A context without `tracestate`. Unknown bits of `flags` become zero.
    ///
    /// # Errors
    /// [`TraceError::ZeroTraceId`] or [`TraceError::ZeroSpanId`].
    pub fn new(trace_id: [u8; 16], span_id: [u8; 8], flags: u8) -> Result<Self, TraceError> {
        if trace_id == [0; 16] {
            return Err(TraceError::ZeroTraceId);
        }
        if span_id == [0; 8] {
            return Err(TraceError::ZeroSpanId);
        }
        let flags = flags & (Self::SAMPLED | Self::RANDOM);
        Ok(Self { trace_id, span_id, flags, tracestate: TraceState::default() })
    }

    /// Reads the two headers; white space around them is ignored.
    ///
    /// Version `00` is exactly 55 characters; later versions are read by their first four fields.
    /// A bad `tracestate` is dropped alone, the trace goes on.
    ///
    /// # Errors
    /// A [`TraceError`] when `traceparent` is not valid.
    pub fn parse(traceparent: &str, tracestate: Option<&str>) -> Result<Self, TraceError> {
        let mut context = parse_traceparent(traceparent.trim_matches([' ', '\t']))?;
        if let Some(list) = tracestate {
            context.tracestate = TraceState::parse(list).unwrap_or_default();
        }
        Ok(context)
    }

    /// Reads the trace from names and values of headers, as a request brings them.
    ///
    /// Names are compared without regard to case; several `tracestate` headers are one list. Two
    /// `traceparent` headers, or a bad one, give `None`: a new trace starts.
    pub fn extract<'a>(headers: impl Iterator<Item = (&'a str, &'a str)>) -> Option<Self> {
        let (mut parent, mut state) = (None, None::<String>);
        for (name, value) in headers {
            if name.eq_ignore_ascii_case("traceparent") {
                if parent.replace(value).is_some() {
                    return None;
                }
            } else if name.eq_ignore_ascii_case("tracestate") {
                match &mut state {
                    Some(list) => {
                        list.push(',');
                        list.push_str(value);
                    }
                    None => state = Some(value.to_owned()),
                }
            }
        }
        Self::parse(parent?, state.as_deref()).ok()
    }

    /// The span that this one causes: same trace, same flags, same `tracestate`, another span id.
    ///
    /// A `span_id` of zeros, or the parent's own, is counted up to the next usable one.
    #[must_use]
    pub fn child_span(&self, span_id: [u8; 8]) -> Self {
        let mut id = u64::from_be_bytes(span_id);
        while id == 0 || id.to_be_bytes() == self.span_id {
            id = id.wrapping_add(1);
        }
        Self { span_id: id.to_be_bytes(), ..self.clone() }
    }

    /// The same context with another `tracestate`.
    #[must_use]
    pub fn with_tracestate(self, tracestate: TraceState) -> Self {
        Self { tracestate, ..self }
    }

    /// The `traceparent` header, always in version `00`.
    #[must_use]
    pub fn traceparent(&self) -> String {
        self.traceparent_in(&mut [0; TRACEPARENT_BYTES]).to_owned()
    }

    /// The `traceparent` header, written into `text`.
    pub(crate) fn traceparent_in<'t>(&self, text: &'t mut [u8; TRACEPARENT_BYTES]) -> &'t str {
        *text = *b"00-00000000000000000000000000000000-0000000000000000-00";
        let [_, _, _, rest @ ..] = text;
        let (trace_id, rest) = rest.split_at_mut(32);
        let (span_id, flags) = rest.split_at_mut(18);
        HEXLOWER.encode_mut(&self.trace_id, trace_id);
        if let [_, span_id @ .., _] = span_id {
            HEXLOWER.encode_mut(&self.span_id, span_id);
        }
        HEXLOWER.encode_mut(&[self.flags], flags);
        // Only ASCII is ever written there.
        std::str::from_utf8(text).unwrap_or_default()
    }

    /// The id of the whole trace; never all zeros.
    #[must_use]
    pub const fn trace_id(&self) -> &[u8; 16] {
        &self.trace_id
    }

    /// The id of this span; never all zeros.
    #[must_use]
    pub const fn span_id(&self) -> &[u8; 8] {
        &self.span_id
    }

    /// The flags: [`SAMPLED`](Self::SAMPLED), [`RANDOM`](Self::RANDOM), both or none.
    #[must_use]
    pub const fn flags(&self) -> u8 {
        self.flags
    }

    /// Whether the caller may have recorded this trace.
    #[must_use]
    pub const fn is_sampled(&self) -> bool {
        self.flags & Self::SAMPLED != 0
    }

    /// The vendors' list; empty when there is none.
    #[must_use]
    pub const fn tracestate(&self) -> &TraceState {
        &self.tracestate
    }
}

impl fmt::Debug for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TraceContext({} {:?})", self.traceparent(), self.tracestate.as_str())
    }
}

/// The length of a `traceparent` in version `00`.
pub(crate) const TRACEPARENT_BYTES: usize = 55;

fn parse_traceparent(text: &str) -> Result<TraceContext, TraceError> {
    let mut fields = text.splitn(5, '-');
    let mut next = || fields.next().ok_or(TraceError::Traceparent);
    let [version] = hex(next()?)?;
    let (trace_id, span_id) = (hex(next()?)?, hex(next()?)?);
    let [flags] = hex(next()?)?;
    let has_more = fields.next().is_some();
    if version == 0xff || (version == 0 && has_more) {
        return Err(TraceError::Traceparent);
    }
    TraceContext::new(trace_id, span_id, flags)
}

/// Exactly `N` bytes of lower-case hex.
fn hex<const N: usize>(text: &str) -> Result<[u8; N], TraceError> {
    let mut bytes = [0; N];
    if text.len() != 2 * N {
        return Err(TraceError::Traceparent);
    }
    HEXLOWER.decode_mut(text.as_bytes(), &mut bytes).map_err(|_| TraceError::Traceparent)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parent(flags: u8) -> TraceContext {
        TraceContext::new([1; 16], [2; 8], flags).unwrap()
    }

    #[test]
    fn a_child_keeps_trace_id_and_has_a_new_span_id() {
        let child = parent(1).child_span([3; 8]);
        assert_eq!((child.trace_id(), child.span_id()), (&[1; 16], &[3; 8]));
    }

    #[test]
    fn a_child_of_an_unsampled_parent_is_unsampled() {
        assert!(!parent(0).child_span([3; 8]).is_sampled());
    }

    #[test]
    fn a_child_never_has_the_span_id_of_its_parent() {
        assert_ne!(parent(1).child_span([2; 8]).span_id(), &[2; 8]);
    }

    #[test]
    fn a_child_never_has_a_span_id_of_zeros() {
        assert_eq!(parent(1).child_span([0; 8]).span_id(), &[0, 0, 0, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn ids_of_zeros_are_refused() {
        assert_eq!(TraceContext::new([0; 16], [1; 8], 0), Err(TraceError::ZeroTraceId));
        assert_eq!(TraceContext::new([1; 16], [0; 8], 0), Err(TraceError::ZeroSpanId));
    }

    #[test]
    fn a_bad_tracestate_is_dropped_alone() {
        let context = TraceContext::parse(&parent(1).traceparent(), Some("FOO=1")).unwrap();
        assert_eq!(context, parent(1));
    }

    #[test]
    fn signed_hex_is_refused() {
        let text = "00-+1111111111111111111111111111111-0202020202020202-01";
        assert_eq!(TraceContext::parse(text, None), Err(TraceError::Traceparent));
    }

    #[test]
    fn two_traceparent_headers_start_a_new_trace() {
        let text = parent(1).traceparent();
        let headers = [("traceparent", text.as_str()), ("Traceparent", text.as_str())];
        assert_eq!(TraceContext::extract(headers.into_iter()), None);
    }
}
