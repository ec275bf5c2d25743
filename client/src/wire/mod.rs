//! The protocol: messages, errors, framing, limits. Only this module uses bincode, and it uses no
//! type of the daemon or the clients. `docs/protocol.md` describes the same bytes in prose; golden
//! vectors keep the two equal.

mod error;
mod frame;
#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod golden;
mod limits;
mod message;

pub use error::{ErrorCode, WireError};
pub use frame::{
    FrameError, HEADER_LEN, RequestError, ResponseError, Split, decode_request, decode_response,
    encode_request, encode_response, peek_tag, split_frame,
};
pub use limits::{
    MAGIC, MAX_ADDRESS_CHARS, MAX_BORROWER_CHARS, MAX_CGROUP_CHARS, MAX_CLAIM_CHARS,
    MAX_DESCRIPTION_CHARS, MAX_OWNER_CHARS, MAX_POOL_CHARS, MAX_PUBLIC_IDS, MAX_REQUEST_LEN,
    MAX_RESPONSE_LEN, MAX_TAG_CHARS, MAX_TAGS_PER_PAGE, MAX_WORKERS_PER_PAGE, UNSOLICITED, VERSION,
};
pub use message::{
    Call, DaemonStatus, ForecastPage, HeldLoan, LimitForecast, Reply, Request, Response, Run,
    SegmentTotals, SnowflakeState, SnowflakeStatus, Span, TagForecast, TagGrowth, TagStatus,
    WorkerLoan, WorkerState, WorkerStatus,
};
