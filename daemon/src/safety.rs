//! The times on which the uniqueness of snowflake IDs depends. Each is defined only here, and a
//! time that depends on another is derived from it.

/// Furthest that a ceiling can be ahead of the clock (ms). leafd raises ceilings further ahead
/// while the disk is slow; a disk for which this is not enough counts as broken.
pub(crate) const MOST_CEILING_AHEAD_MS: u64 = 10_000;

/// How much the clocks of two hosts may differ while both count as right (ms).
const CLOCK_MARGIN_MS: u64 = 1000;

/// If the last ceiling of a worker ID is unknown, leafd starts this far after the clock (ms). Every
/// ID issued before lies below that, if the clock was right.
pub(crate) const UNKNOWN_CEILING_MS: u64 = MOST_CEILING_AHEAD_MS + CLOCK_MARGIN_MS;

/// Interval between reports of the time to the registry (ms). Java Leaf uses the same, so that each
/// notices the other.
pub(crate) const REPORT_MS: u64 = 3000;

/// Longest pause between attempts to connect to the registry (ms), jitter included.
pub(crate) const MOST_PAUSE_MS: u64 = 1250;

/// How long leafd waits before it uses a new worker ID (ms), if calls to the registry may take
/// `call_ms`. By then every instance that reaches the registry has a session, has reported, and has
/// restored what a loss of data may have removed: a report is due every [`REPORT_MS`], and
/// connecting takes up to two calls after a pause of up to [`MOST_PAUSE_MS`].
#[must_use]
pub(crate) const fn settle_ms(call_ms: u64) -> u64 {
    2 * REPORT_MS + 2 * call_ms
}

/// As [`settle_ms`], for a row of Baidu's table. Its owner may have to connect again, ask who has the number and
/// take it back, each between two calls for a row of its own, and pauses for a second after a failure.
#[must_use]
pub(crate) const fn settle_row_ms(call_ms: u64) -> u64 {
    2 * REPORT_MS + 6 * call_ms
}

const _: () = assert!(UNKNOWN_CEILING_MS > MOST_CEILING_AHEAD_MS);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_instance_that_reaches_the_registry_reports_before_a_new_worker_id_is_used() {
        for call_ms in [10, 2000, 30_000] {
            assert!(settle_ms(call_ms) > REPORT_MS + MOST_PAUSE_MS + 2 * call_ms);
        }
    }

    #[test]
    fn an_owner_takes_its_number_back_before_a_new_row_of_baidus_table_is_used() {
        for call_ms in [100, 1000, 10_000] {
            // A report is due, and fails after a call for a row of its own; after a second and another such call
            // come a report, a look, and the taking back.
            let longest_ms = REPORT_MS + 2 * call_ms + 1000 + call_ms + 3 * call_ms;
            assert!(settle_row_ms(call_ms) > longest_ms);
        }
    }
}
