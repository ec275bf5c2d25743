use std::sync::atomic::AtomicU64;

use super::*;
use crate::config::Config;
use crate::environment::Host;
use crate::worker::claim::model::{Folder, Tree};
use crate::worker::claim::record::{ClaimPhase, HolderRecord, VERSION};

const LAYOUT: &str = "layout";
const LASTS_MS: u64 = 10_000;

/// A host whose boot clock the test sets.
#[derive(Clone, Default)]
struct TestHost {
    boot_ms: Arc<AtomicU64>,
}

impl Host for TestHost {
    fn boot_ms(&self) -> u64 {
        self.boot_ms.load(Ordering::Relaxed)
    }
}

impl TestHost {
    fn pass(&self, ms: u64) {
        self.boot_ms.fetch_add(ms, Ordering::Relaxed);
    }
}

fn access(folder: &tempfile::TempDir) -> DatabaseAccess {
    let mut config = Config::default();
    config.database.path = Some(folder.path().join("workers.db"));
    let access = DatabaseAccess::new(&config, None).unwrap();
    DatabaseAccess {
        layout: LAYOUT.to_owned(),
        session_timeout: Duration::from_millis(LASTS_MS),
        timeout: Duration::from_secs(60),
        ..access
    }
}

async fn session(folder: &tempfile::TempDir, host: &TestHost) -> DatabaseSession {
    let environment = Environment::of(host.clone());
    let session = DatabaseSession::open(&access(folder), &environment, true).await.unwrap();
    session.prepare().await.unwrap();
    session
}

fn name(random: &mut fastrand::Rng) -> NodeName {
    let identity = random.choice(["a", "10.0.0.1:1", "ö/-%"]).unwrap();
    NodeName::new(identity, random.u64(0..3))
}

fn key(random: &mut fastrand::Rng) -> Key {
    let name = name(random);
    let keys =
        [Key::Fleet, Key::leaf(&name), Key::holder(&name), Key::live(&name), Key::free(&name)];
    random.choice(keys).unwrap()
}

fn record(random: &mut fastrand::Rng) -> RegistryRecord {
    let number = random.u64(0..1000);
    match key(random) {
        Key::Fleet => {
            RegistryRecord::Fleet(FleetRecord { version: VERSION, layout: LAYOUT.to_owned() })
        }
        Key::Leaf(name) => RegistryRecord::Leaf(name, leaf(number)),
        Key::Holder(name) => {
            let record = HolderRecord {
                version: VERSION,
                nonce: format!("'\"{number}"),
                phase: ClaimPhase::Held,
                ceiling: number,
                limit: number + 1,
                leaf_version: 0,
            };
            RegistryRecord::Holder(name, record)
        }
        Key::Live(name) => {
            let (nonce, ip) = (number.to_string(), "::1".to_owned());
            RegistryRecord::Live(name, LiveRecord { version: VERSION, nonce, ip, port: 1 })
        }
        Key::Free(name) => {
            RegistryRecord::Free(name, FreeRecord { version: VERSION, not_before: number })
        }
    }
}

fn leaf(timestamp: u64) -> LeafRecord {
    LeafRecord { ip: "10.0.0.1".into(), port: "1".into(), timestamp }
}

fn write(random: &mut fastrand::Rng) -> RegistryWrite {
    let version = random.i32(0..3);
    match random.u32(0..10) {
        0 => RegistryWrite::Check(key(random), version),
        1 => RegistryWrite::Absent(key(random)),
        2..6 => RegistryWrite::Create(record(random)),
        6..8 => RegistryWrite::Set(record(random), random.bool().then_some(version)),
        _ => RegistryWrite::Delete(key(random), version),
    }
}

/// What a registry says of everything in it, but for times.
#[derive(Debug, PartialEq)]
struct Contents {
    names: [Vec<NodeName>; 3],
    next: u64,
    leafs: Vec<(NodeName, Result<LeafRecord, String>, i32)>,
    holders: Vec<(NodeName, Result<HolderRecord, String>, i32)>,
    /// In the order in which they were made.
    made: Vec<NodeName>,
}

async fn contents(session: &dyn RegistrySession) -> Contents {
    let (owned, next) = session.owned().await.unwrap();
    let (live, free) = (session.live().await.unwrap(), session.free().await.unwrap());
    let entries = session.entries(&owned).await.unwrap();
    let leafs = entries.iter().map(|it| (it.name.clone(), it.leaf.value.clone(), it.leaf.version));
    let leafs = leafs.collect();
    let holders = entries.iter().filter_map(|it| {
        let holder = it.holder.as_ref()?;
        Some((it.name.clone(), holder.value.clone(), holder.version))
    });
    let holders = holders.collect();
    let mut made: Vec<_> = entries.iter().collect();
    made.sort_by_key(|entry| (entry.leaf.created, entry.name.clone()));
    let made = made.into_iter().map(|entry| entry.name.clone()).collect();
    Contents { names: [owned, live, free], next, leafs, holders, made }
}

fn modelled(tree: &Tree, next: u64) -> Contents {
    let names = [Folder::Owned, Folder::Live, Folder::Free].map(|folder| tree.names(folder));
    let leaf = |name: &NodeName| (name.clone(), tree.leaf(name).unwrap());
    let leafs: Vec<_> = names[0].iter().map(leaf).collect();
    let mut made: Vec<_> = leafs.iter().collect();
    made.sort_by_key(|(name, leaf)| (leaf.created, name.clone()));
    let made = made.into_iter().map(|(name, _)| name.clone()).collect();
    let leafs = leafs.into_iter().map(|(name, leaf)| (name, leaf.value, leaf.version)).collect();
    let holders = names[0].iter().filter_map(|name| Some((name.clone(), tree.holder(name)?)));
    let holders = holders.map(|(name, holder)| (name, holder.value, holder.version)).collect();
    Contents { names, next, leafs, holders, made }
}

/// The claim was tested with the model, so whatever holds there holds here.
#[tokio::test]
async fn any_writes_have_the_outcome_that_they_have_in_the_model_of_the_claims_tests() {
    let (mut done, mut refused) = (0, 0);
    for seed in 0..30 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (folder, host) = (tempfile::tempdir().unwrap(), TestHost::default());
        let session = session(&folder, &host).await;
        let (mut tree, mut next) = (Tree::new(LAYOUT), 0);
        for _ in 0..60 {
            if random.u32(0..10) == 0 {
                let made = session.create("a", &leaf(7)).await;
                // In the tree, every node that is made uses up a number; in the table, these alone do.
                let expected = NodeName::new("a", next);
                let creates =
                    [RegistryWrite::Create(RegistryRecord::Leaf(expected.clone(), leaf(7)))];
                match tree.execute(&creates, 1, 0) {
                    true => {
                        assert_eq!(made, Ok(expected));
                        next += 1;
                    }
                    false => assert_eq!(made, Err(RegistryError::Conflict)),
                }
                continue;
            }
            let writes: Vec<_> = (0..random.usize(1..4)).map(|_| write(&mut random)).collect();
            let is_done = tree.execute(&writes, 1, 0);
            let expected = if is_done { Ok(()) } else { Err(RegistryError::Conflict) };
            assert_eq!(session.commit(&writes).await, expected, "seed {seed}: {writes:?}");
            (done, refused) = (done + u32::from(is_done), refused + u32::from(!is_done));
            assert_eq!(contents(&session).await, modelled(&tree, next), "seed {seed}: {writes:?}");
        }
    }
    println!("{done} commits, {refused} conflicts");
    assert!(done > 200 && refused > 200, "{done} commits, {refused} conflicts");
}

#[tokio::test]
async fn a_marker_outlasts_its_session_for_as_long_as_that_lasts_and_is_then_removed() {
    let (folder, host) = (tempfile::tempdir().unwrap(), TestHost::default());
    let (other, name) = (session(&folder, &host).await, NodeName::new("a", 0));
    let record = LiveRecord { version: VERSION, nonce: "n".into(), ip: "::1".into(), port: 1 };
    let live = RegistryRecord::Live(name.clone(), record);
    let own = std::slice::from_ref(&name);
    let owner = session(&folder, &host).await;
    owner.commit(&[RegistryWrite::Create(live)]).await.unwrap();
    assert_eq!(other.live().await.unwrap(), own);
    host.pass(LASTS_MS);
    owner.commit(&[RegistryWrite::Check(Key::live(&name), 0)]).await.unwrap();
    host.pass(LASTS_MS);
    assert_eq!(other.live().await.unwrap(), own, "it has given a sign of life");
    // Only the session that made it can.
    let check = [RegistryWrite::Check(Key::live(&name), 0)];
    assert_eq!(other.commit(&check).await, Err(RegistryError::Conflict));
    drop(owner);
    host.pass(LASTS_MS + 1);
    let newcomer = session(&folder, &host).await;
    assert_eq!(newcomer.live().await.unwrap(), own, "it has seen it once");
    assert_eq!(other.live().await.unwrap(), []);
    assert_eq!(newcomer.live().await.unwrap(), []);
}

#[tokio::test]
async fn what_was_deleted_is_a_conflict_until_it_is_prepared_again() {
    let (folder, host) = (tempfile::tempdir().unwrap(), TestHost::default());
    let session = session(&folder, &host).await;
    let run = |text: &'static str| {
        session.write(move |_, link| Box::pin(async move { Ok(link.run(text).await?) }))
    };
    run("DELETE FROM leafd_worker_fleet; DELETE FROM leafd_worker").await.unwrap();
    assert_eq!(session.clock().await.unwrap_err(), RegistryError::Conflict);
    assert_eq!(session.create("a", &leaf(0)).await, Err(RegistryError::Conflict));
    session.prepare().await.unwrap();
    assert_eq!(session.create("a", &leaf(0)).await, Ok(NodeName::new("a", 0)));
    let layout = session.fleet().await.unwrap().unwrap().value.unwrap().layout;
    assert_eq!(layout, LAYOUT);
}

#[tokio::test]
async fn after_a_failure_the_session_has_ended_and_says_why() {
    let (folder, host) = (tempfile::tempdir().unwrap(), TestHost::default());
    let session = session(&folder, &host).await;
    let run = |text: &'static str| {
        session.write(move |_, link| Box::pin(async move { Ok(link.run(text).await?) }))
    };
    run("DROP TABLE leafd_worker").await.unwrap();
    assert!(session.is_connected());
    let RegistryError::Failed(why) = session.live().await.unwrap_err() else { panic!() };
    assert!(why.contains("sqlite /") && why.contains("leafd_worker"), "{why}");
    assert!(!session.is_connected());
    let RegistryError::Failed(why) = session.clock().await.unwrap_err() else { panic!() };
    assert!(why.contains("the connection has ended"), "{why}");
}

#[tokio::test]
async fn a_file_that_was_replaced_ends_the_session() {
    let (folder, host) = (tempfile::tempdir().unwrap(), TestHost::default());
    let session = session(&folder, &host).await;
    let path = folder.path().join("workers.db");
    std::fs::rename(&path, folder.path().join("old.db")).unwrap();
    std::fs::write(&path, "").unwrap();
    let RegistryError::Failed(why) = session.clock().await.unwrap_err() else { panic!() };
    assert!(why.contains("the file was replaced or removed"), "{why}");
    assert!(!session.is_connected());
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_any_more_is_made_and_costs_no_connection() {
    let (folder, host) = (tempfile::tempdir().unwrap(), TestHost::default());
    let session = session(&folder, &host).await;
    let record = leaf(0);
    let mut call = session.create("a", &record);
    assert!(futures_util::poll!(&mut call).is_pending());
    drop(call);
    let (owned, next) = session.owned().await.unwrap();
    assert_eq!((owned, next), (vec![NodeName::new("a", 0)], 1));
}

#[tokio::test]
async fn nothing_is_reported_into_a_file_that_was_removed() {
    let (folder, host) = (tempfile::tempdir().unwrap(), TestHost::default());
    let session = session(&folder, &host).await;
    let name = session.create("a", &leaf(0)).await.unwrap();
    std::fs::remove_file(folder.path().join("workers.db")).unwrap();
    let report = [RegistryWrite::Set(RegistryRecord::Leaf(name, leaf(1)), Some(0))];
    let RegistryError::Failed(why) = session.commit(&report).await.unwrap_err() else { panic!() };
    assert!(why.contains("replaced or removed"), "{why}");
    assert!(!session.is_connected());
}

#[tokio::test]
async fn a_call_that_panics_ends_the_session() {
    let (folder, host) = (tempfile::tempdir().unwrap(), TestHost::default());
    let session = session(&folder, &host).await;
    let outcome: Result<(), _> =
        session.read(|_, _| Box::pin(async { panic!("as a library may") })).await;
    assert!(matches!(outcome, Err(RegistryError::Failed(_))), "{outcome:?}");
    assert!(!session.is_connected());
}

#[tokio::test]
async fn a_row_that_somebody_has_changed_is_named_and_makes_nothing_overflow() {
    for version in ["2147483647", "-1"] {
        let (folder, host) = (tempfile::tempdir().unwrap(), TestHost::default());
        let session = session(&folder, &host).await;
        let name = session.create("a", &leaf(0)).await.unwrap();
        let update = format!("UPDATE leafd_worker SET version = {version} WHERE path <> 'leafd'");
        let run =
            session.write(move |_, link| Box::pin(async move { Ok(link.run(&update).await?) }));
        run.await.unwrap();
        let RegistryError::Failed(why) = session.entries(&[name]).await.unwrap_err() else {
            panic!()
        };
        for part in ["forever/a-0000000000", version, "is not a row that leafd writes"] {
            assert!(why.contains(part), "{part}: {why}");
        }
    }
}
