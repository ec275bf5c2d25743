//! One connection of the fake daemon: reads requests, injects faults, writes answers.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::fault::Fault;
use super::shared::SharedState;
use crate::wire::{
    Call, ErrorCode, MAGIC, MAX_REQUEST_LEN, Reply, Request, Response, UNSOLICITED, VERSION,
    WireError, decode_request, encode_response, split_frame,
};

/// The daemon's side of a connection.
pub(super) struct FakeConnection<'a> {
    stream: &'a Arc<UnixStream>,
    shared: &'a Arc<SharedState>,
    /// Whether the handshake is complete.
    greeted: bool,
    in_flight: Arc<AtomicUsize>,
    /// Answers held back, to be sent in reverse order.
    held: Vec<Response>,
}

/// The connection has to be closed.
struct ConnectionClosed;

impl<'a> FakeConnection<'a> {
    pub(super) fn new(stream: &'a Arc<UnixStream>, shared: &'a Arc<SharedState>) -> Self {
        Self { stream, shared, greeted: false, in_flight: Arc::default(), held: Vec::new() }
    }

    /// Serves until the client or a fault closes the connection.
    pub(super) fn serve(mut self) {
        let (mut received, mut chunk) = (Vec::new(), [0; 16 * 1024]);
        while let Ok(len @ 1..) = (&mut &**self.stream).read(&mut chunk) {
            received.extend_from_slice(chunk.get(..len).unwrap_or_default());
            let mut unread = received.as_slice();
            // Like a real daemon, this one reads everything that has arrived before it answers.
            // Otherwise it could not count the requests in flight.
            let mut requests = Vec::new();
            loop {
                match split_frame(unread, MAX_REQUEST_LEN) {
                    Ok(Some((body, rest))) => {
                        requests.push(body);
                        unread = rest;
                    }
                    Ok(None) => break,
                    Err(error) => {
                        let error = WireError::new(ErrorCode::FrameTooLarge, error.to_string());
                        return self.send(UNSOLICITED, Reply::Error(error));
                    }
                }
            }
            let now = self.in_flight.fetch_add(requests.len(), Ordering::Relaxed) + requests.len();
            if self.greeted {
                self.shared.count(|counts| {
                    counts.requests += u64::try_from(requests.len()).unwrap_or(0);
                    counts.peak_in_flight = counts.peak_in_flight.max(now);
                });
            }
            for body in requests {
                if self.request(body).is_err() {
                    return;
                }
            }
            let left = unread.len();
            received.drain(..received.len() - left);
        }
    }

    fn request(&mut self, body: &[u8]) -> Result<(), ConnectionClosed> {
        let request = match decode_request(body) {
            Ok(request) => request,
            Err(refused) => {
                self.send(refused.id, Reply::Error(refused.error));
                return Ok(());
            }
        };
        if !self.greeted {
            return self.hello(&request);
        }
        if let Call::Segment { timeout_ms, .. } | Call::Snowflake { timeout_ms, .. } = request.call
        {
            self.shared.count(|counts| counts.last_timeout_ms = Some(timeout_ms));
        }
        let (fault, limit) =
            self.shared.switches(|switches| (switches.next_fault(), switches.max_in_flight));
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        if self.in_flight.load(Ordering::Relaxed) > limit {
            let error = WireError::new(ErrorCode::TooManyInFlight, "too many requests in flight");
            self.send(request.id, Reply::Error(error));
            return Ok(());
        }
        match fault {
            Some(fault) => self.inject(fault, request.id, || self.shared.reply(&request.call)),
            None => {
                let reply = self.shared.reply(&request.call);
                self.answer(Response { id: request.id, reply });
                Ok(())
            }
        }
    }

    fn hello(&mut self, request: &Request<'_>) -> Result<(), ConnectionClosed> {
        let (fault, max_count, max_in_flight) = self.shared.switches(|switches| {
            (switches.on_hello.clone(), switches.max_count, switches.max_in_flight)
        });
        let welcome = Reply::Hello { version: VERSION, max_count, max_in_flight };
        let refusal = match request.call {
            Call::Hello { magic: MAGIC, version: VERSION.. } => None,
            Call::Hello { magic: MAGIC, .. } => Some(
                WireError::new(ErrorCode::VersionUnsupported, "this version is not supported")
                    .with_detail(u64::from(VERSION)),
            ),
            Call::Hello { .. } => {
                Some(WireError::new(ErrorCode::BadMagic, "the magic is not LEAF"))
            }
            _ => Some(WireError::new(ErrorCode::HelloExpected, "the first call has to be Hello")),
        };
        if let Some(error) = refusal {
            self.send(request.id, Reply::Error(error));
            return Err(ConnectionClosed);
        }
        if let Some(fault) = fault {
            let refuses = matches!(fault, Fault::Refuse(_));
            self.inject(fault, request.id, || welcome)?;
            self.greeted = true;
            return if refuses { Err(ConnectionClosed) } else { Ok(()) };
        }
        self.greeted = true;
        self.send(request.id, welcome);
        Ok(())
    }

    fn inject(
        &self,
        fault: Fault,
        id: u64,
        reply: impl FnOnce() -> Reply,
    ) -> Result<(), ConnectionClosed> {
        match fault {
            Fault::Close => return Err(ConnectionClosed),
            Fault::Silence => {}
            Fault::Late(delay) => {
                let response = Response { id, reply: reply() };
                let (stream, in_flight) = (Arc::clone(self.stream), Arc::clone(&self.in_flight));
                let late = move || {
                    std::thread::sleep(delay);
                    write(&stream, &in_flight, &response);
                };
                // If no thread can be started, the answer never comes, which is also late.
                let _ = std::thread::Builder::new().name("fake-leafd-late".into()).spawn(late);
            }
            Fault::Refuse(error) => self.send(id, Reply::Error(error)),
            Fault::CloseWith(error) => {
                self.send(UNSOLICITED, Reply::Error(error));
                return Err(ConnectionClosed);
            }
            Fault::Raw(bytes) => {
                self.in_flight.fetch_sub(1, Ordering::Relaxed);
                let _ = (&**self.stream).write_all(&bytes);
            }
            Fault::GoodbyeThenAnswer => {
                self.send(UNSOLICITED, Reply::Goodbye);
                self.send(id, reply());
                return Err(ConnectionClosed);
            }
            Fault::GoodbyeThenClose => {
                self.send(UNSOLICITED, Reply::Goodbye);
                return Err(ConnectionClosed);
            }
        }
        Ok(())
    }

    /// Sends an answer, or holds it back until there are enough to send in reverse order.
    fn answer(&mut self, response: Response) {
        self.held.push(response);
        if self.held.len() >= self.shared.switches(|switches| switches.reverse) {
            while let Some(response) = self.held.pop() {
                write(self.stream, &self.in_flight, &response);
            }
        }
    }

    fn send(&self, id: u64, reply: Reply) {
        write(self.stream, &self.in_flight, &Response { id, reply });
    }
}

fn write(stream: &UnixStream, in_flight: &AtomicUsize, response: &Response) {
    let mut out = Vec::new();
    encode_response(response, &mut out);
    if response.id != UNSOLICITED {
        in_flight.fetch_sub(1, Ordering::Relaxed);
    }
    // If the client is gone, the next read fails too.
    let _ = (&*stream).write_all(&out);
}
