//! leafd next to an imitation of Java Leaf that behaves like the real one: it takes its node back and
//! leaves leafd's record as it was, keeps issuing during an outage of ZooKeeper and reports late
//! afterwards, and is restarted by its supervisor at any time. The tests compare all IDs of both.

use std::time::{Duration, Instant};

use leaf_client::wire::{ErrorCode, Run, WireError, WorkerState, WorkerStatus};
use leaf_client::{Error, blocking};
use leafd_tests::collector::SnowflakeCollector;
use leafd_tests::daemon::Home;
use leafd_tests::faketime::FakeTime;
use leafd_tests::workers::{SnowflakeCaller, instance};
use leafd_tests::zookeeper::java_leaf::{Issued, Refusal, Running, duplicates, forever};
use leafd_tests::zookeeper::{JavaLeaf, Tree};
use leafd_tests::{Ensemble, UniqueIds};
use tempfile::TempDir;

/// Time limit for anything a test waits for. No test measures time by it.
const PATIENCE: Duration = Duration::from_secs(120);

const NAME: &str = "leaf";
const IP: &str = "10.0.0.1";
const PORT: u16 = 8080;
const IDENTITY: &str = "10.0.0.1:8080";

/// The refusal of a leafd that has not yet watched a Java Leaf's node for long enough.
const WROTE: &str = "something that is not a leafd wrote the node";

struct Site {
    servers: String,
    folders: Vec<TempDir>,
}

impl Site {
    fn of(ensemble: &Ensemble) -> Self {
        Self { servers: ensemble.fresh_chroot(), folders: Vec::new() }
    }

    /// A leafd with an empty state directory.
    fn leafd(&mut self, identity: &str) -> Home {
        self.folders.push(tempfile::tempdir().unwrap());
        let folder = self.folders.last().unwrap().path();
        // Each failed call restarts the observation, so give a slow machine time.
        instance(folder, &self.servers, identity)
            .with("WORKER_JAVA_LEAF", "true")
            .with("ZOOKEEPER_TIMEOUT", "3s")
    }

    fn java(&self) -> JavaLeaf {
        JavaLeaf::at(&self.servers, NAME, IP, PORT)
    }

    fn nodes(&self) -> Vec<String> {
        Tree::at(&self.servers).children(&forever(NAME))
    }
}

fn wait_until(what: &str, home: &Home, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < PATIENCE, "timed out: {what}\n{}", home.log());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Starts the Java Leaf as soon as the clock has passed the time that leafd recorded.
fn start(java: &JavaLeaf, home: &Home) -> Running {
    let mut running = None;
    wait_until("the recorded time passes", home, || {
        match java.start() {
            Ok(it) => running = Some(it),
            Err(Refusal::Clock { .. }) => {}
            Err(refusal) => panic!("{refusal}"),
        }
        running.is_some()
    });
    running.unwrap()
}

fn reports(java: &Running, home: &Home, count: u64) {
    let before = java.reports();
    wait_until("reports", home, || java.reports() >= before + count);
}

fn customer(home: &Home) -> SnowflakeCaller {
    SnowflakeCaller::of(home, &UniqueIds::default())
}

/// Waits until 2,000 more IDs have come. Returns all that came.
fn works(asker: SnowflakeCollector, home: &Home) -> Vec<Run> {
    let before = asker.count();
    wait_until("IDs", home, || asker.count() > before + 2000);
    asker.finish()
}

/// Asks again until ZooKeeper answers the daemon in time.
fn asked<T>(home: &Home, mut ask: impl FnMut() -> Result<T, Error>) -> Result<T, WireError> {
    let mut outcome = None;
    wait_until("an answer", home, || {
        match ask() {
            Ok(value) => outcome = Some(Ok(value)),
            Err(Error::Refused(error)) if error.code() != ErrorCode::RegistryUnavailable => {
                outcome = Some(Err(error));
            }
            Err(error) => assert!(error.is_temporary(), "{error}"),
        }
        outcome.is_some()
    });
    outcome.unwrap()
}

fn status(client: &mut blocking::Client, home: &Home, worker: u64) -> WorkerStatus {
    let all = asked(home, || client.worker_list(0, 100)).unwrap();
    all.into_iter().find(|status| status.worker == worker).unwrap()
}

/// Asks for a release, which must be refused. Returns after which time to ask again.
fn is_in_use(client: &mut blocking::Client, home: &Home) -> Duration {
    let error = asked(home, || client.worker_release(0, IDENTITY)).unwrap_err();
    assert!(error.code() == ErrorCode::WorkerInUse && error.retry_after_ms > 0, "{error:?}");
    Duration::from_millis(u64::from(error.retry_after_ms))
}

#[test]
fn a_java_leaf_that_took_its_node_back_is_live_and_its_worker_id_is_released_only_when_it_is_gone()
{
    let mut site = Site::of(Ensemble::shared());
    let [first, other] = [IDENTITY, "host-2"].map(|identity| site.leafd(identity));
    let daemon = first.start();
    assert_eq!(customer(&first).gets(1000), 0);
    daemon.stop();
    let java = start(&site.java(), &first);
    reports(&java, &first, 1);
    let daemon = other.start();
    let _ = customer(&other).gets(1);
    let mut client = daemon.client();
    let shown = status(&mut client, &other, 0);
    assert!(shown.live && shown.state == WorkerState::JavaLeaf, "{shown:?}");
    let retry_after = is_in_use(&mut client, &other);
    // By then the daemon has watched the node for as long as it asked for.
    std::thread::sleep(retry_after + Duration::from_secs(1));
    assert!(status(&mut client, &other, 0).live);
    is_in_use(&mut client, &other);
    let issued = java.stop();
    is_in_use(&mut client, &other);
    let mut released = None;
    wait_until("it is released", &other, || {
        std::thread::sleep(Duration::from_millis(500));
        released = asked(&other, || client.worker_release(0, IDENTITY)).ok();
        released.is_some()
    });
    let released = released.unwrap();
    assert_eq!((released.state, released.live), (WorkerState::Released, false));
    assert!(released.ceiling_unix_ms > issued.until_ms, "{released:?}, {issued:?}");
}

#[test]
fn an_outage_of_zookeeper_is_not_mistaken_for_a_quiet_java_leaf() {
    let ensemble = Ensemble::single();
    let mut site = Site::of(&ensemble);
    let home = site.leafd(IDENTITY);
    // The latest return that Java Leaf's client allows.
    let java = site.java().with_late_return(Duration::from_secs(18)).start().unwrap();
    let _daemon = home.start();
    let asker = SnowflakeCollector::of(&home);
    customer(&home).is_refused("is being written by something that is not a leafd");
    let before = java.reports();
    ensemble.kill_all();
    std::thread::sleep(Duration::from_secs(13));
    ensemble.start_all();
    wait_until("it writes again", &home, || java.reports() > before);
    reports(&java, &home, 2);
    assert_eq!(asker.count(), 0, "{}", home.log());
    let issued = java.stop();
    let runs = works(asker, &home);
    assert_eq!(duplicates(&[issued], &runs), 0);
    assert_eq!(site.nodes().len(), 1);
}

#[test]
fn leafd_remembers_a_java_leaf_through_kills_and_restarts_without_zookeeper() {
    let ensemble = Ensemble::single();
    let mut site = Site::of(&ensemble);
    let home = site.leafd(IDENTITY);
    let daemon = home.start();
    assert_eq!(customer(&home).gets(1000), 0);
    let java = start(&site.java(), &home);
    customer(&home).is_refused("something that is not a leafd writes the node");
    // Only what is issued from now on counts: until leafd noticed, both issued.
    let asker = SnowflakeCollector::of(&home);
    ensemble.kill_all();
    daemon.kill();
    for _ in 0..2 {
        let daemon = home.start();
        customer(&home).is_refused(WROTE);
        daemon.kill();
    }
    let daemon = home.start();
    customer(&home).is_refused(WROTE);
    ensemble.start_all();
    reports(&java, &home, 2);
    customer(&home).is_refused("something that is not a leafd writes the node");
    assert_eq!(asker.count(), 0, "{}", home.log());
    let issued = java.stop();
    let runs = works(asker, &home);
    assert_eq!(duplicates(&[issued], &runs), 0);
    // The worker ID belongs to this state directory again.
    ensemble.kill_all();
    daemon.kill();
    let _daemon = home.start();
    assert_eq!(customer(&home).gets(100), 0);
}

#[test]
fn an_empty_directory_makes_no_second_node_where_a_java_leaf_lives_on_a_former_leafds_node() {
    let mut site = Site::of(Ensemble::shared());
    let short =
        |home: Home| home.with("WORKER_FENCE_AFTER", "10s").with("WORKER_RECLAIM_AFTER", "20s");
    let first = short(site.leafd(IDENTITY));
    let daemon = first.start();
    assert_eq!(customer(&first).gets(1000), 0);
    daemon.stop();
    let java = start(&site.java(), &first);
    let home = short(site.leafd(IDENTITY));
    let _daemon = home.start();
    let asker = SnowflakeCollector::of(&home);
    customer(&home).is_refused("is being written by something that is not a leafd");
    // Its supervisor restarts it, and it takes the only node.
    let mut all: Vec<Issued> = vec![java.stop()];
    for _ in 0..2 {
        let java = start(&site.java(), &home);
        assert_eq!((java.worker(), site.nodes().len()), (0, 1));
        reports(&java, &home, 3);
        all.push(java.stop());
    }
    assert_eq!(asker.count(), 0, "{}", home.log());
    let runs = works(asker, &home);
    assert_eq!(duplicates(&all, &runs), 0);
    assert_eq!(site.nodes().len(), 1, "leafd did not join the node that the Java Leaf left");
}

/// Runs `leafd hand-back`. Returns whether it succeeded, and what it printed.
fn hand_back(home: &Home, more: &[&str]) -> (bool, String) {
    let output = home.command("leafd").arg("hand-back").args(more).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

#[test]
fn a_node_is_handed_back_once_the_clock_has_passed_its_time_and_leafd_leaves_it_alone() {
    let ensemble = Ensemble::single();
    let mut site = Site::of(&ensemble);
    let folder = tempfile::tempdir().unwrap();
    let clock = FakeTime::new(folder.path());
    let home = site.leafd(IDENTITY).with_clock(&clock);
    let java = site.java().with_file_in(folder.path());
    // An old file, which an operator forgot.
    std::fs::create_dir_all(java.file_folder().unwrap()).unwrap();
    std::fs::write(java.file_folder().unwrap().join("workerID.properties"), "workerID=0").unwrap();
    let asker = SnowflakeCollector::of(&home);
    let daemon = home.start();
    assert_eq!(customer(&home).gets(1000), 0);
    let (is_done, text) = hand_back(&home, &[]);
    assert!(!is_done && text.contains("locked"), "{text}");
    // The record is ahead of the clock, and the tree does not know all that was issued.
    clock.set_offset_ms(8000);
    assert_eq!(customer(&home).gets(1000), 0);
    daemon.kill();
    clock.set_offset_ms(0);
    let (is_done, text) = hand_back(&home, &[]);
    assert!(is_done, "{text}");
    for part in ["Java Leaf may start, and has worker ID 0", "leafconf/8080", "every 3 s"] {
        assert!(text.contains(part), "{text}");
    }
    // Something starts leafd by mistake before Java Leaf runs…
    for is_down in [true, false] {
        if is_down {
            ensemble.kill_all();
        }
        let daemon = home.start();
        customer(&home).is_refused("was handed back to Java Leaf");
        daemon.kill();
        if is_down {
            ensemble.start_all();
        }
    }
    assert_eq!(site.nodes().len(), 1);
    let java = java.start().unwrap();
    assert!(java.is_registered() && java.worker() == 0, "{java:?}");
    reports(&java, &home, 1);
    // …or while it runs.
    let daemon = home.start();
    customer(&home).is_refused("something that is not a leafd wr");
    ensemble.kill_all();
    daemon.kill();
    let _daemon = home.start();
    customer(&home).is_refused(WROTE);
    ensemble.start_all();
    reports(&java, &home, 2);
    let issued = java.stop();
    let runs = works(asker, &home);
    assert_eq!(duplicates(&[issued], &runs), 0);
    assert_eq!(site.nodes().len(), 1);
}

#[test]
fn a_java_leaf_that_refuses_a_recorded_time_runs_on_its_file_and_leafd_goes_on_after_an_undo() {
    let mut site = Site::of(Ensemble::shared());
    let folder = tempfile::tempdir().unwrap();
    let home = site.leafd(IDENTITY);
    let daemon = home.start();
    assert_eq!(customer(&home).gets(1000), 0);
    daemon.stop();
    // A hand-back prevents this: a Java Leaf that runs unregistered on its file.
    let files = site.java().with_file_in(folder.path()).file_folder().unwrap();
    std::fs::create_dir_all(&files).unwrap();
    std::fs::write(files.join("workerID.properties"), "workerID=7").unwrap();
    let behind = site.java().with_file_in(folder.path()).with_clock(-60_000);
    let unseen = behind.start().unwrap();
    assert!(!unseen.is_registered() && unseen.worker() == 7, "{unseen:?}");
    drop(unseen);
    let (is_done, text) = hand_back(&home, &["--undo"]);
    assert!(is_done && text.contains("nothing to undo"), "{text}");
    let (is_done, text) = hand_back(&home, &[]);
    assert!(is_done, "{text}");
    // A second hand-back changes nothing.
    assert!(hand_back(&home, &[]).0);
    let (is_done, text) = hand_back(&home, &["--undo"]);
    assert!(is_done, "{text}");
    let _daemon = home.start();
    assert_eq!(customer(&home).gets(1000), 0);
    // With an identity that no Java Leaf has, there is nothing to hand back.
    let other = site.leafd("host-7");
    other.start().stop();
    let (is_done, text) = hand_back(&other, &[]);
    assert!(!is_done && text.contains("IP:PORT"), "{text}");
}
