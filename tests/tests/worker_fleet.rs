//! Many instances on one registry: started together, and under load while everything that can fail
//! does. No ID comes twice, and in the end every instance serves.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use leaf_client::Layout;
use leafd_tests::daemon::Home;
use leafd_tests::load::{SNOWFLAKE, add};
use leafd_tests::long::short_or_long;
use leafd_tests::registry::RegistryKind;
use leafd_tests::workers::{BatchLoad, SnowflakeCaller, instance};
use leafd_tests::{Daemon, Proxies, TestRegistry, UniqueIds, on_every_registry, with_each};
use tempfile::TempDir;

/// Instances of the storm, each a host of its own.
const HOSTS: u32 = 8;

/// What the storm has to come to.
struct Storm {
    /// It lasts at least this long…
    lasts: Duration,
    /// …and until this many IDs have been received…
    ids: u64,
    /// …and daemons and their networks have failed this often…
    deeds: u64,
    /// …but not for longer than this: by then a slow machine has to have received `few_ids`.
    longest: Duration,
    few_ids: u64,
}

/// Longer than a takeover takes, the longest thing that happens in it.
const SHORT: Storm = Storm {
    lasts: Duration::from_secs(40),
    ids: 10_000_000,
    deeds: 25,
    longest: Duration::from_secs(120),
    few_ids: 5_000_000,
};

const SHORT_OF_ONE: Storm = Storm {
    lasts: Duration::from_secs(25),
    ids: 5_000_000,
    deeds: 15,
    few_ids: 2_000_000,
    ..SHORT
};

const LONG: Storm = Storm {
    lasts: Duration::from_secs(90),
    ids: 50_000_000,
    deeds: 50,
    longest: Duration::from_secs(150),
    few_ids: 20_000_000,
};

/// Time limit for anything a test waits for. No test measures time by it.
const PATIENCE: Duration = Duration::from_secs(120);

/// One worker ID for each host: an instance that lost its state must take over one that its owner has
/// left for long enough.
const FEW_WORKERS: &str = "47/3/13@1288834974657/1ms";

/// How often each fault was injected, by its name and duration.
type Deeds = BTreeMap<(&'static str, &'static str), u64>;

fn done(deeds: &mut Deeds, deed: &'static str, length: &'static str) {
    *deeds.entry((deed, length)).or_default() += 1;
}

/// Durations (ms) of faults of a daemon or its network. Sessions end after 2 s, the right to a worker ID
/// ends 10 s after the last report, and another host may take it over after 20 s.
const PAUSES: [(&str, RangeInclusive<u64>); 4] = [
    ("short", 100..=1500),
    ("longer than a session", 2500..=6000),
    ("longer than the fence", 11_000..=14_000),
    ("long enough for a takeover", 21_000..=28_000),
];

fn pause(deeds: &mut Deeds, deed: &'static str) -> Duration {
    let kind = [0, 0, 0, 1, 1, 2, 3, 3][fastrand::usize(..8)];
    let (length, range) = &PAUSES[kind];
    done(deeds, deed, length);
    Duration::from_millis(fastrand::u64(range.clone()))
}

/// Duration of a fault of a server: often shorter than a session, sometimes longer than the fence.
fn server_pause() -> Duration {
    let (_, range) = &PAUSES[[0, 0, 0, 1, 1, 2][fastrand::usize(..6)]];
    Duration::from_millis(fastrand::u64(range.clone()))
}

on_every_registry! {
    twenty_daemons_that_start_at_the_same_instant_get_twenty_worker_ids_and_keep_them,
    no_id_comes_twice_in_a_storm_and_everybody_serves_afterwards,
}

fn twenty_daemons_that_start_at_the_same_instant_get_twenty_worker_ids_and_keep_them(
    kind: &'static dyn RegistryKind,
) {
    let registry = TestRegistry::alone(kind, 3);
    let port = fastrand::u16(10_000..30_000);
    let seen = UniqueIds::default();
    let folders: Vec<TempDir> = (0..20).map(|_| tempfile::tempdir().unwrap()).collect();
    // Each host has an address of its own, which is its identity.
    let homes = folders.iter().zip(1..).map(|(folder, number)| {
        let home = registry.access().apply(Home::new(folder.path()));
        let address = format!("127.0.1.{number}");
        home.with_peer(&format!("{address}:{port}")).with("PEER_ADVERTISE", &address)
    });
    let homes: Vec<Home> = homes.collect();
    let live = || -> (Vec<u64>, Vec<usize>) {
        let daemons: Vec<Daemon> = homes.iter().map(Home::spawn).collect();
        let batches: Vec<BatchLoad> =
            homes.iter().map(|home| BatchLoad::of(home, Layout::LEAF, &seen)).collect();
        let workers = batches.into_iter().zip(&homes).map(|(batches, home)| {
            batches.are_served(home);
            let workers = batches.finish().workers;
            assert_eq!(workers.len(), 1, "{workers:?}\n{}", home.log());
            workers.into_iter().next().unwrap()
        });
        let workers = workers.collect();
        std::thread::scope(|scope| {
            let stops = daemons.into_iter().map(|daemon| scope.spawn(|| daemon.stop()));
            let stops: Vec<_> = stops.collect();
            let new = "is new; used in a few seconds";
            let new = stops.into_iter().map(|stop| stop.join().unwrap().count(new));
            (workers, new.collect())
        })
    };
    let (workers, new) = live();
    println!("{}: worker IDs {workers:?}, {} IDs", kind.name(), seen.count(SNOWFLAKE));
    assert_eq!(workers.iter().collect::<BTreeSet<_>>().len(), 20, "{workers:?}");
    assert_eq!(live(), (workers.clone(), new), "the second start needs no new worker ID");
    let identities = registry.workers().into_iter().map(|row| (row.owner, row.worker));
    let identities: BTreeSet<_> = identities.collect();
    for (number, worker) in (1..).zip(&workers) {
        let owner = format!("127.0.1.{number}:{port}");
        assert!(identities.contains(&(owner, *worker)), "{identities:?}");
    }
    println!("{} IDs after their second start", seen.count(SNOWFLAKE));
}

/// What a host's daemon does, and until when.
enum State {
    Runs(Daemon),
    Sleeps(Daemon, Instant),
    Down(Instant),
}

struct Host {
    home: Home,
    state: State,
    /// When the partition ends.
    cut_off: Option<Instant>,
    network: Proxies,
    batches: BatchLoad,
    _folder: TempDir,
}

impl Host {
    fn start(registry: &TestRegistry, number: u32, layout: Layout, seen: &UniqueIds) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (network, access) = registry.through_proxies();
        let home = instance(folder.path(), access, &format!("host-{number}"))
            .with("SNOWFLAKE_LAYOUT", FEW_WORKERS)
            .with("WORKER_FENCE_AFTER", "10s")
            .with("WORKER_RECLAIM_AFTER", "20s");
        let batches = BatchLoad::of(&home, layout, seen);
        let state = State::Runs(home.start());
        Self { home, state, cut_off: None, network, batches, _folder: folder }
    }

    /// Ends the faults whose time is over.
    fn recover(&mut self, now: Instant) {
        assert!(!self.batches.is_broken(), "a client has ended\n{}", self.home.log());
        if self.cut_off.is_some_and(|end| now >= end) {
            self.network.pass();
            self.cut_off = None;
        }
        let state = std::mem::replace(&mut self.state, State::Down(now));
        self.state = match state {
            State::Down(end) if now >= end => State::Runs(self.home.spawn()),
            State::Sleeps(daemon, end) if now >= end => {
                daemon.thaw();
                State::Runs(daemon)
            }
            state => state,
        };
    }

    /// Injects a fault into a running daemon or its network.
    fn disturb(&mut self, now: Instant, deeds: &mut Deeds) {
        if fastrand::u8(..3) == 0 {
            return self.cut_off(now, deeds);
        }
        let state = std::mem::replace(&mut self.state, State::Down(now));
        let State::Runs(daemon) = state else {
            self.state = state;
            return;
        };
        self.state = match fastrand::u8(..10) {
            0..3 => {
                daemon.kill();
                done(deeds, "daemons killed", "");
                State::Down(now + Duration::from_millis(fastrand::u64(..2000)))
            }
            // A program that has just started does not handle SIGTERM yet.
            3..5 if answers(&self.home) => {
                daemon.stop();
                done(deeds, "daemons stopped", "");
                State::Down(now + Duration::from_millis(fastrand::u64(..2000)))
            }
            5..8 => {
                daemon.freeze();
                State::Sleeps(daemon, now + pause(deeds, "daemons frozen"))
            }
            8..10 => {
                daemon.kill();
                // There is none if the daemon was killed before it made one.
                let _ = std::fs::remove_dir_all(self.home.state());
                assert!(!self.home.state().exists());
                done(deeds, "state directories lost", "");
                State::Down(now)
            }
            _ => State::Runs(daemon),
        };
    }

    fn cut_off(&mut self, now: Instant, deeds: &mut Deeds) {
        if self.cut_off.is_some() {
            return;
        }
        if fastrand::bool() {
            self.network.hold();
        } else {
            self.network.cut();
        }
        self.cut_off = Some(now + pause(deeds, "partitions"));
    }
}

fn answers(home: &Home) -> bool {
    let options = home.options().timeout(Duration::from_millis(200));
    leaf_client::blocking::Client::connect(options).is_ok()
}

/// One fault of the registry's servers, from its beginning to its end.
fn fail(registry: &TestRegistry, deeds: &mut Deeds) {
    let servers = registry.servers();
    let server = fastrand::usize(..registry.size());
    match fastrand::u8(..4) {
        0 => {
            servers.kill(server);
            std::thread::sleep(server_pause() / 4);
            servers.start_again(server);
            done(deeds, "servers killed", "");
        }
        1 => {
            servers.kill_all();
            std::thread::sleep(server_pause() / 4);
            servers.start_all();
            done(deeds, "times all servers killed", "");
        }
        2 => {
            servers.freeze(server);
            std::thread::sleep(server_pause());
            servers.thaw(server);
            done(deeds, "servers frozen", "");
        }
        _ => {
            servers.freeze_all();
            std::thread::sleep(server_pause());
            servers.thaw_all();
            done(deeds, "times all servers frozen", "");
        }
    }
}

/// The number of sessions in a log, and how many of them ended while the daemon lived.
fn sessions(log: &str) -> (usize, usize) {
    let lives = log.split("get an ID: ").skip(1);
    let of_each = lives.map(|life| life.matches(" session=").count());
    of_each.fold((0, 0), |(all, lost), count| (all + count, lost + count.saturating_sub(1)))
}

fn no_id_comes_twice_in_a_storm_and_everybody_serves_afterwards(kind: &'static dyn RegistryKind) {
    let registry = TestRegistry::alone(kind, 3);
    // A single server takes up less of the machine, and fails as a whole.
    let storm = short_or_long(if registry.size() > 1 { SHORT } else { SHORT_OF_ONE }, LONG);
    let seen = UniqueIds::default();
    let layout: Layout = FEW_WORKERS.parse().unwrap();
    let mut hosts: Vec<Host> =
        (1..=HOSTS).map(|number| Host::start(&registry, number, layout, &seen)).collect();
    hosts.iter().for_each(|host| host.batches.are_served(&host.home));
    let mut deeds = Deeds::new();
    let began = Instant::now();
    std::thread::scope(|scope| {
        let (over, calm) = channel::<()>();
        let registry = &registry;
        // Where the registry's clock may jump, an instance takes a worker ID over only after it has seen
        // it unchanged for 20 s, undisturbed. Servers that fail all the time prevent that.
        let failing_for = if registry.observes_ages() { storm.lasts / 2 } else { storm.longest };
        let failing = scope.spawn(move || {
            let mut deeds = Deeds::new();
            // Until the other end is dropped, by a panic as well.
            while calm.recv_timeout(server_pause() / 2) == Err(RecvTimeoutError::Timeout)
                && began.elapsed() < failing_for
            {
                fail(registry, &mut deeds);
            }
            deeds
        });
        loop {
            let enough = seen.total() >= storm.ids && deeds.values().sum::<u64>() >= storm.deeds;
            if began.elapsed() > storm.lasts && (enough || began.elapsed() > storm.longest) {
                break;
            }
            std::thread::sleep(Duration::from_millis(fastrand::u64(..600)));
            let now = Instant::now();
            hosts.iter_mut().for_each(|host| host.recover(now));
            fastrand::choice(&mut hosts).expect("hosts").disturb(now, &mut deeds);
        }
        drop(over);
        deeds.extend(failing.join().expect("the servers"));
    });
    let lasted = began.elapsed();
    let total = seen.total();

    registry.servers().wait_serving();
    for host in &mut hosts {
        let end = Instant::now() + PATIENCE;
        host.recover(end);
    }
    let calm = Instant::now();
    with_each(&hosts, |host| {
        // It may have to wait until the worker ID of a lost state can be taken over.
        host.batches.are_served(&host.home);
        SnowflakeCaller::of(&host.home, &seen).reports();
    });
    println!("{}: everybody was served {:.1?} after the storm", kind.name(), calm.elapsed());
    // A report that was late on a busy machine may make one look for its worker ID again.
    let began = Instant::now();
    loop {
        let status = |host: &Host| SnowflakeCaller::of(&host.home, &seen).status().worker;
        let held: Vec<Option<u64>> = hosts.iter().map(status).collect();
        let different: BTreeSet<u64> = held.iter().flatten().copied().collect();
        if different.len() == hosts.len() {
            break;
        }
        let logs = || hosts.iter().map(|host| host.home.log().to_string()).collect::<String>();
        assert!(began.elapsed() < PATIENCE, "{held:?}\n{}", logs());
        std::thread::sleep(Duration::from_millis(100));
    }
    let rows = registry.workers();
    let recorded: BTreeSet<_> = rows.iter().map(|row| row.worker).collect();
    assert_eq!(recorded.len(), rows.len(), "{rows:?}");

    let (mut failures, mut workers, mut opened, mut lost) = (BTreeMap::new(), Vec::new(), 0, 0);
    for host in hosts {
        let figures = host.batches.finish();
        add(&mut failures, &figures.failures);
        workers.push(figures.workers);
        let State::Runs(daemon) = host.state else { panic!("it does not run") };
        let (all, ended) = sessions(daemon.stop().log());
        (opened, lost) = (opened + all, lost + ended);
    }
    let mut hands = BTreeMap::<u64, u64>::new();
    workers.iter().flatten().for_each(|worker| *hands.entry(*worker).or_default() += 1);
    let passed_on = hands.values().filter(|hands| **hands > 1).count();
    println!(
        "{}: {total} IDs, none twice, in {lasted:.0?}; {deeds:?}; {opened} sessions, {lost} of them lost in the \
         life of their daemon; worker IDs of each: {workers:?}, {passed_on} of which passed from \
         host to host; calls failed and made again: \
         {failures:?}",
        kind.name()
    );
    assert!(total >= storm.few_ids, "{total} IDs");
    assert!(deeds.values().sum::<u64>() >= storm.deeds, "{deeds:?}");
}
