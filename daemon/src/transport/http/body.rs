//! The bodies of answers, with the headers that every answer has: it says what caches may do with it,
//! which is nothing.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use http_body_util::Either;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};

/// The body of an answer: whole, or a stream that goes on and on.
pub(super) type HttpBody = Either<WholeBody, UnsyncBoxBody<Bytes, Infallible>>;

/// Bytes of a body that hyper gets at a time. It copies them into the buffer of the connection, which
/// keeps the size that it once had: with longer pieces, a client that asks for long answers would make
/// every idle connection hold memory.
pub(super) const PIECE: usize = 16 * 1024;

/// A body that is there as a whole.
#[derive(Debug)]
pub(super) struct WholeBody(Bytes);

impl WholeBody {
    pub(super) const fn len(&self) -> usize {
        self.0.len()
    }
}

impl Body for WholeBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.0.is_empty() {
            return Poll::Ready(None);
        }
        let length = self.0.len().min(PIECE);
        Poll::Ready(Some(Ok(Frame::data(self.0.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.len() as u64)
    }
}

const TEXT: &str = "text/plain;charset=UTF-8";

/// An answer with a whole body.
pub(super) fn with_body(
    status: StatusCode,
    content_type: &'static str,
    body: Bytes,
) -> Response<HttpBody> {
    let mut response = Response::new(Either::Left(WholeBody(body)));
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

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn a_body_comes_in_pieces_and_says_its_length_before() {
        for (length, pieces) in [(0, 0), (1, 1), (PIECE, 1), (PIECE + 1, 2), (5 * PIECE, 5)] {
            let whole: Bytes = (0..length).map(|at| (at % 251) as u8).collect();
            let mut body = WholeBody(whole.clone());
            assert_eq!(body.size_hint().exact(), Some(length as u64));
            let mut found = Vec::new();
            let mut count = 0;
            while let Some(frame) = body.frame().await {
                found.extend_from_slice(&frame.unwrap().into_data().unwrap());
                count += 1;
            }
            assert!(body.is_end_stream() && found == whole, "{length}");
            assert_eq!(count, pieces, "{length}");
        }
    }
}
