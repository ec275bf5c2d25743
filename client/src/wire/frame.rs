//! Frames: decoding bytes into messages and encoding messages into bytes. A length is checked
//! before anything is allocated for it.

use bincode::config::{Configuration, Fixint, Limit, LittleEndian};
use bincode::error::DecodeError;

use super::error::{ErrorCode, WireError};
use super::limits::{MAX_REQUEST_LEN, MAX_RESPONSE_LEN, UNSOLICITED};
use super::message::{Request, Response};

/// The name of [`super::Call`] in bincode's errors.
const CALL: &str = "Call";

/// The length of a frame's header in bytes. The header holds the length of the body.
pub const HEADER_LEN: usize = 4;

// `config::legacy()` is little-endian with integers of fixed width.
const REQUEST: Configuration<LittleEndian, Fixint, Limit<MAX_REQUEST_LEN>> =
    bincode::config::legacy().with_limit::<MAX_REQUEST_LEN>();
/// bincode counts what a list takes in memory: 16 bytes for a run of 12, and twice as much as on the wire for
/// some others. The frame itself is checked before.
const DECODED: usize = 4 * MAX_RESPONSE_LEN;
const RESPONSE: Configuration<LittleEndian, Fixint, Limit<DECODED>> =
    bincode::config::legacy().with_limit::<DECODED>();

/// A frame is longer than the limit. The rest of the stream cannot be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a frame of {len} bytes is longer than the limit of {limit}")]
pub struct FrameError {
    /// The length in the header, in bytes.
    pub len: usize,
    /// The limit in bytes.
    pub limit: usize,
}

/// The body of a frame, and the bytes after the frame.
pub type Split<'a> = (&'a [u8], &'a [u8]);

/// Splits the first frame off `buf`. Returns `None` if `buf` does not hold all of it yet.
///
/// # Errors
/// If the length in the header is above `limit`, even before the body has arrived.
#[inline]
pub fn split_frame(buf: &[u8], limit: usize) -> Result<Option<Split<'_>>, FrameError> {
    let Some((header, rest)) = buf.split_first_chunk::<HEADER_LEN>() else {
        return Ok(None);
    };
    let len = u32::from_be_bytes(*header) as usize;
    if len > limit {
        return Err(FrameError { len, limit });
    }
    Ok(rest.split_at_checked(len))
}

/// The bytes where a request for IDs of a tag has its name, for a look ahead: `body` is not checked, and
/// may turn out not to decode. `None` for other calls.
#[inline]
#[must_use]
pub fn peek_tag(body: &[u8]) -> Option<&[u8]> {
    // After the request's ID: the call and the length of the name.
    let (head, rest) = body.get(8..)?.split_first_chunk::<12>()?;
    let (call, len) = head.split_first_chunk::<4>()?;
    let len = u64::from_le_bytes(*len.first_chunk()?);
    if *call != 1u32.to_le_bytes() {
        return None;
    }
    rest.get(..usize::try_from(len).ok()?)
}

/// The answer to a request that does not decode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestError {
    /// The request's ID; [`super::UNSOLICITED`] if the body is too short for one.
    pub id: u64,
    /// The error to send back.
    pub error: WireError,
}

/// Decodes the body of a request. Its texts borrow from `body`.
///
/// # Errors
/// `UnknownCall` or `Malformed`, ready to be sent back.
#[inline]
pub fn decode_request(body: &[u8]) -> Result<Request<'_>, Box<RequestError>> {
    match bincode::borrow_decode_from_slice::<Request<'_>, _>(body, REQUEST) {
        Ok((request, used)) if used == body.len() => Ok(request),
        Ok((request, used)) => Err(Box::new(RequestError {
            id: request.id,
            error: WireError::new(
                ErrorCode::Malformed,
                format!("{} bytes are left over after the call", body.len() - used),
            ),
        })),
        Err(error) => Err(Box::new(explain(body, &error))),
    }
}

#[cold]
fn explain(body: &[u8], error: &DecodeError) -> RequestError {
    let id = body.first_chunk::<8>().map_or(UNSOLICITED, |id| u64::from_le_bytes(*id));
    let error = match error {
        DecodeError::UnexpectedVariant { found, type_name, .. } if *type_name == CALL => {
            WireError::new(ErrorCode::UnknownCall, format!("call {found} is unknown"))
                .with_detail(u64::from(*found))
        }
        DecodeError::UnexpectedEnd { .. } => WireError::new(
            ErrorCode::Malformed,
            format!("the message ends after {} bytes, within a field", body.len()),
        ),
        DecodeError::Utf8 { .. } => {
            WireError::new(ErrorCode::Malformed, "a text is not valid UTF-8")
        }
        other => WireError::new(ErrorCode::Malformed, format!("the message is damaged: {other}")),
    };
    RequestError { id, error }
}

/// A response does not decode: the peer is not a leafd of a known version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the answer does not decode: {0}")]
pub struct ResponseError(pub String);

/// Decodes the body of a response.
///
/// # Errors
/// If the bytes are not a response of this protocol version.
#[inline]
pub fn decode_response(body: &[u8]) -> Result<Response, ResponseError> {
    match bincode::decode_from_slice::<Response, _>(body, RESPONSE) {
        Ok((response, used)) if used == body.len() => Ok(response),
        Ok((_, used)) => Err(ResponseError(format!("{} bytes left over", body.len() - used))),
        Err(error) => Err(ResponseError(error.to_string())),
    }
}

/// Appends the frame of a request to `out`.
pub fn encode_request(request: &Request<'_>, out: &mut Vec<u8>) {
    encode(request, out);
}

/// Appends the frame of a response to `out`. Allocates only if `out` has no capacity left.
#[inline]
pub fn encode_response(response: &Response, out: &mut Vec<u8>) {
    encode(response, out);
}

#[inline]
fn encode<M: bincode::Encode>(message: &M, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER_LEN]);
    let mut writer = VecWriter(out);
    // Writing to a vector cannot fail, and no field of a message (such as a RefCell, a Mutex or a
    // path) can fail to encode.
    let encoded = bincode::encode_into_writer(message, &mut writer, bincode::config::legacy());
    debug_assert!(encoded.is_ok());
    let len = u32::try_from(out.len() - start - HEADER_LEN).unwrap_or(u32::MAX);
    if let Some(header) = out.get_mut(start..start + HEADER_LEN) {
        header.copy_from_slice(&len.to_be_bytes());
    }
}

/// Appends what bincode writes to a vector.
struct VecWriter<'a>(&'a mut Vec<u8>);

impl bincode::enc::write::Writer for VecWriter<'_> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> Result<(), bincode::error::EncodeError> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::{Reply, Run};
    use super::*;

    #[test]
    fn the_longest_response_decodes_whatever_it_takes_in_memory() {
        // A body of 8 + 4 + 12 + 8 bytes, and 12 for each further run.
        let more =
            (0..(MAX_RESPONSE_LEN - 32) / 12).map(|at| Run { first: 2 * at as u64, count: 1 });
        let reply = Reply::Ids { first: Run { first: 1, count: 1 }, more: more.collect() };
        let (mut out, response) = (Vec::new(), Response { id: 1, reply });
        encode_response(&response, &mut out);
        let (body, _) = split_frame(&out, MAX_RESPONSE_LEN).unwrap().unwrap();
        assert!(body.len() > MAX_RESPONSE_LEN - 12);
        assert_eq!(decode_response(body).unwrap(), response);
    }
}
