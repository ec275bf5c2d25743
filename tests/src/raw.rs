//! A connection on which a test can send any bytes, right or wrong, and read the answers. It does not
//! use the client library's session.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use leaf_client::wire::{
    Call, ErrorCode, HEADER_LEN, MAGIC, MAX_RESPONSE_LEN, Reply, Request, Response, VERSION,
    WireError, decode_response, encode_request, split_frame,
};

use crate::PATIENCE;

/// A connection to the daemon, byte by byte.
#[derive(Debug)]
pub struct Raw {
    stream: UnixStream,
    input: Vec<u8>,
}

/// The frame of one request.
#[must_use]
pub fn frame(id: u64, call: Call<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    encode_request(&Request { id, call }, &mut out);
    out
}

/// A header that announces `body.len()` bytes, and the body.
#[must_use]
pub fn frame_of(body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(body.len()).unwrap_or(u32::MAX);
    [len.to_be_bytes().as_slice(), body].concat()
}

/// A correct `Hello`, with ID 1.
#[must_use]
pub fn hello() -> Vec<u8> {
    frame(1, Call::Hello { magic: MAGIC, version: VERSION })
}

/// A request for IDs of a tag, with the daemon's default deadline.
#[must_use]
pub const fn segment(tag: &str, count: u32) -> Call<'_> {
    Call::Segment { tag, count, timeout_ms: 0 }
}

/// A request for snowflake IDs, with the daemon's default deadline.
#[must_use]
pub const fn snowflakes(count: u32) -> Call<'static> {
    Call::Snowflake { count, timeout_ms: 0 }
}

impl Raw {
    /// Connects and sends nothing.
    #[must_use]
    pub fn connect(path: &Path) -> Self {
        Self::try_connect(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Connects and sends nothing. Fails if nobody listens, or this process is out of descriptors.
    pub fn try_connect(path: &Path) -> io::Result<Self> {
        UnixStream::connect(path).map(Self::over)
    }

    /// Uses a stream that already leads to the daemon.
    #[must_use]
    pub fn over(stream: UnixStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).expect("a limit for reading");
        stream.set_write_timeout(Some(PATIENCE)).expect("a limit for writing");
        Self { stream, input: Vec::new() }
    }

    /// Connects and completes the handshake.
    #[must_use]
    pub fn greeted(path: &Path) -> Self {
        let mut this = Self::connect(path);
        this.send(&hello());
        let answer = this.receive();
        let greeted = matches!(&answer, Some(Response { id: 1, reply: Reply::Hello { .. } }));
        assert!(greeted, "{answer:?}");
        this
    }

    /// Sends bytes. They are lost if the daemon has closed the connection.
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Sends one request and returns the next response, which has to be its answer.
    pub fn ask(&mut self, id: u64, call: Call<'_>) -> Reply {
        self.send(&frame(id, call));
        match self.receive() {
            Some(response) if response.id == id => response.reply,
            other => panic!("the answer to {id} is {other:?}"),
        }
    }

    /// The next response; none if the daemon has closed the connection.
    pub fn receive(&mut self) -> Option<Response> {
        loop {
            match split_frame(&self.input, MAX_RESPONSE_LEN) {
                Ok(Some((body, rest))) => {
                    let response = decode_response(body);
                    let used = self.input.len() - rest.len();
                    self.input.drain(..used);
                    return Some(response.unwrap_or_else(|error| panic!("{error}")));
                }
                Ok(None) => {}
                Err(error) => panic!("{error}"),
            }
            let mut buffer = [0; 16 * 1024];
            match self.stream.read(&mut buffer) {
                Ok(0) => {
                    assert!(self.input.len() < HEADER_LEN, "cut off: {:02x?}", self.input);
                    return None;
                }
                Ok(count) => self.input.extend(buffer.iter().take(count)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // This is how a connection ends that the daemon closes before it has read everything.
                Err(error) if is_end(&error) => return None,
                Err(error) => panic!("neither an answer nor the end: {error}"),
            }
        }
    }

    /// The next response, which has to be an error, and the request ID in it.
    pub fn refusal(&mut self) -> (u64, WireError) {
        match self.receive() {
            Some(Response { id, reply: Reply::Error(error) }) => (id, error),
            other => panic!("{other:?} is not an error"),
        }
    }

    /// Sends `bytes` and expects the error `code` and then the end of the connection.
    pub fn is_closed_with(&mut self, bytes: &[u8], code: ErrorCode) -> WireError {
        self.send(bytes);
        let (id, error) = self.refusal();
        assert_eq!(error.code(), code, "{id}: {error}");
        assert_eq!(self.receive(), None, "the connection goes on after {error}");
        error
    }

    /// Waits until the daemon has closed the connection, without reading from it.
    pub fn wait_hung_up(&self) {
        let began = Instant::now();
        // A write fails once the other end is closed.
        while !(&self.stream).write(&[0]).is_err_and(|error| is_end(&error)) {
            assert!(began.elapsed() < PATIENCE, "the connection is kept open");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The underlying stream.
    #[must_use]
    pub const fn stream(&self) -> &UnixStream {
        &self.stream
    }
}

fn is_end(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
}
