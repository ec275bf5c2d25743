//! The bodies of answers, with the headers that every answer has: it says what caches may do with it,
//! which is nothing.

use std::convert::Infallible;

use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{Either, Full};
use hyper::body::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};

/// The body of an answer: whole, or a stream that goes on and on.
pub(super) type HttpBody = Either<Full<Bytes>, UnsyncBoxBody<Bytes, Infallible>>;

const TEXT: &str = "text/plain;charset=UTF-8";

/// An answer with a whole body.
pub(super) fn with_body(
    status: StatusCode,
    content_type: &'static str,
    body: Bytes,
) -> Response<HttpBody> {
    let mut response = Response::new(Either::Left(Full::new(body)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Plain text, such as the bare number that Java Leaf answers with.
pub(super) fn text(body: &str) -> Response<HttpBody> {
    with_body(StatusCode::OK, TEXT, Bytes::copy_from_slice(body.as_bytes()))
}
