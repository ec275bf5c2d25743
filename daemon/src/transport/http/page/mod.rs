//! The page that shows the daemon in a browser: three files, as they are in this folder. They are for
//! everybody and hold nothing of this daemon; what the page shows, it asks `/v1/events` for, by the
//! rules. `/cache` and `/db` are the paths of Java Leaf's pages.

use hyper::body::Bytes;
use hyper::header::{
    CONTENT_SECURITY_POLICY, HeaderMap, HeaderName, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use hyper::{Method, StatusCode};

use super::answer::HttpAnswer;
use super::body::with_body;
use super::request::HttpRequest;
use super::route::{Handler, Route};

pub(super) static ROUTES: &[Route] = &[
    Route::reading("/", &[(Method::GET, html as Handler)]),
    Route::reading("/cache", &[(Method::GET, html as Handler)]),
    Route::reading("/db", &[(Method::GET, html as Handler)]),
    Route::reading("/page.css", &[(Method::GET, style as Handler)]),
    Route::reading("/page.js", &[(Method::GET, script as Handler)]),
];

const HTML: &[u8] = include_bytes!("page.html");
const STYLE: &[u8] = include_bytes!("page.css");
const SCRIPT: &[u8] = include_bytes!("page.js");

/// The page loads its own two files and asks leafd, and nothing else. No text becomes markup, and no
/// other page may frame it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

fn html(_: &mut HttpRequest<'_>) -> HttpAnswer {
    file("text/html;charset=UTF-8", HTML)
}

fn style(_: &mut HttpRequest<'_>) -> HttpAnswer {
    file("text/css;charset=UTF-8", STYLE)
}

fn script(_: &mut HttpRequest<'_>) -> HttpAnswer {
    file("text/javascript;charset=UTF-8", SCRIPT)
}

fn file(content_type: &'static str, content: &'static [u8]) -> HttpAnswer {
    let mut response = with_body(StatusCode::OK, content_type, Bytes::from_static(content));
    protect(response.headers_mut());
    response.into()
}

fn protect(headers: &mut HeaderMap) {
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}
