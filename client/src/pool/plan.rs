//! When a pool leases, and how much. Pure: the time is an argument, and the shell does the leasing.

use std::time::{Duration, Instant};

use crate::error::Error;
use crate::wire::ErrorCode;

/// The most IDs of a chunk.
pub(super) const MAX_CHUNK: u64 = 1_000_000;

/// A pool that uses this many of the largest chunks in the time that one should last is in a hurry. It leases
/// whatever it may hold: a lease costs the same whatever its size, so it then comes less often.
const HURRY: f64 = 4.0;

/// How long leases have to fail before that is an outage. A restart of the daemon takes less.
const OUTAGE: Duration = Duration::from_secs(1);

/// How much a chunk may grow from one lease to the next. From 100 IDs to a million it takes five.
const GROWTH: u64 = 8;

/// How long a limit that the daemon named counts. Quotas may be raised at a reload.
const LIMIT_HOLDS: Duration = Duration::from_secs(60);

/// The bounds of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChunkRule {
    pub(super) min: u64,
    pub(super) max: u64,
    /// How long a chunk should last.
    pub(super) lasts: Duration,
}

/// What the shell should do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// Lease this many IDs.
    Lease(u64),
    /// Lease then, if nothing else happens.
    At(Instant),
    /// Wait until somebody asks.
    Nothing,
}

/// What the pool holds and has given out.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Level {
    /// IDs that any caller can take.
    pub(super) left: u64,
    /// IDs that local handles hold, at most.
    pub(super) lent: u64,
    /// IDs that callers and local handles have taken since the start.
    pub(super) taken: u64,
}

/// A series of failed attempts.
#[derive(Debug)]
struct Trouble {
    since: Instant,
    attempts: u32,
    not_before: Instant,
    /// Whether another attempt may succeed although nobody changes anything.
    passes: bool,
    /// Whether it was reported.
    reported: bool,
}

/// A limit that the daemon named.
#[derive(Debug, Clone, Copy)]
struct Limit {
    count: u64,
    until: Instant,
}

/// Decides for one pool.
#[derive(Debug)]
pub(super) struct RefillPlan {
    rule: ChunkRule,
    backoff: (Duration, Duration),
    chunk: u64,
    /// The size of the last lease that was due.
    asked_for: u64,
    /// IDs of one lease, because of a quota.
    quota: Option<Limit>,
    /// The last lease, and what was taken before it.
    last: Option<(Instant, u64)>,
    /// IDs per second between the last two leases.
    rate: f64,
    trouble: Option<Trouble>,
}

impl RefillPlan {
    pub(super) const fn new(rule: ChunkRule, backoff: (Duration, Duration)) -> Self {
        let (chunk, asked_for) = (rule.min, 0);
        Self { rule, backoff, chunk, asked_for, quota: None, last: None, rate: 0.0, trouble: None }
    }

    /// What to do now. `asked`: somebody has asked since the last attempt.
    pub(super) fn due(&mut self, now: Instant, level: Level, asked: bool) -> Due {
        if level.left > self.chunk / 2 {
            return Due::Nothing;
        }
        if let Some(trouble) = &self.trouble {
            if !trouble.passes && !asked {
                return Due::Nothing;
            }
            if now < trouble.not_before {
                return Due::At(trouble.not_before);
            }
        }
        self.chunk = self.next_chunk(now, level);
        // Never more than two of the largest chunks, whatever local handles hold.
        let room = (2 * self.rule.max).saturating_sub(level.left + level.lent).max(self.rule.min);
        let wanted = if self.in_a_hurry() { room } else { self.chunk.min(room) };
        self.asked_for = wanted.min(self.quota(now)).max(1);
        Due::Lease(self.asked_for)
    }

    /// Whether even the largest chunk is used up far too soon.
    fn in_a_hurry(&self) -> bool {
        let used_meanwhile = self.rate * self.rule.lasts.as_secs_f64();
        self.chunk == self.rule.max && used_meanwhile > HURRY * self.rule.max as f64
    }

    /// The size of the next chunk: what was used since the last lease, as a rate.
    fn next_chunk(&mut self, now: Instant, level: Level) -> u64 {
        let quota = self.quota(now);
        let Some((at, taken)) = self.last else { return self.rule.min.min(quota) };
        let elapsed = now.saturating_duration_since(at).max(Duration::from_nanos(1));
        self.rate = level.taken.saturating_sub(taken) as f64 / elapsed.as_secs_f64();
        // A float beyond the range becomes the highest number.
        let wanted = (self.rate * self.rule.lasts.as_secs_f64()) as u64;
        wanted
            .clamp(self.chunk / 2, self.chunk.saturating_mul(GROWTH))
            .clamp(self.rule.min, self.rule.max)
            .min(quota)
            .max(1)
    }

    /// The daemon has leased something. Returns how long the outage was that ends, if it was reported.
    pub(super) fn leased(&mut self, now: Instant, level: Level) -> Option<Duration> {
        self.last = Some((now, level.taken));
        let ended = self.trouble.take().filter(|trouble| trouble.reported)?;
        Some(now.saturating_duration_since(ended.since))
    }

    /// A request failed. `jitter` is a random number in 0..1. Returns whether to report an outage, and
    /// until when there will be no further attempt.
    pub(super) fn failed(&mut self, now: Instant, error: &Error, jitter: f64) -> (bool, Instant) {
        if let Error::Refused(refusal) = error {
            let count = match refusal.code() {
                // Somebody else under this quota shall get something, too.
                ErrorCode::QuotaExceeded => Some((refusal.detail / 4).max(1)),
                // More at once than a quota gives in a second.
                ErrorCode::BadCount => Some(refusal.detail.max(1)),
                _ => None,
            };
            if let Some(count) = count {
                self.quota = Some(Limit { count, until: now + LIMIT_HOLDS });
            }
            if refusal.code() == ErrorCode::BadCount && count < Some(self.asked_for) {
                return (false, now);
            }
        }
        let (min, max) = self.backoff;
        let (since, attempts, reported) = match &self.trouble {
            Some(trouble) => (trouble.since, trouble.attempts, trouble.reported),
            None => (now, 0, false),
        };
        let pause = min.saturating_mul(1 << attempts.min(20)).min(max);
        let pause = pause.mul_f64(1.0 - jitter.clamp(0.0, 1.0) / 2.0);
        let not_before = now + pause.max(error.retry_after().unwrap_or_default());
        let passes = error.is_temporary();
        let is_outage = !passes || now.saturating_duration_since(since) >= OUTAGE;
        self.trouble = Some(Trouble {
            since,
            attempts: attempts.saturating_add(1),
            not_before,
            passes,
            reported: reported || is_outage,
        });
        (is_outage && !reported, not_before)
    }

    fn quota(&self, now: Instant) -> u64 {
        self.quota.filter(|limit| now < limit.until).map_or(u64::MAX, |limit| limit.count)
    }

    /// The size of the present chunk.
    pub(super) const fn chunk(&self) -> u64 {
        self.chunk
    }

    /// IDs per second between the last two leases.
    pub(super) const fn rate(&self) -> f64 {
        self.rate
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
