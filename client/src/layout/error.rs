//! What can be wrong with a layout, or with an ID for a layout.

/// Why a layout or an ID is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// The bits add up to more than 63.
    #[error("time {time} + worker {worker} + sequence {sequence} bits make {}, more than 63",
        u64::from(*time) + u64::from(*worker) + u64::from(*sequence))]
    Sum {
        /// Bits of the time.
        time: u32,
        /// Bits of the worker ID.
        worker: u32,
        /// Bits of the sequence.
        sequence: u32,
    },
    /// Time or sequence has no bits.
    #[error("time and sequence need at least one bit each")]
    Empty,
    /// The time unit, in milliseconds, is not supported.
    #[error("a unit of {0} ms is not supported; use 1, 10 or 1000")]
    Unit(u64),
    /// The data centre has more bits than the worker ID that it is part of.
    #[error("{datacenter} data centre bits do not fit into {worker} worker bits")]
    Datacenter {
        /// Bits of the data centre.
        datacenter: u32,
        /// Bits of the worker ID.
        worker: u32,
    },
    /// The text is neither a preset nor of the written form.
    #[error(
        "layout {0:?} is neither a preset (leaf, twitter, baidu, js, sonyflake, discord, each with an optional epoch as in \
         baidu@2026-01-01) nor TIME/WORKER/SEQUENCE@EPOCH with an optional unit, as in \
         41/10/12@2010-11-04T01:42:54.657Z or 28/22/13@2026-01-01/1000ms, or \
         TIME/sSEQUENCE/wWORKER@EPOCH where the sequence is above the worker, as in \
         39/s8/w16@2026-01-01/10ms; an epoch is a date in UTC, or milliseconds since 1970"
    )]
    Unknown(String),
    /// The ID has its sign bit set.
    #[error("{0} is above 2^63 - 1, so it is no snowflake ID")]
    Negative(u64),
    /// The ID has bits above the layout's.
    #[error("{id} has more than the {bits} bits of this layout")]
    TooLong {
        /// The ID.
        id: u64,
        /// The bits of the layout, all fields together.
        bits: u32,
    },
}
