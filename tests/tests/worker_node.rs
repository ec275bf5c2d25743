//! Worker IDs from Baidu's table: a new row for each start, beside the rows of Baidu's own library, over
//! outages, kills, lost rows and a failover that lost writes. No ID comes twice.

use std::time::{Duration, Instant};

use leafd_tests::database::{Database, Kind};
use leafd_tests::load::SNOWFLAKE;
use leafd_tests::long::short_or_long;
use leafd_tests::registry::RegistryAccess;
use leafd_tests::stores::wait_until;
use leafd_tests::{Host, Proxy, UniqueIds};

/// What Baidu's library executes at each start.
const BAIDUS: &str = "INSERT INTO WORKER_NODE (HOST_NAME, PORT, TYPE, LAUNCH_DATE, MODIFIED, CREATED) \
     VALUES ('10.0.0.7', '1700000000000-41234', 2, '2026-01-01', NOW(), NOW())";

/// The table as Baidu's library comes with it.
const BAIDUS_TABLE: &str = "CREATE TABLE WORKER_NODE (
ID BIGINT NOT NULL AUTO_INCREMENT COMMENT 'auto increment id',
HOST_NAME VARCHAR(64) NOT NULL COMMENT 'host name',
PORT VARCHAR(64) NOT NULL COMMENT 'port',
TYPE INT NOT NULL COMMENT 'node type: ACTUAL or CONTAINER',
LAUNCH_DATE DATE NOT NULL COMMENT 'launch date',
MODIFIED TIMESTAMP NOT NULL COMMENT 'modified time',
CREATED TIMESTAMP NOT NULL COMMENT 'created time',
PRIMARY KEY(ID)
) COMMENT='DB WorkerID Assigner for UID Generator',ENGINE = INNODB";

const RIGHTS: &str = "GRANT SELECT, INSERT, UPDATE ON WORKER_NODE TO leaf";

fn make_table(database: &Database) {
    // Servers that demand values for times refuse the table otherwise.
    let mut session = database.session();
    session.execute("SET SESSION sql_mode = ''");
    session.execute(BAIDUS_TABLE);
    session.execute(RIGHTS);
}

fn with_table(database: Database) -> Database {
    make_table(&database);
    database
}

fn shared() -> Database {
    with_table(Database::shared(Kind::MariaDb).fresh())
}

fn at(url: &str) -> RegistryAccess {
    RegistryAccess::new("worker-node", "WORKER_NODE", "500ms").without_sessions().with("URL", url)
}

fn host(database: &Database, name: &str, seen: &UniqueIds) -> Host {
    Host::new(at(&database.url()), name, seen)
}

fn rows(database: &Database) -> usize {
    database.query("SELECT ID FROM WORKER_NODE").len()
}

/// Waits until the host issues with this worker ID.
fn comes_to(host: &Host, worker: u64) {
    host.wait_until("its worker ID", || host.status().worker == Some(worker));
    assert_eq!(host.serves(), worker, "{host}");
}

#[test]
fn each_start_takes_a_row_of_its_own_beside_baidus_and_ids_go_on_meanwhile() {
    let (database, seen) = (shared(), UniqueIds::default());
    (0..3).for_each(|_| database.sql(BAIDUS));
    let mut host = host(&database, "a", &seen);
    host.start();
    comes_to(&host, 4);
    let row = "SELECT HOST_NAME, TYPE, LEFT(PORT, 6), DATEDIFF(LAUNCH_DATE, CURDATE()) FROM WORKER_NODE \
               WHERE ID = 4";
    let row: Vec<_> = database.query(row).remove(0).into_iter().flatten().collect();
    assert_eq!(row, ["a", "2", "leafd-", "0"]);
    let ended = host.stop();
    assert_eq!(ended.count("no snowflake IDs: "), 0, "{ended}");
    database.sql(BAIDUS);
    host.start();
    // The row of the last start serves until that of this one has settled.
    assert_eq!(host.serves(), 4);
    comes_to(&host, 6);
    host.kill();
    host.start();
    comes_to(&host, 7);
    assert_eq!((host.used(), rows(&database)), (vec![4, 6, 7], 7));
    host.gives_enough("three starts");
    drop(host.stop());
}

#[test]
fn the_table_that_leafd_prints_works_and_the_registry_is_shown() {
    let database = Database::shared(Kind::MariaDb).fresh();
    let seen = UniqueIds::default();
    let mut host = host(&database, "a", &seen);
    let (code, printed, error) = host.home().run("leafd", &["schema", "worker-node"]);
    assert_eq!(code, Some(0), "{error}");
    database.sql(&printed);
    database.sql(RIGHTS);
    host.start();
    comes_to(&host, 1);
    let (code, shown, _) = host.leafctl(&["status"]);
    assert!(code == Some(0) && shown.contains("worker-node"), "{shown}");
    let (code, _, error) = host.leafctl(&["worker", "list"]);
    assert!(code != Some(0) && error.contains("worker-node"), "{error}");
    let (code, _, error) =
        host.leafctl(&["run", "--wait", "1s", "--worker-env", "W", "--", "true"]);
    assert!(code == Some(64) && error.contains("worker.registry"), "{code:?} {error}");
    drop(host.stop());
}

#[test]
fn without_the_database_a_start_goes_on_with_the_last_row_and_a_newcomer_waits() {
    let database = with_table(Database::start(Kind::MariaDb));
    let seen = UniqueIds::default();
    let mut hosts = [host(&database, "a", &seen), host(&database, "b", &seen)];
    hosts[0].start();
    comes_to(&hosts[0], 1);
    database.freeze();
    let calls = hosts[0].calls();
    hosts[0].wait_until("IDs while the database hangs", || hosts[0].calls() > calls + 1000);
    hosts[0].stop();
    database.kill();
    hosts.iter_mut().for_each(Host::start);
    assert_eq!(hosts[0].serves(), 1);
    hosts[1].refuses("a worker ID is being taken from the table");
    hosts[0].home().log().wait_for("going on with the worker ID of the last start");
    database.start_again();
    let mut workers = hosts.each_ref().map(|host| {
        host.wait_until("a row of this start", || host.status().worker.is_some_and(|it| it > 1));
        host.serves()
    });
    workers.sort_unstable();
    assert_eq!(workers, [2, 3]);
    for host in &mut hosts {
        drop(host.stop());
    }
}

#[test]
fn the_worker_file_of_an_instance_that_nobody_asks_has_the_number_in_use() {
    let database = shared();
    let folder = tempfile::tempdir().unwrap();
    let home = leafd_tests::workers::instance(folder.path(), at(&database.url()), "idle");
    let status = |worker| {
        let mut client = leaf_client::blocking::Client::new(home.options());
        wait_until("its worker ID", || {
            client.status().is_ok_and(|status| status.snowflake.worker == Some(worker))
        });
    };
    let file = || std::fs::read_to_string(home.state().join("worker.properties")).unwrap();
    let daemon = home.start();
    status(1);
    wait_until("the first number on disk", || file().contains("workerID=1\n"));
    daemon.kill();
    let daemon = home.start();
    status(2);
    wait_until("the second number on disk", || file().contains("workerID=2\n"));
    // What was lost is never used again, whoever is asked or not.
    database.sql("UPDATE WORKER_NODE SET HOST_NAME = 'java', PORT = '8080' WHERE ID = 2");
    home.log().wait_for("worker ID 2 is java (8080)'s now");
    wait_until("the lost number is forgotten", || {
        !file().contains("workerID=2\n") || file().contains("limitMs=0\n")
    });
    daemon.kill();
}

#[test]
fn rows_without_a_time_and_names_that_no_column_can_keep_hold_nobody_up() {
    let (database, seen) = (shared(), UniqueIds::default());
    let mut session = database.session();
    session.execute("SET SESSION sql_mode = ''");
    session.execute("ALTER TABLE WORKER_NODE CONVERT TO CHARACTER SET latin1");
    session.execute(
        "INSERT INTO WORKER_NODE (HOST_NAME, PORT, TYPE, LAUNCH_DATE, CREATED) \
         VALUES ('by hand', '1', 2, '2026-01-01', '0000-00-00')",
    );
    let mut host = Host::new(at(&database.url()), "主机一", &seen);
    host.start();
    comes_to(&host, 2);
    drop(host.stop());
    assert_eq!(
        database.query("SELECT HOST_NAME FROM WORKER_NODE WHERE ID = 2")[0][0].as_deref(),
        Some("___")
    );
}

#[test]
fn a_key_that_the_table_should_not_have_uses_up_few_numbers_and_is_named() {
    let (database, seen) = (shared(), UniqueIds::default());
    database.sql("CREATE UNIQUE INDEX one_row ON WORKER_NODE (HOST_NAME)");
    database.sql(&BAIDUS.replace("10.0.0.7", "a"));
    let mut host = host(&database, "a", &seen);
    host.start();
    host.wait_until("the key", || host.status().registry_error.contains("one_row"));
    let began = Instant::now();
    std::thread::sleep(Duration::from_secs(3));
    database.sql("DROP INDEX one_row ON WORKER_NODE");
    host.serves();
    let most = 4 + began.elapsed().as_secs();
    let worker = host.status().worker.unwrap();
    assert!(worker <= most, "{worker} numbers in {most} s");
    drop(host.stop());
}

#[test]
fn rows_that_somebody_deletes_are_put_back_before_their_numbers_are_given_again() {
    let (database, seen) = (shared(), UniqueIds::default());
    let mut hosts = ["a", "b", "c"].map(|name| host(&database, name, &seen));
    for (host, worker) in hosts[..2].iter_mut().zip(1..) {
        host.start();
        comes_to(host, worker);
    }
    database.sql("TRUNCATE TABLE WORKER_NODE");
    hosts[2].start();
    assert!(hosts[2].serves() > 2);
    assert_eq!((hosts[0].serves(), hosts[1].serves()), (1, 2));
    let logs: Vec<_> = hosts.each_mut().map(Host::stop).into_iter().collect();
    let told = logs[..2].iter().map(|log| log.count("the table has lost the row of worker ID"));
    assert!(told.sum::<usize>() >= 1, "{logs:?}");
    println!("{} IDs over a table that was emptied", seen.count(SNOWFLAKE));
}

#[test]
fn after_a_failover_that_lost_rows_nobody_gets_a_number_in_use() {
    let primary = with_table(Database::start_primary(Kind::MariaDb));
    let (line, front) = (Proxy::to(primary.port()), Proxy::to(primary.port()));
    let replica = primary.start_replica(line.port());
    let seen = UniqueIds::default();
    let access = || at(&primary.url_at(front.port()));
    let mut hosts: Vec<_> =
        ["a", "b", "c", "d"].iter().map(|name| Host::new(access(), name, &seen)).collect();
    hosts[0].start();
    comes_to(&hosts[0], 1);
    let count = "SELECT COUNT(*) FROM WORKER_NODE";
    hosts[0].wait_until("the replica follows", || {
        let mut session = replica.session();
        session.try_query(count).is_ok_and(|rows| rows[0][0].as_deref() == Some("1"))
    });
    line.cut();
    hosts[1].start();
    comes_to(&hosts[1], 2);
    primary.kill();
    replica.promote();
    front.lead_to(replica.port());
    front.cut();
    front.pass();
    for host in &mut hosts[2..] {
        host.start();
    }
    let workers: Vec<_> = hosts.iter().map(Host::serves).collect();
    assert_eq!(workers[..2], [1, 2], "{}", hosts[1]);
    assert!(workers[2] > 2 && workers[3] > 2 && workers[2] != workers[3], "{workers:?}");
    for host in &mut hosts {
        drop(host.stop());
    }
    println!("{} IDs over a failover that lost a row", seen.count(SNOWFLAKE));
}

#[test]
fn a_number_that_another_process_has_is_given_up_and_another_one_taken() {
    let (database, seen) = (shared(), UniqueIds::default());
    let mut host = host(&database, "a", &seen);
    host.start();
    comes_to(&host, 1);
    // As after a loss of data, with a process that does not look before it uses a number.
    database.sql("UPDATE WORKER_NODE SET HOST_NAME = 'java', PORT = '8080' WHERE ID = 1");
    comes_to(&host, 2);
    let ended = host.stop();
    assert_eq!(ended.count("worker ID 1 is java (8080)'s now"), 1, "{ended}");
}

#[test]
fn when_the_bits_are_used_up_newcomers_are_refused_and_their_end_is_told_a_year_ahead() {
    let (database, seen) = (shared(), UniqueIds::default());
    database.sql(BAIDUS);
    database.sql("UPDATE WORKER_NODE SET CREATED = NOW() - INTERVAL 40 DAY");
    database.sql("ALTER TABLE WORKER_NODE AUTO_INCREMENT = 60");
    database.sql(BAIDUS);
    let layout = "50/6/7@1288834974657/1ms";
    let mut hosts = ["a", "b"].map(|name| host(&database, name, &seen).with_layout(layout));
    hosts[0].start();
    comes_to(&hosts[0], 61);
    let told = hosts[0].home().log();
    told.wait_for(
        "the table has given 60 of 63 worker IDs. At the pace of the last 40 days (1 starts",
    );
    for worker in [62, 63] {
        hosts[0].stop();
        hosts[0].start();
        comes_to(&hosts[0], worker);
    }
    hosts[0].stop();
    hosts.iter_mut().for_each(Host::start);
    let refused = hosts[1].refuses("the highest of the layout is 63");
    assert!(refused.message.contains("worker.registry"), "{refused:?}");
    assert_eq!(hosts[0].serves(), 63);
    hosts[0].home().log().wait_for("Going on with worker ID 63 of the last start");
    assert_eq!(rows(&database), 5, "no row is used up in vain");
    for host in &mut hosts {
        drop(host.stop());
    }
}

#[test]
fn a_missing_table_and_missing_rights_are_named_with_the_remedy_and_no_segment_waits() {
    let (database, seen) = (Database::shared(Kind::MariaDb).fresh(), UniqueIds::default());
    let mut host = host(&database, "a", &seen);
    host.start();
    host.serves_segments();
    let error = || host.status().registry_error;
    host.wait_until("the missing right", || {
        error().contains("GRANT SELECT, INSERT, UPDATE ON WORKER_NODE, and `leafd schema")
    });
    database.sql(&format!("GRANT SELECT, INSERT, UPDATE ON `{}`.* TO leaf", database.name()));
    host.wait_until("the missing table", || {
        error().ends_with("doesn't exist; `leafd schema worker-node` prints the table")
    });
    make_table(&database);
    comes_to(&host, 1);
    assert_eq!(host.status().registry_error, "");
    drop(host.stop());
}

#[test]
fn no_id_comes_twice_in_a_storm_of_kills_freezes_and_outages() {
    let database = with_table(Database::start(Kind::MariaDb));
    let front = Proxy::to(database.port());
    let seen = UniqueIds::default();
    let access = || at(&database.url_at(front.port()));
    let mut hosts: Vec<_> =
        (0..6).map(|number| Host::new(access(), &format!("h{number}"), &seen)).collect();
    hosts.iter_mut().for_each(Host::start);
    for host in &hosts {
        host.serves();
    }
    let began = Instant::now();
    let (mut restarts, mut freezes, mut outages) = (0, 0, 0);
    while began.elapsed() < Duration::from_secs(short_or_long(40, 300)) {
        let pause = Duration::from_millis(fastrand::u64(100..4000));
        let host = fastrand::choice(&mut hosts).expect("a host");
        match fastrand::u32(..6) {
            0 | 1 => {
                host.kill();
                restarts += 1;
                host.start();
            }
            2 => {
                host.stop();
                restarts += 1;
                host.start();
            }
            3 => {
                host.freeze();
                freezes += 1;
                std::thread::sleep(pause);
                host.thaw();
            }
            4 => {
                outages += 1;
                match fastrand::u32(..3) {
                    0 => {
                        database.kill();
                        std::thread::sleep(pause);
                        database.start_again();
                    }
                    1 => {
                        database.freeze();
                        std::thread::sleep(pause);
                        database.thaw();
                    }
                    _ => {
                        front.cut();
                        std::thread::sleep(pause);
                        front.pass();
                    }
                }
            }
            _ => std::thread::sleep(pause),
        }
    }
    for host in &hosts {
        host.serves();
    }
    let workers: Vec<_> = hosts.iter().map(|host| host.status().worker).collect();
    for host in &mut hosts {
        drop(host.stop());
    }
    println!(
        "{} IDs, none twice, over {restarts} restarts, {freezes} freezes and {outages} outages; {} rows, in the \
         end {workers:?}",
        seen.count(SNOWFLAKE),
        rows(&database)
    );
}
