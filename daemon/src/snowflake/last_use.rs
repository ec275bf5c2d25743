//! How far time has come since IDs were last used, told by two clocks: the host's, which anybody may
//! set, and the boot clock, which nobody sets. Whatever is raised ahead of use follows this, so that
//! a clock which was wrong for a while, and which nobody used, leaves no trace on disk or in a
//! registry.

/// The last use of IDs. Plain data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastUse {
    /// The clock reading that was used (ms since 1970).
    pub clock_ms: u64,
    /// When that was (ms since the boot, suspension included).
    pub boot_ms: u64,
}

impl LastUse {
    /// What the clock would read now if nobody had set it since (ms since 1970), and never more
    /// than it does read.
    #[must_use]
    pub fn now_ms(&self, clock_ms: u64, boot_ms: u64) -> u64 {
        let since_ms = boot_ms.saturating_sub(self.boot_ms);
        clock_ms.min(self.clock_ms.saturating_add(since_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: u64 = 1_700_000_000_000;

    #[test]
    fn a_clock_that_is_right_is_followed_and_one_that_was_set_ahead_is_not() {
        let last = LastUse { clock_ms: T, boot_ms: 50 };
        assert_eq!(last.now_ms(T + 700, 750), T + 700);
        assert_eq!(last.now_ms(T + 3_600_000, 750), T + 700);
        assert_eq!(last.now_ms(T - 3_600_000, 750), T - 3_600_000);
        assert_eq!(last.now_ms(u64::MAX, 0), T, "a boot clock never goes back, and if it did");
        assert_eq!(LastUse { clock_ms: u64::MAX, boot_ms: 0 }.now_ms(T, u64::MAX), T);
    }
}
