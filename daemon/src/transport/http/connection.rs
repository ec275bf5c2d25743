//! The life of one connection, which hyper drives: it ends when the client has gone, when leafd stops,
//! or when the client takes too long. A timer per connection fires rarely and late; what a request
//! costs does not depend on it.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use hyper::StatusCode;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep_until, timeout};

use super::caller::HttpCaller;
use super::exchange::Exchange;
use super::limits::{MAX_HEAD, MAX_HEADERS};
use super::problem::HttpProblem;
use super::roster::{HttpConnection, HttpPhase, PlaceKind};
use super::server::HttpServer;
use super::stream::HttpStream;

/// How long leafd discards what a client still sends after the last answer. If it closed at once, the
/// kernel would reset the connection, and the client could lose the answer.
const LINGER: Duration = Duration::from_millis(500);

/// After discarding this many bytes, leafd closes the connection.
const MAX_DISCARDED: usize = 256 * 1024;

/// How often a connection looks whether it is due, at least.
const LOOK: Duration = Duration::from_secs(60);

/// How a connection ended.
enum ConnectionEnd {
    /// hyper is done: the client has gone, or the last answer said that the connection closes.
    Done,
    /// The client took too long.
    Late(HttpPhase),
}

/// Serves a connection to its end.
pub(super) async fn serve(
    stream: HttpStream,
    server: Arc<HttpServer>,
    state: Arc<HttpConnection>,
    caller: HttpCaller,
    place: PlaceKind,
) {
    let exchange = Exchange::new(Arc::clone(&server), Arc::clone(&state), caller, place);
    let mut connection = http1::Builder::new()
        .half_close(false)
        .header_read_timeout(None)
        .max_buf_size(MAX_HEAD)
        .max_headers(MAX_HEADERS)
        .writev(false)
        .serve_connection(TokioIo::new(stream), exchange);
    let mut stop = pin!(server.stopping.cancelled());
    let (mut waits_for_stop, mut stopping) = (false, false);
    let mut alarm = pin!(sleep_until(server.clock.now() + server.limits().request_timeout));
    let end = poll_fn(|cx| {
        // Once is enough: the task's waker stays the same.
        if !waits_for_stop {
            waits_for_stop = true;
            let _ = stop.as_mut().poll(cx);
        }
        if !stopping && server.is_stopping() {
            stopping = true;
            Pin::new(&mut connection).graceful_shutdown();
        }
        if connection.poll_without_shutdown(cx).is_ready() {
            return Poll::Ready(ConnectionEnd::Done);
        }
        if state.phase() == HttpPhase::Begun {
            state.enter(HttpPhase::Head, server.clock.ms());
        }
        // A client that does not read holds memory, so this one end comes in time.
        if state.is_stalled() {
            let due = state.due_ms(&server.limits()).map(|ms| server.clock.at(ms));
            if let Some(due) = due.filter(|due| *due < alarm.deadline()) {
                alarm.as_mut().reset(due);
            }
        }
        while alarm.as_mut().poll(cx).is_ready() {
            let now = server.clock.now();
            let due = state.due_ms(&server.limits()).map(|ms| server.clock.at(ms));
            match due {
                Some(due) if due <= now => return Poll::Ready(ConnectionEnd::Late(state.phase())),
                _ => alarm.as_mut().reset(due.unwrap_or(now + LOOK).min(now + LOOK)),
            }
        }
        Poll::Pending
    })
    .await;
    let mut stream = connection.into_parts().io.into_inner();
    state.enter(HttpPhase::End, server.clock.ms());
    match end {
        ConnectionEnd::Done => linger(&mut stream).await,
        ConnectionEnd::Late(HttpPhase::Head) => {
            let late = HttpProblem::new(StatusCode::REQUEST_TIMEOUT, "the request took too long");
            let answer = late.to_bytes();
            // A new answer has room in the socket. If not, the client only sees the end.
            let written = timeout(LINGER, stream.write_all(&answer)).await;
            if matches!(written, Ok(Ok(()))) {
                linger(&mut stream).await;
            }
        }
        ConnectionEnd::Late(_) => {}
    }
}

/// Closes leafd's side, and discards what the client still sends.
async fn linger(stream: &mut HttpStream) {
    let _ = timeout(LINGER, discard(stream)).await;
}

async fn discard(stream: &mut HttpStream) -> io::Result<()> {
    stream.shutdown().await?;
    let mut buffer = [0; 512];
    let mut left = MAX_DISCARDED;
    while left > 0 {
        match stream.read(&mut buffer).await? {
            0 => break,
            count => left = left.saturating_sub(count),
        }
    }
    Ok(())
}
