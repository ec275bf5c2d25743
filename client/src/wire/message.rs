//! The messages. The order of the variants gives their numbers on the wire, so new variants go at
//! the end. The golden vectors fail if an old one moves.

use bincode::{BorrowDecode, Decode, Encode};

use super::error::WireError;

/// A message from a client.
#[derive(Debug, Clone, PartialEq, Eq, Encode, BorrowDecode)]
pub struct Request<'a> {
    /// Chosen by the client, not 0. The answer carries the same ID. Answers come in any order.
    pub id: u64,
    /// The call.
    pub call: Call<'a>,
}

/// A call to the daemon.
#[derive(Debug, Clone, PartialEq, Eq, Encode, BorrowDecode)]
pub enum Call<'a> {
    /// 0. The first message of a connection. Answer: `Hello`.
    Hello {
        /// The magic, [`super::MAGIC`].
        magic: [u8; 4],
        /// The newest protocol version that the client speaks.
        version: u16,
    },
    /// 1. Issues IDs of a tag. Answer: `Ids`.
    Segment {
        /// The tag: 1 to 128 characters.
        tag: &'a str,
        /// The number of IDs: 1 to `max_count` of the `Hello` reply.
        count: u32,
        /// How long the request may wait in the daemon, in ms; 0 stands for the daemon's default.
        timeout_ms: u32,
    },
    /// 2. Issues snowflake IDs. Answer: `Ids`.
    Snowflake {
        /// The number of IDs: 1 to `max_count` of the `Hello` reply.
        count: u32,
        /// How long the request may wait in the daemon, in ms; 0 stands for the daemon's default.
        timeout_ms: u32,
    },
    /// 3. Reads the clock of the daemon's host. Answer: `Time`.
    Time,
    /// 4. Gets the daemon's status. Answer: `Status`.
    Status,
    /// 5. Lists the tags in byte order of their names. Answer: `Tags`.
    TagList {
        /// Only tags after this one; empty for the first page.
        after: &'a str,
        /// The limit on the tags in the answer: 1 to [`super::MAX_TAGS_PER_PAGE`].
        limit: u32,
    },
    /// 6. Gets the status of one tag. Answer: `Tags` with one element.
    TagShow {
        /// The tag to show.
        tag: &'a str,
    },
    /// 7. Creates a tag. Answer: `Tags` with one element.
    TagCreate {
        /// The tag to create.
        tag: &'a str,
        /// IDs per lease, 1 to the daemon's `max_step`; 0 stands for the daemon's default.
        step: u32,
        /// The first ID of the tag, 1 by Leaf's convention.
        first: u64,
        /// A description for people, up to 256 characters.
        description: &'a str,
    },
    /// 8. Changes the step of a tag. Answer: `Tags` with one element.
    TagSetStep {
        /// The tag to change.
        tag: &'a str,
        /// IDs per lease, 1 to the daemon's `max_step`.
        step: u32,
    },
    /// 9. Lists the worker IDs of the registry, ascending. Answer: `Workers`.
    WorkerList {
        /// Only worker IDs at or above this one; 0 for the first page.
        from: u64,
        /// The limit on the worker IDs in the answer: 1 to [`super::MAX_WORKERS_PER_PAGE`].
        limit: u32,
    },
    /// 10. Releases a worker ID whose owner is gone for good. Answer: `Workers` with one element.
    WorkerRelease {
        /// The worker ID to release.
        worker: u64,
        /// The owner that the operator knows to be gone, up to [`super::MAX_OWNER_CHARS`]
        /// characters. The call fails if another owner has claimed the worker ID since.
        owner: &'a str,
    },
    /// 11. Deletes a tag. Answer: `Tags` with one element; a new tag starts at its `max_id`.
    TagDelete {
        /// The tag to delete.
        tag: &'a str,
    },
    /// 12. Lists the tags that the daemon has used, from memory. Answer: `Tags`.
    TagsUsed {
        /// Only tags after this one; empty for the first page.
        after: &'a str,
        /// The limit on the tags in the answer: 1 to [`super::MAX_TAGS_PER_PAGE`].
        limit: u32,
    },
    /// 13. Borrows a worker ID, or says that the borrower still has it. Answer: `Loan`.
    WorkerBorrow {
        /// The pool that the worker ID comes from, up to [`super::MAX_POOL_CHARS`] characters.
        pool: &'a str,
        /// A random name that no other borrower has, up to [`super::MAX_BORROWER_CHARS`]
        /// characters.
        borrower: &'a str,
        /// The cgroup of every process that may use the worker ID, as in `/proc/PID/cgroup`; empty
        /// if there is none.
        cgroup: &'a str,
        /// The inode number of the cgroup's directory; 0 if there is none.
        cgroup_inode: u64,
        /// The loan that the borrower has already; none before the first answer.
        held: Option<HeldLoan<'a>>,
    },
    /// 14. Gives a borrowed worker ID back. Answer: `Loan`, with `left_ms` 0.
    WorkerReturn {
        /// The pool of the loan.
        pool: &'a str,
        /// The borrower.
        borrower: &'a str,
        /// Nothing was issued at or past this time (ms since 1970).
        ceiling_unix_ms: u64,
    },
    /// 15. Lists the worker IDs of a pool, ascending. Answer: `Workers`.
    PoolList {
        /// The pool.
        pool: &'a str,
        /// Only worker IDs at or above this one; 0 for the first page.
        from: u64,
        /// The limit on the worker IDs in the answer: 1 to [`super::MAX_WORKERS_PER_PAGE`].
        limit: u32,
    },
    /// 16. Releases a worker ID of a pool. Answer: `Workers` with one element.
    PoolRelease {
        /// The pool.
        pool: &'a str,
        /// The worker ID to release.
        worker: u64,
        /// The owner that the operator knows to be gone, up to [`super::MAX_OWNER_CHARS`]
        /// characters.
        owner: &'a str,
    },
    /// 17. Asks when tags that the daemon has used outgrow a type, from memory. Answer: `Forecasts`.
    TagForecasts {
        /// Only this tag; empty for all tags.
        tag: &'a str,
        /// Of all tags, only those after this one; empty for the first page.
        after: &'a str,
        /// The limit on the tags in the answer: 1 to [`super::MAX_TAGS_PER_PAGE`].
        limit: u32,
    },
    /// 18. Makes the public IDs of numbers of one tag, by the daemon's keys. Answer: `PublicIds`.
    PublicEncode {
        /// The tag; empty for snowflake IDs.
        tag: &'a str,
        /// The numbers, at most 2^63 - 1: 1 to [`super::MAX_PUBLIC_IDS`] of them.
        ids: Vec<u64>,
    },
    /// 19. Turns public IDs of one tag back into numbers, by the daemon's keys. Answer: `PublicNumbers`.
    PublicDecode {
        /// The tag; empty for snowflake IDs.
        tag: &'a str,
        /// The public IDs, without a prefix: 1 to [`super::MAX_PUBLIC_IDS`] of them.
        public_ids: Vec<&'a str>,
    },
}

/// A loan as its borrower knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, BorrowDecode)]
pub struct HeldLoan<'a> {
    /// The worker ID.
    pub worker: u64,
    /// The name of the claim, as in [`WorkerLoan`], up to [`super::MAX_CLAIM_CHARS`] characters.
    pub claim: &'a str,
    /// The limit of the last answer (ms since 1970).
    pub limit_unix_ms: u64,
    /// What is left of the last answer's `left_ms`, by a clock that counts suspension.
    pub left_ms: u64,
}

/// A message from the daemon.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Response {
    /// The ID of the request, or [`super::UNSOLICITED`].
    pub id: u64,
    /// The reply.
    pub reply: Reply,
}

/// A reply of the daemon.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Reply {
    /// 0. The call failed.
    Error(WireError),
    /// 1. Completes the handshake.
    Hello {
        /// The protocol version of this connection.
        version: u16,
        /// The limit on the `count` of one request.
        max_count: u32,
        /// The limit on requests in flight on this connection.
        max_in_flight: u32,
    },
    /// 2. The IDs of `first`, then those of each run in `more`.
    Ids {
        /// The first run.
        first: Run,
        /// Further runs in the order of issue; usually none. Each starts above the end of the run
        /// before it, unless the store moved to another range in between.
        more: Vec<Run>,
    },
    /// 3. The clock of the daemon's host.
    Time {
        /// Milliseconds since 1970-01-01T00:00:00Z.
        unix_ms: u64,
    },
    /// 4. The daemon's status.
    Status(Box<DaemonStatus>),
    /// 5. Tags, in byte order of their names.
    Tags(Vec<TagStatus>),
    /// 6. Unsolicited: the daemon is stopping. It sends the answers that it has, then closes.
    Goodbye,
    /// 7. Worker IDs, ascending.
    Workers(Vec<WorkerStatus>),
    /// 8. A borrowed worker ID.
    Loan(WorkerLoan),
    /// 9. When tags outgrow a type.
    Forecasts(ForecastPage),
    /// 10. The public IDs of the numbers of a `PublicEncode`, in their order.
    PublicIds(Vec<String>),
    /// 11. The numbers of the public IDs of a `PublicDecode`, in their order.
    PublicNumbers(Vec<u64>),
}

/// A worker ID that a process has borrowed.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct WorkerLoan {
    /// The worker ID, below 2 to the power of `bits`.
    pub worker: u64,
    /// The bits of the pool's worker IDs.
    pub bits: u32,
    /// The name of the claim in the registry, up to [`super::MAX_CLAIM_CHARS`] characters.
    pub claim: String,
    /// Not to be used while the host's clock is before this (ms since 1970).
    pub start_unix_ms: u64,
    /// Without another answer, not to be used at or past this (ms since 1970)…
    pub limit_unix_ms: u64,
    /// …nor once this many ms have passed since the request was sent, by a clock that counts
    /// suspension and that nobody sets.
    pub left_ms: u64,
}

/// When IDs outgrow their types, at the rates that the daemon knows.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ForecastPage {
    /// The daemon's clock (ms since 1970), from which the forecasts go.
    pub unix_ms: u64,
    /// When the time field of the snowflake layout ends (ms since 1970); none if the daemon has no
    /// snowflake IDs.
    pub layout_end_unix_ms: Option<u64>,
    /// The tags, in byte order of their names.
    pub tags: Vec<TagForecast>,
}

/// When a tag outgrows a type.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct TagForecast {
    /// The name of the tag.
    pub tag: String,
    /// The highest end of a range of the tag that the daemon's host has seen.
    pub max_id: u64,
    /// How much `max_id` has grown; none if too little is known.
    pub growth: Option<TagGrowth>,
    /// The limits, the lowest first.
    pub limits: Vec<LimitForecast>,
}

/// How much a tag has grown, by all hosts. The rate is `ids` by `seconds`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct TagGrowth {
    /// By how many IDs.
    pub ids: u64,
    /// In how many seconds, never 0.
    pub seconds: u64,
}

/// When a tag reaches a limit of a type. It has passed the limit if its `max_id` is at or above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct LimitForecast {
    /// The lowest ID that the type does not hold, such as 2^31.
    pub limit: u64,
    /// When the tag gets there at its present rate (ms since 1970); none if it has passed the limit,
    /// does not grow, takes more than a thousand years, or too little is known.
    pub reached_unix_ms: Option<u64>,
}

/// IDs without a gap: `first`, `first + 1`, … `first + count - 1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Run {
    /// The lowest ID, at most `i64::MAX`.
    pub first: u64,
    /// The number of IDs, never 0.
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

/// The status of a daemon.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct DaemonStatus {
    /// The version of the daemon, as in `0.1.0`.
    pub version: String,
    /// The daemon's process ID in its own PID namespace.
    pub pid: u32,
    /// Milliseconds since the daemon became ready.
    pub uptime_ms: u64,
    /// Open connections, this one included.
    pub connections: u32,
    /// Requests for IDs since the start: calls `Segment` and `Snowflake`, refused ones included.
    pub requests: u64,
    /// The state directory.
    pub state_dir: String,
    /// The totals of all tags.
    pub segments: SegmentTotals,
    /// The snowflake generator.
    pub snowflake: SnowflakeStatus,
}

/// The totals of all tags, and the state of the store.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct SegmentTotals {
    /// The store's kind and address, never with a password.
    pub store: String,
    /// The error of the last call to the store; empty if it succeeded.
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

/// The status of the snowflake generator.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct SnowflakeStatus {
    /// Whether IDs are issued, and if not, why.
    pub state: SnowflakeState,
    /// The worker ID; none before the daemon has one.
    pub worker: Option<u64>,
    /// Where the worker ID comes from: `fixed`, `zookeeper`, `database` or `etcd`.
    pub registry: String,
    /// The layout, in the form of [`crate::Layout`].
    pub layout: String,
    /// The durable ceiling (ms since 1970): no ID gets this time or a later one before a higher
    /// ceiling is on disk.
    pub ceiling_unix_ms: u64,
    /// The time of the last ID issued (ms since 1970); 0 before the first.
    pub last_unix_ms: u64,
    /// The daemon's clock (ms since 1970).
    pub clock_unix_ms: u64,
    /// IDs issued since the start.
    pub issued: u64,
    /// The daemon's identity in the registry; empty if the registry needs none.
    pub identity: String,
    /// Milliseconds since the registry last accepted a report; none before the first.
    pub last_report_ms_ago: Option<u64>,
    /// The error of the last call to the registry; empty if it succeeded.
    pub registry_error: String,
    /// Without another report, no ID gets this time (ms since 1970) or a later one; none if reports
    /// set no limit.
    pub limit_unix_ms: Option<u64>,
    /// The mean of the live peers' clocks minus the daemon's clock, at the last check; none if no
    /// peer answered it.
    pub clock_offset_ms: Option<i64>,
    /// Peers that answered the last check.
    pub peers: u32,
}

/// Whether the daemon issues snowflake IDs.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum SnowflakeState {
    /// 0. The daemon issues snowflake IDs.
    Serving,
    /// 1. The clock is behind the times already used. This passes once the clock has caught up.
    ClockBehind {
        /// How far the clock is behind, in milliseconds.
        behind_ms: u64,
    },
    /// 2. The daemon issues no snowflake IDs.
    Refused {
        /// What happened and what to do.
        reason: String,
    },
    /// 3. The daemon is claiming a worker ID. Requests wait for it.
    Starting {
        /// What the claim waits for.
        reason: String,
    },
}

/// The status of a worker ID, from the registry.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct WorkerStatus {
    /// The worker ID.
    pub worker: u64,
    /// The identity of the present or last owner, up to [`super::MAX_OWNER_CHARS`] characters.
    pub owner: String,
    /// The owner's recorded `ip:port`, up to [`super::MAX_ADDRESS_CHARS`] characters.
    pub address: String,
    /// Who may use the worker ID.
    pub state: WorkerState,
    /// Whether an instance of the owner is connected to the registry now, or may be using the
    /// worker ID without a connection.
    pub live: bool,
    /// Whether the answering daemon is the owner.
    pub own: bool,
    /// The registry's clock at the owner's last report (ms since 1970).
    pub reported_unix_ms: u64,
    /// Milliseconds since the last report, by the registry's clock.
    pub age_ms: u64,
    /// No ID issued so far has this time (ms since 1970) or a later one; 0 if unknown.
    pub ceiling_unix_ms: u64,
    /// Without another report, no ID gets this time (ms since 1970) or a later one; none if
    /// unknown.
    pub limit_unix_ms: Option<u64>,
}

/// Who may use a worker ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum WorkerState {
    /// 0. A leafd, its owner.
    Held,
    /// 1. A leafd that has just claimed it and does not issue IDs yet.
    Settling,
    /// 2. Any daemon may claim it.
    Released,
    /// 3. A Java Leaf wrote it last, or a leafd that died while claiming it.
    JavaLeaf,
}

/// The status of a tag, from the store and from the daemon's memory.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct TagStatus {
    /// The name of the tag.
    pub tag: String,
    /// The step in the tag's row.
    pub row_step: u64,
    /// The step of the next lease, adapted to the load.
    pub step: u64,
    /// `max_id` in the tag's row when it was last read, or this host's high-water mark where that is
    /// higher.
    pub max_id: u64,
    /// The description in the tag's row.
    pub description: String,
    /// The range that IDs are issued from, in full; none before the first lease.
    pub current: Option<Span>,
    /// The range after it, if it is leased already.
    pub next: Option<Span>,
    /// The next ID to issue; 0 if memory is drained.
    pub position: u64,
    /// IDs in memory that are not issued yet.
    pub remaining: u64,
    /// IDs issued since the start.
    pub issued: u64,
    /// Leases taken since the start.
    pub leases: u64,
    /// Milliseconds since the last lease; none before the first.
    pub last_lease_ms_ago: Option<u64>,
    /// The size of the last lease in IDs; 0 before the first.
    pub last_lease_size: u64,
    /// Requests that wait for a range now.
    pub waiting: u64,
    /// Why the last lease failed; empty if it succeeded.
    pub lease_error: String,
    /// How many whole seconds `remaining` lasts at the recent rate; none if nobody is asking for
    /// IDs.
    pub seconds_left: Option<u64>,
}
