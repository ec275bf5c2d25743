//! One connection: reads what is there, has it answered, writes the answers at once. What memory
//! can answer takes no task, no await and no allocation; what has to wait is kept aside, so that
//! answers come out of order rather than late.

use std::future::poll_fn;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use leaf_client::wire::{
    ErrorCode, Reply, Response, UNSOLICITED, WireError, encode_response, split_frame,
};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::Instant;

use super::calls::{Caller, Pending};
use super::scratch;
use super::server::UnixServer;
use super::wake_timer::Listed;
use super::watched::watched;
use crate::access::turns::QueuePlace;
use crate::service::session::Session;

/// After so many bytes of answers without a pause, it is somebody else's turn.
const TURN: usize = 2 * 1024;

/// So many requests that have to wait are a turn as well: each takes as long as dozens of others.
const TURN_OF_WAITING: usize = 16;

/// With so many bytes of answers, they are written before more requests are looked at. A client that
/// does not read makes leafd keep no more than this, one answer, and one read of requests.
const MOST_OUTPUT: usize = 8 * 1024;

/// What waking up and reading costs, in bytes of answers.
const WAKE_COST: usize = 64;

pub(super) struct Connection {
    /// Watched for input alone, while there may be some: a peer that reads its answers would
    /// otherwise wake us each time. None once it has failed.
    stream: Option<AsyncFd<UnixStream>>,
    server: Arc<UnixServer>,
    caller: Caller,
    /// Bytes read and not yet looked at: the beginning of a request, or what came after the bound
    /// of answers was reached.
    input: Vec<u8>,
    output: Vec<u8>,
    /// What it has cost since it last had nothing to do, in bytes of answers.
    busy: usize,
    /// Its user has used up its share of the round, but it is this connection's turn.
    granted: bool,
    /// Where it queues; most never do.
    place: Option<Arc<QueuePlace>>,
    /// The last read got all that was there.
    drained: bool,
    /// Requests that wait.
    later: FuturesUnordered<Pending>,
    state: State,
    /// The hello or a request has begun and not ended.
    unfinished: bool,
    /// When that began, or when the last request came: what is allowed counts from here, and
    /// sending a byte now and then gains nothing.
    since: Instant,
    /// Wakes us late and rarely: we look at `since` then, and sleep on.
    listed: Listed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Reads and answers.
    Open,
    /// Has said goodbye: whatever still comes is asked again elsewhere. Answers what waits, then
    /// closes; at once when the peer hangs up, since nobody waits then.
    Leaving,
    /// The peer writes no more. Answers what waits, then closes; at once when it hangs up.
    Finishing,
    /// Writes what it has and closes.
    Closing,
    /// Writes the error that it has, closes, and leaves time to read it.
    ThrownOut,
}

/// What woke the connection.
enum Wake {
    /// Bytes or answers.
    Work,
    Stop,
    Timer,
    /// It has to queue.
    Queue,
    /// The peer is gone.
    Gone,
}

impl Connection {
    /// Takes over a connection within the runtime that serves it.
    pub(super) fn new(
        stream: UnixStream,
        listed: Listed,
        session: Session,
        server: Arc<UnixServer>,
    ) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream: Some(watched(stream, Interest::READABLE)?),
            caller: Caller::new(session),
            server,
            input: Vec::new(),
            output: Vec::new(),
            busy: 0,
            granted: false,
            place: None,
            drained: false,
            later: FuturesUnordered::new(),
            state: State::Open,
            unfinished: true,
            since: Instant::now(),
            listed,
        })
    }

    pub(super) async fn serve(mut self) {
        loop {
            let wake = poll_fn(|cx| self.poll(cx)).await;
            match wake {
                Wake::Work => {}
                Wake::Stop => self.say_goodbye(),
                Wake::Timer => self.look_at_the_time(),
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
                // Whoever has nothing left makes room for the others by itself. Where the user has
                // used up its share, this one queues.
                if self.has_more() && !self.caller.user().share.is_used_up() {
                    tokio::task::yield_now().await;
                }
            }
            if self.state == State::Open && self.listed.timer.is_stopping() {
                // Whoever asks without a pause is never found with nothing to do.
                self.say_goodbye();
                continue;
            }
            let done = match self.state {
                State::Open => false,
                State::Leaving | State::Finishing => self.later.is_empty(),
                State::Closing | State::ThrownOut => true,
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
        let Some(stream) = self.stream else { return };
        let stream = stream.into_inner();
        if self.state == State::ThrownOut {
            self.server.lingering.end(stream);
        } else {
            let _ = stream.shutdown(Shutdown::Write);
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Wake> {
        // What is to be written (a goodbye) goes first: the queue takes the buffer.
        if self.output.is_empty() && self.caller.user().share.is_used_up() && !self.granted {
            return Poll::Ready(Wake::Queue);
        }
        if self.output.capacity() == 0 {
            self.output = scratch::take_output();
        }
        // No more than a turn of it: whoever has many that wait may have them answered all at once.
        while self.output.len() < TURN
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
        if !self.output.is_empty() || matches!(self.state, State::Closing | State::ThrownOut) {
            return Poll::Ready(Wake::Work);
        }
        if self.state == State::Leaving
            && let Poll::Ready(wake) = self.poll_rest(cx)
        {
            return Poll::Ready(wake);
        }
        if matches!(self.state, State::Leaving | State::Finishing) && self.later.is_empty() {
            return Poll::Ready(Wake::Work);
        }
        if self.state == State::Finishing && self.poll_hang_up(cx).is_ready() {
            return Poll::Ready(Wake::Gone);
        }
        if self.listed.timer.poll_due(cx).is_ready() {
            return Poll::Ready(Wake::Timer);
        }
        if self.state == State::Open && self.listed.timer.is_stopping() {
            return Poll::Ready(Wake::Stop);
        }
        self.busy = 0;
        self.granted = false;
        // Nothing to hold memory for.
        scratch::give_output(std::mem::take(&mut self.output));
        Poll::Pending
    }

    #[inline]
    fn stream(&self) -> io::Result<&AsyncFd<UnixStream>> {
        self.stream.as_ref().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Whether there may be something to do before the next event.
    fn has_more(&self) -> bool {
        !(self.drained && self.input.is_empty() && self.later.is_empty())
    }

    fn has_frame(&self) -> bool {
        !matches!(split_frame(&self.input, self.caller.limits().max_request_bytes), Ok(None))
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Wake> {
        scratch::with_input(|buffer| {
            let count = match ready!(self.poll_bytes(cx, buffer)) {
                Ok(0) => return Poll::Ready(self.at_the_end()),
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

    /// Reads what is not looked at any more, for its end.
    fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<Wake> {
        scratch::with_input(|buffer| {
            loop {
                match ready!(self.poll_bytes(cx, buffer)) {
                    Ok(0) => return Poll::Ready(self.at_the_end()),
                    Ok(_) => {}
                    Err(_) => return Poll::Ready(Wake::Gone),
                }
            }
        })
    }

    /// The peer writes no more; it may still read what it has asked for, unless it has hung up.
    fn at_the_end(&mut self) -> Wake {
        self.state = State::Finishing;
        if self.later.is_empty() {
            return Wake::Work;
        }
        // It may hang up in two steps, and the second would not be seen: there is nothing to read.
        let stream = self.stream.take().ok_or_else(|| io::ErrorKind::NotConnected.into());
        match stream.and_then(|stream| watched(stream.into_inner(), self.interest())) {
            Ok(stream) => self.stream = Some(stream),
            Err(_) => return Wake::Gone,
        }
        Wake::Work
    }

    const fn interest(&self) -> Interest {
        match self.state {
            State::Finishing => Interest::WRITABLE,
            State::Open | State::Leaving | State::Closing | State::ThrownOut => Interest::READABLE,
        }
    }

    /// Ready when the peer, which writes no more, has hung up.
    fn poll_hang_up(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let stream = self.stream()?;
        loop {
            let mut ready = ready!(stream.poll_write_ready(cx))?;
            if ready.ready().is_write_closed() || has_hung_up(stream.get_ref()) {
                return Poll::Ready(Ok(()));
            }
            // There is room for answers, no more.
            ready.clear_ready();
        }
    }

    fn poll_bytes(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            let stream = self.stream()?;
            let mut ready = ready!(stream.poll_read_ready(cx))?;
            match stream.get_ref().read(buffer) {
                // All is read that was there; the next byte makes an event of its own.
                Ok(count) if count > 0 && count < buffer.len() => {
                    ready.clear_ready();
                    return Poll::Ready(Ok(count));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                outcome => return Poll::Ready(outcome),
            }
        }
    }

    /// Answers the requests in `input`, and keeps what is left of it.
    fn answer(&mut self, mut input: &[u8]) {
        let now = Instant::now();
        let mut requests = 0;
        let before = self.later.len();
        let most_waiting = before + TURN_OF_WAITING;
        self.caller.keep_up();
        let max_request_bytes = self.caller.limits().max_request_bytes;
        while self.output.len() < MOST_OUTPUT
            && self.later.len() < most_waiting
            && self.state == State::Open
        {
            match split_frame(input, max_request_bytes) {
                Ok(Some((body, rest))) => {
                    input = rest;
                    requests += 1;
                    let go_on = self.caller.call(body, now, &mut self.output, &mut self.later);
                    if !go_on {
                        self.state = State::ThrownOut;
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    let error = WireError::new(ErrorCode::FrameTooLarge, error.to_string())
                        .with_detail(max_request_bytes as u64);
                    self.unsolicited(Reply::Error(error));
                    self.state = State::ThrownOut;
                }
            }
        }
        let cost = (self.later.len() - before) * (TURN / TURN_OF_WAITING);
        if cost > 0 {
            self.busy += cost;
            self.caller.user().share.spend(cost);
        }
        self.server.service.count_requests(requests);
        if requests > 0 || !self.unfinished {
            self.since = now;
        }
        self.unfinished = !input.is_empty() || !self.caller.has_said_hello();
        if self.state == State::Open && !input.is_empty() {
            self.input = input.to_vec();
            // A request that has begun has to end.
            self.listed.timer.wake_at(self.since + self.caller.limits().request_timeout);
        }
    }

    fn unsolicited(&mut self, reply: Reply) {
        encode_response(&Response { id: UNSOLICITED, reply }, &mut self.output);
    }

    fn say_goodbye(&mut self) {
        self.unsolicited(Reply::Goodbye);
        self.state = State::Leaving;
    }

    fn look_at_the_time(&mut self) {
        let limits = self.caller.limits();
        let allowed = if self.unfinished { limits.request_timeout } else { limits.idle_timeout };
        let due = self.since + allowed;
        if !self.later.is_empty() {
            // It waits for us, not we for it.
            self.listed.timer.wake_at(Instant::now() + allowed);
        } else if due > Instant::now() {
            self.listed.timer.wake_at(due);
        } else {
            self.state = State::Closing;
        }
    }

    /// Writes the answers: at once where the socket has room, which it has when the peer reads.
    async fn flush(&mut self) -> io::Result<()> {
        let mut written = 0;
        while let Some(rest) = self.output.get(written..).filter(|rest| !rest.is_empty()) {
            match self.stream()?.get_ref().write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // Whoever does not read keeps no more than what is meant for them.
                    let rest = rest.to_vec();
                    scratch::give_output(std::mem::replace(&mut self.output, rest));
                    written = 0;
                    self.wait_for_room().await?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.output.clear();
        Ok(())
    }

    /// Waits until the peer has read something, or its time for that is up.
    async fn wait_for_room(&mut self) -> io::Result<()> {
        // In turn and not beside: a second descriptor could be one that others need.
        let stream = self.stream.take().ok_or(io::ErrorKind::NotConnected)?;
        let room = watched(stream.into_inner(), Interest::WRITABLE)?;
        let timer = &self.listed.timer;
        let now = Instant::now();
        timer.wake_at(now + self.caller.limits().write_timeout);
        poll_fn(|cx| match room.poll_write_ready(cx) {
            Poll::Ready(ready) => Poll::Ready(ready.map(drop)),
            Poll::Pending => timer.poll_due(cx).map(|()| Err(io::ErrorKind::TimedOut.into())),
        })
        .await?;
        self.stream = Some(watched(room.into_inner(), self.interest())?);
        // From here on it is about requests again.
        timer.wake_at(now + self.caller.limits().request_timeout);
        Ok(())
    }
}

fn has_hung_up(stream: &UnixStream) -> bool {
    let mut watched = [PollFd::new(stream.as_fd(), PollFlags::empty())];
    let count = poll(&mut watched, PollTimeout::ZERO).unwrap_or(0);
    let [watched] = watched;
    count > 0 && watched.revents().is_some_and(|events| events.contains(PollFlags::POLLHUP))
}
