//! A connection that says whatever the test wants, right or wrong, and reads what comes back. No
//! library stands between the test and the bytes.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use leaf_client::wire::{
    Call, ErrorCode, HEADER_LEN, MAGIC, MAX_RESPONSE_LEN, Reply, Request, Response, UNSOLICITED,
    VERSION, WireError, decode_response, encode_request, split_frame,
};

/// How long an answer may take before the test gives up. No test measures time by it.
const PATIENCE: Duration = Duration::from_secs(60);

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

/// The right first message.
#[must_use]
pub fn hello() -> Vec<u8> {
    frame(1, Call::Hello { magic: MAGIC, version: VERSION })
}

impl Raw {
    /// Connects and says nothing.
    ///
    /// # Panics
    /// When nobody listens.
    #[must_use]
    #[expect(clippy::panic, reason = "a test cannot go on")]
    pub fn connect(path: &Path) -> Self {
        Self::try_connect(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Connects and says nothing.
    ///
    /// # Errors
    /// When nobody listens, or this process has no descriptor left.
    pub fn try_connect(path: &Path) -> io::Result<Self> {
        UnixStream::connect(path).map(Self::over)
    }

    /// Speaks through a stream that leads to the daemon.
    ///
    /// # Panics
    /// When it is no stream any more.
    #[must_use]
    pub fn over(stream: UnixStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).expect("a limit for reading");
        stream.set_write_timeout(Some(PATIENCE)).expect("a limit for writing");
        Self { stream, input: Vec::new() }
    }

    /// Connects and says hello.
    ///
    /// # Panics
    /// When the daemon does not say hello as well.
    #[must_use]
    pub fn greeted(path: &Path) -> Self {
        let mut this = Self::connect(path);
        this.send(&hello());
        let answer = this.receive();
        let greeted = matches!(&answer, Some(Response { id: 1, reply: Reply::Hello { .. } }));
        assert!(greeted, "{answer:?}");
        this
    }

    /// Sends bytes; those that the daemon no longer takes are lost, as on any socket.
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Sends one request and returns its answer, which has to be the next one.
    ///
    /// # Panics
    /// When the connection ends, or something else comes.
    #[expect(clippy::panic, reason = "a test cannot go on")]
    pub fn ask(&mut self, id: u64, call: Call<'_>) -> Reply {
        self.send(&frame(id, call));
        match self.receive() {
            Some(response) if response.id == id => response.reply,
            other => panic!("the answer to {id} is {other:?}"),
        }
    }

    /// The next answer; none when the daemon has closed the connection.
    ///
    /// # Panics
    /// When nothing comes for a long time, or what comes is not the protocol.
    #[expect(clippy::panic, reason = "a test cannot go on")]
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
                // What the daemon has not read yet when it closes makes an end of this kind.
                Err(error) if is_end(&error) => return None,
                Err(error) => panic!("no answer, and no end either: {error}"),
            }
        }
    }

    /// The next answer, which has to be an error, with the ID that it goes to.
    ///
    /// # Panics
    /// When it is none.
    #[expect(clippy::panic, reason = "a test cannot go on")]
    pub fn refusal(&mut self) -> (u64, WireError) {
        match self.receive() {
            Some(Response { id, reply: Reply::Error(error) }) => (id, error),
            other => panic!("{other:?} is no error"),
        }
    }

    /// Sends `bytes` and expects `code` about the whole connection, and then its end.
    ///
    /// # Panics
    /// When something else comes.
    pub fn is_thrown_out_for(&mut self, bytes: &[u8], code: ErrorCode) -> WireError {
        self.send(bytes);
        let (id, error) = self.refusal();
        assert_eq!(error.code(), code, "{id}: {error}");
        assert_eq!(self.receive(), None, "the connection goes on after {error}");
        error
    }

    /// Reads to the end of the connection, and returns the last error that came without a request.
    ///
    /// # Panics
    /// When the end does not come.
    pub fn last_words(&mut self) -> Option<WireError> {
        let mut last = None;
        while let Some(Response { id, reply }) = self.receive() {
            if let (UNSOLICITED, Reply::Error(error)) = (id, reply) {
                last = Some(error);
            }
        }
        last
    }

    /// Waits until the daemon has closed the connection, without reading anything of it.
    ///
    /// # Panics
    /// When it does not.
    pub fn wait_hung_up(&self) {
        let began = Instant::now();
        // A socket whose other end is gone takes no bytes.
        while !(&self.stream).write(&[0]).is_err_and(|error| is_end(&error)) {
            assert!(began.elapsed() < PATIENCE, "the connection is kept open");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The socket.
    #[must_use]
    pub const fn stream(&self) -> &UnixStream {
        &self.stream
    }
}

fn is_end(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
}
