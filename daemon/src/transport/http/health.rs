//! `/livez` and `/readyz`, for probes. They judge as `leafctl health` does, from memory alone, and ask
//! the thread that serves the applications, since an HTTP server that answers proves little about it.
//! Everybody may ask, under any name.

use futures_util::FutureExt;
use hyper::{Method, StatusCode};

use super::answer::HttpAnswer;
use super::body::text;
use super::problem::HttpProblem;
use super::request::HttpRequest;
use super::route::{Handler, Route};
use crate::readiness::unready;

pub(super) static ROUTES: &[Route] = &[
    probe("/livez", &[(Method::GET, livez as Handler)]),
    probe("/readyz", &[(Method::GET, readyz as Handler)]),
];

const fn probe(path: &'static str, methods: &'static [(Method, Handler)]) -> Route {
    Route { any_host: true, in_reserve: true, ..Route::reading(path, methods) }
}

/// How soon a probe may come back, in ms.
const AGAIN_MS: u32 = 1000;

fn livez(request: &mut HttpRequest<'_>) -> HttpAnswer {
    let served = request.server.applications_are_served();
    HttpAnswer::Later(
        async move { if served.await { text("leafd answers\n") } else { hangs().into_response() } }
            .boxed(),
    )
}

fn readyz(request: &mut HttpRequest<'_>) -> HttpAnswer {
    let served = request.server.applications_are_served();
    let server = request.server.clone();
    HttpAnswer::Later(
        async move {
            if !served.await {
                return hangs().into_response();
            }
            let status = server.service.status_in_turns().await;
            match unready(&status, || server.snowflakes.offered) {
                None => text("leafd is ready\n"),
                Some(reason) => not_now(format!("leafd is not ready: {reason}")).into_response(),
            }
        }
        .boxed(),
    )
}

fn hangs() -> HttpProblem {
    not_now("the thread that serves the applications does not answer".to_owned())
}

fn not_now(text: String) -> HttpProblem {
    HttpProblem::new(StatusCode::SERVICE_UNAVAILABLE, text).retry_after_ms(AGAIN_MS)
}
