//! Drives several connections with one thread, epoll and non-blocking sockets. Each ready
//! connection costs one read, and one write with as many new requests as it got answers.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use super::link::{Break, Link, lost};
use super::socket::{self, ReconnectDelay, is_not_yet};
use super::{Nanos, READ_LEN, Run, TICK, nanos};
use crate::exit::Failure;

/// Most ready connections per `epoll_wait`.
const EVENTS: usize = 256;

/// Runs until the plan is complete.
pub(super) fn drive(run: &mut Run<'_>) -> Result<(), Failure> {
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(no_epoll)?;
    let mut lines: Vec<Line> = (0..run.plan.connections).map(|_| Line::new(run)).collect();
    let mut events = [EpollEvent::empty(); EVENTS];
    let mut buffer = vec![0; READ_LEN];
    let timeout = EpollTimeout::try_from(TICK).unwrap_or(EpollTimeout::ZERO);
    let mut next_care = 0;
    loop {
        let now = run.now();
        run.tick(now);
        if now >= next_care {
            for (token, line) in (0..).zip(&mut lines) {
                line.care(token, &epoll, now, run)?;
            }
            if run.is_over() && lines.iter().all(Line::is_idle) {
                return Ok(());
            }
            next_care = now + nanos(TICK);
        }
        let ready = match epoll.wait(&mut events, timeout) {
            Ok(ready) => ready,
            Err(Errno::EINTR) => 0,
            Err(error) => return Err(no_epoll(error)),
        };
        for event in events.iter().take(ready) {
            if let Some(line) = usize::try_from(event.data()).ok().and_then(|i| lines.get_mut(i)) {
                let result = line.ready(event, &epoll, &mut buffer, run);
                line.settle(result, run)?;
            }
        }
    }
}

fn no_epoll(error: Errno) -> Failure {
    Failure::Unavailable(format!("cannot wait for connections: {error}"))
}

/// A connection with its socket, if it has one, and its retries.
#[derive(Debug)]
struct Line {
    link: Link,
    stream: Option<UnixStream>,
    back_off: ReconnectDelay,
    retry_at: Nanos,
    /// Whether epoll also waits until the socket is writable.
    waits_for_room: bool,
}

impl Line {
    fn new(run: &Run<'_>) -> Self {
        Self {
            link: Link::new(run.plan),
            stream: None,
            back_off: ReconnectDelay::new(),
            retry_at: 0,
            waits_for_room: false,
        }
    }

    /// Whether the connection waits for no answer.
    fn is_idle(&self) -> bool {
        self.stream.is_none() || self.link.in_flight() == 0
    }

    /// Does what is due now and then: reconnects, drops a connection that is stuck, sends again
    /// after a pause.
    fn care(
        &mut self,
        token: u64,
        epoll: &Epoll,
        now: Nanos,
        run: &mut Run<'_>,
    ) -> Result<(), Failure> {
        let result = if self.stream.is_some() {
            if self.link.is_stuck(now, run.patience()) {
                Err(Break::Lost("leafd did not answer in time".to_owned()))
            } else {
                self.send(token, epoll, run)
            }
        } else if now >= self.retry_at && !run.is_over() {
            self.connect(token, epoll, now, run)
        } else {
            Ok(())
        };
        self.settle(result, run)
    }

    fn connect(
        &mut self,
        token: u64,
        epoll: &Epoll,
        now: Nanos,
        run: &Run<'_>,
    ) -> Result<(), Break> {
        self.link.reset(now);
        let stream = socket::open(&run.plan.socket).map_err(lost)?;
        epoll
            .add(&stream, EpollEvent::new(EpollFlags::EPOLLIN, token))
            .map_err(|error| lost(error.into()))?;
        self.waits_for_room = false;
        self.stream = Some(stream);
        Ok(())
    }

    #[inline]
    fn ready(
        &mut self,
        event: &EpollEvent,
        epoll: &Epoll,
        buffer: &mut [u8],
        run: &mut Run<'_>,
    ) -> Result<(), Break> {
        // An earlier event of the same round may have closed it.
        let Some(stream) = &mut self.stream else { return Ok(()) };
        if event.events() != EpollFlags::EPOLLOUT {
            match stream.read(buffer) {
                Ok(0) => return Err(Break::Lost("leafd closed the connection".to_owned())),
                Ok(len) => {
                    let now = run.now();
                    run.tick(now);
                    self.link.take(buffer.get(..len).unwrap_or_default(), now, &mut run.meter)?;
                    self.back_off = ReconnectDelay::new();
                }
                Err(error) if is_not_yet(&error) => {}
                Err(error) => return Err(lost(error)),
            }
        }
        self.send(event.data(), epoll, run)
    }

    /// Fills the window and writes as much as the socket takes.
    #[inline]
    fn send(&mut self, token: u64, epoll: &Epoll, run: &Run<'_>) -> Result<(), Break> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        if !run.is_over() {
            self.link.refill(run.now());
        }
        while !self.link.outgoing().is_empty() {
            match stream.write(self.link.outgoing()) {
                Ok(len) => self.link.wrote(len),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(lost(error)),
            }
        }
        let full = !self.link.outgoing().is_empty();
        if full != self.waits_for_room {
            let flags =
                if full { EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT } else { EpollFlags::EPOLLIN };
            epoll
                .modify(stream, &mut EpollEvent::new(flags, token))
                .map_err(|error| lost(error.into()))?;
            self.waits_for_room = full;
        }
        Ok(())
    }

    /// Counts a lost connection, and schedules the next attempt.
    #[inline]
    fn settle(&mut self, result: Result<(), Break>, run: &mut Run<'_>) -> Result<(), Failure> {
        match result {
            Ok(()) => Ok(()),
            Err(Break::Fatal(failure)) => Err(failure),
            Err(Break::Lost(why)) => {
                // Closing the socket also removes it from epoll.
                match self.stream.take() {
                    Some(_) => run.meter.disconnect(why, self.link.in_flight()),
                    None => run.meter.failed_connect(why),
                }
                self.retry_at = run.now().saturating_add(nanos(self.back_off.next()));
                Ok(())
            }
        }
    }
}
