//! The socket of the asynchronous client: it says hello, reads frame by frame and writes in
//! batches.

use std::io;

use futures_util::{FutureExt, StreamExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;
use tokio_util::codec::{FramedRead, LengthDelimitedCodec, LengthDelimitedCodecError};

use crate::error::ProtocolError;
use crate::options::Options;
use crate::path::check_socket_path;
use crate::session::{self, ConnectionFailure, DaemonEvent};
use crate::wire::{FrameError, HEADER_LEN, MAX_RESPONSE_LEN, Response, decode_response};

/// A batch of requests is written once it has about this many bytes.
pub(super) const BATCH_LEN: usize = 64 * 1024;

/// A connection after the handshake.
pub(super) struct AsyncConnection {
    pub(super) reader: FrameReader,
    pub(super) writer: RequestWriter,
    /// The daemon's limit on requests in flight.
    pub(super) max_in_flight: usize,
}

impl AsyncConnection {
    /// Connects and says hello within the timeout of a call. A daemon that takes longer could not
    /// serve a call in time either.
    pub(super) async fn open(options: &Options) -> Result<Self, ConnectionFailure> {
        match timeout(options.call_timeout(), Self::greet(options)).await {
            Ok(connection) => connection,
            Err(_) => {
                Err(ConnectionFailure::io(io::ErrorKind::TimedOut, "it did not say hello in time"))
            }
        }
    }

    async fn greet(options: &Options) -> Result<Self, ConnectionFailure> {
        check_socket_path(options.socket_path())?;
        let (read, write) = UnixStream::connect(options.socket_path()).await?.into_split();
        let mut reader = FrameReader::new(read);
        let mut writer = RequestWriter { socket: write, out: Vec::new(), written: 0 };
        session::greet(writer.buffer());
        // The daemon may have refused the connection and closed it already. Then writing fails, but
        // the reason can still be read.
        let sent = writer.flush_all().await;
        let max_in_flight = match (reader.response().await, sent) {
            (Ok(response), _) => session::welcome(response)?.max_in_flight,
            (Err(_), Err(error)) => return Err(error.into()),
            (Err(failure), Ok(())) => return Err(failure),
        };
        Ok(Self { reader, writer, max_in_flight })
    }
}

/// The reading half, which decodes one message at a time.
pub(super) struct FrameReader(FramedRead<OwnedReadHalf, LengthDelimitedCodec>);

impl FrameReader {
    fn new(socket: OwnedReadHalf) -> Self {
        // The codec checks a length before it allocates.
        let codec = LengthDelimitedCodec::builder()
            .length_field_length(HEADER_LEN)
            .max_frame_length(MAX_RESPONSE_LEN)
            .new_codec();
        Self(FramedRead::new(socket, codec))
    }

    /// Waits for the next message. Cancel safe: no message is lost if the future is dropped.
    pub(super) async fn event(&mut self) -> Result<DaemonEvent, ConnectionFailure> {
        Ok(DaemonEvent::try_from(self.response().await?)?)
    }

    /// The next message if it has arrived already.
    pub(super) fn ready_event(&mut self) -> Option<Result<DaemonEvent, ConnectionFailure>> {
        self.event().now_or_never()
    }

    async fn response(&mut self) -> Result<Response, ConnectionFailure> {
        match self.0.next().await {
            Some(Ok(frame)) => Ok(decode_response(&frame)?),
            Some(Err(error)) => Err(explain(error)),
            None => Err(ConnectionFailure::closed()),
        }
    }
}

/// Turns the codec's error for a long frame into a protocol error. Other errors are the socket's.
fn explain(error: io::Error) -> ConnectionFailure {
    match error.get_ref() {
        Some(inner) if inner.is::<LengthDelimitedCodecError>() => {
            // The codec does not tell the length, only that it is above the limit.
            let error = FrameError { len: MAX_RESPONSE_LEN + 1, limit: MAX_RESPONSE_LEN };
            ProtocolError::from(error).into()
        }
        _ => error.into(),
    }
}

/// The writing half, with the bytes that are not written yet.
pub(super) struct RequestWriter {
    socket: OwnedWriteHalf,
    out: Vec<u8>,
    written: usize,
}

impl RequestWriter {
    /// The buffer to append requests to. Bytes that are written already are removed first.
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        self.out.drain(..self.written.min(self.out.len()));
        self.written = 0;
        &mut self.out
    }

    /// Writes what the socket takes now. Returns whether that was everything.
    pub(super) fn flush(&mut self) -> io::Result<bool> {
        while let Some(rest) = self.out.get(self.written..).filter(|rest| !rest.is_empty()) {
            match self.socket.try_write(rest) {
                Ok(len) => self.written += len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        self.out.clear();
        self.written = 0;
        Ok(true)
    }

    async fn flush_all(&mut self) -> io::Result<()> {
        while !self.flush()? {
            self.writable().await?;
        }
        Ok(())
    }

    /// Waits until the socket takes more bytes.
    pub(super) async fn writable(&self) -> io::Result<()> {
        self.socket.writable().await
    }
}
