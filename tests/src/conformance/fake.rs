//! A fake daemon that does what a scenario says: to the byte, to the connection. Everything happens on
//! the thread of the scenario, when it asks for it.
//!
//! It also checks what holds in every scenario: the first request of a connection is a hello, and no
//! request ID is 0 or taken by a request that has no answer yet.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use leaf_client::wire::{
    Call, MAGIC, MAX_REQUEST_LEN, MAX_RESPONSE_LEN, VERSION, decode_request, split_frame,
};

use super::driver::PATIENCE;
use super::frames;

const STEP: Duration = Duration::from_millis(1);

/// A connection, by its number from 0 on.
pub type PeerNumber = usize;

/// A request as it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The connection.
    pub peer: PeerNumber,
    /// The request ID.
    pub id: u64,
    /// The call.
    pub call: Asks,
}

/// A call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asks {
    /// The handshake.
    Hello,
    /// IDs of a tag.
    Segment {
        /// The tag.
        tag: String,
        /// How many.
        count: u32,
        /// The longest wait.
        timeout_ms: u32,
    },
    /// Snowflake IDs.
    Snowflake {
        /// How many.
        count: u32,
        /// The longest wait.
        timeout_ms: u32,
    },
    /// The clock.
    Time,
    /// The status.
    Status,
    /// An administrative call.
    Administration,
}

impl Asked {
    /// How many IDs it asks for; 0 if none.
    #[must_use]
    pub const fn count(&self) -> u32 {
        match self.call {
            Asks::Segment { count, .. } | Asks::Snowflake { count, .. } => count,
            _ => 0,
        }
    }

    /// The tag; empty if it has none.
    #[must_use]
    pub fn tag(&self) -> &str {
        match &self.call {
            Asks::Segment { tag, .. } => tag,
            _ => "",
        }
    }

    /// The longest wait in the daemon that it allows.
    #[must_use]
    pub fn timeout_ms(&self) -> u32 {
        match self.call {
            Asks::Segment { timeout_ms, .. } | Asks::Snowflake { timeout_ms, .. } => timeout_ms,
            _ => panic!("{self:?} has no timeout"),
        }
    }
}

/// How the fake answers a hello by itself.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Largest `count`.
    pub max_count: u32,
    /// Most requests in flight.
    pub max_in_flight: u32,
}

#[derive(Debug)]
struct Peer {
    /// None once the scenario has closed it.
    stream: Option<UnixStream>,
    input: Vec<u8>,
    /// What was sent and is not a whole frame yet.
    output: Vec<u8>,
    /// Whether the client has closed its side.
    ended: bool,
    /// Whether its hello was read.
    greeted: bool,
    /// Whether the scenario talks to it by itself.
    by_hand: bool,
    /// Requests without an answer.
    open: BTreeSet<u64>,
}

/// A socket at which a scenario plays the daemon.
#[derive(Debug)]
pub struct FakeDaemon {
    path: PathBuf,
    listener: Option<UnixListener>,
    peers: Vec<Peer>,
    limits: Limits,
    most_in_flight: usize,
}

impl FakeDaemon {
    /// Listens at a path.
    ///
    /// # Panics
    /// If the path is taken.
    #[must_use]
    pub fn listen(path: &Path) -> Self {
        let mut this = Self {
            path: path.to_owned(),
            listener: None,
            peers: Vec::new(),
            limits: Limits { max_count: 100_000, max_in_flight: 1024 },
            most_in_flight: 0,
        };
        this.listen_again();
        this
    }

    /// Changes what further hellos are answered with.
    #[must_use]
    pub const fn with_limits(mut self, max_count: u32, max_in_flight: u32) -> Self {
        self.limits = Limits { max_count, max_in_flight };
        self
    }

    /// The path of the socket.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Closes the socket and all connections, as a daemon that is killed. The socket's file stays if
    /// `leave_file`.
    pub fn die(&mut self, leave_file: bool) {
        self.listener = None;
        if !leave_file {
            let _ = std::fs::remove_file(&self.path);
        }
        (0..self.peers.len()).for_each(|peer| self.close(peer));
    }

    /// Listens again after [`Self::die`].
    pub fn listen_again(&mut self) {
        let _ = std::fs::remove_file(&self.path);
        let listener = UnixListener::bind(&self.path);
        let listener = listener.unwrap_or_else(|error| panic!("{}: {error}", self.path.display()));
        listener.set_nonblocking(true).expect("a listener that does not block");
        self.listener = Some(listener);
    }

    /// How many connections were made, those still in the backlog included.
    pub fn connects(&mut self) -> usize {
        self.accept_waiting();
        self.peers.len()
    }

    /// The most requests that were in flight on one connection.
    #[must_use]
    pub const fn most_in_flight(&self) -> usize {
        self.most_in_flight
    }

    /// Waits for the next connection, which the scenario handles from its first byte on.
    pub fn accept(&mut self) -> PeerNumber {
        let before = self.peers.len();
        self.until("a connection", |this| {
            this.accept_some(1);
            (this.peers.len() > before).then_some(before)
        });
        self.peers[before].by_hand = true;
        before
    }

    /// A connection if one waits, which the scenario handles from its first byte on.
    pub fn try_accept(&mut self) -> Option<PeerNumber> {
        let before = self.peers.len();
        self.accept_some(1);
        let accepted = self.peers.len() > before;
        accepted.then(|| {
            self.peers[before].by_hand = true;
            before
        })
    }

    /// Waits for the next request on one connection. None if the client closes it.
    pub fn request_from(&mut self, peer: PeerNumber) -> Option<Asked> {
        self.until("a request on this connection, or its end", |this| {
            this.read(peer);
            match this.frame_from(peer) {
                Some(asked) => Some(Some(asked)),
                None => this.peers[peer].ended.then_some(None),
            }
        })
    }

    /// Waits for the hello on a connection and returns its request ID. The scenario answers it.
    pub fn hello_from(&mut self, peer: PeerNumber) -> u64 {
        match self.request_from(peer) {
            Some(Asked { id, call: Asks::Hello, .. }) => id,
            other => panic!("instead of a hello came {other:?}"),
        }
    }

    /// Waits for the next connection and completes the handshake.
    pub fn greet(&mut self) -> PeerNumber {
        let peer = self.accept();
        let id = self.hello_from(peer);
        self.send(peer, &self.hello(id));
        peer
    }

    /// Waits for the next request on any connection. Hellos are answered on the way, but not those on
    /// connections that the scenario has accepted by itself.
    pub fn request(&mut self) -> Asked {
        self.until("a request", Self::poll)
    }

    /// The next request, if one is there.
    pub fn poll(&mut self) -> Option<Asked> {
        self.accept_waiting();
        for peer in 0..self.peers.len() {
            self.read(peer);
            while let Some(asked) = self.frame_from(peer) {
                if asked.call != Asks::Hello {
                    return Some(asked);
                }
                if !self.peers[peer].by_hand {
                    self.send(peer, &self.hello(asked.id));
                }
            }
        }
        None
    }

    /// Handles requests for so long.
    pub fn serve_for(&mut self, time: Duration, mut answer: impl FnMut(&mut Self, Asked)) {
        let began = Instant::now();
        while began.elapsed() < time {
            match self.poll() {
                Some(asked) => answer(self, asked),
                None => std::thread::sleep(STEP),
            }
        }
    }

    /// Handles requests until `done` says so, [`PATIENCE`] at most.
    pub fn serve_until(
        &mut self,
        what: &str,
        mut answer: impl FnMut(&mut Self, Asked),
        mut done: impl FnMut(&mut Self) -> bool,
    ) {
        self.until(what, |this| {
            while let Some(asked) = this.poll() {
                answer(this, asked);
            }
            done(this).then_some(())
        });
    }

    /// Sends bytes on a connection. They are lost if the client has closed it.
    pub fn send(&mut self, peer: PeerNumber, bytes: &[u8]) {
        let peer = &mut self.peers[peer];
        peer.output.extend(bytes);
        while let Ok(Some((body, rest))) = split_frame(&peer.output, MAX_RESPONSE_LEN) {
            if let Some(id) = body.first_chunk::<8>() {
                peer.open.remove(&u64::from_le_bytes(*id));
            }
            let used = peer.output.len() - rest.len();
            peer.output.drain(..used);
        }
        let Some(stream) = &mut peer.stream else { return };
        let (began, mut left) = (Instant::now(), bytes);
        while !left.is_empty() {
            match stream.write(left) {
                Ok(written) => left = &left[written..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    assert!(began.elapsed() < PATIENCE, "the client does not read");
                    std::thread::sleep(STEP);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    /// Sends bytes one by one, each in a write of its own.
    pub fn send_byte_by_byte(&mut self, peer: PeerNumber, bytes: &[u8]) {
        for byte in bytes {
            self.send(peer, &[*byte]);
            std::thread::sleep(Duration::from_micros(300));
        }
    }

    /// Answers a request for IDs.
    pub fn give(&mut self, asked: &Asked, first: u64) {
        self.send(asked.peer, &frames::ids(asked.id, &[(first, asked.count())]));
    }

    /// Closes a connection.
    pub fn close(&mut self, peer: PeerNumber) {
        self.peers[peer].stream = None;
    }

    /// Ends the stream to the client, and goes on reading.
    pub fn half_close(&mut self, peer: PeerNumber) {
        if let Some(stream) = &self.peers[peer].stream {
            let _ = stream.shutdown(Shutdown::Write);
        }
    }

    /// Waits until the client has closed a connection.
    pub fn wait_closed(&mut self, peer: PeerNumber) {
        self.until("the end of the connection", |this| {
            this.read(peer);
            this.peers[peer].ended.then_some(())
        });
    }

    /// Whether the client has closed a connection.
    pub fn is_closed(&mut self, peer: PeerNumber) -> bool {
        self.read(peer);
        self.peers[peer].ended
    }

    fn hello(&self, id: u64) -> Vec<u8> {
        frames::hello(id, VERSION, self.limits.max_count, self.limits.max_in_flight)
    }

    fn until<T>(&mut self, what: &str, mut look: impl FnMut(&mut Self) -> Option<T>) -> T {
        let began = Instant::now();
        loop {
            if let Some(found) = look(self) {
                return found;
            }
            assert!(began.elapsed() < PATIENCE, "the fake daemon waits in vain for {what}");
            std::thread::sleep(STEP);
        }
    }

    fn accept_waiting(&mut self) {
        self.accept_some(usize::MAX);
    }

    fn accept_some(&mut self, most: usize) {
        let Some(listener) = &self.listener else { return };
        for _ in 0..most {
            let Ok((stream, _)) = listener.accept() else { return };
            stream.set_nonblocking(true).expect("a stream that does not block");
            self.peers.push(Peer {
                stream: Some(stream),
                input: Vec::new(),
                output: Vec::new(),
                ended: false,
                greeted: false,
                by_hand: false,
                open: BTreeSet::new(),
            });
        }
    }

    fn read(&mut self, peer: PeerNumber) {
        let peer = &mut self.peers[peer];
        let Some(stream) = &mut peer.stream else {
            peer.ended = true;
            return;
        };
        let mut buffer = [0; 64 * 1024];
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => peer.ended = true,
                Ok(count) => {
                    peer.input.extend(&buffer[..count]);
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => peer.ended = true,
            }
            return;
        }
    }

    /// The next request that has arrived on a connection, checked.
    fn frame_from(&mut self, number: PeerNumber) -> Option<Asked> {
        let peer = &mut self.peers[number];
        let split = split_frame(&peer.input, MAX_REQUEST_LEN);
        let (body, rest) =
            split.unwrap_or_else(|error| panic!("a request is too long: {error}"))?;
        let request = decode_request(body);
        let request = request.unwrap_or_else(|wrong| panic!("{}: {body:02x?}", wrong.error));
        let call = match request.call {
            Call::Hello { magic, version } => {
                assert_eq!(magic, MAGIC, "the magic of a hello");
                assert_eq!(version, VERSION, "the version of a hello");
                Asks::Hello
            }
            Call::Segment { tag, count, timeout_ms } => {
                Asks::Segment { tag: tag.to_owned(), count, timeout_ms }
            }
            Call::Snowflake { count, timeout_ms } => Asks::Snowflake { count, timeout_ms },
            Call::Time => Asks::Time,
            Call::Status => Asks::Status,
            _ => Asks::Administration,
        };
        let (id, is_hello) = (request.id, call == Asks::Hello);
        let used = peer.input.len() - rest.len();
        peer.input.drain(..used);
        assert_ne!(id, 0, "a request has the ID 0: {call:?}");
        assert_eq!(!peer.greeted, is_hello, "a hello comes once, as the first request: {call:?}");
        peer.greeted = true;
        assert!(peer.open.insert(id), "the ID {id} is used again before its answer: {call:?}");
        self.most_in_flight = self.most_in_flight.max(peer.open.len());
        Some(Asked { peer: number, id, call })
    }
}
