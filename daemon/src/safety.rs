//! The times that the uniqueness of snowflake IDs rests on, each in this one place. A time that
//! depends on another is derived from it.

/// How far ahead of the clock a ceiling can be (ms). leafd raises it further ahead of use while the
/// disk is slow; a disk for which this is not enough does not work.
pub const MOST_CEILING_AHEAD_MS: u64 = 10_000;

/// By how much the clocks of two hosts may differ while both count as right (ms).
const CLOCK_MARGIN_MS: u64 = 1000;

/// A worker ID whose last ceiling nobody knows is not used before the clock and this (ms): whatever
/// was issued with it lies below, if the clock was right.
pub const UNKNOWN_CEILING_MS: u64 = MOST_CEILING_AHEAD_MS + CLOCK_MARGIN_MS;

/// Interval between two reports of the time to the registry (ms). It is Java Leaf's, so that either
/// notices the other.
pub const REPORT_MS: u64 = 3000;

/// The longest pause between two attempts to connect to the registry (ms), jitter included.
pub const MOST_PAUSE_MS: u64 = 1250;

/// A new worker ID is not used before this has passed (ms), if calls to the registry may take
/// `call_ms`. By then every instance that reaches the registry has a session, has reported, and has put
/// back what a loss of data may have taken: a report is due every [`REPORT_MS`], and to connect takes
/// up to two calls after a pause of up to [`MOST_PAUSE_MS`].
#[must_use]
pub const fn settle_ms(call_ms: u64) -> u64 {
    2 * REPORT_MS + 2 * call_ms
}

// What is derived stays above what it is derived from.
const _: () = assert!(UNKNOWN_CEILING_MS > MOST_CEILING_AHEAD_MS);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_reaches_the_registry_has_reported_before_a_new_worker_id_is_used() {
        for call_ms in [10, 2000, 30_000] {
            assert!(settle_ms(call_ms) > REPORT_MS + MOST_PAUSE_MS + 2 * call_ms);
        }
    }
}
