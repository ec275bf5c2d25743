//! Duplicates within a thread, between threads and across blocks, against a plain set.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;
use crate::bench::verify::Offence;

const BLOCK: u64 = 1 << BLOCK_BITS;

/// Records the IDs of each thread, all of them at the same time: each takes one in turn.
fn verified(threads: &[Vec<u64>]) -> Verifier {
    let shared = Mutex::new(BlockVerifier::new(Verifier::unordered()));
    let mut recorders: Vec<_> = threads.iter().map(|_| IdRecorder::new(&shared)).collect();
    for turn in 0..threads.iter().map(Vec::len).max().unwrap_or_default() {
        for (recorder, ids) in recorders.iter_mut().zip(threads) {
            if let Some(id) = ids.get(turn) {
                recorder.note(*id);
            }
        }
    }
    recorders.iter_mut().for_each(IdRecorder::hand_over);
    drop(recorders);
    shared.into_inner().unwrap().into_verifier()
}

fn counts(threads: &[Vec<u64>]) -> (u64, u64) {
    let verifier = verified(threads);
    (verifier.verified(), verifier.duplicates())
}

#[test]
fn ids_that_threads_take_in_turn_become_one_interval() {
    let ids = 5 * BLOCK + 7;
    let thread = |nth| (0..ids).filter(|id| id % 3 == nth).collect();
    let shared = Mutex::new(BlockVerifier::new(Verifier::unordered()));
    let mut recorders = [0, 1, 2].map(|nth| (IdRecorder::new(&shared), nth));
    for (recorder, nth) in &mut recorders {
        let ids: Vec<u64> = thread(*nth);
        ids.iter().for_each(|id| recorder.note(*id));
    }
    recorders.iter_mut().for_each(|(recorder, _)| recorder.hand_over());
    // The blocks became whole by themselves.
    assert_eq!(lock(&shared).verifier.verified(), 5 * BLOCK);
    lock(&shared).close_blocks();
    assert_eq!(lock(&shared).verifier.intervals(), 1);
    let verifier = shared.into_inner().unwrap().into_verifier();
    assert_eq!((verifier.verified(), verifier.duplicates()), (ids, 0));
}

#[test]
fn an_id_that_one_thread_gets_twice_is_found_whatever_comes_between() {
    for between in [vec![], vec![7], vec![BLOCK], vec![3 * BLOCK, 9], (900..9000).collect()] {
        let mut ids = vec![5];
        ids.extend(&between);
        ids.push(5);
        let verifier = verified(&[ids]);
        assert_eq!(verifier.duplicates(), 1, "{between:?}");
        assert_eq!(verifier.verified(), between.len() as u64 + 2);
        assert_eq!(verifier.examples(), [Offence { first: 5, last: 5 }]);
    }
}

#[test]
fn an_id_that_two_threads_get_is_found_in_runs_and_in_blocks() {
    let long: Vec<u64> = (100..100 + 3 * BLOCK).collect();
    let odd: Vec<u64> = long.iter().copied().filter(|id| id % 2 == 1).collect();
    assert_eq!(counts(&[odd.clone(), odd.clone()]), (odd.len() as u64 * 2, odd.len() as u64));
    for id in [100, BLOCK - 1, BLOCK, 2 * BLOCK - 1, 2 * BLOCK, 3 * BLOCK + 99] {
        let verifier = verified(&[long.clone(), vec![id]]);
        assert_eq!(verifier.duplicates(), 1, "{id}");
        assert_eq!(verifier.examples(), [Offence { first: id, last: id }]);
        let twice = u64::from(id % 2 == 1);
        assert_eq!(counts(&[vec![id], odd.clone()]).1, twice, "{id}");
    }
}

#[test]
fn a_short_run_across_a_border_is_compared_on_both_sides() {
    let border: Vec<u64> = (BLOCK - 3..BLOCK + 3).collect();
    let verifier = verified(&[border.clone(), border]);
    assert_eq!((verifier.verified(), verifier.duplicates()), (12, 6));
    let lower = Offence { first: BLOCK - 3, last: BLOCK - 1 };
    let upper = Offence { first: BLOCK, last: BLOCK + 2 };
    assert_eq!(verifier.examples(), [lower, upper]);
}

#[test]
fn ids_that_fall_after_a_switch_of_the_store_are_checked_as_well() {
    let mut ids: Vec<u64> = (10 * BLOCK..12 * BLOCK).collect();
    ids.extend(BLOCK / 2..3 * BLOCK);
    assert_eq!(counts(std::slice::from_ref(&ids)), (ids.len() as u64, 0));
    ids.extend([10 * BLOCK + 5, BLOCK, 3 * BLOCK]);
    assert_eq!(counts(std::slice::from_ref(&ids)), (ids.len() as u64, 2));
    let backwards: Vec<u64> = (0..3 * BLOCK).rev().collect();
    assert_eq!(counts(std::slice::from_ref(&backwards)), (3 * BLOCK, 0));
    assert_eq!(counts(&[backwards.clone(), backwards]), (6 * BLOCK, 3 * BLOCK));
}

#[test]
fn the_highest_and_the_lowest_id_are_like_any_other() {
    let highest = i64::MAX as u64;
    assert_eq!(counts(&[vec![0, highest], vec![highest, 0], vec![highest - 1]]), (5, 2));
}

#[test]
fn sparse_ids_need_no_more_memory_than_dense_ones() {
    let shared = Mutex::new(BlockVerifier::new(Verifier::unordered()));
    let mut recorder = IdRecorder::new(&shared);
    let blocks = MAX_OPEN as u64 + 50;
    for _ in 0..2 {
        for block in 0..blocks {
            recorder.note(block * BLOCK + 7);
            assert!(lock(&shared).open.len() <= MAX_OPEN);
        }
    }
    recorder.hand_over();
    let verifier = shared.into_inner().unwrap().into_verifier();
    assert_eq!((verifier.verified(), verifier.duplicates()), (2 * blocks, blocks));
}

#[test]
fn snowflakes_are_checked_in_a_rising_window() {
    let shared = Mutex::new(BlockVerifier::new(Verifier::rising(1000 << 22)));
    let mut recorder = IdRecorder::new(&shared);
    for ms in 5000..5050 {
        (0..4096).for_each(|sequence| recorder.note(ms << 22 | 3 << 12 | sequence));
        recorder.note((ms - 10) << 22 | 9 << 12);
    }
    recorder.note(5049 << 22 | 3 << 12);
    recorder.hand_over();
    lock(&shared).close_blocks();
    recorder.note(3000 << 22);
    recorder.hand_over();
    let verifier = shared.into_inner().unwrap().into_verifier();
    assert_eq!((verifier.duplicates(), verifier.too_old()), (1, 1));
}

/// What a thread does: takes IDs in a row, or pauses.
fn steps() -> impl Strategy<Value = Vec<(bool, u64, u64)>> {
    let near_border = prop_oneof![Just(0), Just(BLOCK), Just(2 * BLOCK)];
    let first = (near_border, 0..3000u64).prop_map(|(at, by)| (at + by).saturating_sub(1500));
    let count = prop_oneof![1..8u64, LONG_RUN - 2..LONG_RUN + 2];
    prop::collection::vec((prop::bool::weighted(0.1), first, count), 0..12)
}

proptest! {
    #[test]
    fn blocks_count_as_many_duplicates_as_a_plain_set(
        threads in prop::collection::vec(steps(), 1..4), close in any::<bool>()
    ) {
        let shared = Mutex::new(BlockVerifier::new(Verifier::unordered()));
        let mut recorders: Vec<_> = threads.iter().map(|_| IdRecorder::new(&shared)).collect();
        let (mut set, mut ids, mut duplicates) = (HashSet::new(), 0, 0);
        for turn in 0..12 {
            for (recorder, steps) in recorders.iter_mut().zip(&threads) {
                let Some((pause, first, count)) = steps.get(turn) else { continue };
                for id in *first..first + count {
                    recorder.note(id);
                    ids += 1;
                    duplicates += u64::from(!set.insert(id));
                }
                if *pause {
                    recorder.hand_over();
                }
            }
            if close {
                lock(&shared).close_blocks();
            }
        }
        recorders.iter_mut().for_each(IdRecorder::hand_over);
        drop(recorders);
        let verifier = shared.into_inner().unwrap().into_verifier();
        prop_assert_eq!((verifier.verified(), verifier.duplicates()), (ids, duplicates));
    }
}
