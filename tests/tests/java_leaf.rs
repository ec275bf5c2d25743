//! Java Leaf and leafd on the same rows. No ID is issued twice, and none is skipped. Java Leaf is a
//! stand-in with its statements and its rules.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use leaf_client::wire::{ErrorCode, TagStatus};
use leafd_tests::daemon::Home;
use leafd_tests::database::Kind;
use leafd_tests::java_leaf::JavaLeaf;
use leafd_tests::load::Load;
use leafd_tests::{Daemon, Database, UniqueIds};

const TAGS: [&str; 2] = ["orders", "users"];

/// The step of both rows.
const STEP: u64 = 50;

/// Ranges that a Java Leaf leases of each tag before it is restarted. Its step has grown to 6400 by
/// then, and a larger one would make leases rare.
const LOADS: u64 = 9;

/// How long a test waits for anything here before it fails. No test measures time with it.
const PATIENCE: Duration = Duration::from_secs(120);

/// The figures of all lives of a Java Leaf.
#[derive(Debug, Default)]
struct Lives {
    count: u64,
    loads: u64,
    failed: u64,
    uncertain: u64,
    /// IDs that were in memory at a restart.
    lost: u64,
}

/// A Java Leaf that issues IDs as fast as it can, and is restarted repeatedly.
struct Java {
    stop: Arc<AtomicBool>,
    loads: Arc<AtomicU64>,
    thread: JoinHandle<Lives>,
}

impl Java {
    fn start(database: &Arc<Database>, seen: &UniqueIds) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let loads = Arc::new(AtomicU64::new(0));
        let (database, seen) = (Arc::clone(database), seen.clone());
        let (stopped, counted) = (Arc::clone(&stop), Arc::clone(&loads));
        let thread = std::thread::spawn(move || {
            let mut lives = Lives::default();
            while !stopped.load(Ordering::Relaxed) {
                let before = lives.loads;
                live(&database, &seen, &stopped, &mut lives);
                counted.fetch_add(lives.loads - before, Ordering::Relaxed);
            }
            lives
        });
        Self { stop, loads, thread }
    }

    fn finish(self) -> Lives {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// One life of a Java Leaf. The IDs left in its memory are recorded as if a client had received them.
fn live(database: &Database, seen: &UniqueIds, stop: &AtomicBool, lives: &mut Lives) {
    let mut java = JavaLeaf::new(database);
    while java.loads() < LOADS * TAGS.len() as u64 && !stop.load(Ordering::Relaxed) {
        for tag in TAGS {
            match java.get(tag) {
                Ok(id) => seen.add_run(tag, id, 1),
                Err(_) => {
                    lives.failed += 1;
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
        }
    }
    for tag in TAGS {
        let (first, count) = java.left(tag);
        if count > 0 {
            seen.add_run(tag, first, count);
            lives.lost += count;
        }
    }
    lives.count += 1;
    lives.loads += java.loads();
    lives.uncertain += java.uncertain();
}

/// Two Java Leafs and two leafds on the same two rows.
struct Company {
    database: Arc<Database>,
    seen: UniqueIds,
    javas: Vec<Java>,
    daemons: Vec<(Daemon, Load)>,
    _folder: tempfile::TempDir,
}

impl Company {
    fn start(database: Database) -> Self {
        let database = Arc::new(database);
        database.create_table();
        for tag in TAGS {
            database.insert_tag(tag, 1, i32::try_from(STEP).unwrap());
        }
        let seen = UniqueIds::default();
        let folder = tempfile::tempdir().unwrap();
        let daemons = ["1", "2"].map(|number| {
            let home = Home::new(&folder.path().join(number))
                .with_database(&database)
                .with("STATE_MACHINE_ID", number)
                .with("WORKER_ID", number)
                // Otherwise the step would grow until there are hardly any leases.
                .with("SEGMENT_MAX_STEP", "2000");
            let options = home.options().timeout(PATIENCE);
            (home.start(), Load::start(&options, &seen, &TAGS, 500))
        });
        let javas = (0..2).map(|_| Java::start(&database, &seen)).collect();
        Self { database, seen, javas, daemons: daemons.into(), _folder: folder }
    }

    /// How many ranges each has leased so far; Java Leafs first.
    fn leases(&self) -> Vec<u64> {
        let javas = self.javas.iter().map(|java| java.loads.load(Ordering::Relaxed));
        let daemons = self.daemons.iter().map(|(daemon, _)| daemon.client().status());
        javas.chain(daemons.map(|status| status.unwrap().segments.leases)).collect()
    }

    fn wait_for_leases(&self, each: u64) {
        let began = Instant::now();
        loop {
            let leases = self.leases();
            if leases.iter().all(|leases| *leases >= each) {
                return;
            }
            for (daemon, load) in &self.daemons {
                assert!(!load.is_broken(), "{}", daemon.home().log());
            }
            let ended = self.javas.iter().any(|java| java.thread.is_finished());
            assert!(!ended && began.elapsed() < PATIENCE, "leases: {leases:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Stops all clients and the Java Leafs, and takes all IDs from the daemons' memory.
    fn finish(self) -> (UniqueIds, Vec<Lives>) {
        let lives = self.javas.into_iter().map(Java::finish).collect();
        let daemons = self.daemons.into_iter().map(|(daemon, load)| {
            assert_eq!(load.finish(), 0, "a call failed\n{}", daemon.home().log());
            daemon
        });
        let daemons: Vec<_> = daemons.collect();
        // This ends all leases, and leaves none half done: a refused lease is rolled back.
        self.database.revoke();
        std::thread::scope(|scope| {
            for (daemon, tag) in daemons.iter().flat_map(|daemon| TAGS.map(|tag| (daemon, tag))) {
                let seen = &self.seen;
                scope.spawn(move || drain(daemon, tag, seen));
            }
        });
        daemons.into_iter().for_each(|daemon| drop(daemon.stop()));
        (self.seen, lives)
    }
}

/// Takes all IDs from a daemon's memory.
fn drain(daemon: &Daemon, tag: &str, seen: &UniqueIds) {
    let options = daemon.home().options().timeout(Duration::from_secs(3));
    let mut client = leaf_client::blocking::Client::new(options);
    let began = Instant::now();
    loop {
        match client.next_many(tag, 1) {
            Ok(ids) => seen.add(tag, &ids),
            Err(error) if error.code() == Some(ErrorCode::StoreUnavailable) => return,
            Err(error) => assert!(error.is_temporary() && began.elapsed() < PATIENCE, "{error}"),
        }
    }
}

fn max_id(database: &Database, tag: &str) -> u64 {
    database.max_id(tag).cast_unsigned()
}

#[test]
fn java_leaf_and_leafd_on_the_same_rows_give_every_id_below_max_id_once() {
    for kind in Kind::ALL {
        let company = Company::start(Database::shared(kind).fresh());
        company.wait_for_leases(200);
        let (leases, database) = (company.leases(), Arc::clone(&company.database));
        let (seen, lives) = company.finish();
        println!("{kind:?}: {} IDs, leases {leases:?}, Java Leaf {lives:?}", seen.total());
        for tag in TAGS {
            let max_id = max_id(&database, tag);
            assert_eq!(seen.highest(tag), Some(max_id - 1), "{tag}");
            assert_eq!(seen.count(tag), max_id - 1, "{tag}: IDs were skipped");
        }
        let failed: u64 = lives.iter().map(|lives| lives.failed).sum();
        assert_eq!(failed, 0, "{lives:?}");
    }
}

#[test]
fn java_leaf_and_leafd_give_no_id_twice_while_their_database_restarts() {
    const RESTARTS: u64 = 4;
    for kind in Kind::ALL {
        let company = Company::start(Database::start(kind));
        for restart in 1..=RESTARTS {
            company.wait_for_leases(restart * 30);
            if restart % 2 == 0 {
                company.database.restart();
            } else {
                company.database.kill();
                company.database.start_again();
            }
        }
        company.wait_for_leases((RESTARTS + 1) * 30);
        let (leases, database) = (company.leases(), Arc::clone(&company.database));
        let (seen, lives) = company.finish();
        let lost = |tag: &&str| max_id(&database, tag) - 1 - seen.count(tag);
        let lost: Vec<_> = TAGS.iter().map(lost).collect();
        println!(
            "{kind:?}: {} IDs, leases {leases:?}, Java Leaf {lives:?}, lost in commits that the \
             end of the database left without an answer: {lost:?}",
            seen.total(),
        );
        for (tag, lost) in TAGS.iter().zip(lost) {
            assert!(seen.highest(tag) < Some(max_id(&database, tag)), "{tag}");
            // Each of the four may have had a lease of at most this size in flight.
            let largest = STEP << (LOADS - 1);
            assert!(lost <= RESTARTS * 4 * largest, "{tag}: {lost} IDs were skipped");
        }
    }
}

/// Waits until the daemon has leased this often, and calls `meanwhile` repeatedly until then.
fn shown(daemon: &Daemon, leases: u64, mut meanwhile: impl FnMut()) -> TagStatus {
    let began = Instant::now();
    loop {
        let tag = daemon.client().tag_show("orders").unwrap();
        if tag.leases >= leases {
            return tag;
        }
        assert!(began.elapsed() < PATIENCE, "{tag:?}\n{}", daemon.home().log());
        meanwhile();
    }
}

#[test]
fn a_step_changed_in_the_row_applies_from_the_next_lease_on() {
    for kind in Kind::ALL {
        let database = Database::shared(kind).fresh();
        database.create_table();
        database.insert_tag("orders", 1, 10);
        let folder = tempfile::tempdir().unwrap();
        let daemon = Home::new(folder.path()).with_database(&database).start();
        let mut client = daemon.client();
        let mut java = JavaLeaf::new(&database);
        let seen = UniqueIds::default();
        // leafd leases the second range ahead, and the third once the first is used up.
        seen.add("orders", &client.next_many("orders", 1).unwrap());
        let tag = shown(&daemon, 2, || {});
        assert_eq!((tag.leases, tag.row_step, tag.last_lease_size), (2, 10, 10), "{tag:?}");
        for (leases, step) in [(3, 700), (4, 70_000)] {
            database.sql(&format!("UPDATE leaf_alloc SET step = {step} WHERE biz_tag = 'orders'"));
            let tag = shown(&daemon, leases, || {
                seen.add("orders", &client.next_many("orders", 1).unwrap());
                seen.add_run("orders", java.get("orders").unwrap(), 1);
            });
            let found = (tag.leases, tag.row_step, tag.last_lease_size);
            assert_eq!(found, (leases, step, step), "{tag:?}");
        }
        // From its third range on, Java Leaf sizes ranges by its own rule, so this checks the row's step
        // that it read.
        assert!(java.last_load("orders").is_some_and(|(_, row_step)| row_step >= 700), "{java:?}");
    }
}
