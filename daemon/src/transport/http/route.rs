//! A route: a path, its methods, and what answers them. Each family of routes is a file with a list.

use hyper::{Method, StatusCode};

use super::answer::HttpAnswer;
use super::problem::HttpProblem;
use super::request::HttpRequest;

/// Answers one request.
pub(super) type Handler = fn(&mut HttpRequest<'_>) -> HttpAnswer;

/// A path and what answers it.
pub(super) struct Route {
    /// The path. `{…}` stands for one segment, which is not empty; there is at most one.
    pub(super) path: &'static str,
    /// The methods, each with its handler.
    pub(super) methods: &'static [(Method, Handler)],
    /// The methods as the header `Allow` lists them.
    pub(super) allow: &'static str,
    /// Whether it may be asked under any name: health has nothing to take.
    pub(super) any_host: bool,
    /// Whether it is served in the reserve, when all usual connections are busy: a probe or a scrape.
    pub(super) in_reserve: bool,
}

impl Route {
    /// A route that is asked with `GET`, and with `HEAD` as well, since it takes nothing.
    pub(super) const fn reading(path: &'static str, methods: &'static [(Method, Handler)]) -> Self {
        Self { path, methods, allow: "GET, HEAD", any_host: false, in_reserve: false }
    }

    /// A route that changes something with one of its methods. `allow` lists them all.
    pub(super) const fn writing(
        path: &'static str,
        allow: &'static str,
        methods: &'static [(Method, Handler)],
    ) -> Self {
        Self { path, methods, allow, any_host: false, in_reserve: false }
    }

    /// What answers `method`.
    ///
    /// # Errors
    /// With the answer to a method that the path does not have.
    pub(super) fn handler(&self, method: &Method) -> Result<Handler, HttpProblem> {
        let found = self.methods.iter().find(|(known, _)| known == method);
        let reads = *method == Method::HEAD && self.allow.contains("HEAD");
        let found = found.or_else(|| self.methods.first().filter(|_| reads));
        found.map(|(_, handler)| *handler).ok_or_else(|| {
            let text = format!("{} has only {}", self.path, self.allow);
            HttpProblem::new(StatusCode::METHOD_NOT_ALLOWED, text).allowing(self.allow)
        })
    }
}
