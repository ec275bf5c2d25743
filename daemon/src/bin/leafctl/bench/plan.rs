//! The plan of a run, and the bytes of its requests.

use std::path::PathBuf;
use std::time::Duration;

use leaf_client::wire::{Call, HEADER_LEN, Request, encode_request};
use leafd::cli::leafctl::{BenchArgs, DaemonArgs};

/// Bytes of the request ID in an encoded request.
const ID: std::ops::Range<usize> = HEADER_LEN..HEADER_LEN + 8;

/// Which IDs a run requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    Tag(String),
    /// So many tags in turn, whose names are this prefix and a number.
    Tags(String, u32),
    Snowflake,
}

/// What a run does.
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
    /// How long the daemon may take for one request.
    pub(crate) timeout: Duration,
    /// Whether to print progress on stderr.
    pub(crate) progress: bool,
}

impl Plan {
    pub(crate) fn new(daemon: &DaemonArgs, args: &BenchArgs, progress: bool) -> Self {
        Self {
            socket: daemon.socket(),
            target: match (args.snowflake, args.tags) {
                (true, _) => Target::Snowflake,
                (false, None) => Target::Tag(args.tag.clone()),
                (false, Some(tags)) => Target::Tags(args.tag.clone(), tags),
            },
            connections: args.connections,
            in_flight: args.in_flight,
            count: args.count,
            warm_up: args.warm_up,
            duration: args.duration,
            timeout: daemon.timeout(),
            progress,
        }
    }

    /// A window of encoded requests, whose IDs are still to be filled in.
    pub(crate) fn requests(&self) -> Frames {
        let timeout_ms = u32::try_from(self.timeout.as_millis()).unwrap_or(u32::MAX);
        let first = self.target.first_tag();
        let call = match &first {
            Some(tag) => Call::Segment { tag, count: self.count, timeout_ms },
            None => Call::Snowflake { count: self.count, timeout_ms },
        };
        let mut frame = Vec::new();
        encode_request(&Request { id: 1, call }, &mut frame);
        let counter = match (&self.target, first) {
            (Target::Tags(_, tags), Some(first)) => Counter::new(&frame, &first, *tags),
            _ => None,
        };
        Frames { len: frame.len(), bytes: frame.repeat(self.in_flight as usize), counter }
    }
}

impl Target {
    /// The tag of the first request; `None` for snowflake.
    pub(crate) fn first_tag(&self) -> Option<String> {
        match self {
            Self::Tag(tag) => Some(tag.clone()),
            Self::Tags(tag, tags) => Some(format!("{tag}-{:0width$}", 0, width = width(*tags))),
            Self::Snowflake => None,
        }
    }

    /// Whether the run asks for this tag.
    pub(crate) fn has(&self, name: &str) -> bool {
        match self {
            Self::Tag(tag) => tag == name,
            Self::Tags(prefix, tags) => {
                let number = name.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('-'));
                number.is_some_and(|number| {
                    number.len() == width(*tags)
                        && number.bytes().all(|digit| digit.is_ascii_digit())
                        && number.parse::<u32>().is_ok_and(|number| number < *tags)
                })
            }
            Self::Snowflake => false,
        }
    }
}

/// Digits of the highest number in a tag's name.
fn width(tags: u32) -> usize {
    tags.saturating_sub(1).checked_ilog10().unwrap_or(0) as usize + 1
}

/// The number at the end of a tag's name, which each request increments.
#[derive(Debug)]
struct Counter {
    /// Position of the digits in a request.
    digits: std::ops::Range<usize>,
    next: u32,
    tags: u32,
}

impl Counter {
    fn new(frame: &[u8], tag: &str, tags: u32) -> Option<Self> {
        let start = frame.windows(tag.len()).position(|bytes| bytes == tag.as_bytes())?;
        let end = start + tag.len();
        Some(Self { digits: end - width(tags)..end, next: 0, tags })
    }

    fn count(&mut self, frame: &mut [u8]) {
        let mut number = self.next;
        for digit in frame.get_mut(self.digits.clone()).unwrap_or_default().iter_mut().rev() {
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
        }
        self.next = (self.next + 1) % self.tags.max(1);
    }
}

/// Encoded requests that differ only in their IDs and, with many tags, in the tag's number. They
/// are encoded once; each request then only overwrites a few bytes.
#[derive(Debug)]
pub(crate) struct Frames {
    bytes: Vec<u8>,
    len: usize,
    counter: Option<Counter>,
}

impl Frames {
    /// Gives the first requests the IDs that `ids` yields, and returns their length in bytes.
    #[inline]
    pub(crate) fn number(&mut self, ids: impl Iterator<Item = u64>) -> usize {
        let mut numbered = 0;
        for (frame, id) in self.bytes.chunks_exact_mut(self.len).zip(ids) {
            if let Some(field) = frame.get_mut(ID) {
                field.copy_from_slice(&id.to_le_bytes());
            }
            if let Some(counter) = &mut self.counter {
                counter.count(frame);
            }
            numbered += self.len;
        }
        numbered
    }

    #[inline]
    pub(crate) fn bytes(&self, from: usize, to: usize) -> &[u8] {
        self.bytes.get(from..to).unwrap_or_default()
    }

    /// Length of all requests together, in bytes.
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
    fn numbered_requests_decode_to_the_planned_calls() {
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

    #[test]
    fn requests_for_many_tags_take_turns() {
        let mut plan = plan(5);
        plan.target = Target::Tags("b".to_owned(), 11);
        let mut frames = plan.requests();
        let mut tags = Vec::new();
        for _ in 0..3 {
            let len = frames.number(1..=5);
            let mut rest = frames.bytes(0, len);
            while let Some((body, after)) = split_frame(rest, MAX_REQUEST_LEN).unwrap() {
                let Call::Segment { tag, .. } = decode_request(body).unwrap().call else {
                    panic!()
                };
                tags.push(tag.to_owned());
                rest = after;
            }
        }
        let expected: Vec<String> = (0..15).map(|n| format!("b-{:02}", n % 11)).collect();
        assert_eq!(tags, expected);
        let target = Target::Tags("b".to_owned(), 11);
        assert!(tags.iter().all(|tag| target.has(tag)));
        for other in ["b", "b-", "b-0", "b-11", "b-000", "b-0x", "c-00", "b-+1"] {
            assert!(!target.has(other), "{other}");
        }
        for (tags, first) in [(1, "b-0"), (10, "b-0"), (10_000, "b-0000"), (10_001, "b-00000")] {
            let target = Target::Tags("b".to_owned(), tags);
            assert_eq!(target.first_tag().as_deref(), Some(first));
        }
    }
}
