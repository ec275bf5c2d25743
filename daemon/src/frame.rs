//! Reads one frame from a TCP connection between daemons. It never reads ahead, so a connection
//! buffers a single message at most.

use leaf_client::wire::{FrameError, HEADER_LEN};
use tokio::io::{self, AsyncRead, AsyncReadExt};

/// Why there is no frame.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    /// The body is above the limit; it is not read.
    #[error(transparent)]
    TooLong(#[from] FrameError),
    /// The connection has ended or failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Waits for a whole frame with a body of at most `limit` bytes, and reads its body.
pub(crate) async fn read_frame(
    stream: &mut (impl AsyncRead + Unpin),
    limit: usize,
) -> Result<Vec<u8>, ReadError> {
    let mut header = [0; HEADER_LEN];
    stream.read_exact(&mut header).await?;
    let len = u32::from_be_bytes(header) as usize;
    if len > limit {
        return Err(FrameError { len, limit }.into());
    }
    let mut body = vec![0; len];
    stream.read_exact(&mut body).await?;
    Ok(body)
}

#[cfg(test)]
mod tests {
    use leaf_client::wire::{Call, Request, encode_request};

    use super::*;

    #[tokio::test]
    async fn one_frame_is_read_at_a_time_and_the_rest_stays_in_the_stream() {
        let mut bytes = Vec::new();
        for id in [1, 2] {
            encode_request(&Request { id, call: Call::Time }, &mut bytes);
        }
        let (one, _) = bytes.split_at(bytes.len() / 2);
        let body = one[HEADER_LEN..].to_vec();
        let mut input = bytes.as_slice();
        assert_eq!(read_frame(&mut input, body.len()).await.unwrap(), body);
        assert_eq!(input.len(), one.len());
        let too_long = read_frame(&mut input, body.len() - 1).await;
        assert!(matches!(too_long, Err(ReadError::TooLong(error)) if error.len == body.len()));
        let ended = read_frame(&mut [0, 0, 0, 5, 1].as_slice(), 5).await;
        assert!(matches!(ended, Err(ReadError::Io(_))));
    }
}
