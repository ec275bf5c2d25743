//! The clocks, randomness and threads of the host. No other file reads a clock or draws a random
//! number, so a test or a simulator that passes another environment controls what the whole daemon
//! sees.
//!
//! Timers are tokio's, and [`Host::now`] reads the clock that they go by. A simulator pauses that
//! clock.

use std::io::{self, Read};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

/// What leafd reads from a host. The default of every method is the real host, so a test replaces
/// only what it needs.
pub trait Host: Send + Sync {
    /// The wall clock, in milliseconds since 1970-01-01T00:00:00Z. A time before 1970 reads as 0.
    fn unix_ms(&self) -> u64 {
        unix_ms()
    }

    /// Milliseconds since the boot, including time in suspend. Nobody can set this clock.
    fn boot_ms(&self) -> u64 {
        boot_ms()
    }

    /// Identifies this boot: times of [`Host::boot_ms`] from different boots cannot be compared. Empty
    /// if the host has no ID for it.
    fn boot_id(&self) -> String {
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        id.trim().to_owned()
    }

    /// The monotonic clock that timers go by.
    #[allow(clippy::disallowed_methods, reason = "this is where the clock is read")]
    fn now(&self) -> Instant {
        Instant::now()
    }

    /// The time since `then`, by [`Host::now`].
    fn since(&self, then: Instant) -> Duration {
        self.now().saturating_duration_since(then)
    }

    /// Fills `bytes` from the host's cryptographic generator, for names that no other process may
    /// draw.
    ///
    /// # Errors
    /// When the generator cannot be read.
    fn fill_random(&self, bytes: &mut [u8]) -> io::Result<()> {
        std::fs::File::open("/dev/urandom")?.read_exact(bytes)
    }

    /// A seed for a generator that spreads load or skips IDs. Uniqueness never depends on it.
    #[allow(clippy::disallowed_methods, reason = "this is where seeds are drawn")]
    fn seed(&self) -> u64 {
        fastrand::u64(..)
    }

    /// Runs `work` on a new thread.
    ///
    /// # Errors
    /// When the operating system refuses the thread.
    fn start_thread(&self, name: &str, work: Box<dyn FnOnce() + Send>) -> io::Result<()> {
        std::thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
    }
}

#[allow(clippy::disallowed_methods, reason = "this is where the clock is read")]
fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[allow(clippy::disallowed_methods, reason = "this is where the clock is read")]
fn boot_ms() -> u64 {
    // Linux has had this clock since 2.6.39, and reading it cannot fail.
    let Ok(time) = clock_gettime(ClockId::CLOCK_BOOTTIME) else { return 0 };
    let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
    let ms = u64::try_from(time.tv_nsec() / 1_000_000).unwrap_or(0);
    seconds.saturating_mul(1000).saturating_add(ms)
}

/// The host that this process runs on.
struct System;

impl Host for System {}

/// The host that leafd runs on, or one that a test makes up. Cheap to clone.
#[derive(Clone)]
pub struct Environment {
    host: Arc<dyn Host>,
}

impl Environment {
    /// The host that this process runs on.
    #[must_use]
    pub fn system() -> Self {
        Self::of(System)
    }

    /// A generator with a seed from the host. Uniqueness never depends on what it draws.
    #[must_use]
    pub fn random(&self) -> fastrand::Rng {
        fastrand::Rng::with_seed(self.seed())
    }

    /// A host that the caller defines.
    pub fn of(host: impl Host + 'static) -> Self {
        Self { host: Arc::new(host) }
    }
}

impl std::ops::Deref for Environment {
    type Target = dyn Host;

    #[inline]
    fn deref(&self) -> &Self::Target {
        &*self.host
    }
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Environment")
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The real host with another wall clock.
    struct WithTime<F>(F);

    impl<F: Fn() -> u64 + Send + Sync> Host for WithTime<F> {
        fn unix_ms(&self) -> u64 {
            (self.0)()
        }
    }

    impl Environment {
        /// The real host with another wall clock.
        pub(crate) fn with_time(unix_ms: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
            Self::of(WithTime(unix_ms))
        }
    }

    #[test]
    fn the_clocks_advance_and_the_boot_has_an_id() {
        let host = Environment::system();
        let before = host.boot_ms();
        assert!(before > 0 && host.boot_ms() >= before);
        assert!(!host.boot_id().is_empty() && host.boot_id() == host.boot_id());
        let now = host.now();
        assert!(host.now() >= now);
    }

    #[test]
    fn two_random_draws_differ() {
        let host = Environment::system();
        let (mut one, mut other) = ([0; 16], [0; 16]);
        host.fill_random(&mut one).unwrap();
        host.fill_random(&mut other).unwrap();
        assert_ne!(one, other);
    }

    #[test]
    fn a_test_replaces_one_clock_and_keeps_the_rest_of_the_host() {
        let host = Environment::with_time(|| 7);
        assert_eq!(host.unix_ms(), 7);
        assert!(host.boot_ms() > 0);
    }
}
