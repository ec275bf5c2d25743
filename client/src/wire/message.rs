//! The messages. Variants are numbered by their order here, so new ones go at the end; the golden
//! vectors fail when an old one moves.

use bincode::{BorrowDecode, Decode, Encode};

use super::error::WireError;

/// What a client sends.
#[derive(Debug, Clone, PartialEq, Eq, Encode, BorrowDecode)]
pub struct Request<'a> {
    /// Chosen by the client, not 0; the answer carries it. Answers may come in any order.
    pub id: u64,
    /// What is asked.
    pub call: Call<'a>,
}

/// What can be asked.
#[derive(Debug, Clone, PartialEq, Eq, Encode, BorrowDecode)]
pub enum Call<'a> {
    /// 0. The first message of a connection.
    Hello {
        /// [`super::MAGIC`].
        magic: [u8; 4],
        /// The newest version that the client speaks.
        version: u16,
    },
    /// 1. IDs of a biz tag. Answer: `Ids`.
    Segment {
        /// The tag: 1 to 128 characters.
        tag: &'a str,
        /// How many: 1 to the daemon's limit (`Hello` tells it).
        count: u32,
        /// How long the daemon may let the request wait, in ms; 0 is the daemon's default.
        timeout_ms: u32,
    },
    /// 2. Snowflake IDs. Answer: `Ids`.
    Snowflake {
        /// How many: 1 to the daemon's limit.
        count: u32,
        /// As in `Segment`.
        timeout_ms: u32,
    },
    /// 3. The host's clock. Answer: `Time`.
    Time,
    /// 4. How the daemon is. Answer: `Status`.
    Status,
    /// 5. The tags in byte order of their names. Answer: `Tags`.
    TagList {
        /// Only tags after this one; empty for the first page.
        after: &'a str,
        /// At most so many: 1 to [`super::MAX_TAGS_PER_PAGE`].
        limit: u32,
    },
    /// 6. One tag. Answer: `Tags` with one element.
    TagShow {
        /// The tag.
        tag: &'a str,
    },
    /// 7. Makes a tag whose first ID is `first`. Answer: `Tags` with one element.
    TagCreate {
        /// The tag.
        tag: &'a str,
        /// IDs per lease, 1 to the daemon's `max_step`; 0 is the daemon's default.
        step: u32,
        /// The first ID that the tag will give, 1 in Leaf's convention.
        first: u64,
        /// For people, up to 256 characters.
        description: &'a str,
    },
    /// 8. Changes the step of a tag. Answer: `Tags` with one element.
    TagSetStep {
        /// The tag.
        tag: &'a str,
        /// IDs per lease, 1 to the daemon's `max_step`.
        step: u32,
    },
    /// 9. The worker IDs of the registry, ascending. Answer: `Workers`.
    WorkerList {
        /// Only worker IDs at or above this one; 0 for the first page.
        from: u64,
        /// At most so many: 1 to [`super::MAX_WORKERS_PER_PAGE`].
        limit: u32,
    },
    /// 10. Frees a worker ID whose owner is gone for good. Answer: `Workers` with one element.
    WorkerRelease {
        /// The worker ID.
        worker: u64,
        /// Its present owner, up to [`super::MAX_OWNER_CHARS`] characters: an operator's word that
        /// this one is gone. An ID that has changed hands meanwhile is not freed.
        owner: &'a str,
    },
    /// 11. Deletes a tag. Answer: `Tags` with one element; a new tag begins at its `max_id`.
    TagDelete {
        /// The tag.
        tag: &'a str,
    },
    /// 12. The tags that the daemon has used, from its memory alone. Answer: `Tags`.
    TagsUsed {
        /// Only tags after this one; empty for the first page.
        after: &'a str,
        /// At most so many: 1 to [`super::MAX_TAGS_PER_PAGE`].
        limit: u32,
    },
}

/// What the daemon sends.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Response {
    /// The request's ID, or [`super::UNSOLICITED`].
    pub id: u64,
    /// The answer.
    pub reply: Reply,
}

/// What can be answered.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Reply {
    /// 0. The call failed.
    Error(WireError),
    /// 1. The answer to `Hello`.
    Hello {
        /// The version in use from here on.
        version: u16,
        /// Largest `count` of one request.
        max_count: u32,
        /// Most requests without an answer on this connection.
        max_in_flight: u32,
    },
    /// 2. IDs: `first`, then `more`, which is empty in the common case.
    Ids {
        /// The first run; never empty.
        first: Run,
        /// Further runs in the order of issue; each begins above the end of the one before,
        /// unless the store went to another range in between.
        more: Vec<Run>,
    },
    /// 3. The host's clock.
    Time {
        /// Milliseconds since 1970-01-01T00:00:00Z.
        unix_ms: u64,
    },
    /// 4. How the daemon is.
    Status(Box<DaemonStatus>),
    /// 5. Tags, in byte order of their names.
    Tags(Vec<TagStatus>),
    /// 6. Unasked: the daemon stops; it answers what it has, then closes. Connect again.
    Goodbye,
    /// 7. Worker IDs, ascending.
    Workers(Vec<WorkerStatus>),
}

/// A run of IDs without a gap: `first`, `first + 1`, … `first + count - 1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Run {
    /// The lowest ID, at most `i64::MAX`.
    pub first: u64,
    /// How many; never 0.
    pub count: u32,
}

/// A half-open range `[start, end)` of IDs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Span {
    /// The lowest ID.
    pub start: u64,
    /// One past the highest ID.
    pub end: u64,
}

/// How the daemon is.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct DaemonStatus {
    /// Version of the daemon, as in `0.1.0`.
    pub version: String,
    /// Its process ID, as it sees itself.
    pub pid: u32,
    /// Milliseconds since it became ready.
    pub uptime_ms: u64,
    /// Open connections, this one included.
    pub connections: u32,
    /// Requests answered since the start.
    pub requests: u64,
    /// Where it keeps its state.
    pub state_dir: String,
    /// Segments over all tags.
    pub segments: SegmentTotals,
    /// The snowflake side.
    pub snowflake: SnowflakeStatus,
}

/// Segments over all tags.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct SegmentTotals {
    /// The store in words, never with a password.
    pub store: String,
    /// What the store said last when it failed; empty when its last call went well.
    pub store_error: String,
    /// Tags known to the daemon.
    pub tags: u64,
    /// Requests that wait for a range now.
    pub waiting: u64,
    /// IDs issued since the start.
    pub issued: u64,
    /// Leases taken since the start.
    pub leases: u64,
}

/// The snowflake side.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct SnowflakeStatus {
    /// Whether it issues, and if not, why.
    pub state: SnowflakeState,
    /// The worker ID, where there is one.
    pub worker: Option<u64>,
    /// Where the worker ID comes from: `fixed`, `zookeeper`.
    pub registry: String,
    /// The layout as configuration writes it.
    pub layout: String,
    /// Nothing is issued at or past this time (ms since 1970) before it is raised on disk.
    pub ceiling_unix_ms: u64,
    /// Time of the last ID issued (ms since 1970); 0 before the first.
    pub last_unix_ms: u64,
    /// The daemon's clock (ms since 1970).
    pub clock_unix_ms: u64,
    /// IDs issued since the start.
    pub issued: u64,
    /// Who the daemon is to the registry; empty where it need not be anyone.
    pub identity: String,
    /// Milliseconds since the registry last took a report; none before the first.
    pub last_report_ms_ago: Option<u64>,
    /// What the registry said last when it failed; empty when its last call went well.
    pub registry_error: String,
    /// Without another report, no ID is issued at or past this time (ms since 1970); none where
    /// reports set no limit.
    pub limit_unix_ms: Option<u64>,
    /// Mean of the live peers' clocks minus the daemon's own, at the last check; none when no peer
    /// answered it, or there was none.
    pub clock_offset_ms: Option<i64>,
    /// Peers that answered the last check.
    pub peers: u32,
}

/// Whether snowflake IDs are issued.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum SnowflakeState {
    /// 0. IDs are issued.
    Serving,
    /// 1. The clock is behind what was used before; by so many ms. Ends by itself.
    ClockBehind {
        /// Distance in milliseconds.
        behind_ms: u64,
    },
    /// 2. No IDs, for the reason given.
    Refused {
        /// What happened and what to do.
        reason: String,
    },
    /// 3. The claim of the worker ID is under way; requests wait for it.
    Starting {
        /// What it waits for.
        reason: String,
    },
}

/// A worker ID, from the registry.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct WorkerStatus {
    /// The worker ID.
    pub worker: u64,
    /// The identity that has it, or had it last; up to [`super::MAX_OWNER_CHARS`] characters.
    pub owner: String,
    /// The owner's `ip:port` as recorded, up to [`super::MAX_ADDRESS_CHARS`] characters.
    pub address: String,
    /// Who may use it.
    pub state: WorkerState,
    /// Whether an instance of the owner is connected to the registry now.
    pub live: bool,
    /// Whether it is that of the daemon that answers.
    pub own: bool,
    /// The registry's clock at the last report (ms since 1970).
    pub reported_unix_ms: u64,
    /// Milliseconds since the last report, by the registry's clock.
    pub age_ms: u64,
    /// Nothing was issued at or past this time (ms since 1970) so far; 0 when that is not known.
    pub ceiling_unix_ms: u64,
    /// Nothing at or past this time (ms since 1970) will come without another report; none when
    /// that is not known.
    pub limit_unix_ms: Option<u64>,
}

/// Who may use a worker ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum WorkerState {
    /// 0. A leafd holds it.
    Held,
    /// 1. A leafd has just made it and does not issue yet.
    Settling,
    /// 2. It is free for anybody.
    Released,
    /// 3. A Java Leaf has written it, or a leafd that died while making it.
    JavaLeaf,
}

/// A tag, from the store and from memory.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct TagStatus {
    /// Its name.
    pub tag: String,
    /// The row's step.
    pub row_step: u64,
    /// The step of the next lease, adapted to the load.
    pub step: u64,
    /// The row's `max_id` when it was last read.
    pub max_id: u64,
    /// The row's description.
    pub description: String,
    /// The range being issued, from its start; none before the first lease.
    pub current: Option<Span>,
    /// The range that follows.
    pub next: Option<Span>,
    /// The next ID to be issued; 0 when memory is drained.
    pub position: u64,
    /// IDs in memory not yet issued.
    pub remaining: u64,
    /// IDs issued since the start.
    pub issued: u64,
    /// Leases taken since the start.
    pub leases: u64,
    /// Milliseconds since the last lease; none before the first.
    pub last_lease_ms_ago: Option<u64>,
    /// Size of the last lease; 0 before the first.
    pub last_lease_size: u64,
    /// Requests that wait for a range now.
    pub waiting: u64,
    /// Why the last lease failed; empty when it went well.
    pub lease_error: String,
    /// How many whole seconds `remaining` lasts at the rate of the last seconds; none when nothing
    /// is being asked for.
    pub seconds_left: Option<u64>,
}
