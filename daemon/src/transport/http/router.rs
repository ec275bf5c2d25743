//! The table of routes. Each family of routes is a file with a list; [`FAMILIES`] holds them all.

use hyper::{Method, StatusCode};

use super::answer::HttpAnswer;
use super::problem::HttpProblem;
use super::request::HttpRequest;
use super::{api, health, leaf, metrics};

/// The families, those that are asked most often first.
static FAMILIES: [&[Route]; 4] = [leaf::ROUTES, api::ROUTES, health::ROUTES, metrics::ROUTES];

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
}

impl Route {
    /// A route that is asked with `GET`, and with `HEAD` as well, since it takes nothing.
    pub(super) const fn reading(path: &'static str, methods: &'static [(Method, Handler)]) -> Self {
        Self { path, methods, allow: "GET, HEAD", any_host: false }
    }

    /// A route that changes something with one of its methods. `allow` lists them all.
    pub(super) const fn writing(
        path: &'static str,
        allow: &'static str,
        methods: &'static [(Method, Handler)],
    ) -> Self {
        Self { path, methods, allow, any_host: false }
    }
}

/// Every route.
#[cfg(test)]
pub(super) fn routes() -> impl Iterator<Item = &'static Route> {
    FAMILIES.iter().flat_map(|family| family.iter())
}

/// The route of a path, and what stands in the place of its `{…}`.
pub(super) fn find(path: &str) -> Option<(&'static Route, &str)> {
    let mut routes = FAMILIES.iter().flat_map(|family| family.iter());
    routes.find_map(|route| Some((route, parameter(route.path, path)?)))
}

/// What stands in the place of `{…}` if `path` has the form of `pattern`.
fn parameter<'p>(pattern: &str, path: &'p str) -> Option<&'p str> {
    let Some((before, after)) = pattern.split_once('{') else {
        return (pattern == path).then_some("");
    };
    let after = after.split_once('}').map_or("", |(_, after)| after);
    let found = path.strip_prefix(before)?.strip_suffix(after)?;
    (!found.is_empty() && !found.contains('/')).then_some(found)
}

impl Route {
    /// What answers `method`.
    ///
    /// # Errors
    /// With the answer to a method that the path does not have.
    pub(super) fn handler(&self, method: &Method) -> Result<Handler, HttpProblem> {
        let found = self.methods.iter().find(|(known, _)| known == method);
        let reads = self.allow.contains("HEAD") && method == Method::HEAD;
        let found = found.or_else(|| self.methods.first().filter(|_| reads));
        found.map(|(_, handler)| *handler).ok_or_else(|| {
            let text = format!("{} has only {}", self.path, self.allow);
            HttpProblem::new(StatusCode::METHOD_NOT_ALLOWED, text).allowing(self.allow)
        })
    }
}

/// The answer to a path that is in no family.
pub(super) fn no_route(path: &str) -> HttpProblem {
    HttpProblem::new(StatusCode::NOT_FOUND, format!("there is no {path:?}; see /openapi.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_one_segment() {
        let pattern = "/v1/tags/{tag}/step";
        assert_eq!(parameter(pattern, "/v1/tags/a%2Fb/step"), Some("a%2Fb"));
        for other in ["/v1/tags//step", "/v1/tags/step", "/v1/tags/a/b/step", "/v1/tags/a/steps"] {
            assert_eq!(parameter(pattern, other), None, "{other}");
        }
        assert_eq!(parameter("/livez", "/livez"), Some(""));
        assert_eq!(parameter("/livez", "/livez/"), None);
    }

    #[test]
    fn every_route_lists_the_methods_that_it_has() {
        for route in routes() {
            let mut allowed: Vec<_> = route.allow.split(", ").collect();
            allowed.retain(|method| *method != "HEAD");
            let has: Vec<_> = route.methods.iter().map(|(method, _)| method.as_str()).collect();
            assert_eq!(allowed, has, "{}", route.path);
            let (found, _) = find(&route.path.replace(['{', '}'], "")).expect("it is found");
            assert_eq!(found.path, route.path, "another route is in front of it");
        }
    }
}
