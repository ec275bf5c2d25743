//! The headers of a request that leafd looks at, found in one pass.

use hyper::header::{
    AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, ORIGIN,
};

/// What matters of the headers of one request.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct RequestFacts<'a> {
    pub(super) host: Option<&'a HeaderValue>,
    pub(super) origin: Option<&'a HeaderValue>,
    pub(super) fetch_site: Option<&'a HeaderValue>,
    pub(super) content_type: Option<&'a HeaderValue>,
    pub(super) content_encoding: Option<&'a HeaderValue>,
    pub(super) authorization: Option<&'a HeaderValue>,
    /// One of these headers comes more than once: two readers could take it for different things.
    pub(super) ambiguous: bool,
}

impl<'a> RequestFacts<'a> {
    pub(super) fn of(headers: &'a HeaderMap) -> Self {
        let mut facts = Self::default();
        for (name, value) in headers {
            let place = if name == HOST {
                &mut facts.host
            } else if name == ORIGIN {
                &mut facts.origin
            } else if name == CONTENT_TYPE {
                &mut facts.content_type
            } else if name == CONTENT_ENCODING {
                &mut facts.content_encoding
            } else if name == AUTHORIZATION {
                &mut facts.authorization
            } else if name == "sec-fetch-site" {
                &mut facts.fetch_site
            } else {
                continue;
            };
            facts.ambiguous |= place.replace(value).is_some();
        }
        facts
    }
}
