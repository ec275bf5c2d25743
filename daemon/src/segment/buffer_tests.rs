use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const RULES: Rules =
    Rules { max_step: 1_000_000, max_waiting: 1000, absent_for: Duration::from_secs(1) };
const T0: Duration = Duration::from_secs(1000);
const NEVER: Duration = Duration::from_secs(1_000_000);

fn range(start: u64, end: u64) -> Range {
    Range::new(start, end).unwrap()
}

fn lease(start: u64, end: u64, row_step: u64) -> Lease {
    Lease { range: range(start, end), row_step }
}

fn flush(segment: &mut Segment, now: Duration) {
    while segment.poll_persist(now).is_some() {
        segment.persisted();
    }
}

/// A tag with `[1, 1001)` leased and a window of it ready.
fn served() -> Segment {
    let mut segment = Segment::new(RULES, 1);
    assert_eq!(segment.request(T0, 0, 1, NEVER), Answer::Later);
    assert_eq!(segment.poll_lease(T0), Some(LeaseAsk { at_least: 1, floor: 0 }));
    segment.leased(T0, lease(1, 1001, 1000));
    flush(&mut segment, T0);
    assert_eq!(segment.poll_done(), Some((0, Ok(Runs::one(1, 1)))));
    segment
}

/// Takes one ID at a time over some time, persisting at once, never leasing.
fn drain(segment: &mut Segment, count: u64) -> Vec<u64> {
    let mut ids = Vec::new();
    for ticket in 0..count {
        let now = T0 + Duration::from_millis(20 * ticket);
        match segment.request(now, ticket, 1, NEVER) {
            Answer::Now(runs) => ids.extend(runs.iter().map(|run| run.first)),
            Answer::Later => {
                flush(segment, now);
                let Some((_, Ok(runs))) = segment.poll_done() else { break };
                ids.extend(runs.iter().map(|run| run.first));
            }
            Answer::Refused(refusal) => panic!("{refusal:?}"),
        }
        flush(segment, now);
    }
    ids
}

#[test]
fn a_burst_against_a_small_step_waits_for_the_store_instead_of_failing() {
    let mut segment = Segment::new(RULES, 1);
    for ticket in 0..500 {
        assert_eq!(segment.request(T0, ticket, 1, NEVER), Answer::Later);
    }
    // One lease covers all that is asked for, and there is no second in flight.
    assert_eq!(segment.poll_lease(T0), Some(LeaseAsk { at_least: 500, floor: 0 }));
    assert_eq!(segment.poll_lease(T0), None);
    segment.leased(T0, lease(1, 501, 10));
    flush(&mut segment, T0);
    for ticket in 0..500 {
        assert_eq!(segment.poll_done(), Some((ticket, Ok(Runs::one(ticket + 1, 1)))));
    }
}

#[test]
fn a_failed_first_lease_lets_nobody_read_the_empty_range() {
    let mut segment = Segment::new(RULES, 1);
    assert_eq!(segment.request(T0, 1, 1, NEVER), Answer::Later);
    segment.poll_lease(T0).unwrap();
    segment.lease_failed(T0, LeaseFailure::Unavailable("down".into()));
    assert_eq!(segment.take(1), None);
    assert_eq!(segment.request(T0, 2, 1, NEVER), Answer::Later);
    assert_eq!(segment.poll_done(), None);
}

#[test]
fn a_missing_row_is_an_error_for_who_waits_and_is_not_looked_up_for_a_while() {
    let mut segment = Segment::new(RULES, 1);
    segment.request(T0, 1, 1, NEVER);
    segment.poll_lease(T0).unwrap();
    segment.lease_failed(T0, LeaseFailure::UnknownTag);
    assert_eq!(segment.poll_done(), Some((1, Err(Refusal::UnknownTag))));
    assert_eq!(segment.request(T0, 2, 1, NEVER), Answer::Refused(Refusal::UnknownTag));
    let later = T0 + Duration::from_secs(1);
    assert_eq!(segment.request(later, 3, 1, NEVER), Answer::Later);
    assert!(segment.poll_lease(later).is_some());
}

#[test]
fn a_row_that_cannot_be_used_is_an_error_for_who_waits_on_it_only() {
    let mut segment = served();
    segment.request(T0, 1, 500, NEVER);
    segment.request(T0, 2, 600, NEVER);
    segment.poll_lease(T0).unwrap();
    segment.lease_failed(T0, LeaseFailure::BadRow("step -1".into()));
    assert_eq!(segment.poll_done(), Some((2, Err(Refusal::BadRow("step -1".into())))));
    flush(&mut segment, T0);
    assert_eq!(segment.poll_done(), Some((1, Ok(Runs::one(2, 500)))));
}

#[test]
fn a_row_that_cannot_be_used_is_left_alone_when_nobody_waits_for_it() {
    let mut segment = Segment::new(RULES, 1);
    segment.request(T0, 1, 1, NEVER);
    segment.poll_lease(T0).unwrap();
    segment.lease_failed(T0, LeaseFailure::BadRow("step -1".into()));
    assert_eq!(segment.poll_done(), Some((1, Err(Refusal::BadRow("step -1".into())))));
    assert_eq!(segment.poll_lease(NEVER), None);
    segment.request(NEVER, 2, 1, NEVER);
    assert!(segment.poll_lease(NEVER).is_some());
}

#[test]
fn a_tag_is_idle_only_when_nobody_waits_and_nothing_is_left_or_under_way() {
    let failures = [
        LeaseFailure::UnknownTag,
        LeaseFailure::Unavailable("locked".into()),
        LeaseFailure::NotTried("down".into()),
        LeaseFailure::BadRow("step -1".into()),
        LeaseFailure::NoRoom { limit: 1, removed: 0 },
    ];
    for failure in failures {
        let mut segment = Segment::new(RULES, 1);
        segment.request(T0, 1, 1, T0);
        assert!(!segment.is_idle(), "it is waited for");
        segment.poll_lease(T0).unwrap();
        segment.expire(T0);
        assert!(!segment.is_idle(), "a lease is under way");
        segment.lease_failed(T0, failure.clone());
        assert!(segment.is_idle(), "{failure:?}");
        assert_eq!(segment.mark_of_removed(), None, "nothing was leased");
        let mut used = served();
        drain(&mut used, 150);
        used.poll_lease(T0).unwrap();
        used.lease_failed(T0, failure.clone());
        let removed = failure == LeaseFailure::UnknownTag;
        assert!(!used.is_idle(), "what is left is in memory, or has to be given up on disk");
        flush(&mut used, T0);
        assert_eq!(used.mark_of_removed(), removed.then_some(1001), "{failure:?}");
    }
}

#[test]
fn failed_leases_back_off_and_are_not_asked_for_in_between() {
    let mut segment = Segment::new(RULES, 1);
    segment.request(T0, 1, 1, NEVER);
    let mut now = T0;
    let mut rests = Vec::new();
    for _ in 0..8 {
        assert!(segment.poll_lease(now).is_some());
        segment.lease_failed(now, LeaseFailure::Unavailable("down".into()));
        let until = segment.lease_rests_until().unwrap();
        assert!(segment.poll_lease(until - Duration::from_nanos(1)).is_none());
        rests.push(until - now);
        now = until;
    }
    assert!(rests[0] <= Duration::from_millis(50));
    assert!(rests[7] >= Duration::from_millis(500) && rests[7] <= Duration::from_secs(1));
}

#[test]
fn a_store_known_to_be_down_is_not_asked_until_it_is_back_and_who_waits_is_told() {
    let mut segment = Segment::new(RULES, 1);
    let deadline = T0 + Duration::from_secs(5);
    segment.request(T0, 1, 1, deadline);
    assert!(segment.poll_lease(T0).is_some());
    segment.lease_failed(T0, LeaseFailure::NotTried("refused".into()));
    assert!(segment.waits_for_store() && segment.lease_rests_until().is_none());
    assert_eq!(segment.poll_lease(NEVER), None);
    assert_eq!(segment.view().lease_error.as_deref(), Some("refused"));
    segment.expire(deadline);
    let refusal = Refusal::Store("refused".into(), Duration::ZERO);
    assert_eq!(segment.poll_done(), Some((1, Err(refusal))));
    segment.request(deadline, 2, 1, NEVER);
    segment.store_is_back();
    assert!(segment.poll_lease(deadline).is_some());
    // Not having been asked is no failure: the first one afterwards rests for the shortest time.
    segment.lease_failed(deadline, LeaseFailure::Unavailable("locked".into()));
    let rest = segment.lease_rests_until().unwrap() - deadline;
    assert!(rest <= Duration::from_millis(50), "{rest:?}");
    segment.store_is_back();
    assert!(segment.lease_rests_until().is_some(), "it rests all the same");
}

#[test]
fn what_the_row_was_seen_at_is_the_least_that_a_lease_may_start_at() {
    let mut segment = served();
    let floor = segment.view().floor;
    assert!(!segment.row_is_at(floor) && !segment.row_is_at(1), "nothing new");
    assert!(segment.row_is_at(floor + 5000));
    let record = segment.poll_persist(T0).unwrap();
    assert_eq!(record.floor, floor + 5000, "the disk is told");
    segment.persisted();
    drain(&mut segment, 150);
    let ask = segment.poll_lease(T0).unwrap();
    assert_eq!(ask.floor, floor + 5000);
    // What the lease in flight does to the row is seen before its answer.
    assert!(!segment.row_is_at(floor + 6000));
    segment.leased(T0, lease(floor + 5000, floor + 6000, 1000));
    assert_eq!((segment.view().floor, segment.view().lease_error), (floor + 6000, None));
}

#[test]
fn a_row_of_a_tag_that_was_never_used_here_says_nothing() {
    let mut segment = Segment::new(RULES, 1);
    assert!(!segment.row_is_at(5000));
    assert_eq!(segment.poll_persist(T0), None);
}

#[test]
fn the_next_range_is_leased_when_10_percent_of_the_current_one_is_issued() {
    let mut segment = served();
    assert_eq!(segment.poll_lease(T0), None);
    drain(&mut segment, 98);
    assert_eq!(segment.view().position, Some(100));
    assert_eq!(segment.poll_lease(T0), None);
    drain(&mut segment, 1);
    assert_eq!(segment.poll_lease(T0), Some(LeaseAsk { at_least: 0, floor: 1001 }));
}

#[test]
fn the_fast_path_raises_the_alarm_when_the_next_range_is_due() {
    let mut segment = served();
    let mut issued = 1;
    while issued < 100 {
        let (_, alarm) = segment.take(1).unwrap();
        issued += 1;
        if alarm {
            flush(&mut segment, T0);
            assert_eq!(segment.poll_lease(T0).is_some(), issued >= 100, "after {issued}");
        }
    }
    assert!(matches!(segment.lease, LeaseState::InFlight { .. }));
}

#[test]
fn the_fast_path_raises_no_alarm_while_no_lease_can_be_tried() {
    let alarm = |segment: &mut Segment| segment.take(1).map(|(_, more_to_do)| more_to_do);
    for rests in [false, true] {
        let mut segment = served();
        // A single window, so that only the next range is left to do.
        segment.request(T0, 1, 1000, NEVER);
        segment.poll_lease(T0).unwrap();
        segment.leased(T0, lease(1001, 1_000_001, 999_000));
        flush(&mut segment, T0);
        assert!(matches!(segment.poll_done(), Some((1, Ok(_)))));
        segment.request(T0, 2, 900_000, NEVER);
        flush(&mut segment, T0);
        assert!(matches!(segment.poll_done(), Some((2, Ok(_)))));
        flush(&mut segment, T0);
        segment.poll_lease(T0).unwrap();
        let failure = |text: &str| match rests {
            true => LeaseFailure::Unavailable(text.into()),
            false => LeaseFailure::NotTried(text.into()),
        };
        segment.lease_failed(T0, failure("down"));
        assert!(!segment.wants_persist(T0));
        assert_eq!(alarm(&mut segment), Some(false), "rests: {rests}");
        // Nobody needs more than memory has: the lease is wanted all the same.
        let later = T0 + Duration::from_secs(10);
        segment.store_is_back();
        assert!(segment.poll_lease(later).is_some(), "rests: {rests}");
    }
}

#[test]
fn the_current_range_is_drained_before_the_switch_and_a_request_may_be_filled_from_both() {
    let mut segment = served();
    drain(&mut segment, 100);
    segment.poll_lease(T0).unwrap();
    segment.leased(T0, lease(5001, 6001, 1000));
    flush(&mut segment, T0);
    let ids = drain(&mut segment, 890);
    assert_eq!((ids[0], ids[889]), (102, 991));
    let Answer::Later = segment.request(T0, 7, 20, NEVER) else {
        // Already ready.
        return;
    };
    flush(&mut segment, T0);
    let (_, runs) = segment.poll_done().unwrap();
    let runs: Vec<_> = runs.unwrap().iter().map(|run| (run.first, run.count)).collect();
    assert_eq!(runs, [(992, 9), (5001, 11)]);
}

#[test]
fn a_single_request_larger_than_the_step_gets_a_lease_that_covers_it() {
    let mut segment = Segment::new(RULES, 1);
    segment.request(T0, 1, 100_000, NEVER);
    assert_eq!(segment.poll_lease(T0).unwrap().at_least, 100_000);
    segment.leased(T0, lease(1, 100_001, 1000));
    flush(&mut segment, T0);
    assert_eq!(segment.poll_done(), Some((1, Ok(Runs::one(1, 100_000)))));
}

#[test]
fn demand_above_the_largest_step_is_met_by_several_leases_one_at_a_time() {
    let rules = Rules { max_step: 1000, ..RULES };
    let mut segment = Segment::new(rules, 1);
    segment.request(T0, 1, 2500, NEVER);
    let mut start = 1;
    while let Some(ask) = segment.poll_lease(T0) {
        assert!(ask.at_least <= 1000);
        assert_eq!(segment.poll_lease(T0), None);
        segment.leased(T0, lease(start, start + 1000, 10));
        start += 1000;
    }
    assert_eq!(start, 3001);
    flush(&mut segment, T0);
    assert_eq!(segment.poll_done(), Some((1, Ok(Runs::one(1, 2500)))));
}

#[test]
fn requests_that_piled_up_get_no_larger_lease_than_a_million_in_a_tag_that_is_in_no_hurry() {
    let rules = Rules { max_step: 100_000_000, ..RULES };
    let mut segment = Segment::new(rules, 1);
    for ticket in 0..1000 {
        segment.request(T0, ticket, 100_000, NEVER);
    }
    assert_eq!(segment.poll_lease(T0).unwrap().at_least, 1_000_000);
}

#[test]
fn nothing_is_issued_before_the_disk_knows() {
    let mut segment = Segment::new(RULES, 1);
    segment.request(T0, 1, 1, NEVER);
    segment.poll_lease(T0).unwrap();
    segment.leased(T0, lease(1, 1001, 1000));
    assert_eq!(segment.poll_done(), None);
    let record = segment.poll_persist(T0).unwrap();
    assert_eq!(record.left.position(), Some(101));
    assert_eq!((segment.poll_done(), segment.take(1)), (None, None));
    segment.persisted();
    assert!(segment.poll_done().is_some());
}

#[test]
fn a_disk_that_fails_refuses_by_name_and_recovers_without_losing_ids() {
    let mut segment = Segment::new(RULES, 1);
    segment.request(T0, 1, 1, T0 + Duration::from_secs(5));
    segment.poll_lease(T0).unwrap();
    segment.leased(T0, lease(1, 1001, 1000));
    segment.poll_persist(T0).unwrap();
    segment.persist_failed(T0, "no space".into());
    assert_eq!(segment.poll_persist(T0), None);
    segment.expire(T0 + Duration::from_secs(5));
    let Some((1, Err(Refusal::State(error, _)))) = segment.poll_done() else { panic!() };
    assert_eq!(error, "no space");
    segment.request(T0, 2, 1, NEVER);
    let until = segment.persist_rests_until().unwrap();
    flush(&mut segment, until);
    assert_eq!(segment.poll_done(), Some((2, Ok(Runs::one(1, 1)))));
}

#[test]
fn who_waits_is_refused_at_the_deadline_with_the_reason_and_others_keep_waiting() {
    let mut segment = Segment::new(RULES, 1);
    let second = Duration::from_secs(1);
    segment.request(T0, 1, 1, T0 + 2 * second);
    segment.request(T0, 2, 1, T0 + second);
    segment.poll_lease(T0).unwrap();
    segment.expire(T0 + second);
    let Some((2, Err(Refusal::Store(..)))) = segment.poll_done() else { panic!() };
    assert_eq!(segment.poll_done(), None);
    segment.lease_failed(T0 + second, LeaseFailure::Unavailable("refused".into()));
    segment.expire(T0 + 2 * second);
    let Some((1, Err(Refusal::Store(error, _)))) = segment.poll_done() else { panic!() };
    assert_eq!(error, "refused");
    // Nobody waits, so nobody makes the store busy.
    assert_eq!(segment.poll_lease(NEVER), None);
}

#[test]
fn why_a_lease_failed_is_told_while_the_next_try_is_under_way_until_one_goes_well() {
    let mut segment = Segment::new(RULES, 1);
    let second = Duration::from_secs(1);
    for (ticket, failure) in [
        (1, LeaseFailure::Unavailable("locked".into())),
        (2, LeaseFailure::NotTried("refused".into())),
    ] {
        let now = u32::try_from(ticket).unwrap() * second;
        segment.request(now, ticket, 1, now + second / 2);
        segment.request(now, 9, 1, NEVER);
        segment.poll_lease(now).unwrap();
        segment.lease_failed(now, failure.clone());
        segment.store_is_back();
        let again = now + second / 2;
        segment.poll_lease(again).unwrap();
        assert_eq!(segment.view().lease_error, Some(failure.to_string()));
        segment.expire(again);
        let Some((_, Err(Refusal::Store(error, _)))) = segment.poll_done() else { panic!() };
        assert_eq!(error, failure.to_string());
        segment.lease_failed(again, failure);
        segment.store_is_back();
    }
    segment.poll_lease(5 * second).unwrap();
    segment.leased(5 * second, lease(1, 11, 10));
    assert_eq!(segment.view().lease_error, None);
}

#[test]
fn a_row_that_cannot_be_used_is_told_by_its_own_name_also_at_the_deadline() {
    let mut segment = Segment::new(RULES, 1);
    let bad = LeaseFailure::BadRow("step is 0".into());
    segment.request(T0, 1, 1, NEVER);
    segment.poll_lease(T0).unwrap();
    segment.lease_failed(T0, bad);
    let Some((1, Err(Refusal::BadRow(_)))) = segment.poll_done() else { panic!() };
    segment.request(T0, 2, 1, T0 + Duration::from_millis(1));
    segment.expire(T0 + Duration::from_millis(1));
    assert_eq!(segment.poll_done(), Some((2, Err(Refusal::BadRow("step is 0".into())))));
}

#[test]
fn a_tag_that_nobody_wants_is_in_no_trouble_when_the_store_is_back() {
    let mut segment = Segment::new(RULES, 1);
    let deadline = T0 + Duration::from_millis(1);
    segment.request(T0, 1, 1, deadline);
    segment.poll_lease(T0).unwrap();
    segment.lease_failed(T0, LeaseFailure::NotTried("refused".into()));
    segment.expire(deadline);
    assert_eq!(segment.view().lease_error.as_deref(), Some("refused"));
    segment.store_is_back();
    assert_eq!(segment.view().lease_error, None);
}

#[test]
fn so_many_may_wait_and_no_more() {
    let mut segment = Segment::new(Rules { max_waiting: 2, ..RULES }, 1);
    assert_eq!(segment.request(T0, 1, 1, NEVER), Answer::Later);
    assert_eq!(segment.request(T0, 2, 1, NEVER), Answer::Later);
    let refusal = Refusal::TooManyWaiting(2);
    assert_eq!(segment.request(T0, 3, 1, NEVER), Answer::Refused(refusal));
}

#[test]
fn a_lease_below_what_this_host_has_seen_is_refused() {
    let mut segment = served();
    drain(&mut segment, 200);
    segment.poll_lease(T0).unwrap();
    segment.leased(T0, lease(1000, 2000, 1000));
    assert!(segment.view().lease_error.unwrap().contains("1001"));
    assert_eq!(segment.view().remaining, 799);
}

#[test]
fn one_large_request_that_waits_for_the_store_does_not_hold_up_what_memory_can_serve() {
    let mut segment = served();
    assert_eq!(segment.request(T0, 1, 100_000, NEVER), Answer::Later);
    flush(&mut segment, T0);
    assert!(segment.reserve.total() > 0, "the whole range is not granted in vain");
    assert_eq!(segment.poll_lease(T0).unwrap().at_least, 100_000);
    assert_eq!(segment.request(T0, 2, 3, NEVER), Answer::Now(Runs::one(2, 3)));
    assert_eq!(segment.request(T0, 3, 700, NEVER), Answer::Later);
    flush(&mut segment, T0);
    assert_eq!(segment.poll_done(), Some((3, Ok(Runs::one(5, 700)))));
    segment.leased(T0, lease(1001, 101_001, 1000));
    flush(&mut segment, T0);
    assert_eq!(segment.poll_done(), Some((1, Ok(Runs::one(705, 100_000)))));
}

#[test]
fn a_request_whose_caller_is_gone_costs_no_ids() {
    let mut segment = Segment::new(RULES, 1);
    segment.request(T0, 1, 100_000, NEVER);
    segment.request(T0, 2, 5, NEVER);
    segment.withdraw(1);
    segment.withdraw(77);
    assert_eq!(segment.poll_lease(T0), Some(LeaseAsk { at_least: 5, floor: 0 }));
    segment.leased(T0, lease(1, 11, 10));
    flush(&mut segment, T0);
    assert_eq!(segment.poll_done(), Some((2, Ok(Runs::one(1, 5)))));
}

#[test]
fn a_crash_after_many_single_requests_loses_a_small_window() {
    let mut segment = served();
    for ticket in 0..400 {
        let now = T0 + Duration::from_millis(ticket);
        if matches!(segment.request(now, ticket, 1, NEVER), Answer::Later) {
            flush(&mut segment, now);
            assert!(segment.poll_done().is_some());
        }
        flush(&mut segment, now);
    }
    let lost = segment.reserve.position().unwrap() - 402;
    // At 1000 a second: no more than what 400 ms use.
    assert!(lost <= 400, "{lost}");
}

#[test]
fn every_next_range_is_asked_for_at_10_percent_also_when_all_of_memory_is_ready() {
    let mut segment = served();
    let (mut end, mut asked_at) = (1001, Vec::new());
    let mut now = T0;
    for _ in 0..20_000 {
        now += Duration::from_micros(10);
        let alarm = match segment.take(1) {
            Some((_, alarm)) => alarm,
            None => {
                let answer = segment.request(now, 0, 1, NEVER);
                assert!(matches!(answer, Answer::Now(_)), "memory is drained at {end}");
                true
            }
        };
        if alarm {
            if segment.poll_lease(now).is_some() {
                asked_at.push(end - segment.position().unwrap_or(end));
                segment.leased(now, lease(end, end + 1000, 1000));
                end += 1000;
            }
            flush(&mut segment, now);
        }
    }
    assert!(asked_at.len() > 15 && asked_at.iter().all(|left| *left == 900), "{asked_at:?}");
}

#[test]
fn a_removed_tag_is_served_no_longer_and_its_highest_end_is_remembered() {
    let mut segment = served();
    segment.removed(T0);
    assert_eq!(segment.take(1), None);
    assert_eq!(segment.request(T0, 1, 1, NEVER), Answer::Refused(Refusal::UnknownTag));
    let record = segment.poll_persist(T0).unwrap();
    assert_eq!((record.floor, record.left.total()), (1001, 0));
    segment.persisted();
    segment.appeared();
    segment.request(T0, 2, 1, NEVER);
    assert_eq!(segment.poll_lease(T0), Some(LeaseAsk { at_least: 1, floor: 1001 }));
}

#[test]
fn a_clean_stop_loses_nothing_and_a_crash_at_most_the_window() {
    let mut segment = served();
    drain(&mut segment, 49);
    // 51 was the next; a crash begins at the first ID that the disk says is left.
    let crash = segment.reserve.position().unwrap();
    assert!(crash > 51 && crash - 51 <= crate::segment::window::SMALLEST);
    let record = segment.close();
    assert_eq!((record.left.position(), record.left.total()), (Some(51), 950));
    assert_eq!(segment.take(1), None);
    assert_eq!(segment.request(T0, 1, 1, NEVER), Answer::Refused(Refusal::Stopping));
    let mut next = Segment::restored(RULES, 1, record);
    assert_eq!(drain(&mut next, 1), [51]);
}

#[test]
fn a_restart_serves_what_is_left_without_the_store() {
    let record =
        Record { floor: 2001, left: [range(900, 1001), range(1001, 2001)].into_iter().collect() };
    let mut segment = Segment::restored(RULES, 1, record);
    segment.prepare();
    flush(&mut segment, T0);
    assert!(segment.take(1).is_some(), "the first request does not even wait for the disk");
    assert_eq!(drain(&mut segment, 1100).len(), 1100);
    assert_eq!(segment.request(T0, 1, 1, NEVER), Answer::Later);
}

#[test]
fn a_recent_tag_with_nothing_left_is_leased_at_start_before_anybody_asks() {
    let left = RangeQueue::default();
    let mut segment = Segment::restored(RULES, 1, Record { floor: 2001, left });
    assert_eq!(segment.poll_lease(T0), None);
    segment.prepare();
    assert_eq!(segment.poll_lease(T0), Some(LeaseAsk { at_least: 0, floor: 2001 }));
}

/// One step of a tag's life among other hosts.
#[derive(Debug, Clone)]
enum Event {
    Request(u32, u64),
    Fast(u32),
    LeaseOk,
    /// The store does its part, and the answer is lost.
    LeaseLost,
    LeaseFails,
    LeaseBadRow,
    LeaseNotTried,
    StoreIsBack,
    DiskOk,
    DiskFails,
    Time(u64),
    OtherHost(u64),
    /// The refresh reads the row.
    RowRead,
    RowStep(u64),
    /// A backup is restored, a replica without the last writes is promoted.
    StoreBack(u64),
    RowDeleted,
    /// Killed; and whether the write that was under way reached the disk.
    Kill(bool),
    Stop,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => (prop_oneof![1..4u32, 1..3000u32], 1..3000u64).prop_map(|(n, t)| Event::Request(n, t)),
        12 => prop_oneof![1..4u32, 1..500u32].prop_map(Event::Fast),
        8 => Just(Event::LeaseOk),
        1 => Just(Event::LeaseLost),
        2 => Just(Event::LeaseFails),
        1 => Just(Event::LeaseBadRow),
        1 => Just(Event::LeaseNotTried),
        4 => Just(Event::StoreIsBack),
        10 => Just(Event::DiskOk),
        1 => Just(Event::DiskFails),
        4 => prop_oneof![1..50u64, Just(1000), Just(20 * 60_000), Just(40 * 60_000)]
            .prop_map(Event::Time),
        2 => (1..5000u64).prop_map(Event::OtherHost),
        2 => Just(Event::RowRead),
        1 => (1..3000u64).prop_map(Event::RowStep),
        1 => (1..10_000u64).prop_map(Event::StoreBack),
        1 => Just(Event::RowDeleted),
        1 => any::<bool>().prop_map(Event::Kill),
        1 => Just(Event::Stop),
    ]
}

/// The world around one tag: a row, a disk, and everything that was ever issued.
struct World {
    segment: Segment,
    now: Duration,
    row: Option<u64>,
    row_step: u64,
    asked: Option<LeaseAsk>,
    writing: Option<Record>,
    disk: Record,
    issued: BTreeMap<u64, u64>,
    /// Where the row was read: what lies below may be another host's.
    seen: u64,
    leased: u64,
    /// IDs that a rule allows to be lost: by crashes and removals. What a removal dropped from
    /// memory comes back when a crash prevents the disk from hearing of it.
    lost: i64,
    ticket: Ticket,
    waiting: Vec<(Ticket, u32)>,
}

impl World {
    fn issue(&mut self, runs: &Runs) -> Result<(), TestCaseError> {
        for run in runs.iter() {
            let (first, end) = (run.first, run.first + u64::from(run.count));
            let below = self.issued.range(..end).next_back();
            prop_assert!(below.is_none_or(|(_, e)| *e <= first), "{first}..{end} came twice");
            // The disk must not say that any of these is left.
            for left in self.disk.left.iter() {
                prop_assert!(end <= left.start() || left.end() <= first, "above the ceiling");
            }
            self.issued.insert(first, end);
        }
        Ok(())
    }

    /// Executes what the machine asks for, as far as it can be done at once.
    fn settle(&mut self) -> Result<(), TestCaseError> {
        while let Some((ticket, outcome)) = self.segment.poll_done() {
            let at = self.waiting.iter().position(|(t, _)| *t == ticket).unwrap();
            let (_, count) = self.waiting.remove(at);
            if let Ok(runs) = outcome {
                // Only who needs more than memory had is overtaken, and so by smaller ones only.
                let overtaken = self.waiting.iter().take(at).map(|(_, count)| *count).min();
                prop_assert!(overtaken.is_none_or(|other| other > count), "served out of order");
                prop_assert_eq!(runs.total(), u64::from(count));
                self.issue(&runs)?;
            }
        }
        if let Some(ask) = self.segment.poll_lease(self.now) {
            prop_assert!(self.asked.is_none(), "two leases in flight");
            prop_assert!(ask.floor >= self.seen, "below what another host may have");
            self.asked = Some(ask);
        }
        if let Some(record) = self.segment.poll_persist(self.now) {
            prop_assert!(self.writing.is_none(), "two writes in flight");
            self.writing = Some(record);
        }
        Ok(())
    }

    /// What the store does with a lease, by Leaf's convention and the rule on going backwards.
    fn lease(&mut self, ask: LeaseAsk) -> Lease {
        let start = self.row.unwrap_or(1).max(ask.floor);
        let end = start + ask.at_least.max(self.row_step);
        self.row = Some(end);
        Lease { range: range(start, end), row_step: self.row_step }
    }

    fn restart(&mut self) {
        self.waiting.clear();
        self.asked = None;
        self.writing = None;
        self.segment = Segment::restored(RULES, 3, self.disk.clone());
        self.seen = self.seen.min(self.disk.floor);
        self.segment.prepare();
    }

    fn step(&mut self, event: Event) -> Result<(), TestCaseError> {
        match event {
            Event::Request(count, timeout) => {
                self.ticket += 1;
                let deadline = self.now + Duration::from_millis(timeout);
                match self.segment.request(self.now, self.ticket, count, deadline) {
                    Answer::Now(runs) => {
                        prop_assert_eq!(runs.total(), u64::from(count));
                        self.issue(&runs)?;
                    }
                    Answer::Later => self.waiting.push((self.ticket, count)),
                    Answer::Refused(_) => {}
                }
            }
            Event::Fast(count) => {
                if let Some((first, _)) = self.segment.take(count) {
                    prop_assert!(self.waiting.is_empty(), "the fast path overtook who waits");
                    self.issue(&Runs::one(first, count))?;
                }
            }
            Event::LeaseOk => {
                if let Some(ask) = self.asked.take() {
                    if self.row.is_none() {
                        self.lost += self.segment.view().remaining as i64;
                        self.segment.lease_failed(self.now, LeaseFailure::UnknownTag);
                        self.row = Some(1);
                    } else {
                        let lease = self.lease(ask);
                        self.leased += lease.range.count();
                        self.segment.leased(self.now, lease);
                    }
                }
            }
            Event::LeaseLost => {
                if let Some(ask) = self.asked.take() {
                    self.lease(ask);
                    self.segment.lease_failed(self.now, LeaseFailure::Unavailable("lost".into()));
                }
            }
            Event::LeaseFails => {
                if self.asked.take().is_some() {
                    self.segment.lease_failed(self.now, LeaseFailure::Unavailable("down".into()));
                }
            }
            Event::LeaseBadRow => {
                if self.asked.take().is_some() {
                    self.segment.lease_failed(self.now, LeaseFailure::BadRow("absurd".into()));
                }
            }
            Event::LeaseNotTried => {
                if self.asked.take().is_some() {
                    self.segment.lease_failed(self.now, LeaseFailure::NotTried("down".into()));
                }
            }
            Event::StoreIsBack => self.segment.store_is_back(),
            Event::RowRead => {
                if let Some(row) = self.row
                    && self.segment.row_is_at(row)
                {
                    self.seen = row;
                }
            }
            Event::DiskOk => {
                if let Some(record) = self.writing.take() {
                    self.disk = record;
                    self.segment.persisted();
                }
            }
            Event::DiskFails => {
                if self.writing.take().is_some() {
                    self.segment.persist_failed(self.now, "full".into());
                }
            }
            Event::Time(ms) => {
                self.now += Duration::from_millis(ms);
                self.segment.expire(self.now);
            }
            Event::OtherHost(count) => self.row = self.row.map(|row| row + count),
            Event::RowStep(step) => self.row_step = step,
            Event::StoreBack(by) => self.row = self.row.map(|row| row.saturating_sub(by).max(1)),
            Event::RowDeleted => self.row = None,
            Event::Kill(reached_disk) => {
                let before = self.segment.view().remaining;
                if reached_disk && let Some(record) = self.writing.take() {
                    self.disk = record;
                }
                self.lost += before as i64 - self.disk.left.total() as i64;
                self.restart();
            }
            Event::Stop => {
                self.disk = self.segment.close();
                while let Some((_, outcome)) = self.segment.poll_done() {
                    if let Ok(runs) = outcome {
                        self.issue(&runs)?;
                    }
                }
                self.restart();
            }
        }
        self.settle()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]
    #[test]
    fn no_id_comes_twice_and_none_is_lost_but_by_rule_in_any_interleaving(
        events in proptest::collection::vec(event(), 1..250),
        row_step in 1..3000u64,
    ) {
        let mut world = World {
            segment: Segment::new(RULES, 2),
            now: T0,
            row: Some(1),
            row_step,
            asked: None,
            writing: None,
            disk: Record { floor: 0, left: RangeQueue::default() },
            issued: BTreeMap::new(),
            seen: 0,
            leased: 0,
            lost: 0,
            ticket: 0,
            waiting: Vec::new(),
        };
        for event in events {
            world.step(event)?;
        }
        let issued: u64 = world.issued.iter().map(|(first, end)| end - first).sum();
        let left = world.segment.view().remaining;
        prop_assert_eq!((issued + left) as i64 + world.lost, world.leased as i64, "an ID was lost without a rule");
    }

    #[test]
    fn everybody_is_served_in_the_end_when_store_and_disk_work(
        counts in proptest::collection::vec(1..5000u32, 1..60),
        row_step in 1..100u64,
    ) {
        let mut segment = Segment::new(RULES, 4);
        let mut row = 1;
        for (ticket, count) in counts.iter().enumerate() {
            segment.request(T0, ticket as u64, *count, NEVER);
        }
        let mut served = 0;
        for _ in 0..1000 {
            while let Some((ticket, runs)) = segment.poll_done() {
                prop_assert_eq!(ticket, served);
                prop_assert_eq!(runs.unwrap().total(), u64::from(counts[served as usize]));
                served += 1;
            }
            if let Some(ask) = segment.poll_lease(T0) {
                let end = row + ask.at_least.max(row_step);
                segment.leased(T0, lease(row, end, row_step));
                row = end;
            }
            flush(&mut segment, T0);
        }
        prop_assert_eq!(served, counts.len() as u64);
    }
}

#[test]
fn memory_lasts_as_long_as_it_takes_to_use_it_up_and_no_time_when_somebody_waits() {
    let mut segment = served();
    drain(&mut segment, 499);
    let later = T0 + Duration::from_secs(10);
    // 500 in 10 seconds, and 500 are left.
    assert_eq!((segment.seconds_left(later), segment.view().remaining), (Some(10), 500));
    // Nobody asks any more, and what was issued is all told.
    segment.note_rate(later);
    let idle = later + Duration::from_secs(10);
    assert_eq!(segment.seconds_left(idle), None);
    drain(&mut segment, 500);
    segment.note_rate(idle);
    // The store is away: nothing is issued, but somebody asks.
    let starving = idle + Duration::from_secs(10);
    assert_eq!(segment.seconds_left(starving), None);
    assert_eq!(segment.request(starving, 1000, 1, NEVER), Answer::Later);
    assert_eq!(segment.seconds_left(starving), Some(0));
}

#[test]
fn a_restored_tag_that_nobody_asks_for_lasts_for_ever() {
    let left = [range(10, 100)].into_iter().collect();
    let mut segment = Segment::restored(RULES, 1, Record { floor: 100, left });
    segment.prepare();
    segment.poll_lease(T0);
    flush(&mut segment, T0);
    assert_eq!((segment.seconds_left(T0), segment.view().remaining), (None, 90));
}
