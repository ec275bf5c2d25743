//! Every interleaving of few callers, and every value that a weak memory may show them. What loom does
//! not see: the wiping at a fork, more than a few steps and records, and processors that are weaker than
//! C11's acquire and release. It checks relaxed operations only as far as they affect what is asserted.

use super::*;

use loom::sync::Arc;
use loom::thread;

fn lease(first: u64, count: u64) -> Lease {
    Lease { first, count, born: first }
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

fn takes(tickets: &Arc<Tickets>, times: usize) -> thread::JoinHandle<Vec<u64>> {
    let tickets = Arc::clone(tickets);
    thread::spawn(move || (0..times).filter_map(|_| id(take(&tickets))).collect())
}

/// What callers took is part of what was published, each ID once, and rises within a caller.
fn check(tickets: &Tickets, published: &[u64], taken: Vec<Vec<u64>>) {
    for mine in &taken {
        assert!(mine.windows(2).all(|pair| pair[0] < pair[1]), "{mine:?}");
    }
    let mut all: Vec<u64> = taken.into_iter().flatten().collect();
    let count = all.len() as u64;
    all.sort_unstable();
    assert!(all.windows(2).all(|pair| pair[0] != pair[1]), "an ID came twice: {all:?}");
    assert!(all.iter().all(|id| published.contains(id)), "not published: {all:?}");
    let tally = tickets.tally();
    assert_eq!(tally.taken, count);
    assert_eq!(tally.left + tally.taken + tally.lost, published.len() as u64);
}

fn model(test: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    // Two switches of a running thread. More take hours, and have found nothing that two did not.
    builder.preemption_bound = Some(2);
    builder.check(test);
}

#[test]
fn two_callers_and_a_refill() {
    model(|| {
        let tickets = Arc::new(Tickets::new());
        assert!(tickets.publish(lease(10, 2)));
        let callers = [takes(&tickets, 2), takes(&tickets, 1)];
        assert!(tickets.publish(lease(20, 1)));
        let taken = callers.map(|caller| caller.join().unwrap()).to_vec();
        check(&tickets, &[10, 11, 20], taken);
    });
}

#[test]
fn two_callers_that_exhaust_a_pool_while_it_is_refilled() {
    model(|| {
        let tickets = Arc::new(Tickets::new());
        assert!(tickets.publish(lease(10, 1)));
        let callers = [takes(&tickets, 1), takes(&tickets, 1)];
        assert!(tickets.publish(lease(20, 1)));
        let mut taken = callers.map(|caller| caller.join().unwrap()).to_vec();
        assert!(tickets.publish(lease(30, 1)));
        taken.push(std::iter::from_fn(|| id(take(&tickets))).collect());
        check(&tickets, &[10, 20, 30], taken);
    });
}

#[test]
fn a_place_is_written_again_while_a_caller_reads_it() {
    model(|| {
        let tickets = Arc::new(Tickets::new());
        assert!(tickets.publish(lease(10, 1)) && tickets.publish(lease(20, 1)));
        let caller = takes(&tickets, 2);
        let mut taken = vec![(0..1).filter_map(|_| id(take(&tickets))).collect::<Vec<_>>()];
        let mut published = vec![10, 20];
        // Lower IDs, as after a switch of the store, would show a mapping of another version.
        if tickets.publish(lease(3, 1)) {
            published.push(3);
        }
        let mine = caller.join().unwrap();
        let all: Vec<u64> = mine.iter().chain(&taken[0]).copied().collect();
        assert!(all.iter().all(|id| published.contains(id)), "{all:?}");
        assert!(all.iter().enumerate().all(|(at, id)| !all[..at].contains(id)), "{all:?}");
        taken.clear();
    });
}

#[test]
fn a_caller_of_one_a_caller_of_many_and_a_refill() {
    model(|| {
        let tickets = Arc::new(Tickets::new());
        assert!(tickets.publish(lease(10, 2)));
        let one = takes(&tickets, 2);
        let many = {
            let tickets = Arc::clone(&tickets);
            thread::spawn(move || {
                let mut mine = Vec::new();
                tickets.take_many(2, |run| mine.extend(run.first..run.first + run.count));
                mine
            })
        };
        assert!(tickets.publish(lease(20, 2)));
        let taken = vec![one.join().unwrap(), many.join().unwrap()];
        check(&tickets, &[10, 11, 20, 21], taken);
    });
}

#[test]
fn what_is_too_old_is_dropped_once_however_many_notice() {
    model(|| {
        let tickets = Arc::new(Tickets::new());
        assert!(tickets.publish(lease(10, 1)) && tickets.publish(lease(20, 1)));
        let callers = [(); 2].map(|()| {
            let tickets = Arc::clone(&tickets);
            thread::spawn(move || id(tickets.take_fresh(|| 20)).into_iter().collect::<Vec<u64>>())
        });
        let taken = callers.map(|caller| caller.join().unwrap()).to_vec();
        assert_eq!(taken.concat(), [20]);
        check(&tickets, &[10, 20], taken);
    });
}

/// An ID that one thread hands to another: whatever the other takes then is higher.
#[test]
fn an_id_taken_after_another_was_returned_is_higher() {
    model(|| {
        let tickets = Arc::new(Tickets::new());
        assert!(tickets.publish(lease(10, 1)) && tickets.publish(lease(20, 2)));
        let handed = Arc::new(loom::sync::atomic::AtomicU64::new(0));
        let first = {
            let (tickets, handed) = (Arc::clone(&tickets), Arc::clone(&handed));
            thread::spawn(move || {
                if let Some(id) = id(take(&tickets)) {
                    handed.store(id, Release);
                }
            })
        };
        let earlier = handed.load(Acquire);
        if let Some(later) = id(take(&tickets)) {
            assert!(later > earlier, "{later} after {earlier}");
        }
        first.join().unwrap();
    });
}

#[test]
fn two_callers_that_come_to_two_records_at_once() {
    model(|| {
        let tickets = Arc::new(Tickets::new());
        assert!(tickets.publish(lease(10, 1)) && tickets.publish(lease(20, 2)));
        let callers = [takes(&tickets, 2), takes(&tickets, 1)];
        let taken = callers.map(|caller| caller.join().unwrap()).to_vec();
        check(&tickets, &[10, 20, 21], taken);
    });
}

#[test]
fn a_caller_that_sees_that_there_is_something_gets_it() {
    model(|| {
        let tickets = Arc::new(Tickets::new());
        let caller = {
            let tickets = Arc::clone(&tickets);
            thread::spawn(move || {
                let is_there = tickets.left() > 0;
                // Reading the front would have a fence, which makes up for a relaxed look.
                let taken = tickets.take_slowly();
                assert!(!is_there || id(taken) == Some(10), "{taken:?}");
            })
        };
        assert!(tickets.publish(lease(10, 2)));
        caller.join().unwrap();
    });
}

/// A caller that found the first record comes late, and another one of the second record after it.
#[test]
fn a_front_that_is_changed_while_a_caller_reads_it_shows_one_record_or_none() {
    model(|| {
        let tickets = Arc::new(Tickets::new());
        assert!(tickets.publish(lease(10, 1)) && tickets.publish(lease(20, 2)));
        let records = [0, 1].map(|ticket| tickets.mapping_of(ticket).unwrap());
        tickets.bring_to_front(&tickets.front.0, records[1]);
        let callers = records.map(|record| {
            let tickets = Arc::clone(&tickets);
            thread::spawn(move || tickets.bring_to_front(&tickets.front.0, record))
        });
        if let Some(read) = tickets.front.0.read_shift() {
            assert!(records.iter().any(|record| (record.end, record.shift) == read), "{read:?}");
        }
        callers.into_iter().for_each(|caller| caller.join().unwrap());
    });
}

#[test]
fn a_front_that_moves_on_is_read_as_a_whole() {
    model(|| {
        let tickets = Arc::new(Tickets::new());
        assert!(tickets.publish(lease(10, 1)) && tickets.publish(lease(20, 2)));
        let records = [0, 1].map(|ticket| tickets.mapping_of(ticket).unwrap());
        tickets.bring_to_front(&tickets.front.0, records[0]);
        let caller = {
            let tickets = Arc::clone(&tickets);
            thread::spawn(move || tickets.bring_to_front(&tickets.front.0, records[1]))
        };
        if let Some(read) = tickets.front.0.read_shift() {
            assert!(records.iter().any(|record| (record.end, record.shift) == read), "{read:?}");
        }
        caller.join().unwrap();
    });
}
