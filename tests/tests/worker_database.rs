//! What only a database as the registry of worker IDs has: a server that takes no writes, a clock that
//! jumps by days, and a file that the daemons of one host share.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use leafd_tests::database::{Extra, Kind};
use leafd_tests::faketime::FakeTime;
use leafd_tests::load::SNOWFLAKE;
use leafd_tests::registry::{DatabaseKind, DatabaseServer, RegistryAccess};
use leafd_tests::{Database, Host, TestRegistry, UniqueIds, on_every_registry_database};

const HOUR: i64 = 3_600_000;

/// Four worker IDs.
const FOUR: &str = "41/2/20@1288834974657/1ms";

on_every_registry_database! {
    a_read_only_server_is_refused_and_instances_serve_from_their_files,
    no_worker_id_is_lost_or_taken_too_soon_when_the_databases_clock_jumps_by_thirty_hours,
}

/// Makes the server a read-only one, and a primary again. The user may write to a read-only MariaDB, as a
/// user with too many rights may.
struct ReadOnly {
    primary: DatabaseServer,
    /// A standby of PostgreSQL.
    standby: Option<Database>,
}

impl ReadOnly {
    fn start(kind: Kind) -> Self {
        let primary = DatabaseServer::new(Database::start_primary(kind));
        let standby = match kind {
            Kind::MariaDb => {
                primary.database().sql("GRANT READ ONLY ADMIN ON *.* TO leaf");
                None
            }
            Kind::Postgres => Some(primary.database().start_replica(primary.database().port())),
        };
        Self { primary, standby }
    }
}

fn a_read_only_server_is_refused_and_instances_serve_from_their_files(kind: &'static DatabaseKind) {
    let ReadOnly { primary, standby } = ReadOnly::start(kind.kind());
    let primary = Arc::new(primary);
    let registry = TestRegistry::on(kind, Arc::<DatabaseServer>::clone(&primary));
    let (network, access) = registry.through_proxies();
    let (begin, end) = (
        || match &standby {
            None => primary.database().sql("SET GLOBAL read_only = 1"),
            Some(standby) => {
                network.lead_to(standby.port());
                network.cut();
                network.pass();
            }
        },
        || match &standby {
            None => primary.database().sql("SET GLOBAL read_only = 0"),
            Some(_) => {
                network.lead_to(primary.database().port());
                network.cut();
                network.pass();
            }
        },
    );
    let told = match kind.kind() {
        Kind::MariaDb => "the server is read-only, as a replica is; worker IDs need the primary",
        Kind::Postgres => "read-only transaction",
    };
    let seen = UniqueIds::default();
    let mut hosts = ["runs", "restarts"].map(|name| Host::new(&access, name, &seen));
    hosts.iter_mut().for_each(Host::start);
    let workers = hosts.each_ref().map(Host::serves);
    begin();
    let [runs, restarts] = &mut hosts;
    // A report to a server that is a replica now would be lost.
    runs.wait_until("no report is taken", || runs.status().registry_error.contains(told));
    restarts.kill();
    restarts.start();
    assert_eq!(restarts.serves(), workers[1]);
    restarts.home().log().wait_for("worker ID from the worker file");
    let mut newcomer = Host::new(&access, "newcomer", &seen);
    newcomer.start();
    let error = newcomer.refuses("the registry's database has to give one");
    println!("{}: {error}", registry.name());
    assert!(error.message.contains(told), "{error}");
    newcomer.serves_segments();
    assert_eq!(runs.serves(), workers[0]);
    end();
    let new = newcomer.serves();
    assert!(!workers.contains(&new), "{new} and {workers:?}");
    for (host, worker) in [&*runs, &*restarts].into_iter().zip(workers) {
        host.wait_until("it reports", || host.status().registry_error.is_empty());
        assert_eq!((host.serves(), host.used()), (worker, vec![worker]));
    }
    newcomer.gives_enough(&format!("{}: a read-only server", registry.name()));
}

fn no_worker_id_is_lost_or_taken_too_soon_when_the_databases_clock_jumps_by_thirty_hours(
    kind: &'static DatabaseKind,
) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    // The server has an account of its own.
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let clock = FakeTime::new(folder.path());
    let extra = Extra { clock: Some(&clock), ..Extra::default() };
    let server = Arc::new(DatabaseServer::new(Database::start_with(kind.kind(), extra)));
    let registry = TestRegistry::on(kind, Arc::<DatabaseServer>::clone(&server));
    let (access, seen) = (registry.access(), UniqueIds::default());
    let host = |name| {
        Host::new(&access, name, &seen)
            .with_layout(FOUR)
            .with("WORKER_RECLAIM_AFTER", "20s")
            .with("WORKER_FENCE_AFTER", "10s")
    };
    let mut hosts = ["a", "b", "c", "d"].map(host);
    hosts.iter_mut().for_each(Host::start);
    let workers = hosts.each_ref().map(Host::serves);
    let mut fifth = host("fifth");
    fifth.start();
    fifth.refuses("all 4 worker IDs of the layout are taken, 4 of them live");
    let jumps = [30 * HOUR, -30 * HOUR, 0];
    for (jump, name) in jumps.into_iter().zip(0..) {
        let before = registry.now_ms();
        clock.set_offset_ms(jump);
        let after = registry.now_ms();
        println!("{}: from {before} to {after}", registry.name());
        assert!(after.abs_diff(before) > 29 * HOUR.unsigned_abs(), "{before} and {after}");
        // One by one, so that everybody else is there.
        let restarted = &mut hosts[name];
        restarted.kill();
        restarted.start();
        for (host, worker) in hosts.iter().zip(workers) {
            assert_eq!(host.serves(), worker);
            let before = host.status();
            host.wait_until("a report after the jump", || {
                let status = host.status();
                status.limit_unix_ms > before.limit_unix_ms && status.registry_error.is_empty()
            });
        }
        fifth.refuses("all 4 worker IDs of the layout are taken, 4 of them live");
    }
    // The owner is gone for a moment only, whatever the clock says.
    let [_, _, _, gone] = &mut hosts;
    gone.kill();
    let limit = registry.limit_ms("d", workers[3]);
    clock.set_offset_ms(30 * HOUR);
    assert_eq!(fifth.serves(), workers[3]);
    let (last, first) = (gone.issued()[&workers[3]].last_ms, fifth.issued()[&workers[3]].first_ms);
    println!("{}: {} ms between the owners", registry.name(), first - last);
    assert!(last < limit && limit <= first, "{last}, {limit}, {first}");
    for (host, worker) in hosts.iter().zip(workers) {
        assert_eq!(host.used(), [worker]);
    }
    fifth.gives_enough(&format!("{}: jumps by 30 h", registry.name()));
}

/// Removes the database, as an operator might who thinks that nobody needs it.
fn remove(file: &Path) {
    for end in ["", "-wal", "-shm"] {
        let mut name = file.as_os_str().to_owned();
        name.push(end);
        // SQLite may have removed some of them.
        let _ = std::fs::remove_file(name);
    }
    assert!(!file.exists());
}

#[test]
fn daemons_of_one_host_that_share_a_file_keep_their_worker_ids_through_kills_and_its_loss() {
    const KILLS: usize = 24;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("workers.db");
    let access =
        RegistryAccess::new("database", "DATABASE", "2s").with("PATH", file.to_str().unwrap());
    let seen = UniqueIds::default();
    let host = |number: usize| Host::new(&access, &format!("daemon {number}"), &seen);
    let mut hosts: Vec<Host> = (0..5).map(host).collect();
    hosts.iter_mut().for_each(Host::start);
    let workers: Vec<u64> = hosts.iter().map(Host::serves).collect();
    let keep = |hosts: &[Host]| {
        for (host, worker) in hosts.iter().zip(&workers) {
            assert_eq!((host.serves(), host.used()), (*worker, vec![*worker]));
        }
    };
    for _ in 0..KILLS {
        let host = fastrand::choice(&mut hosts).unwrap();
        if fastrand::u8(..4) == 0 {
            host.stop();
        } else {
            host.kill();
        }
        std::thread::sleep(Duration::from_millis(fastrand::u64(..300)));
        host.start();
    }
    keep(&hosts);
    remove(&file);
    let mut newcomer = host(5);
    newcomer.start();
    let new = newcomer.serves();
    keep(&hosts);
    assert!(!workers.contains(&new), "{new} and {workers:?}");
    newcomer.gives_enough("a shared file");
    println!(
        "sqlite: worker IDs {workers:?} and {new}; {KILLS} kills and stops, and a loss of the file; \
         {} IDs, none twice",
        seen.count(SNOWFLAKE)
    );
}
