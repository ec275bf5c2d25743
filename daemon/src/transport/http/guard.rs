//! Refuses requests that a browser makes for a page of somebody else, and requests under a name that
//! is not leafd's: a page can make a browser ask leafd on the user's own host, and take IDs. Pure.
//!
//! Browsers say by `Origin` or `Sec-Fetch-Site` which page a request is for. A page whose name was
//! pointed at this host (DNS rebinding) looks like leafd's own, so the name itself has to be one of
//! leafd's. A page cannot send `application/json` elsewhere without asking first, and leafd does not
//! allow it.

use std::net::{IpAddr, Ipv6Addr};

use hyper::header::HeaderValue;
use hyper::{Method, StatusCode, Uri, Version};

use super::facts::RequestFacts;
use super::problem::HttpProblem;

/// What to check of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct GuardedRequest<'a> {
    pub(super) uri: &'a Uri,
    pub(super) version: Version,
    pub(super) facts: &'a RequestFacts<'a>,
    /// A probe may reach leafd under any name: it takes nothing.
    pub(super) any_host: bool,
}

/// Checks a request. `hosts` are the names by which leafd may be reached, in lower case.
///
/// # Errors
/// With the answer.
pub(super) fn check(request: GuardedRequest<'_>, hosts: &[String]) -> Result<(), HttpProblem> {
    let facts = request.facts;
    if facts.ambiguous {
        return Err(bad_request("a header that may come once comes twice"));
    }
    check_host(request, hosts)?;
    check_page(request)
}

/// Checks that a request that changes something has a body that leafd reads. Comes after the check of the
/// method: whoever uses a wrong one would get the wrong remedy.
///
/// # Errors
/// With the answer.
pub(super) fn check_content(method: &Method, facts: &RequestFacts<'_>) -> Result<(), HttpProblem> {
    let writes = !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
    if !writes {
        return Ok(());
    }
    let refused = |text: String| Err(HttpProblem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, text));
    if !facts.content_type.is_some_and(is_json) {
        return refused("send Content-Type: application/json".to_owned());
    }
    match facts.content_encoding {
        Some(encoding) if !encoding.as_bytes().eq_ignore_ascii_case(b"identity") => {
            refused(format!(
                "leafd does not decode Content-Encoding {:?}: send the body as it is",
                String::from_utf8_lossy(encoding.as_bytes())
            ))
        }
        _ => Ok(()),
    }
}

fn bad_request(text: &str) -> HttpProblem {
    HttpProblem::new(StatusCode::BAD_REQUEST, text)
}

fn check_host(request: GuardedRequest<'_>, hosts: &[String]) -> Result<(), HttpProblem> {
    let header = request.facts.host.map(HeaderValue::as_bytes);
    // A request in absolute form names the host in its first line as well.
    let target = request.uri.authority().map(|authority| authority.as_str().as_bytes());
    if header.is_none() && request.version == Version::HTTP_11 {
        return Err(bad_request("the header Host is missing"));
    }
    if request.any_host {
        return Ok(());
    }
    for name in [header, target].into_iter().flatten() {
        if !is_ours(name, hosts) {
            let text = format!(
                "leafd is not to be reached as {:?}: use an IP address or localhost, or add the \
                 name to http.hosts",
                String::from_utf8_lossy(name)
            );
            return Err(HttpProblem::new(StatusCode::MISDIRECTED_REQUEST, text));
        }
    }
    Ok(())
}

/// Whether `authority`, a host with or without a port, is a name of leafd.
fn is_ours(authority: &[u8], hosts: &[String]) -> bool {
    let Ok(text) = std::str::from_utf8(authority) else { return false };
    let Some(host) = without_port(text) else { return false };
    if let Some(inside) = host.strip_prefix('[') {
        return inside.strip_suffix(']').is_some_and(|inside| inside.parse::<Ipv6Addr>().is_ok());
    }
    let is_v4 = matches!(host.parse::<IpAddr>(), Ok(IpAddr::V4(_)));
    is_v4
        || host.eq_ignore_ascii_case("localhost")
        || hosts.iter().any(|known| known.eq_ignore_ascii_case(host))
}

/// The host of an authority; `None` if the port is not a number.
fn without_port(authority: &str) -> Option<&str> {
    let end = authority.rfind(']').map_or(0, |at| at + 1);
    match authority.get(end..)?.rfind(':') {
        None => Some(authority),
        Some(at) => {
            let (host, port) = authority.split_at_checked(end + at)?;
            let digits = port.get(1..)?;
            digits.bytes().all(|byte| byte.is_ascii_digit()).then_some(host)
        }
    }
}

/// Refuses a request that a browser makes for a page that is not leafd's own.
fn check_page(request: GuardedRequest<'_>) -> Result<(), HttpProblem> {
    let facts = request.facts;
    if let Some(site) = facts.fetch_site
        && !matches!(site.as_bytes(), b"same-origin" | b"none")
    {
        return Err(foreign());
    }
    if let Some(origin) = facts.origin {
        let host = facts.host.map(HeaderValue::as_bytes).unwrap_or_default();
        if !is_same(origin.as_bytes(), host) {
            return Err(foreign());
        }
    }
    Ok(())
}

fn foreign() -> HttpProblem {
    let text = "a web page that is not leafd's own may not ask leafd";
    HttpProblem::new(StatusCode::FORBIDDEN, text)
}

/// Whether the page at `origin` comes from `host`. A proxy in front may have ended TLS, so the scheme
/// does not count.
fn is_same(origin: &[u8], host: &[u8]) -> bool {
    let (Ok(origin), Ok(host)) = (std::str::from_utf8(origin), std::str::from_utf8(host)) else {
        return false;
    };
    let (authority, default_port) =
        match (origin.strip_prefix("http://"), origin.strip_prefix("https://")) {
            (Some(rest), _) => (rest, ":80"),
            (_, Some(rest)) => (rest, ":443"),
            _ => return false,
        };
    let bare = |text: &str| text.strip_suffix(default_port).unwrap_or(text).to_ascii_lowercase();
    !host.is_empty() && bare(authority) == bare(host)
}

fn is_json(content_type: &HeaderValue) -> bool {
    let kind = content_type.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
    kind.trim_ascii().eq_ignore_ascii_case(b"application/json")
}

#[cfg(test)]
mod tests {
    use hyper::header::{HeaderMap, HeaderName};

    use super::*;

    /// The status of the refusal, or 0.
    fn header_map(headers: &[(&str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            map.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        map
    }

    fn refused(uri: &str, headers: &[(&str, &str)]) -> u16 {
        let map = header_map(headers);
        let facts = RequestFacts::of(&map);
        let uri = uri.parse().unwrap();
        let request = GuardedRequest {
            uri: &uri,
            version: Version::HTTP_11,
            facts: &facts,
            any_host: uri.path() == "/livez",
        };
        let outcome = check(request, &["leafd.example".to_owned()]);
        outcome.map_or_else(|problem| problem.into_response().status().as_u16(), |()| 0)
    }

    #[test]
    fn a_host_is_an_address_localhost_or_configured() {
        for (host, status) in [
            ("127.0.0.1", 0),
            ("127.0.0.1:8736", 0),
            ("10.0.0.7:80", 0),
            ("[::1]", 0),
            ("[::1]:8736", 0),
            ("localhost", 0),
            ("LOCALHOST:8736", 0),
            ("leafd.example:8736", 0),
            ("Leafd.Example", 0),
            ("evil.example", 421),
            ("127.0.0.1.evil.example", 421),
            ("localhost.evil.example", 421),
            ("leafd.example.", 421),
            ("leafd.example:80:80", 421),
            ("leafd.example:x", 421),
            ("::1", 421),
            ("[::1", 421),
            ("[evil]", 421),
            ("", 421),
            ("127.1", 421),
            ("2130706433", 421),
            ("user@localhost", 421),
        ] {
            assert_eq!(refused("/x", &[("host", host)]), status, "{host:?}");
            assert_eq!(refused("/livez", &[("host", host)]), 0, "{host:?}");
        }
        assert_eq!(refused("/x", &[]), 400);
        assert_eq!(refused("/x", &[("host", "localhost"), ("host", "[::1]")]), 400);
    }

    #[test]
    fn a_request_in_absolute_form_is_for_the_host_that_it_names() {
        let local = [("host", "localhost")];
        assert_eq!(refused("http://127.0.0.1/x", &local), 0);
        assert_eq!(refused("http://evil.example/x", &local), 421);
        assert_eq!(refused("http://localhost/x", &[("host", "evil.example")]), 421);
    }

    #[test]
    fn a_page_of_somebody_else_is_refused_on_every_route() {
        for (name, value, status) in [
            ("origin", "http://localhost:8736", 0),
            ("origin", "https://localhost:8736", 0),
            ("origin", "http://localhost", 403),
            ("origin", "http://evil.example", 403),
            ("origin", "null", 403),
            ("origin", "", 403),
            ("origin", "http://localhost:8736.evil.example", 403),
            ("sec-fetch-site", "same-origin", 0),
            ("sec-fetch-site", "none", 0),
            ("sec-fetch-site", "same-site", 403),
            ("sec-fetch-site", "cross-site", 403),
            ("sec-fetch-site", "anything", 403),
        ] {
            let headers = [("host", "localhost:8736"), (name, value)];
            assert_eq!(refused("/x", &headers), status, "{name}: {value}");
        }
        let proxied = [("host", "leafd.example"), ("origin", "https://leafd.example:443")];
        assert_eq!(refused("/x", &proxied), 0);
    }

    #[test]
    fn what_changes_something_is_json() {
        for (kind, status) in [
            ("application/json", 0),
            ("Application/JSON; charset=utf-8", 0),
            ("text/plain", 415),
            ("application/x-www-form-urlencoded", 415),
            ("application/jsonp", 415),
            ("text/plain; application/json", 415),
        ] {
            let headers = [("content-type", kind)];
            for method in [Method::POST, Method::PATCH, Method::DELETE, Method::PUT] {
                assert_eq!(content_refused(&method, &headers), status, "{method} {kind}");
            }
            assert_eq!(content_refused(&Method::GET, &headers), 0);
        }
        assert_eq!(content_refused(&Method::POST, &[]), 415);
    }

    #[test]
    fn a_compressed_body_is_refused() {
        for (encoding, status) in [("gzip", 415), ("identity", 0), ("Identity", 0), ("", 415)] {
            let headers = [("content-type", "application/json"), ("content-encoding", encoding)];
            assert_eq!(content_refused(&Method::POST, &headers), status, "{encoding}");
        }
    }

    /// The status of the refusal, or 0.
    fn content_refused(method: &Method, headers: &[(&str, &str)]) -> u16 {
        let outcome = check_content(method, &RequestFacts::of(&header_map(headers)));
        outcome.map_or_else(|problem| problem.into_response().status().as_u16(), |()| 0)
    }
}
