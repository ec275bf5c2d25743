use super::*;

use proptest::prelude::*;

use crate::wire::WireError;

const MS: Duration = Duration::from_millis(1);
const S: Duration = Duration::from_secs(1);
const RULE: ChunkRule = ChunkRule { min: 100, max: MAX_CHUNK, lasts: S };
const BACKOFF: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(500));

/// A pool whose daemon answers at once.
struct Bench {
    plan: RefillPlan,
    now: Instant,
    level: Level,
}

impl Bench {
    fn new(rule: ChunkRule) -> Self {
        Self { plan: RefillPlan::new(rule, BACKOFF), now: Instant::now(), level: Level::default() }
    }

    fn due(&mut self) -> Due {
        self.plan.due(self.now, self.level, true)
    }

    /// Leases what is due, and returns how many IDs.
    fn lease(&mut self) -> u64 {
        let Due::Lease(count) = self.due() else { panic!("nothing is due: {:?}", self.due()) };
        self.plan.leased(self.now, self.level);
        self.level.left += count;
        count
    }

    /// Uses up IDs at a steady rate.
    fn use_up(&mut self, count: u64, time: Duration) {
        self.level.left = self.level.left.checked_sub(count).unwrap();
        self.level.taken += count;
        self.now += time;
    }

    fn refused(&mut self, code: ErrorCode, detail: u64) -> (bool, Duration) {
        let refusal = WireError { detail, ..WireError::new(code, "") };
        let (begins, until) = self.plan.failed(self.now, &Error::Refused(refusal), 0.0);
        (begins, until.saturating_duration_since(self.now))
    }
}

#[test]
fn a_chunk_is_due_once_half_of_the_last_one_is_used() {
    let mut bench = Bench::new(RULE);
    assert_eq!(bench.lease(), 100);
    bench.use_up(49, S);
    assert_eq!(bench.due(), Due::Nothing);
    bench.use_up(1, S);
    assert!(matches!(bench.due(), Due::Lease(_)));
}

#[test]
fn a_chunk_lasts_about_a_second_at_the_rate_of_the_last_one() {
    let mut bench = Bench::new(RULE);
    bench.lease();
    // 10,000 IDs a second.
    let mut sizes = Vec::new();
    for _ in 0..8 {
        let used = bench.level.left - bench.plan.chunk() / 2;
        bench.use_up(used, used as u32 * S / 10_000);
        sizes.push(bench.lease());
    }
    assert_eq!(sizes[..2], [800, 6400]);
    assert!(sizes[3..].iter().all(|size| (9_999..=10_001).contains(size)), "{sizes:?}");
}

#[test]
fn the_fastest_user_gets_the_largest_chunk_after_five_leases() {
    let mut bench = Bench::new(RULE);
    let sizes: Vec<u64> = (0..6)
        .map(|_| {
            bench.lease();
            bench.use_up(bench.level.left, MS);
            bench.plan.chunk()
        })
        .collect();
    assert_eq!(sizes, [100, 800, 6_400, 51_200, 409_600, MAX_CHUNK]);
}

#[test]
fn a_user_that_is_far_too_fast_for_the_largest_chunk_leases_whatever_the_pool_may_hold() {
    let mut bench = Bench::new(RULE);
    for _ in 0..6 {
        bench.lease();
        bench.use_up(bench.level.left, MS);
    }
    assert_eq!(bench.lease(), 2 * MAX_CHUNK);
    bench.use_up(3 * MAX_CHUNK / 2, MS);
    assert_eq!(bench.lease(), 3 * MAX_CHUNK / 2);
    // Four chunks a second are not too fast.
    bench.use_up(3 * MAX_CHUNK / 2, 375 * MS);
    assert_eq!(bench.lease(), MAX_CHUNK);
}

#[test]
fn a_limit_between_one_chunk_and_two_is_learned_at_once() {
    let mut bench = Bench::new(ChunkRule { max: 1_000, ..RULE });
    for _ in 0..3 {
        bench.lease();
        bench.use_up(bench.level.left, MS);
    }
    assert_eq!(bench.due(), Due::Lease(2_000));
    assert_eq!(bench.refused(ErrorCode::BadCount, 1_500), (false, Duration::ZERO));
    assert_eq!(bench.due(), Due::Lease(1_500));
    // The same limit again is trouble: there is nothing left to learn.
    assert!(bench.refused(ErrorCode::BadCount, 1_500).1 > Duration::ZERO);
}

#[test]
fn a_user_that_slows_down_gets_smaller_chunks_down_to_the_smallest() {
    let mut bench = Bench::new(RULE);
    for _ in 0..6 {
        bench.lease();
        let left = bench.level.left;
        bench.use_up(left, MS);
    }
    let sizes: Vec<u64> = (0..15)
        .map(|_| {
            let size = bench.lease();
            let left = bench.level.left;
            bench.use_up(left, 3600 * S);
            size
        })
        .collect();
    // The first is still for the rate of the last one.
    assert!(sizes.is_sorted_by(|one, next| one >= next), "{sizes:?}");
    assert_eq!(*sizes.last().unwrap(), 100);
}

#[test]
fn a_quota_below_the_chunk_is_learned_at_once_and_forgotten_after_a_minute() {
    let mut bench = Bench::new(ChunkRule { min: 250_000, ..RULE });
    assert_eq!(bench.due(), Due::Lease(250_000));
    assert_eq!(bench.refused(ErrorCode::BadCount, 5_000), (false, Duration::ZERO));
    assert_eq!(bench.due(), Due::Lease(5_000));
    bench.now += LIMIT_HOLDS;
    assert_eq!(bench.due(), Due::Lease(250_000));
}

#[test]
fn a_limit_that_is_no_lower_is_trouble_and_not_tried_at_once_again() {
    let mut bench = Bench::new(RULE);
    bench.due();
    let (reported, pause) = bench.refused(ErrorCode::BadCount, 100_000);
    assert!(reported && pause > Duration::ZERO);
}

#[test]
fn a_limit_of_nothing_is_tried_with_pauses() {
    let mut bench = Bench::new(RULE);
    bench.due();
    // No leafd says so.
    assert_eq!(bench.refused(ErrorCode::BadCount, 0), (false, Duration::ZERO));
    assert_eq!(bench.due(), Due::Lease(1));
    assert!(bench.refused(ErrorCode::BadCount, 0).1 > Duration::ZERO);
}

#[test]
fn a_quota_makes_chunks_a_quarter_of_it_and_the_daemons_pause_is_kept() {
    let mut bench = Bench::new(ChunkRule { min: 1_000, ..RULE });
    bench.due();
    let refusal = WireError { detail: 2_000, ..WireError::new(ErrorCode::QuotaExceeded, "") };
    let error = Error::Refused(refusal.with_retry_after_ms(700));
    assert_eq!(bench.plan.failed(bench.now, &error, 0.0), (false, bench.now + 700 * MS));
    assert_eq!(bench.due(), Due::At(bench.now + 700 * MS));
    bench.now += 700 * MS;
    assert_eq!(bench.due(), Due::Lease(500));
}

#[test]
fn pauses_between_failures_double_and_an_outage_is_reported_once_after_a_second() {
    let mut bench = Bench::new(RULE);
    let began = bench.now;
    // The first attempt after a second is the ninth, after 1,135 ms.
    for (number, pause) in [5, 10, 20, 40, 80, 160, 320, 500, 500, 500].into_iter().enumerate() {
        assert!(matches!(bench.due(), Due::Lease(_)));
        assert_eq!(bench.refused(ErrorCode::StoreUnavailable, 0), (number == 8, pause * MS));
        assert_eq!(bench.due(), Due::At(bench.now + pause * MS));
        bench.now += pause * MS;
    }
    let lasted = bench.now - began;
    assert_eq!(bench.plan.leased(bench.now, bench.level), Some(lasted));
    assert_eq!(bench.plan.leased(bench.now, bench.level), None);
    // What is over within a second is nobody's business.
    assert_eq!(bench.refused(ErrorCode::StoreUnavailable, 0), (false, 5 * MS));
    bench.now += 900 * MS;
    assert_eq!(bench.plan.leased(bench.now, bench.level), None);
}

#[test]
fn an_error_that_does_not_pass_is_reported_at_once() {
    let mut bench = Bench::new(RULE);
    bench.due();
    assert!(bench.refused(ErrorCode::Forbidden, 0).0);
    assert!(!bench.refused(ErrorCode::Forbidden, 0).0);
    assert_eq!(bench.plan.leased(bench.now, bench.level), Some(Duration::ZERO));
}

#[test]
fn an_error_that_does_not_pass_is_tried_again_only_when_somebody_asks() {
    let mut bench = Bench::new(RULE);
    bench.due();
    bench.refused(ErrorCode::Forbidden, 0);
    bench.now += S;
    assert_eq!(bench.plan.due(bench.now, bench.level, false), Due::Nothing);
    assert!(matches!(bench.plan.due(bench.now, bench.level, true), Due::Lease(_)));
    // One that may pass is tried again in any case.
    bench.refused(ErrorCode::StoreUnavailable, 0);
    bench.now += S;
    assert!(matches!(bench.plan.due(bench.now, bench.level, false), Due::Lease(_)));
}

proptest! {
    /// Whatever the rate, the answers and the local handles.
    #[test]
    fn never_more_than_two_of_the_largest_chunks_are_held(
        min in 1u64..2_000,
        max in 1u64..MAX_CHUNK,
        steps in proptest::collection::vec((0u8..5, 0u64..3_000_000, 0u32..5_000), 1..200),
    ) {
        let rule = ChunkRule { min: min.min(max), max, lasts: S };
        let mut bench = Bench::new(rule);
        for (step, count, ms) in steps {
            match step {
                0 => {
                    let used = count.min(bench.level.left);
                    bench.use_up(used, ms * MS);
                }
                1 => {
                    // A local handle takes a batch; `lent` is part of what was taken.
                    let batch = (bench.plan.chunk() / 4).min(bench.level.left);
                    bench.use_up(batch, ms * MS);
                    bench.level.lent = (bench.level.lent + batch).min(rule.max);
                }
                2 => bench.level.lent = 0,
                3 => {
                    let code = [ErrorCode::QuotaExceeded, ErrorCode::BadCount, ErrorCode::Forbidden];
                    bench.refused(code[count as usize % 3], count);
                }
                _ => {
                    if let Due::Lease(count) = bench.due() {
                        prop_assert!(count >= 1 && count <= 2 * rule.max);
                        // With local handles that hold everything, one small chunk comes on top.
                        let held = bench.level.left + bench.level.lent;
                        prop_assert!(held + count <= (2 * rule.max).max(held + rule.min));
                        bench.plan.leased(bench.now, bench.level);
                        bench.level.left += count;
                    }
                }
            }
        }
    }
}
