//! Tags of past days leave memory: `invoices-20261122` and the like, as the form `dated` makes a new one every day.
//! Of those of one series that have left, the journal keeps one number (`RetiredDays`); their rows stay.

use std::time::Duration;

use leaf_client::form::{Day, Zone};

use super::service::{Segments, lock};
use crate::state::journal::series_of;
use crate::store::FIND_AT_ONCE;

/// The last place on earth where a day ends: 18 hours behind UTC is the furthest that the form `dated` knows.
const LAST_ZONE: Duration = Duration::from_secs(18 * 3600);

/// The first day that stays at a time in milliseconds since 1970: those before it ended at least `after` ago in
/// every time zone.
fn first_kept(unix_ms: u64, after: Duration) -> Day {
    let ms = u64::try_from((after + LAST_ZONE).as_millis()).unwrap_or(u64::MAX);
    Day::at(unix_ms.saturating_sub(ms), Zone::UTC)
}

impl Segments {
    /// Drops idle tags of past days from memory (`segment.retire-after`).
    pub(super) async fn retire_past_days(&self) {
        let after = self.0.settings.retire_after;
        if after.is_zero() {
            return;
        }
        let unix_ms = self.0.environment.unix_ms();
        let first_kept = first_kept(unix_ms, after);
        let since_s = (unix_ms / 1000).saturating_sub(after.as_secs());
        let (mut last, mut count) = (String::new(), 0);
        while let Some((name, retired)) = self.retire_page(&last, first_kept, since_s) {
            (last, count) = (name, count + retired);
            tokio::task::yield_now().await;
        }
        if count > 0 {
            tracing::info!(tags = count, "tags of past days left memory (segment.retire-after)");
        }
    }

    /// Does so for the next names after one. Returns the last of these, and how many have left; `None` at the end.
    fn retire_page(&self, after: &str, first_kept: Day, since_s: u64) -> Option<(String, usize)> {
        let (now, unused) = (self.now(), self.0.settings.retire_after);
        let mut table = lock(&self.0.tags);
        let names = table.names_after(after, FIND_AT_ONCE);
        let last = names.last()?.as_str().to_owned();
        let mut gone = Vec::new();
        for name in names {
            if series_of(name.as_str()).is_none_or(|(_, day)| day >= first_kept) {
                continue;
            }
            let left = table.retire(&name, self.0.settings.base, |tag| {
                let (mark, counts) = tag.leave(since_s, now, unused)?;
                let mut total = lock(&self.0.retired_counts);
                total.issued += counts.issued;
                total.leases += counts.leases;
                Some(mark)
            });
            gone.extend(left.map(|left| (name, left)));
        }
        let count = gone.len();
        if count > 0 {
            // With the table in hand: a record of a tag that comes back has to be written after this.
            self.0.writer.retire(gone);
        }
        Some((last, count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_kept_until_it_has_ended_in_every_time_zone_for_so_long() {
        const DAY: u64 = 86_400_000;
        let after = Duration::from_secs(30 * 86_400);
        // 2026-11-22 ends at 18:00 of the 23rd in UTC, where it ends last.
        let ended = 1_795_305_600_000 + DAY + 18 * 3_600_000;
        let day = Day::new(2026, 11, 22).unwrap();
        assert!(first_kept(ended + 30 * DAY - 1, after) <= day);
        assert!(first_kept(ended + 30 * DAY, after) > day);
        // A clock at its beginning keeps all.
        assert_eq!(Some(first_kept(0, after)), Day::new(1970, 1, 1));
    }
}
