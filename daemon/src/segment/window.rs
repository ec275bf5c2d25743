//! How far ahead of use a tag raises its durable ceiling. A plain rule.
//!
//! A small window loses few IDs in a crash; a large one waits for the disk less often. So the
//! window grows while it is used up quickly and shrinks while it lasts.

use std::time::Duration;

/// The window of a tag with little traffic, and so the most IDs that a crash costs it.
pub(crate) const SMALLEST: u64 = 100;

/// The largest window. Few tags have as much leased.
const LARGEST: u64 = 100_000_000;

/// A window of which half is used up in less than this grows. Well above what a slow disk takes to write,
/// and long enough for thousands of tags in use: each writes a record when half of its window is used, and
/// those records take time from the requests.
const SHORT: Duration = Duration::from_secs(1);

/// A window of which half lasts longer than this shrinks, since a crash loses it.
const LONG: Duration = Duration::from_secs(5);

/// The window of one tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Window {
    size: u64,
    last: Option<Duration>,
}

impl Default for Window {
    fn default() -> Self {
        Self { size: SMALLEST, last: None }
    }
}

impl Window {
    /// IDs between use and ceiling.
    pub(crate) const fn size(&self) -> u64 {
        self.size
    }

    /// The tag raises its ceiling at `now` (monotonic).
    pub(crate) fn raised(&mut self, now: Duration) {
        if let Some(last) = self.last {
            let lasted = now.saturating_sub(last);
            if lasted < SHORT {
                self.size = (self.size * 2).min(LARGEST);
            } else if lasted > LONG {
                self.size = (self.size / 2).max(SMALLEST);
            }
        }
        self.last = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_grows_while_it_is_used_up_quickly_and_shrinks_when_it_lasts() {
        let mut window = Window::default();
        let mut now = Duration::ZERO;
        for _ in 0..30 {
            window.raised(now);
            now += Duration::from_millis(10);
        }
        assert_eq!(window.size(), LARGEST);
        now += Duration::from_secs(1);
        window.raised(now);
        assert_eq!(window.size(), LARGEST);
        for _ in 0..30 {
            now += Duration::from_secs(6);
            window.raised(now);
        }
        assert_eq!(window.size(), SMALLEST);
    }

    /// A tag raises its ceiling when half of its window is used. At a steady rate the window must come to
    /// rest, where it is neither written often nor loses much.
    #[test]
    fn at_a_steady_rate_a_window_lasts_two_to_ten_seconds() {
        for rate in [60, 200, 1_000, 30_000, 1_000_000, 9_000_000] {
            for start in [SMALLEST, LARGEST] {
                let mut window = Window { size: start, last: None };
                let mut now = Duration::ZERO;
                for _ in 0..60 {
                    window.raised(now);
                    now += Duration::from_millis(window.size() * 1000 / 2 / rate);
                }
                let (size, seconds) = (window.size(), window.size() / rate);
                window.raised(now);
                assert_eq!(window.size(), size, "at {rate} IDs a second");
                assert!((2..=10).contains(&seconds) || size == SMALLEST, "{seconds} s at {rate}");
            }
        }
    }
}
