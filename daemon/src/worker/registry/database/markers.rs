//! Whether the instance of a live marker has gone. Its session adds to a number in the row, the beat; an
//! instance counts as gone if this host sees one beat for too long, by its own boot clock. Plain values:
//! times come in, no clock is read.

use std::collections::HashMap;

/// What a row says of its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Beat {
    pub(super) session: i64,
    pub(super) beat: i64,
    /// How long it lasts without another one (ms).
    pub(super) lasts_ms: u64,
}

/// The markers that were seen, each with its beat and when that was first seen (ms since the boot).
#[derive(Debug, Default)]
pub(super) struct MarkerWatch {
    seen: HashMap<String, (Beat, u64)>,
}

impl MarkerWatch {
    /// All markers were read at some time between `began_ms` and `ended_ms` (ms since the boot). Returns
    /// those whose instances have gone.
    pub(super) fn see(
        &mut self,
        (began_ms, ended_ms): (u64, u64),
        markers: &[(String, Beat)],
    ) -> Vec<(String, Beat)> {
        let before = std::mem::take(&mut self.seen);
        let mut gone = Vec::new();
        for (path, beat) in markers {
            let first_ms = match before.get(path) {
                Some((known, first_ms)) if known == beat => *first_ms,
                _ => ended_ms,
            };
            if began_ms > first_ms.saturating_add(beat.lasts_ms) {
                gone.push((path.clone(), *beat));
            }
            self.seen.insert(path.clone(), (*beat, first_ms));
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marker(session: i64, beat: i64) -> Vec<(String, Beat)> {
        vec![("temporary/a".to_owned(), Beat { session, beat, lasts_ms: 10_000 })]
    }

    #[test]
    fn a_marker_is_gone_when_one_beat_was_seen_for_longer_than_it_lasts() {
        let mut watch = MarkerWatch::default();
        // From the end of the first reading to the beginning of the last.
        assert_eq!(watch.see((0, 1000), &marker(1, 1)), []);
        assert_eq!(watch.see((11_000, 12_000), &marker(1, 1)), []);
        assert_eq!(watch.see((11_001, 90_000), &marker(1, 1)), marker(1, 1));
    }

    #[test]
    fn another_beat_another_session_and_an_absence_start_the_wait_again() {
        for other in [marker(1, 2), marker(2, 1), Vec::new()] {
            let mut watch = MarkerWatch::default();
            watch.see((0, 0), &marker(1, 1));
            watch.see((9000, 9000), &other);
            assert_eq!(watch.see((18_000, 18_000), &marker(1, 1)), []);
        }
    }
}
