use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

const T: u64 = 1_700_000_000_000;

fn rules() -> Rules {
    Rules {
        layout: Layout::LEAF,
        worker: 7,
        max_lead_ms: 10,
        tolerance_ms: 5,
        start_wait_ms: 3000,
        random_start: 100,
    }
}

fn started(rules: Rules, ceiling_ms: u64) -> Sequencer {
    let mut sequencer = Sequencer::new(rules, ceiling_ms, 1);
    sequencer.raised(u64::MAX);
    sequencer
}

fn take(sequencer: &mut Sequencer, now_ms: u64, count: u32) -> (Runs, Stop) {
    let mut runs = Runs::default();
    let stop = sequencer.take(now_ms, count, &mut runs);
    (runs, stop)
}

fn ids(runs: &Runs) -> impl Iterator<Item = u64> + '_ {
    runs.iter().flat_map(|run| run.first..run.first + u64::from(run.count))
}

#[test]
fn an_id_carries_the_time_and_the_worker() {
    let (runs, stop) = take(&mut started(rules(), 0), T, 1);
    assert_eq!(stop, Stop::Done);
    let decoded = Layout::LEAF.decode(ids(&runs).next().unwrap()).unwrap();
    assert_eq!((decoded.unix_ms, decoded.worker), (T, 7));
    assert!(decoded.sequence < 100);
}

#[test]
fn many_at_once_come_as_contiguous_runs_one_per_time_unit() {
    let (runs, stop) = take(&mut started(Rules { random_start: 0, ..rules() }, 0), T, 3 * 4096 + 1);
    assert_eq!(stop, Stop::Done);
    assert_eq!(runs.iter().map(|run| run.count).collect::<Vec<_>>(), [4096, 4096, 4096, 1]);
}

#[test]
fn timestamps_lead_the_clock_by_no_more_than_the_lead() {
    let mut sequencer = started(Rules { random_start: 0, ..rules() }, 0);
    let (runs, stop) = take(&mut sequencer, T, 100_000);
    // This unit and ten of the future; the next is allowed one millisecond later.
    assert_eq!(runs.total(), 11 * 4096);
    assert_eq!(stop, Stop::Until(T + 1));
    let (runs, stop) = take(&mut sequencer, T + 1, 100_000);
    assert_eq!((runs.total(), stop), (4096, Stop::Until(T + 2)));
}

#[test]
fn a_saturated_unit_starts_at_sequence_0_so_that_none_is_wasted() {
    let mut sequencer = started(rules(), 0);
    take(&mut sequencer, T, 4096);
    for now in T..T + 100 {
        take(&mut sequencer, now, 100_000);
    }
    let (runs, _) = take(&mut sequencer, T + 100, 100_000);
    assert_eq!(runs.total(), 4096);
}

#[test]
fn a_clock_up_to_5_ms_behind_is_waited_for_and_more_is_an_error_with_the_distance() {
    let mut sequencer = started(rules(), 0);
    take(&mut sequencer, T, 1);
    assert_eq!(take(&mut sequencer, T - 5, 1).1, Stop::Until(T));
    assert_eq!(take(&mut sequencer, T - 6, 1).1, Stop::ClockBackwards { behind_ms: 6 });
    assert_eq!(sequencer.behind_ms(T - 6), Some(6));
    // It recovers by itself.
    assert_eq!(take(&mut sequencer, T, 1).1, Stop::Done);
}

#[test]
fn a_clock_set_back_during_a_roll_over_is_noticed_too() {
    let mut sequencer = started(Rules { random_start: 0, ..rules() }, 0);
    take(&mut sequencer, T, 4096);
    assert_eq!(take(&mut sequencer, T - 4000, 1).1, Stop::ClockBackwards { behind_ms: 4000 });
}

#[test]
fn a_start_a_little_below_the_ceiling_waits_and_far_below_it_refuses() {
    let mut sequencer = started(rules(), T);
    assert_eq!(take(&mut sequencer, T - 3000, 1).1, Stop::Until(T));
    assert_eq!(take(&mut sequencer, T - 3001, 1).1, Stop::ClockBackwards { behind_ms: 3001 });
    let (runs, stop) = take(&mut sequencer, T, 1);
    assert_eq!(stop, Stop::Done);
    assert_eq!(Layout::LEAF.decode(ids(&runs).next().unwrap()).unwrap().unix_ms, T);
}

#[test]
fn nothing_is_issued_at_or_past_the_ceiling() {
    let mut sequencer = Sequencer::new(Rules { random_start: 0, ..rules() }, 0, 1);
    assert_eq!(take(&mut sequencer, T, 1), (Runs::default(), Stop::Ceiling));
    assert_eq!(sequencer.wanted_ceiling(T, 1000), Some(T + 1000));
    sequencer.raised(T + 2);
    let (runs, stop) = take(&mut sequencer, T, 10_000);
    assert_eq!((runs.total(), stop), (2 * 4096, Stop::Ceiling));
    assert_eq!(sequencer.exact_ceiling_ms(), T + 2);
}

#[test]
fn a_clock_that_jumps_past_the_limit_and_back_has_used_nothing_up() {
    let mut sequencer = Sequencer::new(rules(), 0, 1);
    sequencer.raised(T + 1000);
    sequencer.limited(T + 5000);
    assert_eq!(take(&mut sequencer, T, 1).1, Stop::Done);
    for past in [T + 5000, T + 3_600_000] {
        assert_eq!(take(&mut sequencer, past, 1), (Runs::default(), Stop::Fenced));
        assert_eq!(sequencer.wanted_ceiling(past, 1000), None);
        assert!(sequencer.is_past_the_limit(past));
    }
    assert!(!sequencer.is_past_the_limit(T + 4999));
    assert_eq!((sequencer.exact_ceiling_ms(), sequencer.behind_ms(T)), (T + 1, None));
    assert_eq!(take(&mut sequencer, T + 1, 1).1, Stop::Done);
    // Up to it, a clock that is right comes by itself.
    assert_eq!(sequencer.wanted_ceiling(T + 4900, 1000), Some(T + 5000));
    sequencer.limited(T + 9_000_000);
    sequencer.raised(T + 4_000_000);
    assert_eq!(take(&mut sequencer, T + 3_600_000, 1).1, Stop::Done);
}

#[test]
fn the_ceiling_is_raised_when_half_of_what_was_ahead_is_used() {
    let mut sequencer = Sequencer::new(rules(), 0, 1);
    sequencer.raised(T + 1000);
    take(&mut sequencer, T, 1);
    assert_eq!(sequencer.wanted_ceiling(T + 500, 1000), None);
    assert_eq!(sequencer.wanted_ceiling(T + 501, 1000), Some(T + 1501));
    assert_eq!(sequencer.wanted_ceiling(T - 1, 1000), None, "not while the clock is behind");
}

#[test]
fn a_clean_stop_costs_one_time_unit_and_not_the_whole_ceiling() {
    let mut sequencer = started(rules(), 0);
    take(&mut sequencer, T, 1);
    assert_eq!(sequencer.exact_ceiling_ms(), T + 1);
    let mut next = started(rules(), sequencer.exact_ceiling_ms());
    assert_eq!(take(&mut next, T + 1, 1).1, Stop::Done);
}

#[test]
fn a_coarse_unit_that_the_ceiling_cuts_through_is_not_used_again() {
    let second = Rules { layout: Layout::BAIDU, random_start: 0, ..rules() };
    let mut first = Sequencer::new(second, 0, 1);
    first.raised(T + 500);
    let (used, _) = take(&mut first, T, 10);
    let mut next = started(second, T + 500);
    // The clock has reached the ceiling, yet the second that it lies in is spent.
    assert_eq!(take(&mut next, T + 500, 1).1, Stop::Until(T + 990));
    let (fresh, stop) = take(&mut next, T + 1000, 10);
    assert_eq!(stop, Stop::Done);
    let used: HashSet<_> = ids(&used).collect();
    assert!(ids(&fresh).all(|id| !used.contains(&id)));
}

#[test]
fn ids_end_with_an_error_and_never_turn_negative() {
    let mut sequencer = started(rules(), 0);
    let end = Layout::LEAF.end_ms();
    assert_eq!(take(&mut sequencer, end - 1, 1).1, Stop::Done);
    assert_eq!(take(&mut sequencer, end, 1), (Runs::default(), Stop::TimeExhausted));
    assert_eq!(take(&mut sequencer, u64::MAX - 100, 1).1, Stop::TimeExhausted);
}

#[test]
fn a_clock_before_the_epoch_is_a_clock_that_is_behind() {
    let mut sequencer = started(Rules { start_wait_ms: 0, ..rules() }, 0);
    let behind_ms = Layout::LEAF.epoch_ms();
    assert_eq!(take(&mut sequencer, 0, 1).1, Stop::ClockBackwards { behind_ms });
}

/// One step of a host's life.
#[derive(Debug, Clone)]
enum Step {
    /// The clock moves by so many ms, either way.
    Clock(i64),
    Take(u32),
    /// The ceiling is raised, and written.
    Raise,
    /// The ceiling is written, and the process dies before it is told so.
    RaiseAndDie,
    Kill,
    Stop,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => prop_oneof![
            0..3i64, -3..3i64, -6..=6i64, Just(4000), Just(-4000), Just(3_600_000),
            Just(-3_600_000), 0..20_000i64
        ].prop_map(Step::Clock),
        6 => prop_oneof![1..5u32, 1..6000u32, Just(100_000)].prop_map(Step::Take),
        3 => Just(Step::Raise),
        1 => Just(Step::RaiseAndDie),
        1 => Just(Step::Kill),
        1 => Just(Step::Stop),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn no_id_comes_twice_over_any_clock_history_and_any_restarts(
        steps in proptest::collection::vec(step(), 1..120),
        layout in prop_oneof![
            Just(Layout::LEAF), Just(Layout::BAIDU), Just(Layout::new(10, 0, 45, 6, 12).unwrap()),
            Just(Layout::new(1, T - 50_000, 41, 18, 4).unwrap()),
        ],
        seed in any::<u64>(),
    ) {
        let rules = Rules { layout, ..rules() };
        let mut clock = T;
        let mut disk = 0;
        let mut life = Sequencer::new(rules, disk, seed);
        let mut seen = std::collections::BTreeMap::<u64, u64>::new();
        for step in steps {
            match step {
                Step::Clock(by) => clock = clock.saturating_add_signed(by),
                Step::Take(count) => {
                    let mut runs = Runs::default();
                    let before = life.ceiling_ms();
                    let stop = life.take(clock, count, &mut runs);
                    prop_assert!(runs.total() <= u64::from(count));
                    prop_assert_eq!(stop == Stop::Done, runs.total() == u64::from(count));
                    for run in runs.iter() {
                        let (first, end) = (run.first, run.first + u64::from(run.count));
                        let time = layout.decode(end - 1).unwrap().unix_ms;
                        prop_assert!(time < before, "issued past the ceiling");
                        prop_assert!(time <= clock + rules.max_lead_ms, "leads too far");
                        let below = seen.range(..end).next_back();
                        prop_assert!(below.is_none_or(|(_, e)| *e <= first), "duplicate");
                        seen.insert(first, end);
                    }
                }
                Step::Raise => if let Some(ceiling) = life.wanted_ceiling(clock, 1000) {
                    disk = disk.max(ceiling);
                    life.raised(ceiling);
                },
                Step::RaiseAndDie => {
                    disk = disk.max(life.wanted_ceiling(clock, 1000).unwrap_or(0));
                    life = Sequencer::new(rules, disk, seed ^ 1);
                }
                Step::Kill => life = Sequencer::new(rules, disk, seed ^ 2),
                Step::Stop => {
                    // What a clean stop writes is below what was there before, and exact.
                    disk = life.exact_ceiling_ms();
                    life = Sequencer::new(rules, disk, seed ^ 3);
                }
            }
        }
    }

    #[test]
    fn it_always_recovers_once_the_clock_has_caught_up(
        steps in proptest::collection::vec((-4000..4000i64, 1..5000u32), 1..60),
    ) {
        let mut life = started(rules(), 0);
        let (mut clock, mut highest) = (T, T);
        for (by, count) in steps {
            clock = clock.saturating_add_signed(by);
            highest = highest.max(clock);
            take(&mut life, clock, count);
        }
        prop_assert_eq!(take(&mut life, highest + 11, 1).1, Stop::Done);
    }
}
