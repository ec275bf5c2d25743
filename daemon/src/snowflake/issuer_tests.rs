use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};

use leaf_client::Layout;
use leaf_client::wire::SnowflakeState;

use super::*;
use crate::ids::Runs;
use crate::snowflake::life::Begin;
use crate::state::dir::{ForeignPolicy, StateDir};
use crate::state::owner::StateOwner;
use crate::state::worker_file::SharedClaim;

const NOW: u64 = 1_700_000_000_000;

struct Rig {
    issuer: Issuer,
    state: StateDir,
    _folder: tempfile::TempDir,
}

impl Rig {
    fn new() -> Self {
        Self::with(Environment::with_time(|| NOW))
    }

    fn with(environment: Environment) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::lock(folder.path(), &Environment::system()).unwrap();
        let here = StateOwner::here(Some("m"), "", None);
        let contents = state.open(&here, ForeignPolicy::Refuse).unwrap();
        let (place, fatal) = (state.place(), CancellationToken::new());
        let writer =
            Writer::start(&environment, place, contents.generation, contents.journal, &fatal)
                .unwrap();
        let settings =
            IssuerSettings { registry: "r", ceiling_ahead_ms: 1000, layout: Layout::LEAF };
        let not_yet = WireError::new(ErrorCode::WorkerUnavailable, "not yet");
        let file = WorkerRecord::fresh();
        let issuer = Issuer::start(settings, not_yet, file, environment, writer, &fatal);
        Self { issuer, state, _folder: folder }
    }

    fn begin(&self, worker: u64, start_ms: u64) {
        self.begin_with(worker, start_ms, 5);
    }

    fn begin_with(&self, worker: u64, start_ms: u64, tolerance_ms: u64) {
        let rules = crate::snowflake::sequencer::SequencerRules {
            layout: Layout::LEAF,
            worker,
            max_lead_ms: 10,
            tolerance_ms,
            start_wait_ms: 5000,
            random_start: 0,
        };
        let shared = Some(shared(NOW + 50_000));
        let identity = String::new();
        self.issuer.begin(Begin { rules, start_ms, limit_ms: NOW + 50_000, identity, shared });
    }

    async fn issue(&self) {
        let deadline = Instant::now() + Duration::from_secs(30);
        match self.issuer.request(1, Instant::now(), deadline) {
            SnowflakeOutcome::Now(_) => {}
            SnowflakeOutcome::Later(waiting) => {
                assert_eq!(waiting.outcome().await.unwrap().total(), 1)
            }
            SnowflakeOutcome::Refused(error) => panic!("{error:?}"),
        }
    }

    fn disk(&self) -> WorkerRecord {
        let text = std::fs::read(self.state.place().worker_file()).unwrap();
        WorkerRecord::read(&text).unwrap().0
    }
}

fn shared(limit_ms: u64) -> SharedClaim {
    SharedClaim { limit_ms, ..SharedClaim::default() }
}

fn why() -> WireError {
    WireError::new(ErrorCode::WorkerUnavailable, "gone")
}

#[tokio::test]
async fn a_thread_that_is_held_up_does_not_mistake_anothers_time_for_a_clock_set_back() {
    let (time, other_is_done) = (Arc::new(AtomicU64::new(NOW)), Arc::new(AtomicBool::new(false)));
    let clock = Environment::with_time({
        let (time, other_is_done) = (Arc::clone(&time), Arc::clone(&other_is_done));
        move || {
            let reading = time.fetch_add(1, SeqCst);
            let is_held_up = std::thread::current().name() == Some("held up");
            // As if it were preempted here. Nobody can come in between if the lock is held.
            for _ in 0..100 {
                if is_held_up && !other_is_done.load(SeqCst) {
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
            reading
        }
    });
    let rig = Rig::with(clock);
    rig.begin_with(3, 0, 0);
    rig.issue().await;
    let reads = time.load(SeqCst);
    let issuer = rig.issuer.clone();
    let ask = move || issuer.request(1, Instant::now(), Instant::now());
    let held_up = std::thread::Builder::new().name("held up".into()).spawn(ask).unwrap();
    while time.load(SeqCst) == reads {
        tokio::task::yield_now().await;
    }
    let issuer = rig.issuer.clone();
    let other = std::thread::spawn(move || {
        let outcome = issuer.request(1, Instant::now(), Instant::now());
        other_is_done.store(true, SeqCst);
        outcome
    });
    for thread in [held_up, other] {
        match thread.join().unwrap() {
            SnowflakeOutcome::Now(_) | SnowflakeOutcome::Later(_) => {}
            SnowflakeOutcome::Refused(error) => panic!("{error:?}"),
        }
    }
}

#[tokio::test]
async fn nothing_changes_the_record_that_closing_wrote() {
    let rig = Rig::new();
    rig.begin(3, 0);
    rig.issue().await;
    assert!(rig.disk().ceiling_ms > NOW + 1);
    rig.issuer.close().await.unwrap();
    assert_eq!(rig.disk().ceiling_ms, NOW + 1);
    for soon in [true, false] {
        rig.issuer.suspend(why(), soon);
        assert_eq!(rig.issuer.last_ceiling_ms(), NOW + 1);
    }
    rig.begin(3, 0);
    rig.issuer.remember(shared(0)).await.unwrap();
    assert_eq!(rig.disk(), WorkerRecord { ceiling_ms: NOW + 1, ..rig.disk() });
    assert_eq!(rig.disk().shared.unwrap().limit_ms, 0);
    let outcome = rig.issuer.request(1, Instant::now(), Instant::now());
    assert!(
        matches!(outcome, SnowflakeOutcome::Refused(error) if error.code() == ErrorCode::ShuttingDown)
    );
}

#[tokio::test]
async fn a_worker_id_that_is_used_again_goes_on_above_what_was_promised() {
    let rig = Rig::new();
    rig.begin(3, 0);
    rig.issue().await;
    let promised = rig.disk().ceiling_ms;
    for is_suspended in [false, true] {
        if is_suspended {
            rig.issuer.suspend(why(), true);
        }
        rig.begin(3, 0);
        assert!(rig.issuer.progress().ceiling_ms >= promised);
    }
    rig.begin(4, NOW);
    assert_eq!(rig.issuer.progress().ceiling_ms, NOW);
}

#[tokio::test]
async fn reports_reach_the_disk_now_and_then_even_while_nobody_asks() {
    let rig = Rig::new();
    rig.begin(3, 0);
    rig.issue().await;
    let before = rig.disk();
    let long_ago = Instant::now().checked_sub(2 * AWAKE).unwrap();
    rig.issuer.lock().last_request = long_ago;
    rig.issuer.reported(NOW + 51_000, shared(NOW + 51_000));
    assert!(rig.issuer.raise(1000).is_none(), "a little later is not worth a write");
    rig.issuer.reported(NOW + 90_000, shared(NOW + 90_000));
    while rig.disk() == before {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let after = WorkerRecord { shared: Some(shared(NOW + 90_000)), ..before };
    assert_eq!(rig.disk(), after);
    assert!(rig.issuer.raise(1000).is_none());
}

#[tokio::test]
async fn a_request_that_may_not_wait_is_served_from_memory_or_takes_nothing_from_others() {
    let rig = Rig::new();
    rig.begin(3, 0);
    rig.issue().await;
    let full = || WireError::new(ErrorCode::TooManyInFlight, "full");
    let at_once = |count| rig.issuer.request_at_once(count, Instant::now(), &full);
    let SnowflakeOutcome::Now(first) = at_once(10) else { panic!("memory had them") };
    // More than there is until the clock goes on.
    let refused = at_once(1_000_000);
    assert!(matches!(refused, SnowflakeOutcome::Refused(error) if error.message == "full"));
    let SnowflakeOutcome::Now(second) = at_once(10) else { panic!("memory had them") };
    let last = |runs: &Runs| runs.iter().last().map(|run| run.first + u64::from(run.count));
    assert_eq!(last(&first), second.iter().next().map(|run| run.first));
}

#[tokio::test]
async fn a_refused_request_that_may_not_wait_raises_the_ceiling_for_the_next_one() {
    let (rig, time) = with_clock().await;
    time.store(NOW + 40_000, SeqCst);
    let full = || WireError::new(ErrorCode::TooManyInFlight, "full");
    let at_once = || rig.issuer.request_at_once(1, Instant::now(), &full);
    assert!(matches!(at_once(), SnowflakeOutcome::Refused(_)));
    while !matches!(at_once(), SnowflakeOutcome::Now(_)) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// A rig whose clock is in the test's hand.
async fn with_clock() -> (Rig, Arc<AtomicU64>) {
    let time = Arc::new(AtomicU64::new(NOW));
    let clock = Environment::with_time({
        let time = Arc::clone(&time);
        move || time.load(SeqCst)
    });
    let rig = Rig::with(clock);
    rig.begin(3, NOW);
    rig.issue().await;
    (rig, time)
}

#[tokio::test]
async fn a_clock_ahead_that_nobody_uses_raises_no_ceiling_and_the_next_request_does() {
    let (rig, time) = with_clock().await;
    let before = rig.issuer.progress().ceiling_ms;
    assert!(before >= NOW + 1000, "{before}");
    let ahead = NOW + 40_000;
    time.store(ahead, SeqCst);
    assert!(rig.issuer.raise(1000).is_none(), "nobody has asked");
    let progress = rig.issuer.progress();
    assert!(progress.use_ms < ahead && progress.ceiling_ms == before, "{progress:?}");
    rig.issue().await;
    let progress = rig.issuer.progress();
    assert!(progress.use_ms >= ahead && rig.disk().ceiling_ms > ahead, "{progress:?}");
}

#[tokio::test]
async fn a_request_past_the_limit_waits_for_a_report_unless_the_registry_is_away() {
    let (rig, time) = with_clock().await;
    let (limit, later) = (NOW + 50_000, NOW + 60_000);
    time.store(later, SeqCst);
    let ask = || rig.issuer.request(1, Instant::now(), Instant::now() + Duration::from_secs(60));
    let SnowflakeOutcome::Later(waiting) = ask() else { panic!("it is not waited for") };
    rig.issuer.report_is_due().await;
    assert_eq!(rig.issuer.progress().awaited_ms, later);
    assert!(rig.issuer.progress().ceiling_ms <= limit);
    rig.issuer.reported(later + 50_000, shared(later + 50_000));
    assert_eq!(waiting.outcome().await.unwrap().total(), 1);
    assert_eq!(rig.issuer.progress().awaited_ms, 0);

    time.store(later + 70_000, SeqCst);
    let SnowflakeOutcome::Later(waiting) = ask() else { panic!("it is not waited for") };
    assert_eq!(rig.issuer.status().state, SnowflakeState::Serving);
    rig.issuer.registration(|registration| registration.error = "away".to_owned());
    let error = waiting.outcome().await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::WorkerUnavailable);
    assert!(
        matches!(ask(), SnowflakeOutcome::Refused(error) if error.code() == ErrorCode::WorkerUnavailable)
    );
    assert!(matches!(rig.issuer.status().state, SnowflakeState::Refused { .. }));
}

#[tokio::test]
async fn a_clock_outside_the_layout_is_reported_and_ids_begin_once_it_is_right() {
    let (epoch, end) = (Layout::LEAF.epoch_ms(), Layout::LEAF.end_ms());
    let time = Arc::new(AtomicU64::new(0));
    let clock = Environment::with_time({
        let time = Arc::clone(&time);
        move || time.load(SeqCst)
    });
    let rig = Rig::with(clock);
    rig.begin(3, 0);
    for (wrong, code, said) in [
        (0, ErrorCode::ClockBackwards, "1970-01-01T00:00:00.000Z, before the epoch"),
        (epoch - 1, ErrorCode::ClockBackwards, "2010-11-04T01:42:54.656Z, before the epoch"),
        (end, ErrorCode::TimeExhausted, "ended at 2080-"),
    ] {
        time.store(wrong, SeqCst);
        let SnowflakeState::Refused { reason } = rig.issuer.status().state else {
            panic!("{:?}", rig.issuer.status())
        };
        assert!(reason.contains(said), "{reason}");
        let SnowflakeOutcome::Refused(error) =
            rig.issuer.request(1, Instant::now(), Instant::now())
        else {
            panic!("issued at {wrong}")
        };
        assert_eq!((error.code(), error.to_string()), (code, reason));
    }
    time.store(NOW, SeqCst);
    rig.issue().await;
}
