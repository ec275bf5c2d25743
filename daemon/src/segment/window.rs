//! How far ahead of use a tag raises its durable ceiling. A plain rule.
//!
//! A small window loses few IDs in a crash; a large one waits for the disk less often. So the
//! window grows while it is used up quickly and shrinks while it lasts.

use std::time::Duration;

/// The window of a tag with little traffic, and so the most IDs that a crash costs it.
pub(crate) const SMALLEST: u64 = 100;

/// The largest window: 200 ms at 500 million IDs a second. Few tags have as much leased.
const LARGEST: u64 = 100_000_000;

/// A window that is used up in less than this grows. Well above what a slow disk takes to write.
const SHORT: Duration = Duration::from_millis(200);

/// A window that lasts longer than this shrinks.
const LONG: Duration = Duration::from_secs(2);

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
            now += Duration::from_secs(3);
            window.raised(now);
        }
        assert_eq!(window.size(), SMALLEST);
    }
}
