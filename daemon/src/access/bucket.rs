//! Limits IDs per second by keeping one time: when everything taken so far would have been issued
//! at exactly the limit's pace (the "generic cell rate algorithm" of ATM, ITU-T I.371). It may lie
//! one second ahead of the present, so a caller may take a second's worth at once.
//!
//! A request that has to wait reserves its IDs first. The reservation counts against the limit, so
//! requests in flight cannot exceed it together. It is spent when the IDs are issued and returned
//! when the request is refused.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use crate::lock::lock;

const SECOND_NS: u64 = 1_000_000_000;

/// A limit in IDs per second; never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RateLimit(u64);

/// Why a request is over the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    /// It fits after this time.
    Wait(Duration),
    /// It never fits: it asks for more than a second's worth.
    Never,
}

impl RateLimit {
    /// The limit that the configuration writes as `per_second`; 0 means no limit.
    #[must_use]
    pub(crate) const fn new(per_second: u64) -> Option<Self> {
        if per_second == 0 { None } else { Some(Self(per_second)) }
    }

    #[must_use]
    pub(crate) const fn per_second(self) -> u64 {
        self.0
    }

    /// How many nanoseconds `count` IDs take at this pace; `None` if more than a second.
    fn time_of(self, count: u32) -> Option<u64> {
        let count = u64::from(count);
        // The product is below 2^62.
        (count <= self.0).then(|| (count * SECOND_NS).div_ceil(self.0))
    }
}

/// The IDs that one user or tag has used and reserved.
#[derive(Debug, Default)]
pub(crate) struct Bucket(Mutex<Account>);

#[derive(Debug, Default)]
struct Account {
    /// When all IDs issued so far are paid for, in nanoseconds of the caller's clock.
    paid_until: u64,
    /// Nanoseconds' worth of IDs that requests in flight have reserved.
    reserved: u64,
}

/// IDs reserved in one bucket. Return it to the same bucket by [`Bucket::spend_reserved`] or
/// [`Bucket::cancel`].
#[derive(Debug)]
#[must_use]
pub(crate) struct Reserved(u64);

impl Bucket {
    /// Checks whether a caller may take `count` IDs at `now` (monotonic). Check every bucket first,
    /// then call [`Bucket::spend`] or [`Bucket::reserve`] on the same thread.
    ///
    /// # Errors
    /// When it may not.
    pub(crate) fn check(&self, count: u32, rate: RateLimit, now: Duration) -> Result<(), Over> {
        let time = rate.time_of(count).ok_or(Over::Never)?;
        let now = nanoseconds(now);
        let account = self.lock();
        let after = account.paid_until.max(now).saturating_add(account.reserved);
        drop(account);
        match after.saturating_add(time).saturating_sub(now.saturating_add(SECOND_NS)) {
            0 => Ok(()),
            early => Err(Over::Wait(Duration::from_nanos(early))),
        }
    }

    /// Charges for `count` issued IDs.
    pub(crate) fn spend(&self, count: u32, rate: RateLimit, now: Duration) {
        self.lock().pay(rate.time_of(count).unwrap_or(SECOND_NS), now);
    }

    /// Reserves `count` IDs for a request in flight.
    pub(crate) fn reserve(&self, count: u32, rate: RateLimit) -> Reserved {
        let time = rate.time_of(count).unwrap_or(SECOND_NS);
        let mut account = self.lock();
        account.reserved = account.reserved.saturating_add(time);
        Reserved(time)
    }

    /// Charges for reserved IDs that were issued.
    pub(crate) fn spend_reserved(&self, Reserved(time): Reserved, now: Duration) {
        let mut account = self.lock();
        account.reserved = account.reserved.saturating_sub(time);
        account.pay(time, now);
    }

    /// Returns reserved IDs that were not issued.
    pub(crate) fn cancel(&self, Reserved(time): Reserved) {
        let mut account = self.lock();
        account.reserved = account.reserved.saturating_sub(time);
    }

    /// Whether the bucket can be forgotten: a new one would decide the same.
    #[must_use]
    pub(crate) fn is_at_rest(&self, now: Duration) -> bool {
        let account = self.lock();
        account.reserved == 0 && account.paid_until <= nanoseconds(now)
    }

    fn lock(&self) -> MutexGuard<'_, Account> {
        lock(&self.0)
    }
}

impl Account {
    fn pay(&mut self, time: u64, now: Duration) {
        self.paid_until = self.paid_until.max(nanoseconds(now)).saturating_add(time);
    }
}

fn nanoseconds(now: Duration) -> u64 {
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(per_second: u64) -> RateLimit {
        RateLimit::new(per_second).unwrap()
    }

    fn taken(bucket: &Bucket, count: u32, rate: RateLimit, now: Duration) -> Result<(), Over> {
        bucket.check(count, rate, now)?;
        bucket.spend(count, rate, now);
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
    fn over_time_no_more_is_taken_than_the_rate_and_one_seconds_worth() {
        let (bucket, rate) = (Bucket::default(), rate(1000));
        let mut random = fastrand::Rng::with_seed(7);
        let (mut now, mut all) = (Duration::ZERO, 0_u64);
        for _ in 0..100_000 {
            now += Duration::from_micros(random.u64(0..3000));
            let count = random.u32(1..=20);
            all += u64::from(taken(&bucket, count, rate, now).map_or(0, |()| count));
            assert!(u128::from(all) <= 1000 + now.as_millis());
        }
        // A caller that asks for more than the limit gets all of it.
        assert!(u128::from(all) + 100 > now.as_millis(), "{all} in {now:?}");
    }

    #[test]
    fn a_request_for_more_than_a_seconds_worth_is_refused_and_costs_nothing() {
        let bucket = Bucket::default();
        assert_eq!(taken(&bucket, 11, rate(10), Duration::ZERO), Err(Over::Never));
        assert!(bucket.is_at_rest(Duration::ZERO));
        assert_eq!(taken(&bucket, u32::MAX, rate(u64::MAX), Duration::MAX), Ok(()));
        assert_eq!(RateLimit::new(0), None);
    }

    #[test]
    fn a_user_that_was_idle_for_long_has_saved_no_more_than_a_second() {
        let (bucket, rate) = (Bucket::default(), rate(10));
        let late = Duration::from_secs(3600);
        assert_eq!(taken(&bucket, 10, rate, late), Ok(()));
        assert!(taken(&bucket, 1, rate, late).is_err());
        assert!(!bucket.is_at_rest(late));
        assert!(bucket.is_at_rest(late + Duration::from_secs(1)));
    }

    #[test]
    fn a_refused_request_costs_nothing_and_one_in_flight_counts_until_its_answer() {
        let (bucket, rate) = (Bucket::default(), rate(10));
        let now = Duration::from_secs(5);
        assert_eq!(bucket.check(10, rate, now), Ok(()));
        let reserved = bucket.reserve(10, rate);
        assert!(bucket.check(1, rate, now).is_err());
        // A reservation does not wear off while it waits: all its IDs may still come at once.
        assert!(bucket.check(1, rate, now + Duration::from_secs(3600)).is_err());
        assert!(!bucket.is_at_rest(Duration::MAX));
        bucket.cancel(reserved);
        assert!(bucket.is_at_rest(now));
        assert_eq!(taken(&bucket, 10, rate, now), Ok(()));
    }

    #[test]
    fn reservations_never_lead_to_more_than_the_rate_and_one_seconds_worth() {
        let (bucket, rate) = (Bucket::default(), rate(1000));
        let mut random = fastrand::Rng::with_seed(11);
        let (mut now, mut waiting) = (Duration::ZERO, Vec::new());
        let (mut issued, mut log) = (0_u64, Vec::new());
        for _ in 0..50_000 {
            now += Duration::from_micros(random.u64(0..3000));
            let count = random.u32(1..=40);
            if bucket.check(count, rate, now).is_ok() {
                if random.bool() {
                    bucket.spend(count, rate, now);
                    issued += u64::from(count);
                } else {
                    waiting.push((count, bucket.reserve(count, rate)));
                }
            }
            while random.u8(..) < 100 && !waiting.is_empty() {
                let (count, reserved) = waiting.swap_remove(random.usize(..waiting.len()));
                if random.bool() {
                    bucket.spend_reserved(reserved, now);
                    issued += u64::from(count);
                } else {
                    bucket.cancel(reserved);
                }
            }
            log.push((now, issued));
            // Over any period that ends now, not only since the start.
            let (since, before) = log[random.usize(..log.len())];
            let most = 1000 + (now - since).as_millis() + 40;
            assert!(
                u128::from(issued - before) <= most,
                "{issued} - {before} in {since:?}..{now:?}"
            );
        }
        assert!(u128::from(issued) * 2 > now.as_millis(), "{issued} in {now:?}");
        for (_, reserved) in waiting {
            bucket.cancel(reserved);
        }
        assert!(bucket.is_at_rest(now + Duration::from_secs(1)));
    }
}
