//! The trace headers: `traceparent` on the first line, `tracestate` on the second.

use bus_envelope::{TraceContext, TraceState};

use crate::laws;

/// What is read is written and read again as the same; a third line `key=value` is put at the left.
pub fn body(data: &[u8]) -> bool {
    let Some(lines) = laws::lines(data) else { return false };
    let parent = lines.first().copied().unwrap_or_default();
    let list = lines.get(1).copied();
    if let Some(list) = list {
        state(list, lines.get(2).copied().unwrap_or_default());
    }
    let read = laws::bounded(data, || TraceContext::parse(parent, list));
    let headers = [("TraceParent", parent)].into_iter().chain(list.map(|l| ("tracestate", l)));
    assert_eq!(TraceContext::extract(headers), read.clone().ok(), "headers are read otherwise");
    match read {
        Ok(context) => {
            let written = context.traceparent();
            assert_eq!(written.len(), 55, "not version 00");
            let again = TraceContext::parse(&written, Some(context.tracestate().as_str()));
            assert_eq!(again, Ok(context.clone()), "the trace is written otherwise");
            for span in [[0; 8], [9; 8], *context.span_id()] {
                let child = context.child_span(span);
                assert_eq!(child.trace_id(), context.trace_id(), "a child leaves the trace");
                assert_eq!(child.flags(), context.flags(), "a child changes the flags");
                assert_ne!(child.span_id(), context.span_id(), "a child is its parent");
                assert_ne!(child.span_id(), &[0; 8], "a child without an id");
            }
            true
        }
        Err(error) => {
            laws::error_is_brief(&error);
            false
        }
    }
}

fn state(list: &str, member: &str) {
    let mut state = match TraceState::parse(list) {
        Ok(state) => state,
        Err(error) => return laws::error_is_brief(&error),
    };
    canonical(&state);
    for (key, value) in state.iter() {
        assert_eq!(state.get(key), Some(value), "a key stands twice");
    }
    let Some((key, value)) = member.split_once('=') else { return };
    let before = state.clone();
    if state.set(key, value).is_err() {
        assert_eq!(state, before, "a refused member changed the list");
        return;
    }
    canonical(&state);
    // Only a list that is too long may lose what was just put into it.
    if before.as_str().len() + key.len() + value.len() + 2 <= TraceState::BYTES_MAX {
        assert_eq!(state.iter().next(), Some((key, value)), "the member is not at the left");
    }
    state.delete(key);
    assert_eq!(state.get(key), None, "a deleted member is still there");
    canonical(&state);
}

fn canonical(state: &TraceState) {
    assert!(state.as_str().len() <= TraceState::BYTES_MAX, "the list is too long");
    assert!(state.iter().count() <= TraceState::MEMBERS_MAX, "too many members");
    let again = TraceState::parse(state.as_str());
    assert_eq!(again.as_ref(), Ok(state), "the list is written otherwise");
}
