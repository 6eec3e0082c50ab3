//! Whether a text is a URI or a relative reference, by the grammar of RFC 3986.

use std::net::Ipv6Addr;

use crate::rules::AsciiSet;

/// Whether `text` is a URI: a scheme, `:`, and the rest.
#[must_use]
pub fn is_uri(text: &str) -> bool {
    split_scheme(text).is_some_and(|(_, rest)| is_rest(rest))
}

/// Whether `text` is a URI or a relative reference; the empty text is one.
#[must_use]
pub fn is_uri_reference(text: &str) -> bool {
    match split_scheme(text) {
        Some((_, rest)) => is_rest(rest),
        // A colon in the first segment of a relative path would read as a scheme.
        None => {
            let first = text.split(['/', '?', '#']).next().unwrap_or_default();
            !first.contains(':') && is_rest(text)
        }
    }
}

fn split_scheme(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once(':')?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'+' | b'-' | b'.'));
    is_scheme.then_some((scheme, rest))
}

/// Everything after the scheme: authority, path, query, fragment.
fn is_rest(rest: &str) -> bool {
    let (rest, fragment) = rest.split_once('#').map_or((rest, ""), |(a, b)| (a, b));
    let (rest, query) = rest.split_once('?').map_or((rest, ""), |(a, b)| (a, b));
    let path = match rest.strip_prefix("//") {
        Some(hierarchy) => {
            let at = hierarchy.find('/').unwrap_or(hierarchy.len());
            let (authority, path) = hierarchy.split_at_checked(at).unwrap_or((hierarchy, ""));
            if !is_authority(authority) {
                return false;
            }
            path
        }
        None => rest,
    };
    holds(path, b":@/") && holds(query, b":@/?") && holds(fragment, b":@/?")
}

fn is_authority(authority: &str) -> bool {
    let (user, host_port) = authority.rsplit_once('@').unwrap_or(("", authority));
    if !holds(user, b":") {
        return false;
    }
    if let Some(literal) = host_port.strip_prefix('[') {
        return literal.split_once(']').is_some_and(|(address, tail)| {
            is_ip_literal(address)
                && (tail.is_empty() || tail.strip_prefix(':').is_some_and(is_port))
        });
    }
    let (host, port) = host_port.split_once(':').unwrap_or((host_port, ""));
    holds(host, b"") && is_port(port)
}

fn is_port(port: &str) -> bool {
    port.bytes().all(|c| c.is_ascii_digit())
}

fn is_ip_literal(address: &str) -> bool {
    if let Some(future) = address.strip_prefix(['v', 'V']) {
        return future.split_once('.').is_some_and(|(version, rest)| {
            !version.is_empty()
                && version.bytes().all(|c| c.is_ascii_hexdigit())
                && !rest.is_empty()
                && !rest.contains('%')
                && holds(rest, b":")
        });
    }
    address.parse::<Ipv6Addr>().is_ok()
}

/// Whether `text` holds only unreserved characters, sub-delimiters, percent triplets and `extra`.
fn holds(text: &str, extra: &[u8]) -> bool {
    let mut bytes = text.bytes();
    while let Some(c) = bytes.next() {
        let fits = match c {
            b'%' => {
                let mut hex = || bytes.next().is_some_and(|c| c.is_ascii_hexdigit());
                hex() && hex()
            }
            _ => UNRESERVED_AND_DELIMITERS.holds(c) || extra.contains(&c),
        };
        if !fits {
            return false;
        }
    }
    true
}

const UNRESERVED_AND_DELIMITERS: AsciiSet = AsciiSet::alphanumeric_and(b"-._~!$&'()*+,;=");
