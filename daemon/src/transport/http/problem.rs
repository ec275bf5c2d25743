//! HttpProblem documents (RFC 9457): why a request has no answer, for a person and for a program. An error
//! of the service keeps its number and its name; one of HTTP itself has only the status.

use std::fmt::Write as _;

use hyper::header::{ALLOW, CONNECTION, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};
use leaf_client::wire::{ErrorCode, WireError};
use serde_json::{Map, Value, json};

use super::body::{HttpBody, with_body};

pub(super) const CONTENT_TYPE_PROBLEM: &str = "application/problem+json";

/// Why a request has no answer.
#[derive(Debug)]
pub(super) struct HttpProblem {
    status: StatusCode,
    detail: String,
    error: Option<WireError>,
    /// The methods of the path, for 405.
    allow: Option<&'static str>,
    retry_after_ms: Option<u32>,
    close: bool,
}

impl HttpProblem {
    /// One of HTTP itself.
    pub(super) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        let (error, allow, retry_after_ms) = (None, None, None);
        Self { status, detail: detail.into(), error, allow, retry_after_ms, close: false }
    }

    /// One of the service.
    pub(super) fn of(error: WireError) -> Self {
        let status = status_of(error.code());
        // The socket's clients get a time with 307 as well. Here, many callers and proxies retry
        // whatever has one.
        let lasts = status == StatusCode::INTERNAL_SERVER_ERROR;
        let retry_after_ms = Some(error.retry_after_ms).filter(|ms| *ms > 0 && !lasts);
        let detail = error.message.clone();
        Self { status, detail, error: Some(error), allow: None, retry_after_ms, close: false }
    }

    /// As Java Leaf would answer: every failure is a 500.
    pub(super) const fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    pub(super) const fn allowing(mut self, methods: &'static str) -> Self {
        self.allow = Some(methods);
        self
    }

    pub(super) const fn retry_after_ms(mut self, ms: u32) -> Self {
        self.retry_after_ms = Some(ms);
        self
    }

    /// The connection ends after the answer.
    pub(super) const fn closing(mut self) -> Self {
        self.close = true;
        self
    }

    /// Whether a foreign page asked, or somebody by a foreign name.
    pub(super) fn is_of_a_stranger(&self) -> bool {
        matches!(self.status, StatusCode::FORBIDDEN | StatusCode::MISDIRECTED_REQUEST)
    }

    /// The error of the service, if it is one.
    pub(super) fn code(&self) -> Option<ErrorCode> {
        self.error.as_ref().map(WireError::code)
    }

    fn document(&self) -> Value {
        let mut document = Map::new();
        let mut add = |key: &str, value: Value| drop(document.insert(key.to_owned(), value));
        match &self.error {
            Some(error) => {
                let name = error.code().name();
                add("type", json!(format!("urn:leafd:error:{name}")));
                add("title", json!(name));
                add("code", json!(error.code().number()));
                if error.detail > 0 {
                    // As a string: it may be larger than a number of JavaScript can be.
                    add("limit", json!(error.detail.to_string()));
                }
            }
            None => {
                add("type", json!("about:blank"));
                add("title", json!(self.status.canonical_reason().unwrap_or("Error")));
            }
        }
        add("status", json!(self.status.as_u16()));
        add("detail", json!(self.detail));
        if let Some(ms) = self.retry_after_ms_or_guess() {
            add("retry_after_ms", json!(ms));
        }
        Value::Object(document)
    }

    /// How long to wait before the next try. Every 503 says it, even if leafd does not know.
    fn retry_after_ms_or_guess(&self) -> Option<u32> {
        let unknown = (self.status == StatusCode::SERVICE_UNAVAILABLE).then_some(1000);
        self.retry_after_ms.or(unknown)
    }

    pub(super) fn into_response(self) -> Response<HttpBody> {
        let body = self.document().to_string();
        let mut response = with_body(self.status, CONTENT_TYPE_PROBLEM, body.into());
        let headers = response.headers_mut();
        if let Some(ms) = self.retry_after_ms_or_guess() {
            headers.insert(RETRY_AFTER, HeaderValue::from(ms.div_ceil(1000).max(1)));
        }
        if let Some(allow) = self.allow {
            headers.insert(ALLOW, HeaderValue::from_static(allow));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if self.close {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    /// The whole answer as bytes, for a connection that has no request.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let body = self.document().to_string();
        let mut text = format!(
            "HTTP/1.1 {} {}\r\nContent-Type: {CONTENT_TYPE_PROBLEM}\r\nCache-Control: no-store\r\n\
             Connection: close\r\nContent-Length: {}\r\n",
            self.status.as_u16(),
            self.status.canonical_reason().unwrap_or("Error"),
            body.len()
        );
        if let Some(ms) = self.retry_after_ms_or_guess() {
            let _ = write!(text, "Retry-After: {}\r\n", ms.div_ceil(1000).max(1));
        }
        text.push_str("\r\n");
        text.push_str(&body);
        text.into_bytes()
    }
}

/// The answer in place of hyper's to bytes that are not a request.
pub(super) fn raw_refusal(status: u16) -> Vec<u8> {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
    let detail = match status {
        StatusCode::URI_TOO_LONG => "the path is too long",
        // hyper tells these apart no further.
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => {
            "the path or the headers are too long, there are too many headers, or Content-Length is too \
             large"
        }
        _ => "this is not an HTTP request that leafd can read",
    };
    HttpProblem::new(status, detail).to_bytes()
}

/// The status of an error of the service.
const fn status_of(code: ErrorCode) -> StatusCode {
    match code {
        ErrorCode::UnknownTag | ErrorCode::UnknownWorker => StatusCode::NOT_FOUND,
        ErrorCode::TagExists | ErrorCode::WorkerInUse | ErrorCode::WrongOwner => {
            StatusCode::CONFLICT
        }
        ErrorCode::Forbidden => StatusCode::FORBIDDEN,
        ErrorCode::NotConfigured => StatusCode::NOT_IMPLEMENTED,
        ErrorCode::TooManyTags => StatusCode::INSUFFICIENT_STORAGE,
        ErrorCode::QuotaExceeded => StatusCode::TOO_MANY_REQUESTS,
        // They last until an operator acts, so nobody is told to try again.
        ErrorCode::TimeExhausted | ErrorCode::BadRow => StatusCode::INTERNAL_SERVER_ERROR,
        other if other.number() < 300 => StatusCode::BAD_REQUEST,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(problem: HttpProblem) -> (Value, String) {
        let bytes = problem.to_bytes();
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (serde_json::from_str(body).unwrap(), head.to_owned())
    }

    #[test]
    fn an_error_of_the_service_keeps_its_number_name_and_time() {
        let error = WireError::new(ErrorCode::StoreUnavailable, "it is down");
        let (found, head) = document(HttpProblem::of(error.with_retry_after_ms(1500)));
        let expected = json!({
            "type": "urn:leafd:error:StoreUnavailable",
            "title": "StoreUnavailable",
            "status": 503,
            "code": 302,
            "detail": "it is down",
            "retry_after_ms": 1500,
        });
        assert_eq!(found, expected);
        assert!(
            head.contains("\r\nRetry-After: 2\r\n") || head.ends_with("Retry-After: 2"),
            "{head}"
        );
    }

    #[test]
    fn every_503_says_when_to_try_again_and_no_answer_is_cached() {
        for code in ErrorCode::ALL {
            let response = HttpProblem::of(WireError::new(*code, "x")).into_response();
            let headers = response.headers();
            let is_503 = response.status() == StatusCode::SERVICE_UNAVAILABLE;
            assert_eq!(headers.contains_key(RETRY_AFTER), is_503, "{code:?}");
            assert_eq!(headers["cache-control"], "no-store");
            assert_eq!(headers["content-type"], CONTENT_TYPE_PROBLEM);
            assert!(response.status().as_u16() >= 400, "{code:?}");
        }
    }

    #[test]
    fn an_error_that_lasts_until_an_operator_acts_has_no_time() {
        for code in [ErrorCode::TimeExhausted, ErrorCode::BadRow] {
            let error = || WireError::new(code, "x").with_retry_after_ms(1000);
            let (found, head) = document(HttpProblem::of(error()));
            assert_eq!((&found["status"], found.get("retry_after_ms")), (&json!(500), None));
            assert!(!head.contains("Retry-After"), "{head}");
            let response = HttpProblem::of(error()).into_response();
            assert!(!response.headers().contains_key(RETRY_AFTER), "{code:?}");
        }
    }

    #[test]
    fn an_error_of_http_has_no_number() {
        let (found, _) = document(HttpProblem::new(StatusCode::NOT_FOUND, "no such path"));
        assert_eq!(found["type"], "about:blank");
        assert_eq!(found["title"], "Not Found");
        assert!(found.get("code").is_none());
    }
}
