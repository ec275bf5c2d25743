//! What a run is to do, and the bytes of its requests.

use std::path::PathBuf;
use std::time::Duration;

use leaf_client::wire::{Call, HEADER_LEN, Request, encode_request};

use crate::cli::{BenchArgs, DaemonArgs};

/// Where the request ID stands in an encoded request.
const ID: std::ops::Range<usize> = HEADER_LEN..HEADER_LEN + 8;

/// What IDs are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// IDs of a biz tag.
    Tag(String),
    /// Snowflake IDs.
    Snowflake,
}

/// What a run is to do.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) socket: PathBuf,
    pub(crate) target: Target,
    pub(crate) connections: u32,
    /// Requests in flight per connection.
    pub(crate) in_flight: u32,
    /// IDs per request.
    pub(crate) count: u32,
    pub(crate) warm_up: Duration,
    pub(crate) duration: Duration,
    /// How long the daemon may take over one request.
    pub(crate) timeout: Duration,
    /// Whether to report progress on stderr.
    pub(crate) progress: bool,
}

impl Plan {
    /// The plan that the command line asks for.
    pub(crate) fn new(daemon: &DaemonArgs, args: &BenchArgs, progress: bool) -> Self {
        Self {
            socket: daemon.socket(),
            target: if args.snowflake { Target::Snowflake } else { Target::Tag(args.tag.clone()) },
            connections: args.connections,
            in_flight: args.in_flight,
            count: args.count,
            warm_up: args.warm_up,
            duration: args.duration,
            timeout: daemon.timeout,
            progress,
        }
    }

    /// Requests of this plan, one after the other, each waiting for its ID.
    pub(crate) fn requests(&self) -> Frames {
        let timeout_ms = u32::try_from(self.timeout.as_millis()).unwrap_or(u32::MAX);
        let call = match &self.target {
            Target::Tag(tag) => Call::Segment { tag, count: self.count, timeout_ms },
            Target::Snowflake => Call::Snowflake { count: self.count, timeout_ms },
        };
        let mut frame = Vec::new();
        encode_request(&Request { id: 1, call }, &mut frame);
        Frames { len: frame.len(), bytes: frame.repeat(self.in_flight as usize) }
    }
}

/// Encoded requests that differ in nothing but their IDs: encoding is done once, and what remains
/// per request is to write eight bytes.
#[derive(Debug)]
pub(crate) struct Frames {
    bytes: Vec<u8>,
    len: usize,
}

impl Frames {
    /// Gives the first requests the IDs that `ids` yields; tells how many bytes they have.
    #[inline]
    pub(crate) fn number(&mut self, ids: impl Iterator<Item = u64>) -> usize {
        let mut numbered = 0;
        for (frame, id) in self.bytes.chunks_exact_mut(self.len).zip(ids) {
            if let Some(field) = frame.get_mut(ID) {
                field.copy_from_slice(&id.to_le_bytes());
            }
            numbered += self.len;
        }
        numbered
    }

    /// The bytes from one offset to another.
    #[inline]
    pub(crate) fn bytes(&self, from: usize, to: usize) -> &[u8] {
        self.bytes.get(from..to).unwrap_or_default()
    }

    /// Bytes of all requests together.
    pub(crate) fn total_len(&self) -> usize {
        self.bytes.len()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use leaf_client::wire::{MAX_REQUEST_LEN, decode_request, split_frame};

    /// A plan for tests that open no socket.
    pub(crate) fn plan(in_flight: u32) -> Plan {
        Plan {
            socket: PathBuf::from("/nowhere"),
            target: Target::Tag("bench".to_owned()),
            connections: 1,
            in_flight,
            count: 3,
            warm_up: Duration::ZERO,
            duration: Duration::from_secs(1),
            timeout: Duration::from_secs(5),
            progress: false,
        }
    }

    #[test]
    fn numbered_requests_decode_to_what_was_planned() {
        let mut frames = plan(3).requests();
        let len = frames.number([7, u64::MAX].into_iter());
        let mut rest = frames.bytes(0, len);
        for id in [7, u64::MAX] {
            let (body, after) = split_frame(rest, MAX_REQUEST_LEN).unwrap().unwrap();
            let call = Call::Segment { tag: "bench", count: 3, timeout_ms: 5000 };
            assert_eq!(decode_request(body), Ok(Request { id, call }));
            rest = after;
        }
        assert!(rest.is_empty());
    }
}
