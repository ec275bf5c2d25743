use std::collections::HashMap;
use std::sync::Mutex;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::actor::Actor;
use crate::environment::Environment;
use crate::ids::{BizTag, Range, RangeQueue};
use crate::segment::messages::BufferRules;
use crate::segment::request::SegmentOutcome;
use crate::segment::service::SegmentSettings;
use crate::segment::table::Asker;
use crate::state::dir::{ForeignPolicy, StateDir};
use crate::state::journal::{RetiredDays, TagRecord};
use crate::state::owner::StateOwner;
use crate::state::writer::Writer;
use crate::store::{BoxFuture, CreatedTag, DeletedTag, Row, Store};

/// A store that takes its time, and remembers the order in which it was asked.
struct Slow {
    asked: Mutex<Vec<String>>,
    at_once: Mutex<(usize, usize)>,
    down: Mutex<bool>,
    /// It answers, and does not write.
    full: Mutex<bool>,
}

impl Slow {
    async fn take_time(&self) {
        {
            let mut at_once = lock(&self.at_once);
            at_once.0 += 1;
            at_once.1 = at_once.1.max(at_once.0);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        lock(&self.at_once).0 -= 1;
    }
}

impl Store for Slow {
    fn describe(&self) -> String {
        "slow".into()
    }

    fn lease<'a>(
        &'a self,
        tag: &'a BizTag,
        ask: LeaseAsk,
    ) -> BoxFuture<'a, Result<Leased, StoreError>> {
        lock(&self.asked).push(tag.as_str().to_owned());
        Box::pin(async move {
            self.take_time().await;
            if *lock(&self.down) || *lock(&self.full) {
                return Err(StoreError::Down("as a test".into()));
            }
            let start = ask.floor.max(1);
            let range = Range::new(start, start + 1000);
            let range = range.ok_or_else(|| StoreError::BadRow("no range".into()))?;
            Ok(Leased { lease: Lease { range, row_step: 1000 }, moved_from: None })
        })
    }

    fn probe(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        let down = *lock(&self.down);
        Box::pin(
            async move { if down { Err(StoreError::Down("as a test".into())) } else { Ok(()) } },
        )
    }

    fn look(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.probe()
    }

    fn prove<'a>(&'a self, _: &'a BizTag) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async {
            match *lock(&self.down) || *lock(&self.full) {
                true => Err(StoreError::Down("as a test".into())),
                false => Ok(()),
            }
        })
    }

    fn page<'a>(&'a self, _: &'a str, _: usize) -> BoxFuture<'a, Result<Vec<Row>, StoreError>> {
        Box::pin(async { Err(StoreError::Busy("not here".into())) })
    }

    fn find<'a>(&'a self, _: &'a [BizTag]) -> BoxFuture<'a, Result<Vec<Row>, StoreError>> {
        Box::pin(async { Err(StoreError::Busy("not here".into())) })
    }

    fn show<'a>(&'a self, _: &'a BizTag) -> BoxFuture<'a, Result<Row, StoreError>> {
        Box::pin(async { Err(StoreError::NoSuchTag) })
    }

    fn create<'a>(
        &'a self,
        _: &'a BizTag,
        _: NewTag<'a>,
    ) -> BoxFuture<'a, Result<CreatedTag, StoreError>> {
        Box::pin(async { Err(StoreError::Exists) })
    }

    fn delete<'a>(
        &'a self,
        _: &'a BizTag,
        _: u64,
    ) -> BoxFuture<'a, Result<DeletedTag, StoreError>> {
        Box::pin(async { Err(StoreError::NoSuchTag) })
    }

    fn raise<'a>(
        &'a self,
        _: &'a BizTag,
        _: u64,
    ) -> BoxFuture<'a, Result<Option<i64>, StoreError>> {
        Box::pin(async { Ok(None) })
    }

    fn set_step<'a>(&'a self, _: &'a BizTag, _: u64) -> BoxFuture<'a, Result<Row, StoreError>> {
        Box::pin(async { Err(StoreError::NoSuchTag) })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

/// A host that has recently used all IDs of a number of tags, so that it leases for all of them at
/// its start.
struct Host {
    _folder: tempfile::TempDir,
    _state: StateDir,
    store: Arc<Slow>,
    segments: Segments,
}

impl Host {
    fn start(tags: usize, down: bool) -> Self {
        Self::start_with_room(tags, down, 100_000)
    }

    fn start_with_room(tags: usize, down: bool, max_tags: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::lock(folder.path(), &Environment::system()).unwrap();
        let here = StateOwner::here(Some("m"), "", None);
        let contents = state.open(&here, ForeignPolicy::Refuse).unwrap();
        let fatal = CancellationToken::new();
        let place = state.place();
        let environment = Environment::system();
        let writer =
            Writer::start(&environment, place, contents.generation, contents.journal, &fatal)
                .unwrap();
        let store = Arc::new(Slow {
            asked: Mutex::default(),
            at_once: Mutex::default(),
            down: Mutex::new(down),
            full: Mutex::new(false),
        });
        let settings = SegmentSettings {
            base: 0,
            retire_after: Duration::ZERO,
            rules: BufferRules {
                max_step: 1_000_000,
                max_waiting: 1000,
                absent_for: Duration::ZERO,
            },
            auto_create: false,
            default_step: 1000,
            max_tags,
            refresh: Duration::from_secs(3600),
            store_calls: 8,
        };
        let used = TagRecord {
            floor: 1001,
            used_s: environment.unix_ms() / 1000,
            left: RangeQueue::default(),
        };
        let remembered: HashMap<_, _> = (0..tags)
            .map(|tag| (BizTag::new(&format!("tag {tag}")).unwrap(), used.clone()))
            .collect();
        let segments = Segments::start(
            settings,
            environment,
            store.clone(),
            writer,
            (&remembered, RetiredDays::default()),
            &fatal,
        );
        Self { _folder: folder, _state: state, store, segments }
    }

    async fn next(&self, tag: &str, within: Duration) -> Result<u64, leaf_client::WireError> {
        let tag = BizTag::new(tag).unwrap();
        let runs = match self.segments.request(&tag, by(Asker(0)), 1, Instant::now() + within) {
            SegmentOutcome::Now(runs) => runs,
            SegmentOutcome::Later(waiting) => waiting.outcome().await?,
            SegmentOutcome::Refused(error) => return Err(error),
        };
        Ok(runs.iter().map(|run| run.first).next().unwrap())
    }
}

const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_tag_that_a_request_waits_for_is_leased_before_tags_ahead_of_need() {
    let host = Host::start(500, false);
    tokio::time::sleep(Duration::from_millis(100)).await;
    let before = lock(&host.store.asked).clone();
    let last = (0..500).map(|tag| format!("tag {tag}")).rfind(|tag| !before.contains(tag));
    let last = last.unwrap();
    assert_eq!(host.next(&last, PATIENCE).await.unwrap(), 1001);
    let asked = lock(&host.store.asked).clone();
    let place = asked.iter().position(|tag| *tag == last).unwrap() - before.len();
    assert!(place <= 8, "{place} others were asked for in between");
    // A tag that was never used here has permits of its own.
    host.next("new", PATIENCE).await.unwrap();
    let (now, most) = (lock(&host.store.asked).len(), lock(&host.store.at_once).1);
    assert!(now < 250, "{now}");
    assert!(most <= 6, "{most} leases at once");
}

#[tokio::test]
async fn tags_that_wait_for_a_store_that_is_down_do_not_storm_it_and_are_all_leased_afterwards() {
    let host = Host::start(500, true);
    let wait = Duration::from_millis(1500);
    let error = host.next("tag 7", wait).await.unwrap_err();
    assert_eq!(error.code(), leaf_client::ErrorCode::StoreUnavailable);
    assert!(error.message.contains("as a test") && error.retry_after_ms > 0, "{error:?}");
    let asked = lock(&host.store.asked).len();
    assert!(asked < 20, "{asked} leases were tried");
    *lock(&host.store.down) = false;
    for tag in 0..500 {
        assert_eq!(host.next(&format!("tag {tag}"), PATIENCE).await.unwrap(), 1001);
    }
    assert_eq!(host.segments.totals().store_error, "");
}

#[tokio::test]
async fn closing_while_the_store_is_down_does_not_wait_for_the_store() {
    let host = Host::start(500, true);
    let error = host.next("tag 7", Duration::from_millis(300)).await.unwrap_err();
    assert_eq!(error.code(), leaf_client::ErrorCode::StoreUnavailable);
    // Longer than the test may take: what holds up the end would be cut off only then.
    let end = host.segments.close(10 * PATIENCE);
    tokio::time::timeout(PATIENCE, end).await.unwrap().unwrap();
}

#[tokio::test]
async fn names_asked_for_while_the_store_is_down_do_not_use_up_the_room_for_tags() {
    let host = Host::start_with_room(2, true, 10);
    for name in 0..30 {
        let wait = Duration::from_millis(50);
        let error = host.next(&format!("new {name}"), wait).await.unwrap_err();
        assert_eq!(error.code(), leaf_client::ErrorCode::StoreUnavailable, "{error}");
    }
    *lock(&host.store.down) = false;
    assert_eq!(host.next("users", PATIENCE).await.unwrap(), 1);
    // Those that were used are kept.
    assert_eq!(host.next("tag 1", PATIENCE).await.unwrap(), 1001);
}

/// An asker, for a request.
fn by(asker: Asker) -> (Asker, Actor) {
    let uid = u32::try_from(asker.0).ok();
    (asker, Actor { uid, gid: None, address: None, rule: None, transport: "unix" })
}

/// Begins a request that waits, without waiting for it.
fn begin(host: &Host, name: &str, asker: Asker) -> SegmentOutcome {
    let tag = BizTag::new(name).unwrap();
    host.segments.request(&tag, by(asker), 1, Instant::now() + PATIENCE)
}

#[tokio::test]
async fn a_user_that_asks_for_thousands_of_names_does_not_hold_up_another_users_new_tag() {
    let host = Host::start(0, false);
    let crowd: Vec<_> =
        (0..3000).map(|nth| begin(&host, &format!("new {nth}"), Asker(1))).collect();
    assert!(crowd.iter().all(|outcome| matches!(outcome, SegmentOutcome::Later(_))));
    // Also when the crowd has asked for the very name before.
    for name in ["users", "new 2999"] {
        let before = lock(&host.store.asked).len();
        let SegmentOutcome::Later(waiting) = begin(&host, name, Asker(2)) else { panic!() };
        waiting.outcome().await.unwrap();
        let place = lock(&host.store.asked).iter().position(|tag| tag == name).unwrap();
        assert!(place <= before + 8, "{} others were asked for first", place - before);
    }
}

#[tokio::test]
async fn a_name_that_nobody_waits_for_any_more_is_not_looked_up() {
    for down in [false, true] {
        let host = Host::start_with_room(0, down, 10);
        for round in 0..20 {
            let crowd: Vec<_> =
                (0..1000).map(|nth| begin(&host, &format!("{round} {nth}"), Asker(1))).collect();
            tokio::task::yield_now().await;
            drop(crowd);
        }
        while !host.segments.0.tasks.is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let asked = lock(&host.store.asked).len();
        assert!(asked < 100, "{asked} lookups that nobody waits for");
        *lock(&host.store.down) = false;
        assert_eq!(host.next("users", PATIENCE).await.unwrap(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_requests_that_wait_need_one_task_and_each_is_refused_at_its_own_deadline() {
    let host = Host::start(1, true);
    let tag = BizTag::new("tag 0").unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let (before, began) = (tasks(), Instant::now());
    // Later ones with earlier deadlines, and the other way round.
    let within = |number: u64| Duration::from_millis(200 + number * 37 % 1000);
    let waiting: Vec<_> = (0..1000)
        .map(|number| {
            let within = within(number);
            match host.segments.request(&tag, by(Asker(0)), 1, began + within) {
                SegmentOutcome::Later(waiting) => (within, waiting),
                _ => panic!("the store is down"),
            }
        })
        .collect();
    assert!(tasks() <= before + 2, "{} more", tasks() - before);
    let all = waiting.into_iter().map(|(within, waiting)| async move {
        let error = waiting.outcome().await.unwrap_err();
        assert_eq!(error.code(), leaf_client::ErrorCode::StoreUnavailable, "{error}");
        let late = began.elapsed().saturating_sub(within);
        assert!(began.elapsed() >= within && late < Duration::from_millis(5), "{late:?}");
    });
    futures_util::future::join_all(all).await;
    // The timer has ended.
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert!(tasks() <= before, "{} more", tasks() - before);
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_lookup_is_not_kept_until_its_deadline() {
    let host = Host::start(0, true);
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let names: Vec<_> = (0..20).map(|name| BizTag::new(&format!("new {name}")).unwrap()).collect();
    for name in &names {
        let deadline = Instant::now() + Duration::from_secs(3600);
        let SegmentOutcome::Later(waiting) = host.segments.request(name, by(Asker(0)), 1, deadline)
        else {
            panic!("the store is down")
        };
        drop(waiting);
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(tasks() <= before, "{} more", tasks() - before);
}

#[tokio::test]
async fn a_store_that_answers_but_does_not_write_has_an_error_until_it_writes() {
    let host = Host::start(2, false);
    assert_eq!(host.next("tag 1", PATIENCE).await.unwrap(), 1001);
    *lock(&host.store.full) = true;
    let error = host.next("new", Duration::from_millis(100)).await.unwrap_err();
    assert_eq!(error.code(), leaf_client::ErrorCode::StoreUnavailable);
    // Nobody asks any more. The store answers probes, and counts as unproven at best.
    let error = || host.segments.totals().store_error;
    while !error().contains("answers again") {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    while error().contains("answers again") {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(error().contains("as a test"), "the write that was to prove it has failed");
    *lock(&host.store.full) = false;
    // No lease is needed for it.
    let leases = lock(&host.store.asked).len();
    while !error().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(lock(&host.store.asked).len(), leases);
}
