//! A limit of IDs per second, as one number: the time at which everything that was taken would have
//! been made at exactly the limit's pace (the "generic cell rate algorithm" of ATM, ITU-T I.371).
//! It may lie one second ahead of the present, so a second's worth may be taken at once.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const SECOND_NS: u64 = 1_000_000_000;

/// How many IDs a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate(u64);

/// Why nothing may be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// It may be after this.
    Wait(Duration),
    /// So much at once is more than a second's worth, at any time.
    Never,
}

impl Rate {
    /// None where there is no limit, which is written as 0.
    #[must_use]
    pub const fn new(per_second: u64) -> Option<Self> {
        if per_second == 0 { None } else { Some(Self(per_second)) }
    }

    /// IDs per second.
    #[must_use]
    pub const fn per_second(self) -> u64 {
        self.0
    }

    /// How long `count` IDs take at this pace; none when that is more than a second.
    fn time_of(self, count: u32) -> Option<u64> {
        let count = u64::from(count);
        // The product is below 2^62.
        (count <= self.0).then(|| (count * SECOND_NS).div_ceil(self.0))
    }
}

/// What somebody has taken lately.
#[derive(Debug, Default)]
pub struct Bucket {
    /// In nanoseconds of the caller's clock.
    paid_until: AtomicU64,
}

impl Bucket {
    /// Whether `count` IDs may be taken at `now` (monotonic); see [`Bucket::take`].
    ///
    /// # Errors
    /// When they may not.
    pub fn check(&self, count: u32, rate: Rate, now: Duration) -> Result<(), Over> {
        self.after(count, rate, now).map(drop)
    }

    /// Takes `count` IDs. Whoever has several buckets checks all of them first, on one thread.
    pub fn take(&self, count: u32, rate: Rate, now: Duration) {
        if let Ok(after) = self.after(count, rate, now) {
            self.paid_until.store(after, Ordering::Relaxed);
        }
    }

    /// Whether it is as if nothing had ever been taken.
    #[must_use]
    pub fn is_at_rest(&self, now: Duration) -> bool {
        self.paid_until.load(Ordering::Relaxed) <= nanoseconds(now)
    }

    fn after(&self, count: u32, rate: Rate, now: Duration) -> Result<u64, Over> {
        let time = rate.time_of(count).ok_or(Over::Never)?;
        let now = nanoseconds(now);
        let after = self.paid_until.load(Ordering::Relaxed).max(now).saturating_add(time);
        match after.saturating_sub(now.saturating_add(SECOND_NS)) {
            0 => Ok(after),
            early => Err(Over::Wait(Duration::from_nanos(early))),
        }
    }
}

fn nanoseconds(now: Duration) -> u64 {
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(per_second: u64) -> Rate {
        Rate::new(per_second).unwrap()
    }

    fn taken(bucket: &Bucket, count: u32, rate: Rate, now: Duration) -> Result<(), Over> {
        bucket.check(count, rate, now)?;
        bucket.take(count, rate, now);
        Ok(())
    }

    #[test]
    fn a_seconds_worth_may_be_taken_at_once_and_then_one_at_its_time() {
        let (bucket, rate) = (Bucket::default(), rate(10));
        let now = Duration::from_secs(5);
        assert_eq!(taken(&bucket, 10, rate, now), Ok(()));
        let tenth = Duration::from_millis(100);
        assert_eq!(taken(&bucket, 1, rate, now), Err(Over::Wait(tenth)));
        assert_eq!(taken(&bucket, 1, rate, now + tenth / 2), Err(Over::Wait(tenth / 2)));
        assert_eq!(taken(&bucket, 1, rate, now + tenth), Ok(()));
        assert_eq!(taken(&bucket, 1, rate, now + tenth), Err(Over::Wait(tenth)));
    }

    #[test]
    fn over_any_stretch_no_more_is_taken_than_the_rate_and_one_seconds_worth() {
        let (bucket, rate) = (Bucket::default(), rate(1000));
        let mut random = fastrand::Rng::with_seed(7);
        let (mut now, mut all) = (Duration::ZERO, 0_u64);
        for _ in 0..100_000 {
            now += Duration::from_micros(random.u64(0..3000));
            let count = random.u32(1..=20);
            all += u64::from(taken(&bucket, count, rate, now).map_or(0, |()| count));
            assert!(u128::from(all) <= 1000 + now.as_millis());
        }
        // And the limit is used up by whoever asks for more.
        assert!(u128::from(all) + 100 > now.as_millis(), "{all} in {now:?}");
    }

    #[test]
    fn more_than_a_seconds_worth_at_once_is_never_had_and_takes_nothing() {
        let bucket = Bucket::default();
        assert_eq!(taken(&bucket, 11, rate(10), Duration::ZERO), Err(Over::Never));
        assert!(bucket.is_at_rest(Duration::ZERO));
        assert_eq!(taken(&bucket, u32::MAX, rate(u64::MAX), Duration::MAX), Ok(()));
        assert_eq!(Rate::new(0), None);
    }

    #[test]
    fn who_has_taken_nothing_for_long_has_not_saved_up_more_than_a_second() {
        let (bucket, rate) = (Bucket::default(), rate(10));
        let late = Duration::from_secs(3600);
        assert_eq!(taken(&bucket, 10, rate, late), Ok(()));
        assert!(taken(&bucket, 1, rate, late).is_err());
        assert!(!bucket.is_at_rest(late));
        assert!(bucket.is_at_rest(late + Duration::from_secs(1)));
    }
}
