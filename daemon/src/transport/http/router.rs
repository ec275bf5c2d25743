//! The table of routes: [`FAMILIES`] holds the list of each family.

use hyper::StatusCode;

use super::problem::HttpProblem;
use super::route::Route;
use super::{api, health, leaf, metrics, page};

/// The families, those that are asked most often first.
static FAMILIES: [&[Route]; 5] =
    [leaf::ROUTES, api::ROUTES, health::ROUTES, metrics::ROUTES, page::ROUTES];

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
