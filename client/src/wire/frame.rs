//! From bytes to messages and back. A length is checked before anything is allocated for it.

use bincode::config::{Configuration, Fixint, Limit, LittleEndian};
use bincode::error::DecodeError;

use super::error::{ErrorCode, WireError};
use super::limits::{MAX_REQUEST_LEN, MAX_RESPONSE_LEN, UNSOLICITED};
use super::message::{Request, Response};

/// What bincode's derive calls [`super::Call`] in an error.
const CALL: &str = "Call";

/// Bytes of the length before each message.
pub const HEADER_LEN: usize = 4;

// `config::legacy()` with a limit: little-endian, integers of fixed width.
const REQUEST: Configuration<LittleEndian, Fixint, Limit<MAX_REQUEST_LEN>> =
    bincode::config::legacy().with_limit::<MAX_REQUEST_LEN>();
const RESPONSE: Configuration<LittleEndian, Fixint, Limit<MAX_RESPONSE_LEN>> =
    bincode::config::legacy().with_limit::<MAX_RESPONSE_LEN>();

/// A length above the limit: what follows cannot be trusted to be a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a frame of {len} bytes is longer than the limit of {limit}")]
pub struct FrameError {
    /// The length that the peer announced, in bytes.
    pub len: usize,
    /// The limit in bytes.
    pub limit: usize,
}

/// The body of a frame, and the bytes that follow it.
pub type Split<'a> = (&'a [u8], &'a [u8]);

/// Takes the first whole frame off `buf`: its body and what follows it. `None` when more bytes
/// have to arrive first.
///
/// # Errors
/// When the announced length is above `limit`, as soon as the header is there.
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

/// A request that did not decode, with the ID to answer to ([`super::UNSOLICITED`] when not even
/// that was there).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestError {
    /// The request's ID.
    pub id: u64,
    /// What to answer.
    pub error: WireError,
}

/// Decodes the body of one request; the tag borrows from `body`.
///
/// # Errors
/// `UnknownCall` or `Malformed`, to be sent back as it is.
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
            WireError::new(ErrorCode::UnknownCall, format!("call {found} is not known"))
                .with_detail(u64::from(*found))
        }
        DecodeError::UnexpectedEnd { .. } => WireError::new(
            ErrorCode::Malformed,
            format!("the message ends after {} bytes, in the middle of a field", body.len()),
        ),
        DecodeError::Utf8 { .. } => {
            WireError::new(ErrorCode::Malformed, "a text is not valid UTF-8")
        }
        other => WireError::new(ErrorCode::Malformed, format!("the message is damaged: {other}")),
    };
    RequestError { id, error }
}

/// A response that did not decode: the peer is not a leafd of a known version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the daemon's answer does not decode: {0}")]
pub struct ResponseError(pub String);

/// Decodes the body of one response.
///
/// # Errors
/// When the bytes are not a response of this version.
#[inline]
pub fn decode_response(body: &[u8]) -> Result<Response, ResponseError> {
    match bincode::decode_from_slice::<Response, _>(body, RESPONSE) {
        Ok((response, used)) if used == body.len() => Ok(response),
        Ok((_, used)) => Err(ResponseError(format!("{} bytes left over", body.len() - used))),
        Err(error) => Err(ResponseError(error.to_string())),
    }
}

/// Appends one request, header included, to `out`.
pub fn encode_request(request: &Request<'_>, out: &mut Vec<u8>) {
    encode(request, out);
}

/// Appends one response, header included, to `out`. Allocates only where `out` has no room.
#[inline]
pub fn encode_response(response: &Response, out: &mut Vec<u8>) {
    encode(response, out);
}

#[inline]
fn encode<M: bincode::Encode>(message: &M, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER_LEN]);
    let mut writer = VecWriter(out);
    // Writing to a vector cannot fail, and these messages hold nothing (no RefCell, no Mutex, no
    // path) whose encoding could.
    let encoded = bincode::encode_into_writer(message, &mut writer, bincode::config::legacy());
    debug_assert!(encoded.is_ok());
    let len = u32::try_from(out.len() - start - HEADER_LEN).unwrap_or(u32::MAX);
    if let Some(header) = out.get_mut(start..start + HEADER_LEN) {
        header.copy_from_slice(&len.to_be_bytes());
    }
}

struct VecWriter<'a>(&'a mut Vec<u8>);

impl bincode::enc::write::Writer for VecWriter<'_> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> Result<(), bincode::error::EncodeError> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}
