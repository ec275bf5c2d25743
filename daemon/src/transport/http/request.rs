//! One request, as its handler sees it.

use std::borrow::Cow;
use std::sync::Arc;

use hyper::Uri;
use hyper::header::HeaderMap;
use leaf_client::wire::Call;
use tokio::time::Instant;

use super::caller::{Caller, Outcome};
use super::problem::Problem;
use super::query::{Query, segment};
use super::server::HttpServer;

/// A request that passed the guard, with its whole body.
pub(super) struct HttpRequest<'a> {
    pub(super) server: &'a Arc<HttpServer>,
    pub(super) uri: &'a Uri,
    pub(super) headers: &'a HeaderMap,
    pub(super) body: &'a [u8],
    /// What stands in the place of `{…}` in the path of the route, still percent-encoded.
    pub(super) parameter: &'a str,
    pub(super) caller: &'a mut Caller,
    pub(super) now: Instant,
}

impl<'a> HttpRequest<'a> {
    /// Makes a call for the caller of this request.
    pub(super) fn ask(&mut self, call: &Call<'_>) -> Outcome {
        self.caller.ask(call, self.now)
    }

    /// What stands in the place of `{…}` in the path.
    ///
    /// # Errors
    /// When it is not UTF-8.
    pub(super) fn parameter(&self) -> Result<Cow<'a, str>, Problem> {
        segment(self.parameter)
    }

    /// The query, in which only the `known` parameters may be.
    ///
    /// # Errors
    /// As [`Query::parse`].
    pub(super) fn query(&self, known: &[&'static str]) -> Result<Query<'a>, Problem> {
        Query::parse(self.uri.query(), known)
    }
}
