//! The bytes of one connection, over TCP or a Unix socket. It tells the roster when a request begins,
//! when an answer is written and when the client does not read.
//!
//! hyper answers what it cannot parse by itself, without a body and without headers that forbid
//! caches to keep the answer. The stream writes a problem document in its place.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use super::problem::raw_refusal;
use super::roster::{HttpConnection, HttpPhase};
use super::server::HttpClock;

/// A connected socket.
#[derive(Debug)]
pub(super) enum HttpSocket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

pub(super) struct HttpStream {
    socket: HttpSocket,
    state: Arc<HttpConnection>,
    clock: HttpClock,
    /// The rest of a refusal that replaces one of hyper's.
    refusal: Option<(Vec<u8>, usize)>,
}

impl HttpStream {
    pub(super) const fn new(
        socket: HttpSocket,
        state: Arc<HttpConnection>,
        clock: HttpClock,
    ) -> Self {
        Self { socket, state, clock, refusal: None }
    }

    fn write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = match &mut self.socket {
            HttpSocket::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            HttpSocket::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
        };
        self.state.note_write(outcome.is_pending(), || self.clock.ms());
        if let Poll::Ready(Ok(written)) = &outcome {
            self.state.note_written(*written);
        }
        outcome
    }
}

impl AsyncRead for HttpStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        match &mut this.socket {
            HttpSocket::Tcp(stream) => ready!(Pin::new(stream).poll_read(cx, buffer))?,
            HttpSocket::Unix(stream) => ready!(Pin::new(stream).poll_read(cx, buffer))?,
        }
        if buffer.filled().len() > before && this.state.phase() == HttpPhase::Idle {
            this.state.turn(HttpPhase::Begun);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for HttpStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.refusal.is_none()
            && let Some(status) = refusal_of_hyper(bytes)
        {
            this.refusal = Some((raw_refusal(status), 0));
        }
        let Some((refusal, mut from)) = this.refusal.take() else {
            return this.write(cx, bytes);
        };
        while let Some(rest) = refusal.get(from..).filter(|rest| !rest.is_empty()) {
            match this.write(cx, rest) {
                Poll::Ready(written) => from += written?,
                Poll::Pending => {
                    this.refusal = Some((refusal, from));
                    return Poll::Pending;
                }
            }
        }
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The sockets have no buffer of their own: what was written is on its way.
        self.state.note_flush();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().socket {
            HttpSocket::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            HttpSocket::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

/// The status of an answer that hyper has made by itself. Every answer of leafd says what caches may
/// do; hyper's do not.
fn refusal_of_hyper(bytes: &[u8]) -> Option<u16> {
    let rest = bytes.strip_prefix(b"HTTP/1.1 4")?;
    let is_bare = bytes.len() < 256 && bytes.ends_with(b"\r\n\r\n") && {
        let text = std::str::from_utf8(bytes).ok()?.to_ascii_lowercase();
        text.contains("content-length: 0\r\n") && !text.contains("cache-control")
    };
    let digits = rest.get(..2).filter(|_| is_bare)?;
    std::str::from_utf8(digits).ok()?.parse::<u16>().ok().map(|rest| 400 + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_that_hyper_made_by_itself_is_replaced() {
        let bare = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n\
                     content-length: 0\r\ndate: Mon, 01 Jan 2026 00:00:00 GMT\r\n\r\n";
        assert_eq!(refusal_of_hyper(bare), Some(431));
        let ours = b"HTTP/1.1 400 Bad Request\r\ncache-control: no-store\r\n\
                     content-length: 0\r\n\r\n";
        assert_eq!(refusal_of_hyper(ours), None);
        assert_eq!(refusal_of_hyper(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"), None);
        assert_eq!(refusal_of_hyper(b"HTTP/1.1 4"), None);
        assert_eq!(refusal_of_hyper(b"HTTP/1.1 4\xff\r\ncontent-length: 0\r\n\r\n"), None);
    }
}
