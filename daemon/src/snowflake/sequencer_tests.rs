use std::collections::HashSet;

use proptest::prelude::*;

use super::*;
use crate::snowflake::last_use::LastUse;

const T: u64 = 1_700_000_000_000;

fn rules() -> SequencerRules {
    SequencerRules {
        layout: Layout::LEAF,
        worker: 7,
        max_lead_ms: 10,
        tolerance_ms: 5,
        start_wait_ms: 3000,
        random_start: 100,
    }
}

fn started(rules: SequencerRules, ceiling_ms: u64) -> Sequencer {
    let mut sequencer = Sequencer::new(rules, ceiling_ms, 1);
    sequencer.raised(u64::MAX);
    sequencer
}

fn take(sequencer: &mut Sequencer, now_ms: u64, count: u32) -> (Runs, StopReason) {
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
    assert_eq!(stop, StopReason::Done);
    let decoded = Layout::LEAF.decode(ids(&runs).next().unwrap()).unwrap();
    assert_eq!((decoded.unix_ms, decoded.worker), (T, 7));
    assert!(decoded.sequence < 100);
}

#[test]
fn many_at_once_come_as_contiguous_runs_one_per_time_unit() {
    let (runs, stop) =
        take(&mut started(SequencerRules { random_start: 0, ..rules() }, 0), T, 3 * 4096 + 1);
    assert_eq!(stop, StopReason::Done);
    assert_eq!(runs.iter().map(|run| run.count).collect::<Vec<_>>(), [4096, 4096, 4096, 1]);
}

#[test]
fn timestamps_lead_the_clock_by_no_more_than_the_lead() {
    let mut sequencer = started(SequencerRules { random_start: 0, ..rules() }, 0);
    let (runs, stop) = take(&mut sequencer, T, 100_000);
    // This unit and ten of the future; the next is allowed one millisecond later.
    assert_eq!(runs.total(), 11 * 4096);
    assert_eq!(stop, StopReason::Until(T + 1));
    let (runs, stop) = take(&mut sequencer, T + 1, 100_000);
    assert_eq!((runs.total(), stop), (4096, StopReason::Until(T + 2)));
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
    assert_eq!(take(&mut sequencer, T - 5, 1).1, StopReason::Until(T));
    assert_eq!(take(&mut sequencer, T - 6, 1).1, StopReason::ClockBackwards { behind_ms: 6 });
    assert_eq!(sequencer.refusal(T - 6), Some(StopReason::ClockBackwards { behind_ms: 6 }));
    // It recovers by itself.
    assert_eq!(take(&mut sequencer, T, 1).1, StopReason::Done);
}

#[test]
fn a_clock_set_back_during_a_roll_over_is_noticed_too() {
    let mut sequencer = started(SequencerRules { random_start: 0, ..rules() }, 0);
    take(&mut sequencer, T, 4096);
    assert_eq!(take(&mut sequencer, T - 4000, 1).1, StopReason::ClockBackwards { behind_ms: 4000 });
}

#[test]
fn a_start_a_little_below_the_ceiling_waits_and_far_below_it_refuses() {
    let mut sequencer = started(rules(), T);
    assert_eq!(take(&mut sequencer, T - 3000, 1).1, StopReason::Until(T));
    assert_eq!(take(&mut sequencer, T - 3001, 1).1, StopReason::ClockBackwards { behind_ms: 3001 });
    let (runs, stop) = take(&mut sequencer, T, 1);
    assert_eq!(stop, StopReason::Done);
    assert_eq!(Layout::LEAF.decode(ids(&runs).next().unwrap()).unwrap().unix_ms, T);
}

#[test]
fn nothing_is_issued_at_or_past_the_ceiling() {
    let mut sequencer = Sequencer::new(SequencerRules { random_start: 0, ..rules() }, 0, 1);
    assert_eq!(take(&mut sequencer, T, 1), (Runs::default(), StopReason::Ceiling));
    assert_eq!(sequencer.wanted_ceiling(T, T, 1000), Some(T + 1000));
    sequencer.raised(T + 2);
    let (runs, stop) = take(&mut sequencer, T, 10_000);
    assert_eq!((runs.total(), stop), (2 * 4096, StopReason::Ceiling));
    assert_eq!(sequencer.exact_ceiling_ms(), T + 2);
}

#[test]
fn a_clock_that_jumps_past_the_limit_and_back_has_used_nothing_up() {
    let mut sequencer = Sequencer::new(rules(), 0, 1);
    sequencer.raised(T + 1000);
    sequencer.limited(T + 5000);
    assert_eq!(take(&mut sequencer, T, 1).1, StopReason::Done);
    for past in [T + 5000, T + 3_600_000] {
        assert_eq!(take(&mut sequencer, past, 1), (Runs::default(), StopReason::Fenced));
        assert_eq!(sequencer.wanted_ceiling(past, past, 1000), None);
        assert_eq!(sequencer.refusal(past), Some(StopReason::Fenced));
    }
    assert_eq!(sequencer.refusal(T + 4999), None);
    assert_eq!((sequencer.exact_ceiling_ms(), sequencer.refusal(T)), (T + 1, None));
    assert_eq!(take(&mut sequencer, T + 1, 1).1, StopReason::Done);
    // Up to it, a clock that is right comes by itself.
    assert_eq!(sequencer.wanted_ceiling(T + 4900, T + 4900, 1000), Some(T + 5000));
    sequencer.limited(T + 9_000_000);
    sequencer.raised(T + 4_000_000);
    assert_eq!(take(&mut sequencer, T + 3_600_000, 1).1, StopReason::Done);
}

#[test]
fn the_ceiling_is_raised_when_half_of_what_was_ahead_is_used() {
    let mut sequencer = Sequencer::new(rules(), 0, 1);
    sequencer.raised(T + 1000);
    take(&mut sequencer, T, 1);
    assert_eq!(sequencer.wanted_ceiling(T + 500, T + 500, 1000), None);
    assert_eq!(sequencer.wanted_ceiling(T + 501, T + 501, 1000), Some(T + 1501));
    assert_eq!(sequencer.wanted_ceiling(T - 1, T - 1, 1000), None, "not while the clock is behind");
}

#[test]
fn a_clean_stop_costs_one_time_unit_and_not_the_whole_ceiling() {
    let mut sequencer = started(rules(), 0);
    take(&mut sequencer, T, 1);
    assert_eq!(sequencer.exact_ceiling_ms(), T + 1);
    let mut next = started(rules(), sequencer.exact_ceiling_ms());
    assert_eq!(take(&mut next, T + 1, 1).1, StopReason::Done);
}

#[test]
fn a_coarse_unit_that_the_ceiling_cuts_through_is_not_used_again() {
    let second = SequencerRules { layout: Layout::BAIDU, random_start: 0, ..rules() };
    let mut first = Sequencer::new(second, 0, 1);
    first.raised(T + 500);
    let (used, _) = take(&mut first, T, 10);
    let mut next = started(second, T + 500);
    // The clock has reached the ceiling, yet the second that it lies in is spent.
    assert_eq!(take(&mut next, T + 500, 1).1, StopReason::Until(T + 990));
    let (fresh, stop) = take(&mut next, T + 1000, 10);
    assert_eq!(stop, StopReason::Done);
    let used: HashSet<_> = ids(&used).collect();
    assert!(ids(&fresh).all(|id| !used.contains(&id)));
}

#[test]
fn ids_end_with_an_error_and_never_turn_negative() {
    let mut sequencer = started(rules(), 0);
    let end = Layout::LEAF.end_ms();
    assert_eq!(take(&mut sequencer, end - 1, 1).1, StopReason::Done);
    assert_eq!(take(&mut sequencer, end, 1), (Runs::default(), StopReason::TimeExhausted));
    assert_eq!(take(&mut sequencer, u64::MAX - 100, 1).1, StopReason::TimeExhausted);
}

#[test]
fn a_clock_before_the_epoch_is_wrong_and_not_waited_for() {
    let epoch = Layout::LEAF.epoch_ms();
    for ceiling in [0, T] {
        let mut sequencer = started(rules(), ceiling);
        for now in [0, epoch - 1] {
            let behind_ms = ceiling.max(epoch) - now;
            assert_eq!(take(&mut sequencer, now, 1).1, StopReason::BeforeEpoch { behind_ms });
            assert_eq!(sequencer.wanted_ceiling(now, now, 1000), None);
        }
        assert_eq!(take(&mut sequencer, T, 1).1, StopReason::Done);
    }
}

#[test]
fn a_clock_past_the_end_of_the_layout_for_a_while_has_used_nothing_up() {
    let mut sequencer = started(rules(), 0);
    sequencer.limited(T + 5000);
    take(&mut sequencer, T, 1);
    let end = Layout::LEAF.end_ms();
    assert_eq!(take(&mut sequencer, end, 1).1, StopReason::TimeExhausted, "past the limit as well");
    assert_eq!(sequencer.wanted_ceiling(end, end, 1000), None);
    assert_eq!(take(&mut sequencer, T + 1, 1).1, StopReason::Done);
}

#[test]
fn a_clock_ahead_that_the_ceiling_kept_unused_is_not_waited_for() {
    let mut sequencer = Sequencer::new(rules(), 0, 1);
    sequencer.raised(T + 1000);
    take(&mut sequencer, T, 1);
    assert_eq!(take(&mut sequencer, T + 3_600_000, 1), (Runs::default(), StopReason::Ceiling));
    assert_eq!(take(&mut sequencer, T + 1, 1).1, StopReason::Done);
    assert_eq!(sequencer.exact_ceiling_ms(), T + 2);
}

#[test]
fn the_ceiling_follows_use_and_a_request_beyond_it_has_it_raised_to_the_clock() {
    let mut sequencer = Sequencer::new(rules(), 0, 1);
    sequencer.raised(T + 1000);
    take(&mut sequencer, T, 1);
    // Set an hour ahead, and nobody asks: 700 ms have passed since the last use.
    let ahead = T + 3_600_700;
    assert_eq!(sequencer.wanted_ceiling(ahead, T + 700, 1000), None, "it would serve nobody");
    assert_eq!(sequencer.wanted_ceiling(T + 700, T + 700, 1000), Some(T + 1700));
    assert_eq!(sequencer.wanted_ceiling(ahead, ahead, 1000), Some(ahead + 1000));
}

/// One step of a host's life.
#[derive(Debug, Clone)]
enum Step {
    /// Somebody sets the clock by this many ms, either way.
    Clock(i64),
    /// This many ms pass.
    Pass(u64),
    Take(u32),
    /// The ceiling is raised as use goes on, and written.
    Raise,
    /// The ceiling is raised for a request that waits, and written.
    RaiseForRequest,
    /// The ceiling is written, and the process dies before the sequencer hears of it.
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
        4 => prop_oneof![0..3u64, 0..700u64, 0..20_000u64].prop_map(Step::Pass),
        6 => prop_oneof![1..5u32, 1..6000u32, Just(100_000)].prop_map(Step::Take),
        3 => Just(Step::Raise),
        3 => Just(Step::RaiseForRequest),
        1 => Just(Step::RaiseAndDie),
        1 => Just(Step::Kill),
        1 => Just(Step::Stop),
    ]
}

const AHEAD: u64 = 1000;

/// A host with two clocks: one that can be set, and one that cannot.
struct Host {
    rules: SequencerRules,
    seed: u64,
    clock: u64,
    boot: u64,
    disk: u64,
    life: Sequencer,
    last_use: LastUse,
}

impl Host {
    fn new(rules: SequencerRules, seed: u64) -> Self {
        let life = Sequencer::new(rules, 0, seed);
        let last_use = LastUse { clock_ms: life.last_use_ms(), boot_ms: 0 };
        Self { rules, seed, clock: T, boot: 0, disk: 0, life, last_use }
    }

    fn pass(&mut self, ms: u64) {
        self.clock += ms;
        self.boot += ms;
    }

    /// After a kill, or a stop.
    fn start(&mut self) {
        self.seed = self.seed.wrapping_add(1);
        self.life = Sequencer::new(self.rules, self.disk, self.seed);
        self.last_use = LastUse { clock_ms: self.life.last_use_ms(), boot_ms: self.boot };
    }

    fn use_ms(&self) -> u64 {
        self.last_use.now_ms(self.clock, self.boot)
    }

    fn take(&mut self, count: u32) -> (Runs, StopReason) {
        let (runs, stop) = take(&mut self.life, self.clock, count);
        if runs.total() > 0 {
            self.last_use = LastUse { clock_ms: self.life.last_use_ms(), boot_ms: self.boot };
        }
        (runs, stop)
    }

    fn raise(&mut self, use_ms: u64) {
        if let Some(ceiling) = self.life.wanted_ceiling(self.clock, use_ms, AHEAD) {
            self.disk = self.disk.max(ceiling);
            self.life.raised(ceiling);
        }
    }

    /// A request that waits for as long as it takes.
    fn asks(&mut self, count: u32) {
        let mut left = count;
        while left > 0 {
            let (runs, stop) = self.take(left);
            left -= u32::try_from(runs.total()).unwrap();
            match stop {
                StopReason::Done => {}
                StopReason::Ceiling => self.raise(self.clock),
                StopReason::Until(at) => self.pass(at - self.clock),
                _ => panic!("{stop:?}"),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn no_id_comes_twice_over_any_clock_history_and_any_restarts(
        steps in proptest::collection::vec(step(), 1..120),
        layout in prop_oneof![
            Just(Layout::LEAF), Just(Layout::BAIDU), Just(Layout::new(10, 0, 45, 6, 12).unwrap()),
            Just(Layout::new(1, T - 50_000, 41, 18, 4).unwrap()), Just(Layout::SONYFLAKE),
            Just(Layout::JS),
        ],
        seed in any::<u64>(),
    ) {
        let rules = SequencerRules { layout, ..rules() };
        let mut host = Host::new(rules, seed);
        let mut seen = std::collections::BTreeMap::<u64, u64>::new();
        for step in steps {
            match step {
                Step::Clock(by) => host.clock = host.clock.saturating_add_signed(by),
                Step::Pass(ms) => host.pass(ms),
                Step::Take(count) => {
                    let before = host.life.ceiling_ms();
                    let (runs, stop) = host.take(count);
                    prop_assert!(runs.total() <= u64::from(count));
                    prop_assert_eq!(stop == StopReason::Done, runs.total() == u64::from(count));
                    for run in runs.iter() {
                        let (first, end) = (run.first, run.first + u64::from(run.count));
                        let time = layout.decode(end - 1).unwrap().unix_ms;
                        prop_assert!(time < before, "issued past the ceiling");
                        prop_assert!(time <= host.clock + rules.max_lead_ms, "leads too far");
                        let below = seen.range(..end).next_back();
                        prop_assert!(below.is_none_or(|(_, e)| *e <= first), "duplicate");
                        seen.insert(first, end);
                    }
                }
                Step::Raise => host.raise(host.use_ms()),
                Step::RaiseForRequest => host.raise(host.clock),
                Step::RaiseAndDie => {
                    let wanted = host.life.wanted_ceiling(host.clock, host.clock, AHEAD);
                    host.disk = host.disk.max(wanted.unwrap_or(0));
                    host.start();
                }
                Step::Kill => host.start(),
                Step::Stop => {
                    // What a clean stop writes is below what was there before, and exact.
                    host.disk = host.life.exact_ceiling_ms();
                    host.start();
                }
            }
        }
    }

    #[test]
    fn after_a_blip_of_the_clock_that_nobody_used_and_any_kill_ids_are_available_at_once(
        before in proptest::collection::vec(
            prop_oneof![
                4 => (0..5000u64).prop_map(Step::Pass),
                4 => (1..6000u32).prop_map(Step::Take),
                4 => Just(Step::Raise),
                1 => Just(Step::Kill),
                1 => Just(Step::Stop),
            ],
            0..60,
        ),
        blips in proptest::collection::vec(
            (-4_000_000..4_000_000i64, proptest::collection::vec(0..700u64, 1..8)), 1..4),
        killed_after in 0..30usize,
        seed in any::<u64>(),
    ) {
        let mut host = Host::new(rules(), seed);
        for step in before {
            match step {
                Step::Pass(ms) => host.pass(ms),
                Step::Take(count) => host.asks(count),
                Step::Raise => host.raise(host.use_ms()),
                Step::Stop => {
                    host.disk = host.life.exact_ceiling_ms();
                    host.start();
                }
                _ => host.start(),
            }
        }
        let right = |host: &Host| T + host.boot;
        let mut steps = 0;
        for (by, passes) in blips {
            host.clock = host.clock.saturating_add_signed(by);
            for ms in passes {
                host.pass(ms);
                host.raise(host.use_ms());
                steps += 1;
                if steps == killed_after {
                    host.start();
                }
            }
            host.clock = right(&host);
        }
        host.start();
        let started = host.clock;
        host.asks(1);
        // A crash costs the time that the ceiling is ahead of use.
        prop_assert!(host.clock <= started + AHEAD, "{} ms", host.clock - started);
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
        prop_assert_eq!(take(&mut life, highest + 11, 1).1, StopReason::Done);
    }
}
