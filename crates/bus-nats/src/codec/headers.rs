//! A frame's headers in the client's map, so that they come out as they went in.

use std::collections::HashMap;

use async_nats::{HeaderMap, HeaderName, HeaderValue};
use bus_core::Result;
use bus_envelope::Headers;

use super::{cannot_write, corrupt, get, set};

/// Adds `headers` to `map`.
pub(super) fn write_headers(headers: &Headers, map: &mut HeaderMap) -> Result<()> {
    if !headers.iter().all(|(name, value)| is_restored(name, value)) {
        let list: Vec<_> = headers.iter().collect();
        let json = serde_json::to_string(&list).map_err(|_| cannot_write(PACKED))?;
        return set(map, PACKED, &json);
    }
    let mut is_sorted = true;
    let mut before = "";
    for (name, value) in headers.iter() {
        is_sorted &= before <= name;
        before = name;
        let key: HeaderName = name.parse().map_err(|_| cannot_write(name))?;
        let value: HeaderValue = value.parse().map_err(|_| cannot_write(name))?;
        map.append(key, value);
    }
    if is_sorted {
        return Ok(());
    }
    let names: Vec<_> = headers.iter().map(|(name, _)| name).collect();
    set(map, ORDER, &names.join(","))
}

/// The headers of a frame in `map`: none of ours and none of the server's.
pub(super) fn read_headers(map: &HeaderMap) -> Result<Headers> {
    let mut headers = Headers::new();
    if let Some(json) = get(map, PACKED) {
        let list: Vec<(&str, String)> =
            serde_json::from_str(json).map_err(|_| corrupt("has damaged headers"))?;
        for (name, value) in list {
            add(&mut headers, name, &value)?;
        }
        return Ok(headers);
    }
    let mut own: Vec<(&str, &[HeaderValue])> = map
        .iter()
        .map(|(name, values)| (name.as_ref(), values.as_slice()))
        .filter(|(name, _)| !is_reserved(name))
        .collect();
    let Some(order) = get(map, ORDER) else {
        own.sort_unstable_by_key(|(name, _)| *name);
        for (name, values) in own {
            for value in values {
                add(&mut headers, name, value.as_str())?;
            }
        }
        return Ok(headers);
    };
    let total: usize = own.iter().map(|(_, values)| values.len()).sum();
    let mut left: HashMap<_, _> =
        own.into_iter().map(|(name, values)| (name, values.iter())).collect();
    for name in order.split(',') {
        let value = left.get_mut(name).and_then(Iterator::next);
        let value = value.ok_or_else(|| corrupt("lists a header that it does not have"))?;
        add(&mut headers, name, value.as_str())?;
    }
    if headers.len() == total { Ok(headers) } else { Err(corrupt("does not list all its headers")) }
}

fn add(headers: &mut Headers, name: &str, value: &str) -> Result<()> {
    headers.add(name, value).map_err(|error| corrupt("has a header of no frame").because(error))
}

/// Whether a header comes back from the server as it was, and is nobody else's.
fn is_restored(name: &str, value: &str) -> bool {
    let is_trimmed = value.trim() == value && !value.is_empty();
    is_trimmed && !value.chars().any(char::is_control) && !is_reserved(name)
}

/// Whether a name belongs to the server or to this codec.
fn is_reserved(name: &str) -> bool {
    const PREFIXES: [&str; 3] = ["nats-", "vak-", "kv-"];
    let starts = |prefix: &str| {
        name.get(..prefix.len()).is_some_and(|head| head.eq_ignore_ascii_case(prefix))
    };
    PREFIXES.into_iter().any(starts)
}

/// The names in their order, one for each header.
const ORDER: &str = "vak-order";
/// Names and values as a JSON list of pairs.
const PACKED: &str = "vak-headers";
