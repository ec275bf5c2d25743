use super::*;

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::AtomicBool;
use std::thread;

use proptest::prelude::*;

fn lease(first: u64, count: u64) -> Lease {
    Lease { first, count, born: 7 }
}

fn id(taken: Taken) -> Option<u64> {
    match taken {
        Taken::Id(id) | Taken::IdOfNext(id) => Some(id),
        Taken::Nothing => None,
    }
}

/// As a pool does.
fn take(tickets: &Tickets) -> Taken {
    match tickets.take() {
        Taken::Nothing => tickets.take_slowly(),
        taken => taken,
    }
}

/// Everything that can be taken, one by one.
fn drain(tickets: &Tickets) -> Vec<u64> {
    std::iter::from_fn(|| id(take(tickets))).collect()
}

#[test]
fn ids_come_in_the_order_of_publication_and_each_once() {
    let tickets = Tickets::new();
    assert_eq!(take(&tickets), Taken::Nothing);
    assert!(tickets.publish(lease(10, 3)) && tickets.publish(lease(100, 2)));
    assert_eq!(drain(&tickets), [10, 11, 12, 100, 101]);
    assert!(tickets.publish(lease(5, 2)));
    assert_eq!(drain(&tickets), [5, 6]);
    assert_eq!(tickets.tally(), Tally { left: 0, taken: 7, lost: 0 });
}

#[test]
fn the_first_caller_of_a_record_learns_it_and_the_others_do_not() {
    let tickets = Tickets::new();
    assert!(tickets.publish(lease(10, 2)) && tickets.publish(lease(20, 2)));
    let taken: Vec<_> = (0..5).map(|_| take(&tickets)).collect();
    use Taken::{Id, IdOfNext, Nothing};
    assert_eq!(taken, [IdOfNext(10), Id(11), IdOfNext(20), Id(21), Nothing]);
}

#[test]
fn callers_of_an_empty_pool_cost_nothing() {
    let tickets = Tickets::new();
    assert!(tickets.publish(lease(1, 1)));
    for _ in 0..1000 {
        take(&tickets);
    }
    // One ticket past the end, which is below the next record.
    assert_eq!(tickets.burned.load(Relaxed), 1);
    assert!(tickets.publish(lease(2, 3)));
    assert_eq!(drain(&tickets), [2, 3, 4]);
    assert_eq!(tickets.tally(), Tally { left: 0, taken: 4, lost: 0 });
}

#[test]
fn many_are_taken_across_records_and_no_more_than_there_are() {
    let tickets = Tickets::new();
    assert!(tickets.publish(lease(10, 3)) && tickets.publish(lease(100, 2)));
    let mut runs = Vec::new();
    assert_eq!(tickets.take_many(4, |run| runs.push((run.first, run.count, run.born))), 4);
    assert_eq!(runs, [(10, 3, 7), (100, 1, 7)]);
    assert_eq!(tickets.take_many(9, |run| runs.push((run.first, run.count, run.born))), 1);
    assert_eq!(tickets.take_many(9, |_| panic!("there is nothing")), 0);
    assert_eq!(tickets.burned.load(Relaxed), 0);
    assert_eq!(tickets.tally(), Tally { left: 0, taken: 5, lost: 0 });
}

#[test]
fn a_place_is_used_again_only_when_its_record_is_used_up() {
    let tickets = Tickets::new();
    for number in 0..RECORDS as u64 {
        assert!(tickets.publish(lease(number * 10, 2)));
    }
    assert!(!tickets.publish(lease(9999, 1)));
    assert_eq!((id(take(&tickets)), id(take(&tickets))), (Some(0), Some(1)));
    assert!(tickets.publish(lease(9999, 1)));
    assert!(!tickets.publish(lease(9998, 1)));
    assert_eq!(drain(&tickets).len(), RECORDS * 2 - 1);
}

#[test]
fn what_is_too_old_is_dropped_record_by_record() {
    let tickets = Tickets::new();
    for (first, born) in [(10, 1), (20, 2), (30, 3)] {
        assert!(tickets.publish(Lease { first, count: 5, born }));
    }
    assert_eq!(id(tickets.take_fresh(|| 1)), Some(10));
    assert_eq!(tickets.take_fresh(|| 3), Taken::IdOfNext(30));
    assert_eq!(tickets.take_fresh(|| 3), Taken::Id(31));
    assert_eq!(tickets.tally(), Tally { left: 3, taken: 3, lost: 9 });
    assert_eq!(tickets.take_fresh(|| 4), Taken::Nothing);
    assert_eq!(tickets.tally(), Tally { left: 0, taken: 3, lost: 12 });
    assert!(tickets.publish(Lease { first: 40, count: 1, born: 4 }));
    assert_eq!(id(tickets.take_fresh(|| 4)), Some(40));
}

#[test]
fn the_age_is_looked_at_after_the_ticket_is_taken() {
    let tickets = Tickets::new();
    assert!(tickets.publish(lease(10, 5)));
    let cursor = || tickets.cursor.0.load(Relaxed);
    let before = cursor();
    tickets.take_fresh(|| {
        assert_eq!(cursor(), before + 1);
        0
    });
}

#[test]
fn ids_up_to_the_highest_are_given() {
    let tickets = Tickets::new();
    let top = i64::MAX as u64;
    assert!(tickets.publish(lease(top, 1)) && tickets.publish(lease(0, 1)));
    assert_eq!(drain(&tickets), [top, 0]);
    assert!(tickets.publish(lease(u64::MAX, 1)));
    assert_eq!(drain(&tickets), [u64::MAX]);
}

/// The caller that came to a record first may be stopped for a while before it says so. If the front went
/// back to that record and forth again while another caller reads it, that caller would mix the two.
#[test]
fn the_front_never_goes_back_to_an_earlier_record() {
    let tickets = Tickets::new();
    assert!(tickets.publish(lease(10, 1)) && tickets.publish(lease(20, 2)));
    let [early, late] = [0, 1].map(|ticket| tickets.mapping_of(ticket).unwrap());
    for front in [&tickets.front.0, &tickets.aging_front] {
        tickets.front_newest.store(0, Relaxed);
        tickets.bring_to_front(front, early);
        assert_eq!(front.read(), Some(early));
        tickets.bring_to_front(front, late);
        tickets.bring_to_front(front, early);
        assert_eq!(front.read(), Some(late));
    }
    // A caller that found no record for its ticket comes late, too.
    tickets.clear_front(0);
    assert_eq!(tickets.front.0.read(), Some(late));
    tickets.clear_front(late.end);
    assert_eq!(tickets.front.0.read(), None);
    tickets.bring_to_front(&tickets.front.0, late);
    assert_eq!(tickets.front.0.read(), None, "it is used up");
}

/// Threads that take, while one publishes and often lets them find nothing.
#[test]
fn threads_that_race_a_refill_get_each_id_once_and_in_order() {
    const CHUNKS: u64 = if cfg!(miri) { 40 } else { 3000 };
    let tickets = Tickets::new();
    let done = AtomicBool::new(false);
    let taken: Vec<Vec<u64>> = thread::scope(|scope| {
        let takers: Vec<_> = (0..4)
            .map(|kind| {
                let (tickets, done) = (&tickets, &done);
                scope.spawn(move || {
                    let mut mine = Vec::new();
                    loop {
                        // Looked at first: what is published before it is set is taken.
                        let last = done.load(std::sync::atomic::Ordering::SeqCst);
                        let before = mine.len();
                        match kind {
                            0 => drop(tickets.take_many(3, |run| {
                                mine.extend(run.first..run.first + run.count);
                            })),
                            1 => mine.extend(id(tickets.take_fresh(|| 0))),
                            _ => mine.extend(id(take(tickets))),
                        }
                        if last && mine.len() == before && tickets.left() == 0 {
                            return mine;
                        }
                    }
                })
            })
            .collect();
        for number in 0..CHUNKS {
            while !tickets.publish(lease(number * 10, 1 + number % 9)) {
                thread::yield_now();
            }
            if number % 3 == 0 {
                thread::yield_now();
            }
        }
        done.store(true, std::sync::atomic::Ordering::SeqCst);
        takers.into_iter().map(|taker| taker.join().unwrap()).collect()
    });
    for mine in &taken {
        assert!(mine.is_sorted_by(|one, next| one < next));
    }
    let published: u64 = (0..CHUNKS).map(|number| 1 + number % 9).sum();
    let all: Vec<u64> = taken.into_iter().flatten().collect();
    let distinct: BTreeSet<u64> = all.iter().copied().collect();
    assert_eq!(distinct.len(), all.len(), "an ID came twice");
    assert!(distinct.iter().all(|id| id % 10 < 1 + (id / 10) % 9), "an ID was not published");
    let tally = tickets.tally();
    assert_eq!(tally.taken, all.len() as u64);
    assert_eq!(tally.taken + tally.lost, published);
}

proptest! {
    /// Against a queue: any history of one caller.
    #[test]
    fn any_history_gives_what_was_published_in_its_order(
        steps in proptest::collection::vec((0u8..4, 1u64..9), 1..400),
    ) {
        let tickets = Tickets::new();
        let mut model: VecDeque<(u64, u64)> = VecDeque::new();
        let (mut next, mut taken, mut lost, mut now) = (1u64, 0u64, 0u64, 1u64);
        for (step, size) in steps {
            match step {
                0 => {
                    if tickets.publish(Lease { first: next, count: size, born: now }) {
                        model.extend((next..next + size).map(|id| (id, now)));
                    }
                    next += size + 3;
                }
                1 => {
                    let expected = model.pop_front().map(|(id, _)| id);
                    taken += u64::from(expected.is_some());
                    prop_assert_eq!(id(take(&tickets)), expected);
                }
                2 => {
                    let mut got = Vec::new();
                    tickets.take_many(size, |run| got.extend(run.first..run.first + run.count));
                    let size = model.len().min(size as usize);
                    let expected: Vec<u64> = model.drain(..size).map(|(id, _)| id).collect();
                    taken += expected.len() as u64;
                    prop_assert_eq!(got, expected);
                }
                _ => {
                    now += size / 6;
                    let oldest = now.saturating_sub(2);
                    let got = id(tickets.take_fresh(|| oldest));
                    while model.front().is_some_and(|(_, born)| *born < oldest) {
                        model.pop_front();
                        lost += 1;
                    }
                    let expected = model.pop_front().map(|(id, _)| id);
                    taken += u64::from(expected.is_some());
                    prop_assert_eq!(got, expected);
                }
            }
            let left = model.len() as u64;
            prop_assert_eq!(tickets.tally(), Tally { left, taken, lost });
        }
    }
}
