//! Who may ask: programs of this machine that mean this very door, and no page in a browser.
//!
//! A peer on the loopback address proves nothing: a browser is one, and a name that its owner lets
//! point to 127.0.0.1 makes any page the same origin as this door. What such a page cannot choose
//! is the `Host` that its browser sends, and the `Origin`.

use std::net::SocketAddr;

use axum::http::{HeaderMap, HeaderName, Uri, header};

/// The names under which a door is asked for.
#[derive(Debug, Clone)]
pub(crate) struct Guard {
    hosts: Vec<String>,
    scheme: &'static str,
}

/// Why a request is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It is for somebody else, or by a page: 403.
    Foreign,
    /// It says twice how long it is, and others may read it otherwise: 400.
    Ambiguous,
}

impl Guard {
    /// For the door at `address` on the loopback.
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { hosts: with_port(&NAMES, address.port(), 80), scheme: "http://" }
    }

    /// For the door at `address` that others come to by these names.
    pub(crate) fn beyond(address: SocketAddr, names: &[String]) -> Self {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        Self { hosts: with_port(&names, address.port(), 443), scheme: "https://" }
    }

    /// Refuses what is not an honest question to this door; before anything else looks at it.
    pub(crate) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
        let is_ours = |host: &str| self.hosts.iter().any(|ours| ours.eq_ignore_ascii_case(host));
        let origin_is_ours = |origin: &str| origin.strip_prefix(self.scheme).is_some_and(is_ours);
        let asked = only(headers, &header::HOST)?.is_some_and(is_ours)
            // A target in absolute form would count instead of the host.
            && uri.authority().is_none_or(|authority| is_ours(authority.as_str()))
            && only(headers, &header::ORIGIN)?.is_none_or(origin_is_ours)
            && only(headers, &FETCH_SITE)?.is_none_or(|site| FETCH_SITES.contains(&site));
        match () {
            () if !asked => Err(Refusal::Foreign),
            () if headers.contains_key(header::TRANSFER_ENCODING)
                && headers.contains_key(header::CONTENT_LENGTH) =>
            {
                Err(Refusal::Ambiguous)
            }
            () => Ok(()),
        }
    }
}

/// Each name with the port that it is asked for with; without it too where browsers leave it out.
fn with_port(names: &[&str], port: u16, usual: u16) -> Vec<String> {
    let mut hosts: Vec<_> = names.iter().map(|name| format!("{name}:{port}")).collect();
    if port == usual {
        hosts.extend(names.iter().map(|name| (*name).to_owned()));
    }
    hosts
}

/// The value of a header that may be there once.
pub(crate) fn only<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'a str>, Refusal> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| Refusal::Foreign),
        (Some(_), Some(_)) => Err(Refusal::Foreign),
    }
}

/// How this machine calls itself.
const NAMES: [&str; 3] = ["127.0.0.1", "[::1]", "localhost"];

/// What a browser says of where a question comes from, if it says it.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// A person who typed the address, or this door itself.
const FETCH_SITES: [&str; 2] = ["none", "same-origin"];

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn ask(uri: &str, headers: &[(&str, &str)]) -> Result<(), Refusal> {
        let guard = Guard::new("127.0.0.1:9100".parse().unwrap());
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            map.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        guard.check(&uri.parse().unwrap(), &map)
    }

    #[test]
    fn every_name_of_this_machine_with_the_port_is_answered() {
        for host in ["127.0.0.1:9100", "[::1]:9100", "localhost:9100", "LocalHost:9100"] {
            assert_eq!(ask("/metrics", &[("host", host)]), Ok(()), "{host}");
        }
    }

    #[test]
    fn every_other_host_is_refused() {
        let foreign = [
            "evil.example",
            "evil.example:9100",
            "127.0.0.1.evil.example:9100",
            "127.0.0.1",
            "localhost",
            "127.0.0.1:9101",
            "127.0.0.1:9100.",
            "127.0.0.2:9100",
            "2130706433:9100",
            "0.0.0.0:9100",
            "[::ffff:127.0.0.1]:9100",
            "::1:9100",
            "user@127.0.0.1:9100",
            "127.0.0.1:9100,evil.example",
            " ",
            "",
            "localhost\u{e9}:9100",
        ];
        for host in foreign {
            let refused = ask("/metrics", &[("host", host)]);
            assert_eq!(refused, Err(Refusal::Foreign), "{host:?}");
        }
    }

    #[test]
    fn no_host_and_two_hosts_are_refused() {
        let host = ("host", "127.0.0.1:9100");
        assert_eq!(ask("/metrics", &[]), Err(Refusal::Foreign));
        assert_eq!(ask("/metrics", &[host, host]), Err(Refusal::Foreign));
    }

    #[test]
    fn an_origin_is_this_door_or_refused() {
        let of = |origin| ask("/", &[("host", "localhost:9100"), ("origin", origin)]);
        for ours in ["http://localhost:9100", "http://127.0.0.1:9100", "http://[::1]:9100"] {
            assert_eq!(of(ours), Ok(()), "{ours}");
        }
        let foreign = [
            "null",
            "https://evil.example",
            "http://evil.example:9100",
            "https://localhost:9100",
            "http://localhost",
            "http://localhost:9100.evil.example",
            "http://localhost:9100/",
            "localhost:9100",
            "",
        ];
        for origin in foreign {
            assert_eq!(of(origin), Err(Refusal::Foreign), "{origin:?}");
        }
    }

    #[test]
    fn a_page_of_another_site_is_refused_though_it_sends_no_origin() {
        let of = |site| ask("/", &[("host", "localhost:9100"), ("sec-fetch-site", site)]);
        assert_eq!((of("none"), of("same-origin")), (Ok(()), Ok(())));
        for site in ["cross-site", "same-site", ""] {
            assert_eq!(of(site), Err(Refusal::Foreign), "{site:?}");
        }
    }

    #[test]
    fn a_target_in_absolute_form_counts_as_a_host() {
        let host = [("host", "127.0.0.1:9100")];
        assert_eq!(ask("http://127.0.0.1:9100/metrics", &host), Ok(()));
        let refused = ask("http://evil.example/metrics", &host);
        assert_eq!(refused, Err(Refusal::Foreign));
    }

    #[test]
    fn who_says_twice_how_long_a_body_is_is_refused_and_a_foreign_host_is_told_first() {
        let of = |host| {
            ask("/", &[("host", host), ("content-length", "2"), ("transfer-encoding", "chunked")])
        };
        assert_eq!(of("localhost:9100"), Err(Refusal::Ambiguous));
        assert_eq!(of("evil.example"), Err(Refusal::Foreign));
    }

    #[test]
    fn beyond_the_loopback_the_names_that_were_told_are_answered_and_no_others() {
        let guard = Guard::beyond("0.0.0.0:443".parse().unwrap(), &["bus.example".to_owned()]);
        let of = |host: &'static str, origin: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_static(host));
            if let Some(origin) = origin {
                headers.insert(header::ORIGIN, HeaderValue::from_static(origin));
            }
            guard.check(&Uri::from_static("/"), &headers)
        };
        assert_eq!(of("bus.example", None), Ok(()));
        assert_eq!(of("bus.example:443", Some("https://bus.example")), Ok(()));
        for host in ["localhost:443", "127.0.0.1:443", "0.0.0.0:443", "bus.example.evil:443"] {
            assert_eq!(of(host, None), Err(Refusal::Foreign), "{host}");
        }
        let plain = of("bus.example", Some("http://bus.example"));
        assert_eq!(plain, Err(Refusal::Foreign), "a page that came without TLS is another");
    }

    #[test]
    fn on_the_port_that_browsers_leave_out_it_may_be_left_out() {
        let guard = Guard::new("127.0.0.1:80".parse().unwrap());
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_static("localhost"));
        assert_eq!(guard.check(&Uri::from_static("/"), &headers), Ok(()));
    }
}
