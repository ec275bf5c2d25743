//! How far time has come since IDs were last used, by two clocks: the host's, which anybody may
//! set, and the boot clock, which nobody can set. Whatever leafd raises ahead of use follows this
//! time. So a clock that was wrong for a while, with nobody asking, leaves no trace on disk or in a
//! registry.

/// The last use of IDs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LastUse {
    /// The clock reading that was used (ms since 1970).
    pub(crate) clock_ms: u64,
    /// The boot clock then (ms since the boot, including suspension).
    pub(crate) boot_ms: u64,
}

impl LastUse {
    /// What the clock would read now if nobody had set it since (ms since 1970), but at most
    /// `clock_ms`, what it reads.
    pub(crate) fn now_ms(&self, clock_ms: u64, boot_ms: u64) -> u64 {
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
        assert_eq!(
            last.now_ms(u64::MAX, 0),
            T,
            "a boot clock never goes back; if it did, no time has passed"
        );
        assert_eq!(LastUse { clock_ms: u64::MAX, boot_ms: 0 }.now_ms(T, u64::MAX), T);
    }
}
