//! How far ahead of use a tag raises its durable ceiling. A plain rule.
//!
//! A small window loses few IDs in a crash; a large one waits for the disk less often. So the
//! window grows while it is used up quickly and shrinks while it lasts.

use std::time::Duration;

/// The window of a tag with little traffic, and so the most IDs that a crash costs it.
pub(crate) const SMALLEST: u64 = 100;

/// The largest window. Few tags have as much leased.
const LARGEST: u64 = 100_000_000;

/// A window of which half is used up in less than this may outgrow [`PART`] of a lease: the next half might be
/// used up before a slow disk has written it.
const HURRY: Duration = Duration::from_millis(200);

/// A window of which half is used up in less than this grows. With thousands of tags in use, the records of
/// small windows take time from the requests.
const SHORT: Duration = Duration::from_secs(1);

/// A window of which half lasts longer than this shrinks, since a crash loses it.
const LONG: Duration = Duration::from_secs(5);

/// A window holds up to a lease divided by this, unless the tag is in a hurry.
const PART: u64 = 4;

/// The window of one tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Window {
    size: u64,
    last: Option<Raise>,
    fell_short: bool,
}

/// When the ceiling was raised, and how many IDs the tag had issued by then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Raise {
    at: Duration,
    issued: u64,
}

/// What a tag has done by the time that it raises its ceiling.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Use {
    /// How many IDs it has issued in all.
    pub(crate) issued: u64,
    /// How many its last lease had.
    pub(crate) leased: u64,
    /// Whether requests wait for this raise.
    pub(crate) requests_wait: bool,
}

impl Default for Window {
    fn default() -> Self {
        Self { size: SMALLEST, last: None, fell_short: false }
    }
}

impl Window {
    /// IDs between use and ceiling.
    pub(crate) const fn size(&self) -> u64 {
        self.size
    }

    /// The tag raises its ceiling at `now` (monotonic).
    pub(crate) fn raised(&mut self, now: Duration, use_so_far: Use) {
        let fell_short = std::mem::take(&mut self.fell_short);
        let issued = use_so_far.issued;
        let Some(last) = self.last.replace(Raise { at: now, issued }) else { return };
        let lasted = now.saturating_sub(last.at);
        // A ceiling is also raised after a small lease, for a large request, and again after a failed write.
        // Those say nothing about how long a window lasts.
        let is_used_up = issued.saturating_sub(last.issued) >= self.size / 2;
        let in_hurry = fell_short || lasted < HURRY;
        if lasted > LONG && !fell_short {
            self.size = (self.size / 2).max(SMALLEST);
        } else if is_used_up && (in_hurry || lasted < SHORT || use_so_far.requests_wait) {
            let part = use_so_far.leased / PART;
            let most = if in_hurry && self.size >= part { LARGEST } else { part };
            self.size = (self.size * 2).min(most).max(self.size);
        }
    }

    /// Requests came to wait while a raise was written: the disk is slow for this window.
    pub(crate) const fn fell_short(&mut self) {
        self.fell_short = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A window that was raised at time 0, before the first ID.
    fn of_size(size: u64) -> Window {
        let last = Some(Raise { at: Duration::ZERO, issued: 0 });
        Window { size, last, ..Window::default() }
    }

    /// Uses half of the window in this time, a number of times.
    fn use_halves(window: &mut Window, times: u32, half_lasts: Duration, leased: u64) {
        for _ in 0..times {
            let last = window.last.unwrap_or(Raise { at: Duration::ZERO, issued: 0 });
            let issued = last.issued + window.size / 2;
            window.raised(last.at + half_lasts, Use { issued, leased, requests_wait: false });
        }
    }

    #[test]
    fn the_window_grows_while_it_is_used_up_quickly_and_shrinks_when_it_lasts() {
        let mut window = Window::default();
        use_halves(&mut window, 30, 10 * MS, 1000);
        assert_eq!(window.size(), LARGEST);
        use_halves(&mut window, 1, 1000 * MS, 1000);
        assert_eq!(window.size(), LARGEST);
        use_halves(&mut window, 30, 6000 * MS, 1000);
        assert_eq!(window.size(), SMALLEST);
    }

    /// A tag raises its ceiling when half of its window is used. At a steady rate the window must come to
    /// rest, where it is neither written often nor loses much.
    #[test]
    fn at_a_steady_rate_a_window_lasts_two_to_ten_seconds() {
        for rate in [60, 200, 1_000, 30_000, 1_000_000, 9_000_000] {
            for start in [SMALLEST, LARGEST] {
                let mut window = of_size(start);
                for _ in 0..60 {
                    let half_lasts = Duration::from_millis(window.size() * 1000 / 2 / rate);
                    use_halves(&mut window, 1, half_lasts, u64::MAX);
                }
                let (size, seconds) = (window.size(), window.size() / rate);
                let half_lasts = Duration::from_millis(size * 1000 / 2 / rate);
                use_halves(&mut window, 1, half_lasts, u64::MAX);
                assert_eq!(window.size(), size, "at {rate} IDs a second");
                assert!((2..=10).contains(&seconds) || size == SMALLEST, "{seconds} s at {rate}");
            }
        }
    }

    #[test]
    fn a_window_outgrows_a_quarter_of_a_lease_only_if_that_is_used_up_within_400_ms() {
        for (half_lasts, leased, size) in [
            (190 * MS, 10_000, LARGEST),
            (210 * MS, 10_000, 2500),
            // Small leases keep what every window has.
            (210 * MS, 4, SMALLEST),
            (1010 * MS, 10_000, SMALLEST),
        ] {
            let mut window = of_size(SMALLEST);
            use_halves(&mut window, 30, half_lasts, leased);
            assert_eq!(window.size(), size, "{half_lasts:?}");
        }
        // It does not step over the quarter.
        let mut window = of_size(1600);
        use_halves(&mut window, 1, 190 * MS, 10_000);
        assert_eq!(window.size(), 2500);
        // The next lease may be smaller than the one before.
        let mut window = of_size(6400);
        use_halves(&mut window, 1, 210 * MS, 1000);
        assert_eq!(window.size(), 6400);
    }

    #[test]
    fn a_raise_before_half_of_the_window_is_used_leaves_its_size() {
        let mut window = of_size(SMALLEST);
        for round in 1..100 {
            let issued = 49 * u64::from(round);
            window.raised(round * MS, Use { issued, leased: 10_000, requests_wait: true });
        }
        assert_eq!(window.size(), SMALLEST);
    }

    #[test]
    fn a_window_that_requests_do_not_find_large_enough_grows_up_to_a_quarter_of_a_lease() {
        for (leased, size) in [(40_000, 6400), (20_000, 5000), (2000, 500)] {
            let mut window = of_size(SMALLEST);
            for round in 1..30 {
                let issued = 3000 * u64::from(round);
                window.raised(round * 2500 * MS, Use { issued, leased, requests_wait: true });
            }
            assert_eq!(window.size(), size);
        }
    }

    #[test]
    fn a_window_that_falls_short_of_a_slow_disk_grows_beyond_a_quarter_of_a_lease() {
        for lasted in [3000 * MS, 8000 * MS] {
            let mut window = of_size(SMALLEST);
            let mut sizes = Vec::new();
            for _ in 0..6 {
                window.fell_short();
                use_halves(&mut window, 1, lasted, 1000);
                sizes.push(window.size());
            }
            assert_eq!(sizes, [200, 250, 500, 1000, 2000, 4000]);
            use_halves(&mut window, 6, 3000 * MS, 1000);
            assert_eq!(window.size(), 4000);
        }
    }
}
