//! `/metrics`, in the format that the caller prefers. Everybody may ask, unless `http.metrics` says
//! otherwise.

use futures_util::FutureExt;
use hyper::header::{ACCEPT, HeaderMap, HeaderValue, VARY};
use hyper::{Method, StatusCode};

use super::answer::HttpAnswer;
use super::body::with_body;
use super::problem::HttpProblem;
use super::request::HttpRequest;
use super::route::{Handler, Route};
use crate::config::MetricsAudience;
use crate::metrics::ExpositionFormat;

pub(super) static ROUTES: &[Route] = &[Route {
    in_reserve: true,
    ..Route::reading("/metrics", &[(Method::GET, metrics as Handler)])
}];

fn metrics(request: &mut HttpRequest<'_>) -> HttpAnswer {
    match request.server.limits().metrics {
        MetricsAudience::Everybody => {}
        MetricsAudience::Rules => {
            if let Err(error) = request.caller.may_connect() {
                return HttpProblem::of(error).into();
            }
        }
        MetricsAudience::Nobody => {
            let text = "metrics are turned off (http.metrics)";
            return HttpProblem::new(StatusCode::NOT_FOUND, text).into();
        }
    }
    let format = preferred(request.headers);
    let server = request.server.clone();
    HttpAnswer::Later(
        async move {
            let body = server.metrics.render(format, || server.figures()).await;
            let mut response = with_body(StatusCode::OK, format.content_type(), body);
            response.headers_mut().insert(VARY, HeaderValue::from_static("accept"));
            response
        }
        .boxed(),
    )
}

/// OpenMetrics if the caller wants it at least as much as plain text, else text.
fn preferred(headers: &HeaderMap) -> ExpositionFormat {
    let (mut open_metrics, mut text) = (0.0, 0.0);
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    for range in values.flat_map(|value| value.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
        let quality = parts.find_map(|part| part.strip_prefix("q=")?.parse().ok());
        let quality: f32 = quality.unwrap_or(1.0);
        match kind.as_str() {
            "application/openmetrics-text" => open_metrics = quality.max(open_metrics),
            "text/plain" | "text/*" => text = quality.max(text),
            _ => {}
        }
    }
    if open_metrics > 0.0 && open_metrics >= text {
        ExpositionFormat::OpenMetrics
    } else {
        ExpositionFormat::Text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_gets_the_format_that_it_prefers() {
        let prometheus = "application/openmetrics-text;version=1.0.0,\
             application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,\
             */*;q=0.1";
        for (accept, format) in [
            (prometheus, ExpositionFormat::OpenMetrics),
            ("application/openmetrics-text", ExpositionFormat::OpenMetrics),
            ("text/plain, application/openmetrics-text;q=0.5", ExpositionFormat::Text),
            ("application/openmetrics-text;q=0", ExpositionFormat::Text),
            ("application/openmetrics-text;q=x", ExpositionFormat::OpenMetrics),
            ("text/html,*/*", ExpositionFormat::Text),
            ("", ExpositionFormat::Text),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_str(accept).unwrap());
            assert_eq!(preferred(&headers), format, "{accept}");
        }
        assert_eq!(preferred(&HeaderMap::new()), ExpositionFormat::Text);
    }
}
