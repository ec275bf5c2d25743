//! The life of one connection: it reads what has arrived, has it answered, and writes the answers at
//! once. What memory can answer takes no task, no await and no allocation. Other requests stay in
//! flight while the connection goes on, so answers may arrive in another order than their requests.

mod output;

use std::future::poll_fn;
use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use leaf_client::wire::{
    ErrorCode, Reply, Response, UNSOLICITED, WireError, encode_response, split_frame,
};
use tokio::io::Interest;
use tokio::time::Instant;

use super::calls::{Caller, PendingResponse};
use super::limits::UnixLimits;
use super::scratch;
use super::server::UnixServer;
use super::stream::ClientStream;
use super::wake_timer::RegisteredTimer;
use crate::access::turns::QueuePlace;
use crate::service::session::{LOOK_AHEAD, Session};
use crate::tally::CallKind;

/// After this many bytes of answers without a pause, other connections run.
const TURN: usize = 2 * 1024;

/// This many requests that cannot be answered at once are a turn as well: each takes as long as
/// dozens of others.
const TURN_IN_FLIGHT: usize = 16;

/// With this many bytes of answers, leafd writes them before it looks at more requests. For a client
/// that does not read, leafd holds at most this, one more answer, and one read of requests.
const MAX_OUTPUT: usize = 8 * 1024;

/// What one wake-up and one read cost, in bytes of answers.
const WAKE_COST: usize = 64;

pub(super) struct Connection {
    stream: ClientStream,
    server: Arc<UnixServer>,
    limits: Arc<UnixLimits>,
    caller: Caller,
    /// Bytes that were read and not yet looked at: the beginning of a request, or whatever came
    /// after the output was full.
    input: Vec<u8>,
    output: Vec<u8>,
    /// What this connection has cost since it was last idle or paused, in bytes of answers.
    busy: usize,
    /// Its user has used up its share of the round, but it is this connection's turn.
    granted: bool,
    /// Where it queues. Most connections never do.
    place: Option<Arc<QueuePlace>>,
    /// The last read has emptied the socket.
    drained: bool,
    in_flight: FuturesUnordered<PendingResponse>,
    state: ConnectionState,
    /// The hello or a request has begun and is not complete.
    unfinished: bool,
    /// When that began, or when the last request came. Timeouts count from here, so that a client
    /// gains no time by sending a byte now and then.
    since: Instant,
    /// Wakes the connection rarely and late. It then looks at `since`, and may sleep on.
    timer: RegisteredTimer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectionState {
    /// Reads and answers.
    Open,
    /// Has sent `Goodbye`: the client repeats elsewhere what it sends from now on. Answers what is in
    /// flight, then closes; closes at once if the client hangs up.
    SaidGoodbye,
    /// The client has ended its output. Answers what is in flight, then closes; closes at once if
    /// the client hangs up.
    InputEnded,
    /// Writes what it has, and closes.
    Closing,
    /// Writes the error that it has, closes, and leaves the client time to read it.
    Refused,
}

/// What woke the connection.
enum Wake {
    /// There are bytes to look at or to write.
    Work,
    /// The daemon stops.
    Stop,
    Timer,
    /// The user's share is used up.
    Queue,
    /// The client is gone.
    Gone,
}

impl Connection {
    /// Takes over a connection. Call this in the runtime that serves.
    pub(super) fn new(
        stream: UnixStream,
        timer: RegisteredTimer,
        session: Session,
        server: Arc<UnixServer>,
    ) -> io::Result<Self> {
        let since = server.service.environment.now();
        Ok(Self {
            stream: ClientStream::new(stream)?,
            // After the session: they must not be older than its policy.
            limits: server.limits(),
            caller: Caller::new(session),
            server,
            input: Vec::new(),
            output: Vec::new(),
            busy: 0,
            granted: false,
            place: None,
            drained: false,
            in_flight: FuturesUnordered::new(),
            state: ConnectionState::Open,
            unfinished: true,
            since,
            timer,
        })
    }

    pub(super) async fn serve(mut self) {
        loop {
            let wake = poll_fn(|cx| self.poll(cx)).await;
            match wake {
                Wake::Work => {}
                Wake::Stop => self.say_goodbye(),
                Wake::Timer => self.check_timeouts(),
                Wake::Queue => self.queue().await,
                Wake::Gone => return,
            }
            let cost = self.output.len() + WAKE_COST;
            self.busy += cost;
            self.caller.user().share.spend(cost);
            if self.flush().await.is_err() {
                return;
            }
            if self.busy >= TURN {
                self.busy = 0;
                self.granted = false;
                // A connection without more work sleeps anyway, and one whose user has used up its
                // share queues.
                if self.has_more() && !self.caller.user().share.is_used_up() {
                    tokio::task::yield_now().await;
                }
            }
            if self.state == ConnectionState::Open && self.timer.is_stopping() {
                // A client that sends without a pause never lets `poll` get as far as `Stop`.
                self.say_goodbye();
                continue;
            }
            let done = match self.state {
                ConnectionState::Open => false,
                ConnectionState::SaidGoodbye | ConnectionState::InputEnded => {
                    self.in_flight.is_empty()
                }
                ConnectionState::Closing | ConnectionState::Refused => true,
            };
            if done {
                return self.end();
            }
        }
    }

    /// Waits for its turn among the connections of its user.
    #[cold]
    fn queue(&mut self) -> impl Future<Output = ()> + use<> {
        self.granted = true;
        scratch::give_output(std::mem::take(&mut self.output));
        let place = Arc::clone(self.place.get_or_insert_default());
        let (server, share) = (Arc::clone(&self.server), Arc::clone(&self.caller.user().share));
        let is_fresh = !self.caller.has_said_hello();
        async move { server.turns.wait(&share, &place, is_fresh).await }
    }

    fn end(self) {
        let Some(socket) = self.stream.into_socket() else { return };
        if self.state == ConnectionState::Refused {
            self.server.lingering.end(socket);
        } else {
            let _ = socket.shutdown(Shutdown::Write);
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Wake> {
        // Output (a goodbye) is written first: `queue` gives the buffer away.
        if self.output.is_empty() && self.caller.user().share.is_used_up() && !self.granted {
            return Poll::Ready(Wake::Queue);
        }
        if self.output.capacity() == 0 {
            self.output = scratch::take_output();
        }
        // At most a turn's worth: thousands of answers may become ready at the same time.
        while self.output.len() < TURN
            && let Poll::Ready(Some((id, reply))) = self.in_flight.poll_next_unpin(cx)
        {
            encode_response(&Response { id, reply }, &mut self.output);
        }
        if self.state == ConnectionState::Open {
            if !self.input.is_empty() && self.output.len() < MAX_OUTPUT && self.has_frame() {
                let input = std::mem::take(&mut self.input);
                self.answer(&input);
                // Not `Pending`: neither the requests that are now in flight nor the socket have
                // been polled, so nothing would wake us.
                return Poll::Ready(Wake::Work);
            }
            if self.output.len() < MAX_OUTPUT
                && let Poll::Ready(wake) = self.poll_read(cx)
            {
                return Poll::Ready(wake);
            }
        }
        if !self.output.is_empty()
            || matches!(self.state, ConnectionState::Closing | ConnectionState::Refused)
        {
            return Poll::Ready(Wake::Work);
        }
        if self.state == ConnectionState::SaidGoodbye
            && let Poll::Ready(wake) = self.poll_discard(cx)
        {
            return Poll::Ready(wake);
        }
        if matches!(self.state, ConnectionState::SaidGoodbye | ConnectionState::InputEnded)
            && self.in_flight.is_empty()
        {
            return Poll::Ready(Wake::Work);
        }
        if self.state == ConnectionState::InputEnded && self.stream.poll_hang_up(cx).is_ready() {
            return Poll::Ready(Wake::Gone);
        }
        if self.timer.poll_due(cx).is_ready() {
            return Poll::Ready(Wake::Timer);
        }
        if self.state == ConnectionState::Open && self.timer.is_stopping() {
            return Poll::Ready(Wake::Stop);
        }
        self.busy = 0;
        self.granted = false;
        // An idle connection holds no buffer.
        scratch::give_output(std::mem::take(&mut self.output));
        Poll::Pending
    }

    /// Whether there may be work before the next event.
    fn has_more(&self) -> bool {
        !(self.drained && self.input.is_empty() && self.in_flight.is_empty())
    }

    fn has_frame(&self) -> bool {
        !matches!(split_frame(&self.input, self.limits.max_request_bytes), Ok(None))
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Wake> {
        scratch::with_input(|buffer| {
            let count = match ready!(self.stream.poll_read(cx, buffer)) {
                Ok(0) => return Poll::Ready(self.end_input()),
                Ok(count) => count,
                Err(_) => return Poll::Ready(Wake::Gone),
            };
            self.drained = count < buffer.len();
            let read = buffer.get(..count).unwrap_or_default();
            if self.input.is_empty() {
                self.answer(read);
            } else {
                let mut input = std::mem::take(&mut self.input);
                input.extend_from_slice(read);
                self.answer(&input);
            }
            Poll::Ready(Wake::Work)
        })
    }

    /// Reads and discards, to notice the end of input.
    fn poll_discard(&mut self, cx: &mut Context<'_>) -> Poll<Wake> {
        scratch::with_input(|buffer| {
            loop {
                match ready!(self.stream.poll_read(cx, buffer)) {
                    Ok(0) => return Poll::Ready(self.end_input()),
                    Ok(_) => {}
                    Err(_) => return Poll::Ready(Wake::Gone),
                }
            }
        })
    }

    /// The client has ended its output. It may still read answers, unless it has hung up.
    fn end_input(&mut self) -> Wake {
        self.state = ConnectionState::InputEnded;
        if self.in_flight.is_empty() {
            return Wake::Work;
        }
        // A client may hang up in two steps. Nothing can be read any more, so only a registration
        // for output shows the second.
        match self.stream.watch(self.interest()) {
            Ok(()) => Wake::Work,
            Err(_) => Wake::Gone,
        }
    }

    const fn interest(&self) -> Interest {
        match self.state {
            ConnectionState::InputEnded => Interest::WRITABLE,
            ConnectionState::Open
            | ConnectionState::SaidGoodbye
            | ConnectionState::Closing
            | ConnectionState::Refused => Interest::READABLE,
        }
    }

    /// Answers the requests in `input`, and keeps what is left of it.
    fn answer(&mut self, mut input: &[u8]) {
        let now = self.server.service.environment.now();
        let mut is_silent = true;
        let before = self.in_flight.len();
        let turn_ends_at = before + TURN_IN_FLIGHT;
        if self.caller.keep_up() {
            self.limits = self.server.limits();
        }
        let max_request_bytes = self.limits.max_request_bytes;
        let mut answered = 0;
        while self.output.len() < MAX_OUTPUT
            && self.in_flight.len() < turn_ends_at
            && self.state == ConnectionState::Open
        {
            if answered % LOOK_AHEAD == 0 {
                self.caller.look_ahead(input, max_request_bytes);
            }
            answered += 1;
            match split_frame(input, max_request_bytes) {
                Ok(Some((body, rest))) => {
                    input = rest;
                    is_silent = false;
                    let keep_open =
                        self.caller.call(body, now, &mut self.output, &mut self.in_flight);
                    if !keep_open {
                        self.state = ConnectionState::Refused;
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    let error = WireError::new(ErrorCode::FrameTooLarge, error.to_string())
                        .with_detail(max_request_bytes as u64);
                    self.server.service.counts.refused(CallKind::Unknown, error.code());
                    self.send_unsolicited(Reply::Error(error));
                    self.state = ConnectionState::Refused;
                }
            }
        }
        let cost = (self.in_flight.len() - before) * (TURN / TURN_IN_FLIGHT);
        if cost > 0 {
            self.busy += cost;
            self.caller.user().share.spend(cost);
        }
        self.caller.fold_counts();
        if !is_silent || !self.unfinished {
            self.since = now;
        }
        self.unfinished = !input.is_empty() || !self.caller.has_said_hello();
        if self.state == ConnectionState::Open && !input.is_empty() {
            self.input = input.to_vec();
            // The rest of the request has to arrive in time.
            self.timer.wake_at(self.since + self.limits.request_timeout);
        }
    }

    fn send_unsolicited(&mut self, reply: Reply) {
        encode_response(&Response { id: UNSOLICITED, reply }, &mut self.output);
    }

    fn say_goodbye(&mut self) {
        self.send_unsolicited(Reply::Goodbye);
        self.state = ConnectionState::SaidGoodbye;
    }

    fn check_timeouts(&mut self) {
        let limits = &self.limits;
        let allowed = if self.unfinished { limits.request_timeout } else { limits.idle_timeout };
        let (now, due) = (self.server.service.environment.now(), self.since + allowed);
        if !self.in_flight.is_empty() {
            // The client waits for leafd, so it may be silent.
            self.timer.wake_at(now + allowed);
        } else if due > now {
            self.timer.wake_at(due);
        } else {
            self.state = ConnectionState::Closing;
        }
    }
}
