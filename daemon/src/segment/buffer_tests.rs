use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::ids::BizTag;
use crate::store::{Lease, LeaseAsk};

const RULES: BufferRules =
    BufferRules { max_step: 1_000_000, max_waiting: 1000, absent_for: Duration::from_secs(1) };
const T0: Duration = Duration::from_secs(1000);
const NEVER: Duration = Duration::from_secs(1_000_000);

fn range(start: u64, end: u64) -> Range {
    Range::new(start, end).unwrap()
}

fn lease(start: u64, end: u64, row_step: u64) -> Lease {
    Lease { range: range(start, end), row_step }
}

fn flush(buffer: &mut TagBuffer, now: Duration) {
    while buffer.poll_persist(now).is_some() {
        buffer.persisted();
    }
}

/// Why the last lease failed.
fn told(buffer: &TagBuffer) -> Option<String> {
    buffer.view().lease_error.map(|failure| failure.to_string())
}

/// A tag with `[1, 1001)` leased and a window of it ready.
fn served() -> TagBuffer {
    let mut buffer = TagBuffer::new(RULES, 1);
    assert_eq!(buffer.request(T0, 0, 1, NEVER), Answer::Later);
    assert_eq!(buffer.poll_lease(T0), Some(LeaseAsk { at_least: 1, floor: 0 }));
    buffer.leased(T0, lease(1, 1001, 1000));
    flush(&mut buffer, T0);
    assert_eq!(buffer.poll_done(), Some((0, Ok(Runs::one(1, 1)))));
    buffer
}

/// Takes one ID at a time over some time, persisting at once, never leasing.
fn drain(buffer: &mut TagBuffer, count: u64) -> Vec<u64> {
    let mut ids = Vec::new();
    for ticket in 0..count {
        let now = T0 + Duration::from_millis(25 * ticket);
        match buffer.request(now, ticket, 1, NEVER) {
            Answer::Now(runs) => ids.extend(runs.iter().map(|run| run.first)),
            Answer::Later => {
                flush(buffer, now);
                let Some((_, Ok(runs))) = buffer.poll_done() else { break };
                ids.extend(runs.iter().map(|run| run.first));
            }
            Answer::Refused(refusal) => panic!("{refusal:?}"),
        }
        flush(buffer, now);
    }
    ids
}

#[test]
fn a_tag_without_a_row_stays_gone_while_leafd_looks_for_it_again() {
    let mut buffer = served();
    assert!(!buffer.counts().gone);
    buffer.removed(T0);
    assert!(buffer.counts().gone);
    let later = T0 + RULES.absent_for;
    for failure in [LeaseFailure::UnknownTag, LeaseFailure::Unavailable("down".into())] {
        assert_eq!(buffer.request(later, 7, 1, NEVER), Answer::Later);
        assert!(buffer.poll_lease(later).is_some());
        assert!(buffer.counts().gone && !buffer.counts().absent);
        buffer.lease_failed(later, failure);
        assert!(buffer.counts().gone);
        buffer.removed(T0);
        while buffer.poll_done().is_some() {}
    }
    assert_eq!(buffer.request(later, 8, 1, NEVER), Answer::Later);
    assert!(buffer.poll_lease(later).is_some());
    buffer.leased(later, lease(5001, 6001, 1000));
    assert!(!buffer.counts().gone);
    buffer.removed(T0);
    buffer.appeared();
    assert!(!buffer.counts().gone);
}

#[test]
fn a_failure_is_trouble_as_long_as_somebody_needs_a_lease() {
    let name = BizTag::new("orders").unwrap();
    let is_failing = |buffer: &TagBuffer, now| buffer.figures(&name, now).is_failing;
    let mut buffer = TagBuffer::new(RULES, 1);
    let asked = |buffer: &mut TagBuffer, now| {
        assert_eq!(buffer.request(now, 0, 1, NEVER), Answer::Later);
        assert!(buffer.poll_lease(now).is_some());
        buffer.lease_failed(now, LeaseFailure::BadRow("step -1".into()));
        while buffer.poll_done().is_some() {}
    };
    let minutes = |count: u64| T0 + Duration::from_secs(60 * count);
    for time in [minutes(0), minutes(8), minutes(16)] {
        asked(&mut buffer, time);
        assert!(is_failing(&buffer, time) && is_failing(&buffer, time + 5 * (minutes(1) - T0)));
    }
    assert!(!is_failing(&buffer, minutes(60)), "nobody has asked since");
    assert!(told(&buffer).is_some(), "the status still says what was wrong");
    let mut used = served();
    assert!(drain(&mut used, 900).len() > 100);
    assert!(used.poll_lease(minutes(1)).is_some());
    used.lease_failed(minutes(1), LeaseFailure::Unavailable("locked".into()));
    assert!(is_failing(&used, minutes(60)), "leafd goes on trying");
}

#[test]
fn a_burst_against_a_small_step_waits_for_the_store_instead_of_failing() {
    let mut buffer = TagBuffer::new(RULES, 1);
    for ticket in 0..500 {
        assert_eq!(buffer.request(T0, ticket, 1, NEVER), Answer::Later);
    }
    // One lease covers all that is asked for, and there is no second in flight.
    assert_eq!(buffer.poll_lease(T0), Some(LeaseAsk { at_least: 500, floor: 0 }));
    assert_eq!(buffer.poll_lease(T0), None);
    buffer.leased(T0, lease(1, 501, 10));
    flush(&mut buffer, T0);
    for ticket in 0..500 {
        assert_eq!(buffer.poll_done(), Some((ticket, Ok(Runs::one(ticket + 1, 1)))));
    }
}

#[test]
fn after_a_failed_first_lease_nothing_is_issued() {
    let mut buffer = TagBuffer::new(RULES, 1);
    assert_eq!(buffer.request(T0, 1, 1, NEVER), Answer::Later);
    buffer.poll_lease(T0).unwrap();
    buffer.lease_failed(T0, LeaseFailure::Unavailable("down".into()));
    assert_eq!(buffer.take(1), None);
    assert_eq!(buffer.request(T0, 2, 1, NEVER), Answer::Later);
    assert_eq!(buffer.poll_done(), None);
}

#[test]
fn a_missing_row_refuses_waiting_requests_and_is_not_looked_up_again_for_a_while() {
    let mut buffer = TagBuffer::new(RULES, 1);
    buffer.request(T0, 1, 1, NEVER);
    buffer.poll_lease(T0).unwrap();
    buffer.lease_failed(T0, LeaseFailure::UnknownTag);
    assert_eq!(buffer.poll_done(), Some((1, Err(Refusal::UnknownTag))));
    assert_eq!(buffer.request(T0, 2, 1, NEVER), Answer::Refused(Refusal::UnknownTag));
    let later = T0 + Duration::from_secs(1);
    assert_eq!(buffer.request(later, 3, 1, NEVER), Answer::Later);
    assert!(buffer.poll_lease(later).is_some());
}

#[test]
fn a_request_that_comes_while_a_lease_ahead_finds_no_row_gets_a_lease_of_its_own() {
    let mut buffer = served();
    drain(&mut buffer, 150);
    buffer.poll_lease(T0).unwrap();
    // Memory could serve it, but what was leased from the row is dropped.
    assert_eq!(buffer.request(T0, 1, 500, NEVER), Answer::Later);
    buffer.lease_failed(T0, LeaseFailure::NotMade);
    assert_eq!((buffer.poll_done(), buffer.view().remaining), (None, 0));
    assert!(buffer.is_starving());
    let ask = buffer.poll_lease(T0).unwrap();
    assert_eq!(ask.floor, 1001);
    buffer.leased(T0, lease(1001, 2001, 1000));
    flush(&mut buffer, T0);
    assert_eq!(buffer.poll_done(), Some((1, Ok(Runs::one(1001, 500)))));
}

#[test]
fn a_row_that_is_found_gone_refuses_waiting_requests_only_where_requests_make_no_tags() {
    for makes_tags in [false, true] {
        let mut buffer = served();
        // It waits for the disk, not for the store.
        assert_eq!(buffer.request(T0, 1, 500, NEVER), Answer::Later);
        buffer.row_is_gone(T0, makes_tags);
        assert_eq!((buffer.view().remaining, buffer.view().absent), (0, !makes_tags));
        if makes_tags {
            assert_eq!(buffer.poll_done(), None);
            assert_eq!(buffer.poll_lease(T0).map(|ask| ask.floor), Some(1001));
        } else {
            assert_eq!(buffer.poll_done(), Some((1, Err(Refusal::UnknownTag))));
        }
    }
}

#[test]
fn a_row_that_cannot_be_used_refuses_only_requests_that_memory_cannot_serve() {
    let mut buffer = served();
    buffer.request(T0, 1, 500, NEVER);
    buffer.request(T0, 2, 600, NEVER);
    buffer.poll_lease(T0).unwrap();
    buffer.lease_failed(T0, LeaseFailure::BadRow("step -1".into()));
    assert_eq!(buffer.poll_done(), Some((2, Err(Refusal::BadRow("step -1".into())))));
    flush(&mut buffer, T0);
    assert_eq!(buffer.poll_done(), Some((1, Ok(Runs::one(2, 500)))));
}

#[test]
fn a_row_that_cannot_be_used_is_left_alone_when_nobody_waits_for_it() {
    let mut buffer = TagBuffer::new(RULES, 1);
    buffer.request(T0, 1, 1, NEVER);
    buffer.poll_lease(T0).unwrap();
    buffer.lease_failed(T0, LeaseFailure::BadRow("step -1".into()));
    assert_eq!(buffer.poll_done(), Some((1, Err(Refusal::BadRow("step -1".into())))));
    assert_eq!(buffer.poll_lease(NEVER), None);
    buffer.request(NEVER, 2, 1, NEVER);
    assert!(buffer.poll_lease(NEVER).is_some());
}

#[test]
fn a_tag_is_idle_only_when_nobody_waits_and_nothing_is_left_or_in_flight() {
    let failures = [
        LeaseFailure::UnknownTag,
        LeaseFailure::NotMade,
        LeaseFailure::Unavailable("locked".into()),
        LeaseFailure::NotTried("down".into()),
        LeaseFailure::BadRow("step -1".into()),
        LeaseFailure::NoRoom { limit: 1, removed: 0 },
    ];
    for failure in failures {
        let mut buffer = TagBuffer::new(RULES, 1);
        buffer.request(T0, 1, 1, T0);
        assert!(!buffer.is_idle(), "it is waited for");
        buffer.poll_lease(T0).unwrap();
        buffer.expire(T0);
        assert!(!buffer.is_idle(), "a lease is in flight");
        buffer.lease_failed(T0, failure.clone());
        assert!(buffer.is_idle(), "{failure:?}");
        assert_eq!(buffer.mark_of_removed(), None, "nothing was leased");
        let mut used = served();
        drain(&mut used, 150);
        used.poll_lease(T0).unwrap();
        used.lease_failed(T0, failure.clone());
        let removed = matches!(failure, LeaseFailure::UnknownTag | LeaseFailure::NotMade);
        assert!(
            !used.is_idle(),
            "IDs are left in memory, or the disk has to learn that they were dropped"
        );
        flush(&mut used, T0);
        assert_eq!(used.mark_of_removed(), removed.then_some(1001), "{failure:?}");
    }
}

#[test]
fn failed_leases_back_off_and_are_not_asked_for_in_between() {
    let mut buffer = TagBuffer::new(RULES, 1);
    buffer.request(T0, 1, 1, NEVER);
    let mut now = T0;
    let mut pauses = Vec::new();
    for _ in 0..8 {
        assert!(buffer.poll_lease(now).is_some());
        buffer.lease_failed(now, LeaseFailure::Unavailable("down".into()));
        let until = buffer.retry_lease_at().unwrap();
        assert!(buffer.poll_lease(until - Duration::from_nanos(1)).is_none());
        pauses.push(until - now);
        now = until;
    }
    assert!(pauses[0] <= Duration::from_millis(50));
    assert!(pauses[7] >= Duration::from_millis(500) && pauses[7] <= Duration::from_secs(1));
}

#[test]
fn a_store_known_to_be_down_is_not_asked_until_it_is_back_and_waiting_requests_get_its_error() {
    let mut buffer = TagBuffer::new(RULES, 1);
    let deadline = T0 + Duration::from_secs(5);
    buffer.request(T0, 1, 1, deadline);
    assert!(buffer.poll_lease(T0).is_some());
    buffer.lease_failed(T0, LeaseFailure::NotTried("refused".into()));
    assert!(buffer.waits_for_store() && buffer.retry_lease_at().is_none());
    assert_eq!(buffer.poll_lease(NEVER), None);
    assert_eq!(told(&buffer).as_deref(), Some("refused"));
    buffer.expire(deadline);
    let refusal = Refusal::Store("refused".into(), Duration::ZERO);
    assert_eq!(buffer.poll_done(), Some((1, Err(refusal))));
    buffer.request(deadline, 2, 1, NEVER);
    buffer.store_is_back();
    assert!(buffer.poll_lease(deadline).is_some());
    // A lease that was not tried is no failure: the first one after it backs off for the shortest
    // time.
    buffer.lease_failed(deadline, LeaseFailure::Unavailable("locked".into()));
    let pause = buffer.retry_lease_at().unwrap() - deadline;
    assert!(pause <= Duration::from_millis(50), "{pause:?}");
    buffer.store_is_back();
    assert!(buffer.retry_lease_at().is_some(), "it backs off all the same");
}

#[test]
fn no_lease_starts_below_where_the_row_was_seen() {
    let mut buffer = served();
    let mark = buffer.view().high_water_mark;
    assert!(!buffer.row_is_at(mark) && !buffer.row_is_at(1), "nothing new");
    assert!(buffer.row_is_at(mark + 5000));
    let record = buffer.poll_persist(T0).unwrap();
    assert_eq!(record.high_water_mark, mark + 5000, "it is written");
    buffer.persisted();
    drain(&mut buffer, 150);
    let ask = buffer.poll_lease(T0).unwrap();
    assert_eq!(ask.floor, mark + 5000);
    // What the lease in flight does to the row is seen before its answer.
    assert!(!buffer.row_is_at(mark + 6000));
    buffer.leased(T0, lease(mark + 5000, mark + 6000, 1000));
    assert_eq!((buffer.view().high_water_mark, buffer.view().lease_error), (mark + 6000, None));
}

#[test]
fn reading_the_row_of_a_tag_that_was_never_used_here_sets_no_mark() {
    let mut buffer = TagBuffer::new(RULES, 1);
    assert!(!buffer.row_is_at(5000));
    assert_eq!(buffer.poll_persist(T0), None);
}

#[test]
fn the_next_range_is_leased_when_10_percent_of_the_current_one_is_issued() {
    let mut buffer = served();
    assert_eq!(buffer.poll_lease(T0), None);
    drain(&mut buffer, 98);
    assert_eq!(buffer.view().position, Some(100));
    assert_eq!(buffer.poll_lease(T0), None);
    drain(&mut buffer, 1);
    assert_eq!(buffer.poll_lease(T0), Some(LeaseAsk { at_least: 0, floor: 1001 }));
}

#[test]
fn the_fast_path_raises_the_alarm_when_the_next_range_is_due() {
    let mut buffer = served();
    let mut issued = 1;
    while issued < 100 {
        let (_, alarm) = buffer.take(1).unwrap();
        issued += 1;
        if alarm {
            flush(&mut buffer, T0);
            assert_eq!(buffer.poll_lease(T0).is_some(), issued >= 100, "after {issued}");
        }
    }
    assert!(matches!(buffer.lease, LeaseState::InFlight { .. }));
}

#[test]
fn the_fast_path_raises_no_alarm_while_no_lease_can_be_tried() {
    let alarm = |buffer: &mut TagBuffer| buffer.take(1).map(|(_, more_to_do)| more_to_do);
    for backs_off in [false, true] {
        let mut buffer = served();
        // A single window, so that only the next range is left to do.
        buffer.request(T0, 1, 1000, NEVER);
        buffer.poll_lease(T0).unwrap();
        buffer.leased(T0, lease(1001, 1_000_001, 999_000));
        flush(&mut buffer, T0);
        assert!(matches!(buffer.poll_done(), Some((1, Ok(_)))));
        buffer.request(T0, 2, 900_000, NEVER);
        flush(&mut buffer, T0);
        assert!(matches!(buffer.poll_done(), Some((2, Ok(_)))));
        flush(&mut buffer, T0);
        buffer.poll_lease(T0).unwrap();
        let failure = |text: &str| match backs_off {
            true => LeaseFailure::Unavailable(text.into()),
            false => LeaseFailure::NotTried(text.into()),
        };
        buffer.lease_failed(T0, failure("down"));
        assert!(!buffer.wants_persist(T0));
        assert_eq!(alarm(&mut buffer), Some(false), "backs off: {backs_off}");
        // No request needs more than memory has, but the next range is due.
        let later = T0 + Duration::from_secs(10);
        buffer.store_is_back();
        assert!(buffer.poll_lease(later).is_some(), "backs off: {backs_off}");
    }
}

#[test]
fn the_current_range_is_drained_before_the_switch_and_a_request_may_be_filled_from_both() {
    let mut buffer = served();
    drain(&mut buffer, 100);
    buffer.poll_lease(T0).unwrap();
    buffer.leased(T0, lease(5001, 6001, 1000));
    flush(&mut buffer, T0);
    let ids = drain(&mut buffer, 890);
    assert_eq!((ids[0], ids[889]), (102, 991));
    let Answer::Later = buffer.request(T0, 7, 20, NEVER) else {
        // Already ready.
        return;
    };
    flush(&mut buffer, T0);
    let (_, runs) = buffer.poll_done().unwrap();
    let runs: Vec<_> = runs.unwrap().iter().map(|run| (run.first, run.count)).collect();
    assert_eq!(runs, [(992, 9), (5001, 11)]);
}

#[test]
fn a_single_request_larger_than_the_step_gets_a_lease_that_covers_it() {
    let mut buffer = TagBuffer::new(RULES, 1);
    buffer.request(T0, 1, 100_000, NEVER);
    assert_eq!(buffer.poll_lease(T0).unwrap().at_least, 100_000);
    buffer.leased(T0, lease(1, 100_001, 1000));
    flush(&mut buffer, T0);
    assert_eq!(buffer.poll_done(), Some((1, Ok(Runs::one(1, 100_000)))));
}

#[test]
fn demand_above_the_largest_step_is_met_by_several_leases_one_at_a_time() {
    let rules = BufferRules { max_step: 1000, ..RULES };
    let mut buffer = TagBuffer::new(rules, 1);
    buffer.request(T0, 1, 2500, NEVER);
    let mut start = 1;
    while let Some(ask) = buffer.poll_lease(T0) {
        assert!(ask.at_least <= 1000);
        assert_eq!(buffer.poll_lease(T0), None);
        buffer.leased(T0, lease(start, start + 1000, 10));
        start += 1000;
    }
    assert_eq!(start, 3001);
    flush(&mut buffer, T0);
    assert_eq!(buffer.poll_done(), Some((1, Ok(Runs::one(1, 2500)))));
}

#[test]
fn a_backlog_gets_a_lease_of_at_most_a_million_unless_the_tag_uses_that_up_quickly() {
    let rules = BufferRules { max_step: 100_000_000, ..RULES };
    let mut buffer = TagBuffer::new(rules, 1);
    for ticket in 0..1000 {
        buffer.request(T0, ticket, 100_000, NEVER);
    }
    assert_eq!(buffer.poll_lease(T0).unwrap().at_least, 1_000_000);
}

#[test]
fn nothing_is_issued_before_the_disk_knows() {
    let mut buffer = TagBuffer::new(RULES, 1);
    buffer.request(T0, 1, 1, NEVER);
    buffer.poll_lease(T0).unwrap();
    buffer.leased(T0, lease(1, 1001, 1000));
    assert_eq!(buffer.poll_done(), None);
    let record = buffer.poll_persist(T0).unwrap();
    assert_eq!(record.left.position(), Some(102));
    assert_eq!((buffer.poll_done(), buffer.take(1)), (None, None));
    buffer.persisted();
    assert!(buffer.poll_done().is_some());
}

#[test]
fn a_disk_that_fails_refuses_by_name_and_recovers_without_losing_ids() {
    let mut buffer = TagBuffer::new(RULES, 1);
    buffer.request(T0, 1, 1, T0 + Duration::from_secs(5));
    buffer.poll_lease(T0).unwrap();
    buffer.leased(T0, lease(1, 1001, 1000));
    buffer.poll_persist(T0).unwrap();
    buffer.persist_failed(T0, "no space".into());
    assert_eq!(buffer.poll_persist(T0), None);
    buffer.expire(T0 + Duration::from_secs(5));
    let Some((1, Err(Refusal::State(error, _)))) = buffer.poll_done() else { panic!() };
    assert_eq!(error, "no space");
    buffer.request(T0, 2, 1, NEVER);
    let until = buffer.retry_persist_at().unwrap();
    flush(&mut buffer, until);
    assert_eq!(buffer.poll_done(), Some((2, Ok(Runs::one(1, 1)))));
}

#[test]
fn a_request_is_refused_at_its_deadline_with_the_reason_and_others_keep_waiting() {
    let mut buffer = TagBuffer::new(RULES, 1);
    let second = Duration::from_secs(1);
    buffer.request(T0, 1, 1, T0 + 2 * second);
    buffer.request(T0, 2, 1, T0 + second);
    buffer.poll_lease(T0).unwrap();
    buffer.expire(T0 + second);
    let Some((2, Err(Refusal::Store(..)))) = buffer.poll_done() else { panic!() };
    assert_eq!(buffer.poll_done(), None);
    buffer.lease_failed(T0 + second, LeaseFailure::Unavailable("refused".into()));
    buffer.expire(T0 + 2 * second);
    let Some((1, Err(Refusal::Store(error, _)))) = buffer.poll_done() else { panic!() };
    assert_eq!(error, "refused");
    // Without a waiting request, the store is left alone.
    assert_eq!(buffer.poll_lease(NEVER), None);
}

#[test]
fn the_reason_why_a_lease_failed_is_shown_until_one_succeeds() {
    let mut buffer = TagBuffer::new(RULES, 1);
    let second = Duration::from_secs(1);
    for (ticket, failure) in [
        (1, LeaseFailure::Unavailable("locked".into())),
        (2, LeaseFailure::NotTried("refused".into())),
    ] {
        let now = u32::try_from(ticket).unwrap() * second;
        buffer.request(now, ticket, 1, now + second / 2);
        buffer.request(now, 9, 1, NEVER);
        buffer.poll_lease(now).unwrap();
        buffer.lease_failed(now, failure.clone());
        buffer.store_is_back();
        let again = now + second / 2;
        buffer.poll_lease(again).unwrap();
        assert_eq!(buffer.view().lease_error.as_ref(), Some(&failure));
        buffer.expire(again);
        let Some((_, Err(Refusal::Store(error, _)))) = buffer.poll_done() else { panic!() };
        assert_eq!(error, failure.to_string());
        buffer.lease_failed(again, failure);
        buffer.store_is_back();
    }
    buffer.poll_lease(5 * second).unwrap();
    buffer.leased(5 * second, lease(1, 11, 10));
    assert_eq!(buffer.view().lease_error, None);
}

#[test]
fn a_request_that_expires_because_of_a_bad_row_gets_that_reason() {
    let mut buffer = TagBuffer::new(RULES, 1);
    let bad = LeaseFailure::BadRow("step is 0".into());
    buffer.request(T0, 1, 1, NEVER);
    buffer.poll_lease(T0).unwrap();
    buffer.lease_failed(T0, bad);
    let Some((1, Err(Refusal::BadRow(_)))) = buffer.poll_done() else { panic!() };
    buffer.request(T0, 2, 1, T0 + Duration::from_millis(1));
    buffer.expire(T0 + Duration::from_millis(1));
    assert_eq!(buffer.poll_done(), Some((2, Err(Refusal::BadRow("step is 0".into())))));
}

#[test]
fn a_tag_that_nobody_needs_shows_no_error_once_the_store_is_back() {
    let mut buffer = TagBuffer::new(RULES, 1);
    let deadline = T0 + Duration::from_millis(1);
    buffer.request(T0, 1, 1, deadline);
    buffer.poll_lease(T0).unwrap();
    buffer.lease_failed(T0, LeaseFailure::NotTried("refused".into()));
    buffer.expire(deadline);
    assert_eq!(told(&buffer).as_deref(), Some("refused"));
    buffer.store_is_back();
    assert_eq!(buffer.view().lease_error, None);
}

#[test]
fn requests_beyond_the_limit_of_waiting_ones_are_refused() {
    let mut buffer = TagBuffer::new(BufferRules { max_waiting: 2, ..RULES }, 1);
    assert_eq!(buffer.request(T0, 1, 1, NEVER), Answer::Later);
    assert_eq!(buffer.request(T0, 2, 1, NEVER), Answer::Later);
    let refusal = Refusal::TooManyWaiting(2);
    assert_eq!(buffer.request(T0, 3, 1, NEVER), Answer::Refused(refusal));
}

#[test]
fn a_lease_below_what_this_host_has_seen_is_refused() {
    let mut buffer = served();
    drain(&mut buffer, 200);
    buffer.poll_lease(T0).unwrap();
    buffer.leased(T0, lease(1000, 2000, 1000));
    assert!(told(&buffer).unwrap().contains("1001"));
    assert_eq!(buffer.view().remaining, 799);
}

#[test]
fn one_large_request_that_waits_for_the_store_does_not_hold_up_what_memory_can_serve() {
    let mut buffer = served();
    assert_eq!(buffer.request(T0, 1, 100_000, NEVER), Answer::Later);
    flush(&mut buffer, T0);
    assert!(buffer.reserve.total() > 0, "the whole range must not be granted");
    assert_eq!(buffer.poll_lease(T0).unwrap().at_least, 100_000);
    assert_eq!(buffer.request(T0, 2, 3, NEVER), Answer::Now(Runs::one(2, 3)));
    assert_eq!(buffer.request(T0, 3, 700, NEVER), Answer::Later);
    flush(&mut buffer, T0);
    assert_eq!(buffer.poll_done(), Some((3, Ok(Runs::one(5, 700)))));
    buffer.leased(T0, lease(1001, 101_001, 1000));
    flush(&mut buffer, T0);
    assert_eq!(buffer.poll_done(), Some((1, Ok(Runs::one(705, 100_000)))));
}

#[test]
fn a_request_whose_caller_is_gone_costs_no_ids() {
    let mut buffer = TagBuffer::new(RULES, 1);
    buffer.request(T0, 1, 100_000, NEVER);
    buffer.request(T0, 2, 5, NEVER);
    buffer.withdraw(1);
    buffer.withdraw(77);
    assert_eq!(buffer.poll_lease(T0), Some(LeaseAsk { at_least: 5, floor: 0 }));
    buffer.leased(T0, lease(1, 11, 10));
    flush(&mut buffer, T0);
    assert_eq!(buffer.poll_done(), Some((2, Ok(Runs::one(1, 5)))));
}

#[test]
fn a_crash_after_many_single_requests_loses_a_small_window() {
    let mut buffer = TagBuffer::new(RULES, 1);
    assert_eq!(buffer.request(T0, 0, 1, NEVER), Answer::Later);
    assert!(buffer.poll_lease(T0).is_some());
    buffer.leased(T0, lease(1, 1_000_001, 1_000_000));
    flush(&mut buffer, T0);
    assert!(buffer.poll_done().is_some());
    let mut most = 0;
    for ticket in 1..60_000 {
        let now = T0 + Duration::from_millis(ticket);
        if matches!(buffer.request(now, ticket, 1, NEVER), Answer::Later) {
            flush(&mut buffer, now);
            assert!(buffer.poll_done().is_some());
        }
        flush(&mut buffer, now);
        let issued_up_to = ticket + 2;
        most = most.max(buffer.reserve.position().unwrap() - issued_up_to);
    }
    // At 1000 a second: what two to ten seconds use.
    assert!((2000..=10_000).contains(&most), "{most}");
}

#[test]
fn a_request_for_many_ids_costs_one_record_and_leaves_one_window() {
    let mut buffer = TagBuffer::new(RULES, 1);
    assert_eq!(buffer.request(T0, 0, 3000, NEVER), Answer::Later);
    assert!(buffer.poll_lease(T0).is_some());
    buffer.leased(T0, lease(1, 10_001, 10_000));
    // Each finds less ready than it wants, so the window doubles.
    for (round, raised_to) in [(1, 3101), (2, 6201), (3, 9401)] {
        let now = T0 + Duration::from_secs(2 * round);
        let record = buffer.poll_persist(now).unwrap();
        assert_eq!(record.left.position(), Some(raised_to));
        buffer.persisted();
        assert!(buffer.poll_done().is_some());
        assert!(!buffer.wants_persist(now));
        assert_eq!(buffer.request(now, round, 3000, NEVER), Answer::Later);
    }
}

/// The most IDs that are ready at any time within two minutes, at a steady rate and with a store that answers
/// at once.
fn most_that_a_crash_loses(
    mut buffer: TagBuffer,
    row_step: u64,
    rate: u64,
    disk_fails: bool,
) -> u64 {
    let (mut leased_to, mut lost) = (1_000_000, 0);
    for ticket in 0..120 * rate {
        let now = T0 + Duration::from_micros(ticket * 1_000_000 / rate);
        let mut answer = buffer.request(now, ticket, 1, NEVER);
        loop {
            let is_done = buffer.poll_done().is_some();
            answer = if is_done { Answer::Now(Runs::default()) } else { answer };
            if let Some(ask) = buffer.poll_lease(now) {
                let size = ask.at_least.max(row_step);
                buffer.leased(now, lease(leased_to, leased_to + size, row_step));
                leased_to += size;
            } else if buffer.poll_persist(now).is_some() {
                // Every other write fails, which is tried again after a while.
                if disk_fails && buffer.issued % 2 == 1 && matches!(answer, Answer::Now(_)) {
                    buffer.persist_failed(now, "the disk fails".to_owned());
                } else {
                    buffer.persisted();
                }
            } else {
                break;
            }
        }
        lost = lost.max(buffer.ready.total() + buffer.granting.total());
    }
    lost
}

/// How many requests wait in the second half of a minute, at a steady rate, if each write takes this long.
fn waits_with_a_slow_disk(row_step: u64, rate: u64, write: Duration) -> u64 {
    let mut buffer =
        TagBuffer::new(BufferRules { max_step: row_step, max_waiting: 100_000, ..RULES }, 1);
    let (mut leased_to, mut written_at, mut late) = (1_000_000, None, 0);
    for ticket in 0..60 * rate {
        let now = T0 + Duration::from_micros(ticket * 1_000_000 / rate);
        if written_at.is_some_and(|at| now >= at) {
            written_at = None;
            buffer.persisted();
        }
        while buffer.poll_done().is_some() {}
        let is_late = buffer.request(now, ticket, 1, NEVER) == Answer::Later;
        if let Some(ask) = buffer.poll_lease(now) {
            let size = ask.at_least.max(row_step);
            buffer.leased(now, lease(leased_to, leased_to + size, row_step));
            leased_to += size;
        }
        if buffer.poll_persist(now).is_some() {
            written_at = Some(now + write);
        }
        late += u64::from(is_late && ticket > 30 * rate);
    }
    late
}

#[test]
fn no_request_waits_for_a_slow_disk_for_ever() {
    for (row_step, rate, ms) in [
        (1000, 2000, 30),
        (2000, 2000, 300),
        (10_000, 5000, 400),
        (10_000, 10_000, 240),
        (50_000, 40_000, 500),
        (100_000, 20_000, 1200),
    ] {
        let late = waits_with_a_slow_disk(row_step, rate, Duration::from_millis(ms));
        assert_eq!(late, 0, "step {row_step}, {rate}/s, {ms} ms for a write");
    }
}

#[test]
fn a_crash_loses_a_small_window_or_a_quarter_of_a_lease_whatever_the_step_is() {
    for (row_step, rate, most) in [
        // Half of the smallest window lasts a second or longer.
        (1, 20, 100),
        (10, 40, 100),
        (10_000, 50, 100),
        // A quarter of the row's step lasts longer than 0.4 s, and what is used in 10 s is more.
        (10_000, 4_100, 2500),
        (1_000, 300, 250),
    ] {
        // Requests that wait for a disk that fails are a reason for a larger window, if they are many.
        for disk_fails in [false, most == 100] {
            let rules = BufferRules { max_step: row_step.max(10), ..RULES };
            let left = RangeQueue::from_iter([range(1, 1 + row_step)]);
            let restored = BufferRecord { high_water_mark: 1 + row_step, left };
            for buffer in [TagBuffer::new(rules, 1), TagBuffer::restored(rules, 1, restored)] {
                let lost = most_that_a_crash_loses(buffer, row_step, rate, disk_fails);
                assert!(
                    lost <= most,
                    "{lost}: step {row_step}, {rate}/s, disk fails: {disk_fails}"
                );
            }
        }
    }
}

#[test]
fn every_next_range_is_leased_at_10_percent_even_when_all_of_memory_is_ready() {
    let mut buffer = served();
    let (mut end, mut asked_at) = (1001, Vec::new());
    let mut now = T0;
    for _ in 0..20_000 {
        now += Duration::from_micros(10);
        let alarm = match buffer.take(1) {
            Some((_, alarm)) => alarm,
            None => {
                let answer = buffer.request(now, 0, 1, NEVER);
                assert!(matches!(answer, Answer::Now(_)), "memory is drained at {end}");
                true
            }
        };
        if alarm {
            if buffer.poll_lease(now).is_some() {
                asked_at.push(end - buffer.position().unwrap_or(end));
                buffer.leased(now, lease(end, end + 1000, 1000));
                end += 1000;
            }
            flush(&mut buffer, now);
        }
    }
    assert!(asked_at.len() > 15 && asked_at.iter().all(|left| *left == 900), "{asked_at:?}");
}

#[test]
fn a_removed_tag_is_no_longer_served_and_its_high_water_mark_is_kept() {
    let mut buffer = served();
    buffer.removed(T0);
    assert_eq!(buffer.take(1), None);
    assert_eq!(buffer.request(T0, 1, 1, NEVER), Answer::Refused(Refusal::UnknownTag));
    let record = buffer.poll_persist(T0).unwrap();
    assert_eq!((record.high_water_mark, record.left.total()), (1001, 0));
    buffer.persisted();
    buffer.appeared();
    buffer.request(T0, 2, 1, NEVER);
    assert_eq!(buffer.poll_lease(T0), Some(LeaseAsk { at_least: 1, floor: 1001 }));
}

#[test]
fn only_a_tag_that_nobody_uses_leaves_and_it_issues_nothing_more() {
    const UNUSED: Duration = Duration::from_secs(86_400);
    let mut buffer = served();
    let later = T0 + UNUSED;
    assert_eq!(buffer.leave(later - Duration::from_nanos(1), UNUSED), None, "leased lately");
    // Requests that wait, a lease in flight and a write in flight each keep it.
    assert_eq!(buffer.request(later, 1, 5000, NEVER), Answer::Later);
    assert_eq!(buffer.leave(later, UNUSED), None);
    assert!(buffer.poll_lease(later).is_some());
    buffer.withdraw(1);
    assert_eq!(buffer.leave(later, UNUSED), None);
    buffer.leased(later, lease(1001, 2001, 1000));
    assert!(buffer.poll_persist(later).is_some());
    let later = later + UNUSED;
    assert_eq!(buffer.leave(later, UNUSED), None);
    buffer.persisted();
    flush(&mut buffer, later);
    assert_eq!(buffer.leave(later, UNUSED), Some(2001));
    assert_eq!((buffer.take(1), buffer.view().remaining), (None, 0));
    // A tag that has stopped is written by the end, not forgotten.
    let mut buffer = served();
    buffer.close();
    assert_eq!(buffer.leave(T0 + UNUSED, UNUSED), None);
}

#[test]
fn a_clean_stop_loses_nothing_and_a_crash_at_most_the_window() {
    let mut buffer = served();
    drain(&mut buffer, 49);
    // 51 was the next; a crash begins at the first ID that the disk says is left.
    let crash = buffer.reserve.position().unwrap();
    assert!(crash > 51 && crash - 51 <= crate::segment::window::SMALLEST);
    let record = buffer.close();
    assert_eq!((record.left.position(), record.left.total()), (Some(51), 950));
    assert_eq!(buffer.take(1), None);
    assert_eq!(buffer.request(T0, 1, 1, NEVER), Answer::Refused(Refusal::Stopping));
    let mut next = TagBuffer::restored(RULES, 1, record);
    assert_eq!(drain(&mut next, 1), [51]);
}

#[test]
fn a_restart_serves_what_is_left_without_the_store() {
    let record = BufferRecord {
        high_water_mark: 2001,
        left: [range(900, 1001), range(1001, 2001)].into_iter().collect(),
    };
    let mut buffer = TagBuffer::restored(RULES, 1, record);
    buffer.prepare();
    flush(&mut buffer, T0);
    assert!(buffer.take(1).is_some(), "the first request does not even wait for the disk");
    assert_eq!(drain(&mut buffer, 1100).len(), 1100);
    assert_eq!(buffer.request(T0, 1, 1, NEVER), Answer::Later);
}

#[test]
fn a_recent_tag_with_nothing_left_is_leased_at_start_before_anybody_asks() {
    let left = RangeQueue::default();
    let mut buffer = TagBuffer::restored(RULES, 1, BufferRecord { high_water_mark: 2001, left });
    assert_eq!(buffer.poll_lease(T0), None);
    buffer.prepare();
    assert_eq!(buffer.poll_lease(T0), Some(LeaseAsk { at_least: 0, floor: 2001 }));
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
    /// A kill, and whether the write in flight reached the disk.
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
    buffer: TagBuffer,
    now: Duration,
    row: Option<u64>,
    row_step: u64,
    asked: Option<LeaseAsk>,
    writing: Option<BufferRecord>,
    disk: BufferRecord,
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
        while let Some((ticket, outcome)) = self.buffer.poll_done() {
            let at = self.waiting.iter().position(|(t, _)| *t == ticket).unwrap();
            let (_, count) = self.waiting.remove(at);
            if let Ok(runs) = outcome {
                // Only a request for more than memory had is overtaken, and so only by smaller
                // ones.
                let overtaken = self.waiting.iter().take(at).map(|(_, count)| *count).min();
                prop_assert!(overtaken.is_none_or(|other| other > count), "served out of order");
                prop_assert_eq!(runs.total(), u64::from(count));
                self.issue(&runs)?;
            }
        }
        if let Some(ask) = self.buffer.poll_lease(self.now) {
            prop_assert!(self.asked.is_none(), "two leases in flight");
            prop_assert!(ask.floor >= self.seen, "below what another host may have");
            self.asked = Some(ask);
        }
        if let Some(record) = self.buffer.poll_persist(self.now) {
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
        self.buffer = TagBuffer::restored(RULES, 3, self.disk.clone());
        self.seen = self.seen.min(self.disk.high_water_mark);
        self.buffer.prepare();
    }

    fn step(&mut self, event: Event) -> Result<(), TestCaseError> {
        match event {
            Event::Request(count, timeout) => {
                self.ticket += 1;
                let deadline = self.now + Duration::from_millis(timeout);
                match self.buffer.request(self.now, self.ticket, count, deadline) {
                    Answer::Now(runs) => {
                        prop_assert_eq!(runs.total(), u64::from(count));
                        self.issue(&runs)?;
                    }
                    Answer::Later => self.waiting.push((self.ticket, count)),
                    Answer::Refused(_) => {}
                }
            }
            Event::Fast(count) => {
                if let Some((first, _)) = self.buffer.take(count) {
                    prop_assert!(
                        self.waiting.is_empty(),
                        "the fast path overtook a waiting request"
                    );
                    self.issue(&Runs::one(first, count))?;
                }
            }
            Event::LeaseOk => {
                if let Some(ask) = self.asked.take() {
                    if self.row.is_none() {
                        self.lost += self.buffer.view().remaining as i64;
                        let failure = match self.ticket % 2 {
                            0 => LeaseFailure::UnknownTag,
                            _ => LeaseFailure::NotMade,
                        };
                        self.buffer.lease_failed(self.now, failure);
                        self.row = Some(1);
                    } else {
                        let lease = self.lease(ask);
                        self.leased += lease.range.count();
                        self.buffer.leased(self.now, lease);
                    }
                }
            }
            Event::LeaseLost => {
                if let Some(ask) = self.asked.take() {
                    self.lease(ask);
                    self.buffer.lease_failed(self.now, LeaseFailure::Unavailable("lost".into()));
                }
            }
            Event::LeaseFails => {
                if self.asked.take().is_some() {
                    self.buffer.lease_failed(self.now, LeaseFailure::Unavailable("down".into()));
                }
            }
            Event::LeaseBadRow => {
                if self.asked.take().is_some() {
                    self.buffer.lease_failed(self.now, LeaseFailure::BadRow("absurd".into()));
                }
            }
            Event::LeaseNotTried => {
                if self.asked.take().is_some() {
                    self.buffer.lease_failed(self.now, LeaseFailure::NotTried("down".into()));
                }
            }
            Event::StoreIsBack => self.buffer.store_is_back(),
            Event::RowRead => {
                if let Some(row) = self.row
                    && self.buffer.row_is_at(row)
                {
                    self.seen = row;
                }
            }
            Event::DiskOk => {
                if let Some(record) = self.writing.take() {
                    self.disk = record;
                    self.buffer.persisted();
                }
            }
            Event::DiskFails => {
                if self.writing.take().is_some() {
                    self.buffer.persist_failed(self.now, "full".into());
                }
            }
            Event::Time(ms) => {
                self.now += Duration::from_millis(ms);
                self.buffer.expire(self.now);
            }
            Event::OtherHost(count) => self.row = self.row.map(|row| row + count),
            Event::RowStep(step) => self.row_step = step,
            Event::StoreBack(by) => self.row = self.row.map(|row| row.saturating_sub(by).max(1)),
            Event::RowDeleted => self.row = None,
            Event::Kill(reached_disk) => {
                let before = self.buffer.view().remaining;
                if reached_disk && let Some(record) = self.writing.take() {
                    self.disk = record;
                }
                self.lost += before as i64 - self.disk.left.total() as i64;
                self.restart();
            }
            Event::Stop => {
                self.disk = self.buffer.close();
                while let Some((_, outcome)) = self.buffer.poll_done() {
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
            buffer: TagBuffer::new(RULES, 2),
            now: T0,
            row: Some(1),
            row_step,
            asked: None,
            writing: None,
            disk: BufferRecord { high_water_mark: 0, left: RangeQueue::default() },
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
        let left = world.buffer.view().remaining;
        prop_assert_eq!((issued + left) as i64 + world.lost, world.leased as i64, "an ID was lost without a rule");
    }

    #[test]
    fn every_request_is_served_in_the_end_if_store_and_disk_work(
        counts in proptest::collection::vec(1..5000u32, 1..60),
        row_step in 1..100u64,
    ) {
        let mut buffer = TagBuffer::new(RULES, 4);
        let mut row = 1;
        for (ticket, count) in counts.iter().enumerate() {
            buffer.request(T0, ticket as u64, *count, NEVER);
        }
        let mut served = 0;
        for _ in 0..1000 {
            while let Some((ticket, runs)) = buffer.poll_done() {
                prop_assert_eq!(ticket, served);
                prop_assert_eq!(runs.unwrap().total(), u64::from(counts[served as usize]));
                served += 1;
            }
            if let Some(ask) = buffer.poll_lease(T0) {
                let end = row + ask.at_least.max(row_step);
                buffer.leased(T0, lease(row, end, row_step));
                row = end;
            }
            flush(&mut buffer, T0);
        }
        prop_assert_eq!(served, counts.len() as u64);
    }
}

#[test]
fn the_seconds_left_follow_the_rate_and_are_zero_while_a_request_waits() {
    let mut buffer = served();
    drain(&mut buffer, 499);
    let later = T0 + Duration::from_secs(10);
    // 500 in 10 seconds, and 500 are left.
    assert_eq!((buffer.seconds_left(later), buffer.view().remaining), (Some(10), 500));
    // Nobody asks any more, and the rate has seen everything that was issued.
    buffer.note_rate(later);
    let idle = later + Duration::from_secs(10);
    assert_eq!(buffer.seconds_left(idle), None);
    drain(&mut buffer, 500);
    buffer.note_rate(idle);
    // The store is down: nothing is issued, but a request waits.
    let starving = idle + Duration::from_secs(10);
    assert_eq!(buffer.seconds_left(starving), None);
    assert_eq!(buffer.request(starving, 1000, 1, NEVER), Answer::Later);
    assert_eq!(buffer.seconds_left(starving), Some(0));
}

#[test]
fn a_restored_tag_that_nobody_asks_for_lasts_for_ever() {
    let left = [range(10, 100)].into_iter().collect();
    let mut buffer = TagBuffer::restored(RULES, 1, BufferRecord { high_water_mark: 100, left });
    buffer.prepare();
    buffer.poll_lease(T0);
    flush(&mut buffer, T0);
    assert_eq!((buffer.seconds_left(T0), buffer.view().remaining), (None, 90));
}
