//! One connection: reads what is there, has it answered, writes the answers at once. What memory
//! can answer takes no task, no await and no allocation; what has to wait is kept aside, so that
//! answers come out of order rather than late.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use leaf_client::wire::{
    ErrorCode, Reply, Response, UNSOLICITED, WireError, encode_response, split_frame,
};
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use tokio::net::UnixStream;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::calls::{Caller, Later};
use super::{Service, scratch};

/// With so many bytes of answers, they are written before more requests are looked at.
const MOST_OUTPUT: usize = 128 * 1024;

pub(super) struct Connection {
    stream: UnixStream,
    service: Arc<Service>,
    caller: Caller,
    /// Bytes read and not yet looked at: the beginning of a request, or what came after the bound
    /// of answers was reached.
    input: Vec<u8>,
    output: Vec<u8>,
    /// Requests that wait.
    later: FuturesUnordered<Later>,
    state: State,
    /// The hello or a request has begun and not ended.
    unfinished: bool,
    /// When that began, or when the last request came: what is allowed counts from here, and
    /// sending a byte now and then gains nothing.
    since: Instant,
    /// Set off late and rarely: it looks at `since` and sleeps on.
    timer: Pin<Box<Sleep>>,
    stop: Pin<Box<WaitForCancellationFutureOwned>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Reads and answers.
    Open,
    /// Reads no more; answers what waits, then closes.
    Finishing,
    /// Writes what it has and closes.
    Closing,
}

/// What woke the connection.
enum Wake {
    /// Bytes or answers.
    Work,
    Stop,
    Timer,
    /// The peer is gone.
    Gone,
}

impl Connection {
    pub(super) fn new(stream: UnixStream, service: Arc<Service>, stop: CancellationToken) -> Self {
        let now = Instant::now();
        let timer = Box::pin(tokio::time::sleep_until(now + service.limits.request_timeout));
        Self {
            stream,
            caller: Caller::new(Arc::clone(&service)),
            service,
            input: Vec::new(),
            output: Vec::new(),
            later: FuturesUnordered::new(),
            state: State::Open,
            unfinished: true,
            since: now,
            timer,
            stop: Box::pin(stop.cancelled_owned()),
        }
    }

    pub(super) async fn serve(mut self) {
        loop {
            let wake = poll_fn(|cx| self.poll(cx)).await;
            match wake {
                Wake::Work => {}
                Wake::Stop => self.say_goodbye(),
                Wake::Timer => self.look_at_the_time(),
                Wake::Gone => return,
            }
            if self.flush().await.is_err() {
                return;
            }
            let done = match self.state {
                State::Open => false,
                State::Finishing => self.later.is_empty(),
                State::Closing => true,
            };
            if done {
                let _ = self.stream.shutdown().await;
                return;
            }
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Wake> {
        if self.output.capacity() == 0 {
            self.output = scratch::take_output();
        }
        while self.output.len() < MOST_OUTPUT
            && let Poll::Ready(Some((id, reply))) = self.later.poll_next_unpin(cx)
        {
            encode_response(&Response { id, reply }, &mut self.output);
        }
        if self.state == State::Open {
            if !self.input.is_empty() && self.output.len() < MOST_OUTPUT && self.has_frame() {
                let input = std::mem::take(&mut self.input);
                self.answer(&input);
                // Around once more: nobody has looked yet at what it put aside and at the socket,
                // so nothing would wake us.
                return Poll::Ready(Wake::Work);
            }
            if self.output.len() < MOST_OUTPUT
                && let Poll::Ready(wake) = self.poll_read(cx)
            {
                return Poll::Ready(wake);
            }
        }
        if !self.output.is_empty() || self.state == State::Closing {
            return Poll::Ready(Wake::Work);
        }
        if self.state == State::Finishing && self.later.is_empty() {
            return Poll::Ready(Wake::Work);
        }
        if self.state == State::Open && self.stop.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Wake::Stop);
        }
        if self.timer.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Wake::Timer);
        }
        // Nothing to hold memory for.
        scratch::give_output(std::mem::take(&mut self.output));
        Poll::Pending
    }

    fn has_frame(&self) -> bool {
        !matches!(split_frame(&self.input, self.service.limits.max_request_bytes), Ok(None))
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Wake> {
        scratch::with_input(|buffer| {
            let mut buffer = ReadBuf::new(buffer);
            match Pin::new(&mut self.stream).poll_read(cx, &mut buffer) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(Err(_)) => Poll::Ready(Wake::Gone),
                Poll::Ready(Ok(())) if buffer.filled().is_empty() => {
                    // The peer writes no more; it may still read what it has asked for.
                    self.state = State::Finishing;
                    Poll::Ready(Wake::Work)
                }
                Poll::Ready(Ok(())) => {
                    if self.input.is_empty() {
                        self.answer(buffer.filled());
                    } else {
                        let mut input = std::mem::take(&mut self.input);
                        input.extend_from_slice(buffer.filled());
                        self.answer(&input);
                    }
                    Poll::Ready(Wake::Work)
                }
            }
        })
    }

    /// Answers the requests in `input`, and keeps what is left of it.
    fn answer(&mut self, mut input: &[u8]) {
        let now = Instant::now();
        let mut requests = 0;
        while self.output.len() < MOST_OUTPUT && self.state == State::Open {
            match split_frame(input, self.service.limits.max_request_bytes) {
                Ok(Some((body, rest))) => {
                    input = rest;
                    requests += 1;
                    let go_on = self.caller.call(body, now, &mut self.output, &mut self.later);
                    if !go_on {
                        self.state = State::Closing;
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    let error = WireError::new(ErrorCode::FrameTooLarge, error.to_string())
                        .with_detail(self.service.limits.max_request_bytes as u64);
                    self.unsolicited(Reply::Error(error));
                    self.state = State::Closing;
                }
            }
        }
        self.service.requests.fetch_add(requests, Ordering::Relaxed);
        if requests > 0 || !self.unfinished {
            self.since = now;
        }
        self.unfinished = !input.is_empty() || !self.caller.has_said_hello();
        if self.state == State::Open && !input.is_empty() {
            self.input = input.to_vec();
            // A request that has begun has to end.
            self.timer.as_mut().reset(self.since + self.service.limits.request_timeout);
        }
    }

    fn unsolicited(&mut self, reply: Reply) {
        encode_response(&Response { id: UNSOLICITED, reply }, &mut self.output);
    }

    fn say_goodbye(&mut self) {
        self.unsolicited(Reply::Goodbye);
        self.state = State::Finishing;
    }

    fn look_at_the_time(&mut self) {
        let limits = &self.service.limits;
        let allowed = if self.unfinished { limits.request_timeout } else { limits.idle_timeout };
        let due = self.since + allowed;
        if !self.later.is_empty() {
            // It waits for us, not we for it.
            self.timer.as_mut().reset(Instant::now() + allowed);
        } else if due > Instant::now() {
            self.timer.as_mut().reset(due);
        } else {
            self.state = State::Closing;
        }
    }

    /// Writes the answers: at once where the socket has room, which it has when the peer reads.
    async fn flush(&mut self) -> io::Result<()> {
        let mut written = 0;
        while let Some(rest) = self.output.get(written..).filter(|rest| !rest.is_empty()) {
            match self.stream.try_write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // Whoever does not read keeps no more than what is meant for them.
                    let rest = rest.to_vec();
                    scratch::give_output(std::mem::replace(&mut self.output, rest));
                    written = 0;
                    let writable = self.stream.writable();
                    tokio::time::timeout(self.service.limits.write_timeout, writable).await??;
                }
                Err(error) => return Err(error),
            }
        }
        self.output.clear();
        Ok(())
    }
}
