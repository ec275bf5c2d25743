//! leafd's own API, `/v1`, which `openapi.json` describes. IDs are strings: a number of JavaScript
//! cannot hold them all. Administration is by the same calls and rules as on the Unix socket.

mod decode;
mod events;
mod ids;
mod members;
mod status;
mod tags;
mod workers;

use hyper::body::Bytes;
use hyper::{Method, StatusCode};

use super::answer::HttpAnswer;
use super::body::with_body;
use super::request::HttpRequest;
use super::route::{Handler, Route};

const DELETE: Method = Method::DELETE;
const GET: Method = Method::GET;
const PATCH: Method = Method::PATCH;
const POST: Method = Method::POST;

/// The description of every route, written by hand; tests compare it with the table and with the
/// answers.
const OPENAPI: &[u8] = include_bytes!("openapi.json");

pub(super) static ROUTES: &[Route] = &[
    Route::writing("/v1/segment/{tag}", "POST", &[(POST, ids::segment as Handler)]),
    Route::writing("/v1/snowflake", "POST", &[(POST, ids::snowflake as Handler)]),
    Route::reading("/v1/decode/{id}", &[(GET, decode::decode as Handler)]),
    Route { allow: "GET", ..Route::reading("/v1/events", &[(GET, events::events as Handler)]) },
    Route::reading("/v1/status", &[(GET, status::status as Handler)]),
    Route::writing(
        "/v1/tags",
        "GET, HEAD, POST",
        &[(GET, tags::list as Handler), (POST, tags::create as Handler)],
    ),
    Route::writing(
        "/v1/tags/{tag}",
        "GET, HEAD, PATCH, DELETE",
        &[
            (GET, tags::show as Handler),
            (PATCH, tags::set_step as Handler),
            (DELETE, tags::delete as Handler),
        ],
    ),
    Route::reading("/v1/workers", &[(GET, workers::list as Handler)]),
    Route::writing("/v1/workers/{worker}/release", "POST", &[(POST, workers::release as Handler)]),
    Route::reading("/openapi.json", &[(GET, openapi as Handler)]),
];

fn openapi(_: &mut HttpRequest<'_>) -> HttpAnswer {
    with_body(StatusCode::OK, "application/json", Bytes::from_static(OPENAPI)).into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::super::router::routes;
    use super::*;

    #[test]
    fn openapi_describes_every_route_with_every_method_and_this_version() {
        let document: Value = serde_json::from_slice(OPENAPI).unwrap();
        assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
        let mut described = BTreeSet::new();
        for (path, methods) in document["paths"].as_object().unwrap() {
            for method in methods.as_object().unwrap().keys().filter(|key| *key != "parameters") {
                described.insert(format!("{} {path}", method.to_uppercase()));
            }
        }
        let has = routes().flat_map(|route| {
            route.methods.iter().map(move |(method, _)| format!("{method} {}", route.path))
        });
        assert_eq!(described, has.collect());
    }
}
