//! Many daemons on the same rows of one store, all under load, while daemons are killed and the store's
//! server is killed, restarted and frozen. No ID comes twice, no call with a long timeout fails, and
//! in the end every client is served.

use std::time::{Duration, Instant};

use leafd_tests::fleet::{Fleet, leases_in};
use leafd_tests::long::short_or_long;
use leafd_tests::store_server::StoreServerKind;
use leafd_tests::{StoreServer, UniqueIds};

/// Number of daemons. Each is a host of its own.
const DAEMONS: u64 = 8;

/// What the chaos has to come to, for each kind of server.
struct Chaos {
    /// The chaos lasts at least this long…
    lasts: Duration,
    /// …and until this many IDs were received…
    ids: u64,
    /// …and the server has failed this often: each kind of fault at least twice.
    faults: usize,
    /// The daemons have leased at least this many ranges by then.
    leases: usize,
}

const SHORT: Chaos =
    Chaos { lasts: Duration::from_secs(20), ids: 1_000_000, faults: 6, leases: 100 };

const LONG: Chaos =
    Chaos { lasts: Duration::from_secs(60), ids: 5_000_000, faults: 9, leases: 500 };

/// After this many faults in quick succession, every client is served before the next fault. On a slow
/// machine the pauses between faults may be too short to serve anybody, and calls would time out.
const FAULTS_ON_END: usize = 3;

/// How long the test may take before it fails. No test measures time with it.
const PATIENCE: Duration = Duration::from_secs(300);

fn pause(most_ms: u64) {
    std::thread::sleep(Duration::from_millis(fastrand::u64(..most_ms)));
}

/// Makes the server fail once, while daemons end and start.
fn fail(server: &StoreServer, fault: usize, fleet: &mut Fleet) {
    match fault % 3 {
        0 => server.kill(),
        1 => server.stop(),
        _ => server.freeze(),
    }
    for _ in 0..2 {
        pause(500);
        fleet.disturb();
    }
    if fault % 3 < 2 {
        server.start_again();
    } else {
        // Sometimes longer than a lease may take, sometimes not.
        pause(2000);
        server.thaw();
    }
}

fn a_fleet_gives_no_id_twice(kind: StoreServerKind) {
    let chaos = short_or_long(SHORT, LONG);
    let server = StoreServer::start(kind);
    server.create_table();
    server.insert_tag("orders", 1, 1000);
    server.insert_tag("busy", 1, 10);
    let seen = UniqueIds::default();
    // A low limit on the step, since it would grow until there are hardly any leases. A short grace
    // period, since a daemon that stops during an outage waits for its clients until that is over.
    let settings = [("SEGMENT_MAX_STEP", "5000"), ("SHUTDOWN_GRACE", "1s")];
    let mut fleet = Fleet::start(DAEMONS, &server, &settings, &["orders", "busy"], &seen);
    let began = Instant::now();
    let mut faults = 0;
    while began.elapsed() < chaos.lasts || seen.total() < chaos.ids || faults < chaos.faults {
        assert!(began.elapsed() < PATIENCE, "only {} IDs, {faults} faults", seen.total());
        for _ in 0..fastrand::u8(3..6) {
            fleet.disturb();
            pause(300);
        }
        fail(&server, faults, &mut fleet);
        faults += 1;
        if faults % FAULTS_ON_END == 0 {
            fleet.recover();
        }
    }
    fleet.recover();
    fleet.audit();
    let (kills, stops) = fleet.ends();
    let (failures, ended) = fleet.finish();
    let leases: Vec<_> = ended.iter().flat_map(|ended| leases_in(ended.log())).collect();
    // No two leases may overlap, even where their IDs were not issued.
    let leased = UniqueIds::default();
    for lease in &leases {
        leased.add_run(&lease.tag, lease.first, lease.count);
    }
    println!(
        "{kind:?}: {} IDs received ({} of the busy tag) in {:.0?}, {} leases logged, {kills} daemons \
         killed, {stops} stopped, {faults} faults of the server; failed calls, which were repeated: \
         {:?} of hasty clients, {:?} of patient ones",
        seen.total(),
        seen.count("busy"),
        began.elapsed(),
        leases.len(),
        failures.hasty,
        failures.patient,
    );
    for tag in ["orders", "busy"] {
        let highest = seen.highest(tag).max(leased.highest(tag)).unwrap();
        assert!(highest < server.max_id(tag).cast_unsigned(), "{tag}: {highest}");
    }
    assert!(failures.patient.is_empty(), "{:?}", failures.patient);
    assert!(leases.len() > chaos.leases, "{} leases", leases.len());
    // The server is durable, so it loses no write when it is killed.
    for ended in ended {
        assert_eq!(ended.count("went backwards"), 0, "{ended}");
    }
}

#[test]
fn a_fleet_on_mariadb_gives_no_id_twice_whatever_is_killed() {
    a_fleet_gives_no_id_twice(StoreServerKind::MARIADB);
}

#[test]
fn a_fleet_on_postgres_gives_no_id_twice_whatever_is_killed() {
    a_fleet_gives_no_id_twice(StoreServerKind::POSTGRES);
}

#[test]
fn a_fleet_on_redis_gives_no_id_twice_whatever_is_killed() {
    a_fleet_gives_no_id_twice(StoreServerKind::Redis);
}

#[test]
fn a_fleet_on_several_databases_gives_no_id_twice_whatever_is_killed() {
    a_fleet_gives_no_id_twice(StoreServerKind::Several);
}
