//! One request, as its handler sees it.

use std::borrow::Cow;
use std::sync::Arc;

use hyper::header::HeaderMap;
use hyper::{StatusCode, Uri};
use leaf_client::form::FormCodec;
use leaf_client::wire::{Call, ErrorCode, WireError};
use serde::Deserialize;
use tokio::time::Instant;

use super::caller::{CallOutcome, HttpCaller};
use super::limits::HttpLimits;
use super::problem::HttpProblem;
use super::query::{HttpQuery, bad, segment};
use super::server::HttpServer;
use crate::tally::CallKind;

/// A request that passed the guard, with its whole body.
pub(super) struct HttpRequest<'a> {
    pub(super) server: &'a Arc<HttpServer>,
    pub(super) limits: &'a HttpLimits,
    pub(super) uri: &'a Uri,
    pub(super) headers: &'a HeaderMap,
    pub(super) body: &'a [u8],
    /// What stands in the place of `{…}` in the path of the route, still percent-encoded.
    pub(super) parameter: &'a str,
    pub(super) caller: &'a mut HttpCaller,
    pub(super) now: Instant,
}

impl<'a> HttpRequest<'a> {
    /// Makes a call for the caller of this request.
    pub(super) fn ask(&mut self, call: &Call<'_>) -> CallOutcome {
        self.caller.ask(call, self.now)
    }

    /// The answer to a `call` that the service does not get to see, counted as if it had.
    pub(super) fn refuse(&self, call: CallKind, error: WireError) -> HttpProblem {
        self.server.service.counts.refused(call, error.code());
        HttpProblem::of(error)
    }

    /// What stands in the place of `{…}` in the path.
    ///
    /// # Errors
    /// When it is not UTF-8 in percent-encoding.
    pub(super) fn parameter(&self) -> Result<Cow<'a, str>, HttpProblem> {
        segment(self.parameter).map_err(bad)
    }

    /// The tag in the path, for `call`.
    ///
    /// # Errors
    /// `BadTag` when it is not UTF-8 in percent-encoding.
    pub(super) fn tag(&self, call: CallKind) -> Result<Cow<'a, str>, HttpProblem> {
        let bad_tag = |why| self.refuse(call, WireError::new(ErrorCode::BadTag, why));
        segment(self.parameter).map_err(bad_tag)
    }

    /// The form `name` of IDs of `tag`, or of snowflake IDs; none for plain numbers.
    ///
    /// # Errors
    /// 400 when there is no such form, or the IDs cannot have it.
    pub(super) fn codec(
        &self,
        name: Option<&str>,
        tag: Option<&str>,
    ) -> Result<Option<FormCodec>, HttpProblem> {
        let service = &self.server.service;
        let unix_ms = service.environment.unix_ms();
        let is_public = name.is_some_and(|name| name.ends_with("public"));
        let keys = if is_public { service.public_keys() } else { None };
        self.server.snowflakes.codec(name, tag, unix_ms, keys.as_ref())
    }

    /// The JSON document in the body.
    ///
    /// # Errors
    /// When it is not JSON, or has other members than the call.
    pub(super) fn document<T: Deserialize<'a>>(&self) -> Result<T, HttpProblem> {
        // serde would take an array for the members in the order of the code.
        if !self.body.trim_ascii_start().starts_with(b"{") {
            let text = "the body is not a JSON object";
            return Err(HttpProblem::new(StatusCode::BAD_REQUEST, text));
        }
        serde_json::from_slice(self.body).map_err(|error| {
            HttpProblem::new(StatusCode::BAD_REQUEST, format!("the body: {error}"))
        })
    }

    /// Checks that the body says nothing: it is empty, or an empty object.
    ///
    /// # Errors
    /// When it says something, which leafd would otherwise ignore.
    pub(super) fn no_document(&self) -> Result<(), HttpProblem> {
        match self.body.trim_ascii() {
            b"" | b"{}" => Ok(()),
            _ => {
                let text = "this call has parameters in its query, and no body";
                Err(HttpProblem::new(StatusCode::BAD_REQUEST, text))
            }
        }
    }

    /// The query, in which only the `known` parameters may be.
    ///
    /// # Errors
    /// As [`HttpQuery::parse`].
    pub(super) fn query(&self, known: &[&'static str]) -> Result<HttpQuery<'a>, HttpProblem> {
        HttpQuery::parse(self.uri.query(), known)
    }
}
