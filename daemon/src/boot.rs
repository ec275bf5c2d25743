//! The boot clock, which nobody can set and which counts suspension, and the ID of the current
//! boot.

use nix::time::{ClockId, clock_gettime};

/// Milliseconds since the boot, suspension included.
#[must_use]
pub(crate) fn now_ms() -> u64 {
    // Linux has this clock since 2.6.39, and reading it cannot fail.
    let Ok(time) = clock_gettime(ClockId::CLOCK_BOOTTIME) else { return 0 };
    let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
    let ms = u64::try_from(time.tv_nsec() / 1_000_000).unwrap_or(0);
    seconds.saturating_mul(1000).saturating_add(ms)
}

/// The ID of this boot; boot clock times of different boots cannot be compared. Empty if unknown.
#[must_use]
pub(crate) fn id() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_clock_goes_forward_and_the_boot_has_an_id() {
        let before = super::now_ms();
        assert!(before > 0 && super::now_ms() >= before);
        assert!(!super::id().is_empty() && super::id() == super::id());
    }
}
