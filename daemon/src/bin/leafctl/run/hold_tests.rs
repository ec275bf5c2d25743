use leaf_client::wire::WorkerLoan;
use proptest::prelude::*;

use super::hold::{HoldPlan, Urgency};
use super::moment::Moment;

/// The clock when the host started, in these tests.
const BOOT_UNIX_MS: u64 = 1_700_000_000_000;

fn at(boot_ms: u64) -> Moment {
    Moment { boot_ms, unix_ms: BOOT_UNIX_MS + boot_ms }
}

fn loan(left_ms: u64) -> WorkerLoan {
    WorkerLoan {
        worker: 7,
        bits: 10,
        claim: "c".to_owned(),
        start_unix_ms: BOOT_UNIX_MS,
        limit_unix_ms: BOOT_UNIX_MS + 3_600_000,
        left_ms,
    }
}

fn plan(left_ms: u64, grace_ms: u64) -> HoldPlan {
    HoldPlan::new(loan(left_ms), 1000, grace_ms)
}

#[test]
fn processes_are_asked_to_end_a_grace_before_they_are_killed() {
    let plan = plan(100_000, 10_000);
    assert_eq!(plan.urgency(at(1000)), Urgency::Calm);
    assert_eq!(plan.urgency(at(89_999)), Urgency::Calm);
    assert_eq!(plan.urgency(at(90_000)), Urgency::End);
    assert_eq!(plan.urgency(at(99_999)), Urgency::End);
    assert_eq!(plan.urgency(at(100_000)), Urgency::Kill);
    assert_eq!(plan.urgency(at(500_000)), Urgency::Kill);
}

#[test]
fn a_short_loan_keeps_most_of_its_time_for_the_command() {
    let plan = plan(4000, 10_000);
    assert_eq!(plan.urgency(at(3999)), Urgency::Calm);
    assert_eq!(plan.urgency(at(4000)), Urgency::End);
    assert_eq!(plan.urgency(at(4499)), Urgency::End);
    assert_eq!(plan.urgency(at(4500)), Urgency::Kill);
    assert_eq!(plan.renewal_ms(), 1000);
}

#[test]
fn a_loan_without_time_is_not_used() {
    assert_eq!(plan(0, 10_000).urgency(at(1000)), Urgency::Kill);
}

#[test]
fn the_time_counts_from_when_the_request_was_sent() {
    let mut plan = plan(100_000, 10_000);
    plan.renew(loan(100_000), 50_000).unwrap();
    assert_eq!(plan.known(at(60_000)).left_ms, 90_000);
    assert_eq!(plan.urgency(at(138_999)), Urgency::Calm);
    assert_eq!(plan.urgency(at(139_000)), Urgency::End);
    // An answer may also shorten it. The margins stay those of the longest time.
    plan.renew(loan(12_000), 60_000).unwrap();
    assert_eq!(plan.urgency(at(60_999)), Urgency::Calm);
    assert_eq!(plan.urgency(at(61_000)), Urgency::End);
}

#[test]
fn another_worker_id_or_another_claim_is_no_renewal() {
    let before = plan(100_000, 10_000);
    let mut plan = before.clone();
    assert!(plan.renew(WorkerLoan { worker: 8, ..loan(1) }, 2000).unwrap_err().contains("8"));
    assert!(plan.renew(WorkerLoan { claim: "d".to_owned(), ..loan(1) }, 2000).is_err());
    assert_eq!(plan, before);
}

#[test]
fn the_clock_has_to_stay_between_start_and_limit() {
    let plan = plan(100_000, 10_000);
    let clock = |unix_ms| Moment { boot_ms: 2000, unix_ms };
    assert_eq!(plan.urgency(clock(BOOT_UNIX_MS - 1)), Urgency::Kill);
    assert!(plan.reason(clock(BOOT_UNIX_MS - 1)).contains("set back"));
    assert_eq!(plan.urgency(clock(BOOT_UNIX_MS)), Urgency::Calm);
    assert_eq!(plan.urgency(clock(BOOT_UNIX_MS + 3_590_000)), Urgency::End);
    assert_eq!(plan.urgency(clock(BOOT_UNIX_MS + 3_600_000)), Urgency::Kill);
    assert!(plan.reason(clock(BOOT_UNIX_MS + 3_600_000)).contains("passed"));
    assert!(plan.reason(at(101_000)).contains("renew"));
}

#[test]
fn a_later_start_in_an_answer_does_not_end_what_runs() {
    let mut plan = plan(100_000, 10_000);
    let later = WorkerLoan { start_unix_ms: BOOT_UNIX_MS + 900_000, ..loan(100_000) };
    plan.renew(later, 2000).unwrap();
    assert_eq!(plan.urgency(at(2000)), Urgency::Calm);
}

proptest! {
    #[test]
    fn whoever_sleeps_as_told_misses_no_change(
        left_ms in 0..200_000_u64, grace_ms in 0..60_000_u64, start in 0..5000_u64,
    ) {
        let mut plan = WorkerLoan { start_unix_ms: BOOT_UNIX_MS + start, ..loan(left_ms) };
        plan.limit_unix_ms = u64::MAX;
        let plan = HoldPlan::new(plan, 0, grace_ms);
        let (mut now, mut seen) = (0, vec![plan.urgency(at(0))]);
        while plan.wake_in_ms(at(now)) != u64::MAX {
            let sleep = plan.wake_in_ms(at(now));
            prop_assert!(sleep > 0 && seen.len() < 8, "{:?}", seen);
            prop_assert_eq!(plan.urgency(at(now + sleep - 1)), plan.urgency(at(now)));
            now += sleep;
            seen.push(plan.urgency(at(now)));
        }
        // It ends killed, before the time is over.
        prop_assert!(now <= left_ms.max(start), "{} {:?}", now, seen);
        prop_assert_eq!(seen.last(), Some(&Urgency::Kill));
    }
}
