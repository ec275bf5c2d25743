//! The manual's commands for moving from other sources of IDs, run word for word by bash while the old source
//! and leafd are under load. Only the addresses and the logins of the old servers are those of the test.

use std::path::Path;

use leaf_client::blocking;
use leafd_tests::daemon::{Daemon, Home};
use leafd_tests::database::{Extra, Kind};
use leafd_tests::moving::{Guide, Old, SOME, Source, Sql, WRITERS, Writers};
use leafd_tests::stores::wait_until;
use leafd_tests::{Database, Redis, UniqueIds};
use tempfile::TempDir;

/// The room that the page leaves the old source.
const ROOM: u64 = 1_000_000;

/// An application that inserts into `orders`. Now and then it rolls back after it has seen the ID, or deletes
/// the row: `MAX(id)` knows nothing of those.
struct Inserts {
    sql: Sql,
    insert: &'static [&'static str],
}

impl Source for Inserts {
    fn take(&mut self) -> Old {
        let mut statements = vec!["BEGIN"];
        statements.extend(self.insert);
        statements.push(if fastrand::u8(..) < 64 { "ROLLBACK" } else { "COMMIT" });
        let taken = self.sql.number(&statements);
        if let Old::Id(id) = taken
            && fastrand::u8(..) < 64
        {
            self.sql.run(&format!("DELETE FROM orders WHERE id = {id}"));
        }
        taken
    }

    fn keep(&mut self, id: u64) {
        self.sql.run(&format!("INSERT INTO orders (id, item) VALUES ({id}, 'new')"));
    }
}

/// An application that replaces the one row of a ticket server, now of this one and now of that one.
struct Tickets(Vec<Sql>);

impl Source for Tickets {
    fn take(&mut self) -> Old {
        let one = fastrand::usize(..self.0.len());
        self.0[one]
            .number(&["REPLACE INTO Tickets64 (stub) VALUES ('a')", "SELECT LAST_INSERT_ID()"])
    }
}

struct Incr(Redis);

impl Source for Incr {
    fn take(&mut self) -> Old {
        match self.0.try_run(&["INCR", "id:orders"]) {
            Ok(answer) => {
                Old::Id(answer.text().and_then(|text| text.parse().ok()).expect("a number"))
            }
            Err(error) if error.contains("not an integer") => Old::Closed,
            Err(_) => Old::Nothing,
        }
    }
}

/// Two hosts whose leafds lease from one database. The operator works on the first.
struct Site {
    daemons: [Daemon; 2],
    homes: [Home; 2],
    seen: UniqueIds,
    _folders: [TempDir; 2],
}

impl Site {
    fn on(database: &Database) -> Self {
        database.create_table();
        database.grant_deleting();
        let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let homes = folders.each_ref().map(|at| Home::new(at.path()).with_database(database));
        let daemons = homes.each_ref().map(Home::start);
        Self { daemons, homes, seen: UniqueIds::default(), _folders: folders }
    }

    fn stop(self) {
        for daemon in self.daemons {
            daemon.stop();
        }
    }
}

fn mariadb(folder: &Path) -> String {
    let socket = folder.join("socket");
    format!("exec /usr/bin/mariadb --no-defaults --user=root --socket={}", socket.display())
}

fn number(rows: &[Vec<Option<String>>]) -> u64 {
    let value = rows.first().and_then(|row| row.first()?.clone()).expect("a value");
    value.parse().expect("a number")
}

#[test]
fn an_auto_increment_column_moves_to_leafd_and_back() {
    let ids = Database::start(Kind::MariaDb);
    let shop = ids.named("shop");
    shop.sql(
        "CREATE TABLE orders (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, item text)",
    );
    shop.sql("GRANT SELECT, INSERT, DELETE ON orders TO leaf");
    let site = Site::on(&ids);
    let guide = Guide::new("From an AUTO_INCREMENT column", &site.homes[0]);
    guide.install("mariadb", &format!("{} \"$@\"", mariadb(shop.folder())));
    let url = shop.url();
    let writers = Writers::start(&site.homes, &site.seen, || {
        // The three ways to leave the ID to the server.
        let insert: &[&str] = match fastrand::u8(..3) {
            0 => &["INSERT INTO orders (item) VALUES ('old')", "SELECT LAST_INSERT_ID()"],
            1 => &["INSERT INTO orders VALUES (NULL, 'old')", "SELECT LAST_INSERT_ID()"],
            _ => &["INSERT INTO orders VALUES (0, 'old')", "SELECT LAST_INSERT_ID()"],
        };
        Box::new(Inserts { sql: Sql::new(url.clone(), "45000"), insert })
    });
    writers.wait_old();

    // An insert in flight makes the gate wait; in vain at first, and nothing has changed then.
    let mut in_flight = shop.session();
    in_flight.execute("BEGIN");
    in_flight.execute("INSERT INTO orders (item) VALUES ('in flight')");
    let flying = number(&in_flight.query("SELECT LAST_INSERT_ID()"));
    writers.add_old(&site.seen, flying);
    let errors = guide.try_run("CREATE TRIGGER").unwrap_err();
    assert!(errors.contains("Lock wait timeout exceeded"), "{errors}");
    writers.wait_old();
    assert_eq!(writers.new_ids(), 0, "the gate is open still");
    let errors = guide.try_run("tag create").unwrap_err();
    assert!(errors.contains("invalid value ''"), "there is no number yet: {errors}");
    in_flight.execute("ROLLBACK");
    // On a busy machine a transaction of the writers may hold it up for longer than it waits.
    wait_until("the gate closes", || guide.try_run("CREATE TRIGGER").is_ok());
    writers.wait_all_moved();

    // What MAX(id) forgets, and a restart as well.
    shop.sql("DELETE FROM orders ORDER BY id DESC LIMIT 50");
    ids.restart();
    let highest = site.seen.highest("orders").unwrap();
    let max = number(&shop.query("SELECT MAX(id) FROM orders"));
    assert!(max < highest, "MAX(id) would do: {max}, {highest}");
    assert_eq!(writers.new_ids(), 0, "there is no tag yet");
    // leafd's connection to the restarted server is gone: 302, and the page says to repeat.
    wait_until("the tag is there", || guide.try_run("tag create").is_ok());
    assert!(guide.variable("first") > highest, "{} is taken", guide.variable("first"));
    writers.wait_new();

    // And back.
    writers.set_back(true);
    guide.run("tag delete");
    wait_until("the column opens", || guide.try_run("DROP TRIGGER").is_ok());
    writers.wait_old();
    let end = guide.variable("end");
    assert!(site.seen.highest("orders").unwrap() >= end);

    // Moving again begins above the first stay at leafd.
    writers.set_back(false);
    wait_until("the gate closes again", || guide.try_run("CREATE TRIGGER").is_ok());
    writers.wait_all_moved();
    guide.run("tag create");
    assert!(guide.variable("first") > end);
    writers.wait_new();
    guide.assert_all_run();
    writers.finish("AUTO_INCREMENT", &site.seen);
    site.stop();
}

/// A column whose IDs come from a sequence that the column owns.
fn a_sequence_moves(column: &str, is_always: bool) {
    let ids = Database::start(Kind::Postgres);
    let shop = ids.named("shop");
    shop.sql(&format!("CREATE TABLE orders (id {column} PRIMARY KEY, item text)"));
    shop.sql("GRANT SELECT, INSERT, DELETE ON orders TO leaf");
    shop.sql("GRANT USAGE ON SEQUENCE orders_id_seq TO leaf");
    let site = Site::on(&ids);
    let guide = Guide::new("From a PostgreSQL sequence", &site.homes[0]);
    let psql = format!(
        "export PGHOST={} PGPORT={} PGUSER=postgres\nexec /usr/bin/psql \"$@\"",
        shop.folder().display(),
        shop.port(),
    );
    guide.install("psql", &psql);
    let url = shop.url();
    let writers = Writers::start(&site.homes, &site.seen, || {
        let insert = &["INSERT INTO orders (item) VALUES ('old') RETURNING id"];
        Box::new(Inserts { sql: Sql::new(url.clone(), "2200H"), insert })
    });
    writers.wait_old();
    if is_always {
        guide.run("GENERATED BY DEFAULT");
    }

    // A number in flight holds up the change, in vain at first, and nothing has changed then.
    let mut in_flight = shop.session();
    in_flight.execute("BEGIN");
    let insert = "INSERT INTO orders (item) VALUES ('in flight') RETURNING id";
    let flying = number(&in_flight.query(insert));
    writers.add_old(&site.seen, flying);
    let errors = guide.try_run("tag create").unwrap_err();
    assert!(errors.contains("lock timeout"), "{errors}");
    in_flight.execute("ROLLBACK");
    // MAX(id) forgets the last rows.
    shop.sql("DELETE FROM orders WHERE id > (SELECT MAX(id) FROM orders) - 50");
    wait_until("the sequence ends", || guide.try_run("tag create").is_ok());
    let first = guide.variable("first");
    // Again, after more inserts: the end of the sequence does not move into what leafd gives.
    writers.wait_old();
    let errors = guide.try_run("tag create").unwrap_err();
    assert!(errors.contains("203"), "{errors}");
    let end = "SELECT seqmax FROM pg_sequence WHERE seqrelid = 'orders_id_seq'::regclass";
    assert_eq!(number(&shop.query(end)), first - 1);

    // One by one, while the others still use the sequence; and one of them back again.
    for writer in 0..WRITERS - 1 {
        writers.set_moved(writer, true);
        writers.wait_old();
        writers.wait_new();
    }
    writers.set_moved(0, false);
    writers.wait_old();
    writers.wait_new();

    // The old writers use up what the page leaves them: they are refused.
    shop.sql(&format!("SELECT setval('orders_id_seq', {first} - 100)"));
    writers.wait_all_moved();
    writers.wait_new();
    assert_eq!(number(&shop.query("SELECT last_value FROM orders_id_seq")), first - 1);

    writers.set_back(true);
    guide.run("setval");
    writers.wait_old();
    assert!(site.seen.highest("orders").unwrap() > guide.variable("end"));
    if !is_always {
        guide.leave_out("BY DEFAULT");
    }
    guide.assert_all_run();
    writers.finish(column, &site.seen);
    site.stop();
}

#[test]
fn an_identity_column_moves_to_leafd_one_application_at_a_time_and_back() {
    a_sequence_moves("bigint GENERATED ALWAYS AS IDENTITY", true);
}

#[test]
fn a_serial_column_moves_to_leafd_one_application_at_a_time_and_back() {
    a_sequence_moves("bigserial", false);
}

/// Moves a pair of ticket servers whose tables have this engine.
fn ticket_servers_move(engine: &str) {
    let servers: Vec<Database> = ["1", "2"]
        .iter()
        .map(|offset| {
            let offset = format!("--auto-increment-offset={offset}");
            let arguments = ["--auto-increment-increment=2", &offset];
            let extra = Extra { arguments: &arguments, ..Extra::default() };
            let server = Database::start_with(Kind::MariaDb, extra);
            let tickets = server.named("tickets");
            tickets.sql(&format!(
                "CREATE TABLE Tickets64 (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, \
                 stub char(1) NOT NULL DEFAULT '' UNIQUE) ENGINE={engine}"
            ));
            tickets.sql("GRANT SELECT, INSERT, DELETE ON Tickets64 TO leaf");
            tickets
        })
        .collect();
    // The two are not in step.
    servers[1].sql("ALTER TABLE Tickets64 AUTO_INCREMENT = 5000000");
    let ids = Database::shared(Kind::MariaDb).fresh();
    let site = Site::on(&ids);
    let guide = Guide::new("From ticket servers", &site.homes[0]);
    guide.install(
        "mariadb",
        &format!(
            "server=$1; shift\ncase $server in\n--host=ticket-a) {} \"$@\" ;;\n\
             --host=ticket-b) {} \"$@\" ;;\nesac\nexit 1",
            mariadb(servers[0].folder()),
            mariadb(servers[1].folder()),
        ),
    );
    let urls: Vec<_> = servers.iter().map(Database::url).collect();
    let writers = Writers::start_for("tickets", &site.homes, &site.seen, || {
        Box::new(Tickets(urls.iter().map(|url| Sql::new(url.clone(), "45000")).collect()))
    });
    writers.wait_old();
    guide.run("next()");
    let first = guide.variable("first");
    assert!(first > 5_000_000 + ROOM, "{first} is not above both");
    // One server is restarted in between.
    servers[0].restart();
    let ends = guide.run("CREATE TRIGGER");
    assert_eq!(ends, "ends below leafd\nends below leafd\n");
    guide.run("tag create");
    for writer in 0..WRITERS - 1 {
        writers.set_moved(writer, true);
        writers.wait_old();
        writers.wait_new();
    }
    writers.set_moved(0, false);
    writers.wait_old();
    writers.wait_new();

    // Tickets run out: both servers refuse.
    for server in &servers {
        server.sql(&format!("ALTER TABLE Tickets64 AUTO_INCREMENT = {}", first - 100));
    }
    writers.wait_all_moved();
    writers.wait_new();

    writers.set_back(true);
    guide.run("DROP TRIGGER");
    writers.wait_old();
    assert!(site.seen.highest("tickets").unwrap() > guide.variable("end"));
    guide.assert_all_run();
    writers.finish(&format!("ticket servers, {engine}"), &site.seen);
    site.stop();
}

#[test]
fn ticket_servers_move_to_leafd_one_application_at_a_time_and_back() {
    ticket_servers_move("InnoDB");
}

#[test]
fn ticket_servers_with_myisam_move_to_leafd_as_well() {
    ticket_servers_move("MyISAM");
}

fn install_redis_cli(guide: &Guide, redis: &Redis) {
    let socket = redis.folder().join("socket");
    let client = format!("exec /usr/bin/redis-cli -s {} \"$@\"", socket.display());
    guide.install("redis-cli", &client);
}

#[test]
fn applications_move_from_incr_to_leafd_on_the_same_counter_and_back() {
    let redis = Redis::start();
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with_redis(&redis);
    let (daemon, seen) = (home.start(), UniqueIds::default());
    let guide = Guide::new("From INCR to leafd with the same counter", &home);
    install_redis_cli(&guide, &redis);
    let writers = Writers::start(&[home], &seen, || Box::new(Incr(redis.clone())));
    writers.wait_old();
    let printed = guide.run("leafctl next").lines().map(str::to_owned).collect::<Vec<_>>();
    let [counter, next] = &printed[..] else { panic!("{printed:?}") };
    let (counter, next): (u64, u64) = (counter.parse().unwrap(), next.parse().unwrap());
    assert!(counter < next, "{printed:?}");
    writers.add_new(&seen, next);
    for writer in 0..WRITERS {
        writers.wait_old();
        writers.set_moved(writer, true);
        writers.wait_new();
    }
    for writer in 0..WRITERS {
        writers.set_moved(writer, false);
        writers.wait_old();
    }
    guide.assert_all_run();
    writers.finish("INCR and leafd on one counter", &seen);
    daemon.stop();
}

#[test]
fn a_counter_in_redis_moves_to_a_database_and_back() {
    let redis = Redis::start();
    let ids = Database::shared(Kind::MariaDb).fresh();
    let site = Site::on(&ids);
    let guide = Guide::new("From a counter in Redis to a database", &site.homes[0]);
    install_redis_cli(&guide, &redis);
    let writers = Writers::start(&site.homes, &site.seen, || Box::new(Incr(redis.clone())));
    writers.wait_old();
    guide.run("GETSET");
    writers.wait_all_moved();
    assert!(guide.variable("last") >= site.seen.highest("orders").unwrap());
    // The text survives a crash: what Redis has written is with the kernel.
    redis.kill();
    redis.start_again();
    assert_eq!(redis.counter("orders").as_deref(), Some("moved to leafd"));
    assert_eq!(writers.new_ids(), 0, "there is no tag yet");
    guide.run("tag create");
    writers.wait_new();
    writers.set_back(true);
    guide.run("redis-cli SET");
    writers.wait_old();
    guide.assert_all_run();
    writers.finish("INCR, then a database", &site.seen);
    site.stop();
}

#[test]
fn baidus_table_goes_on_and_leafd_and_baidus_library_get_numbers_of_their_own() {
    const BAIDUS: &str = "INSERT INTO WORKER_NODE (HOST_NAME, PORT, TYPE, LAUNCH_DATE, MODIFIED, CREATED) \
         VALUES ('10.0.0.7', '1700000000000-41234', 2, CURDATE(), NOW(), NOW())";
    let ids = Database::start(Kind::MariaDb);
    let uid = ids.named("uid");
    let seen = UniqueIds::default();
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path())
        .with("WORKER_REGISTRY", "worker-node")
        .with("WORKER_NODE_URL", &uid.url())
        .with("SNOWFLAKE_LAYOUT", "28/22/13@2026-01-01/1000ms");
    let (code, printed, error) = home.run("leafd", &["schema", "worker-node"]);
    assert_eq!(code, Some(0), "{error}");
    uid.sql(&printed);
    let mut baidus = Sql::new(uid.url(), "45000");
    let mut start = || match baidus.number(&[BAIDUS, "SELECT LAST_INSERT_ID()"]) {
        Old::Id(number) => seen.add_run("numbers", number, 1),
        other => panic!("{other:?}"),
    };
    let guide = Guide::new("From Baidu's uid-generator", &home);
    guide.install("mariadb", &format!("{} \"$@\"", mariadb(uid.folder())));
    // Baidu's library uses leafd's user here, and before the move it had the right to insert.
    uid.sql("GRANT SELECT, INSERT ON WORKER_NODE TO leaf");
    (0..3).for_each(|_| start());
    guide.run("GRANT");
    let mut taken = 0;
    for _ in 0..3 {
        let daemon = home.start();
        let mut client = blocking::Client::new(home.options());
        let last = taken;
        // Until the row of this start has settled, that of the last one serves.
        wait_until("a row of this start", || {
            start();
            taken = client.status().expect("leafd answers").snowflake.worker.unwrap_or(last);
            taken > last
        });
        let row =
            format!("SELECT COUNT(*) FROM WORKER_NODE WHERE ID = {taken} AND PORT LIKE 'leafd-%'");
        assert_eq!(number(&uid.query(&row)), 1, "{taken}");
        seen.add_run("numbers", taken, 1);
        let shown = guide.run("decode");
        assert!(shown.contains(&taken.to_string()), "{taken}: {shown}");
        daemon.stop();
    }
    guide.assert_all_run();
    println!("{} starts, 3 of leafd, each with a number of its own", seen.count("numbers"));
}

#[test]
fn hosts_move_their_store_from_redis_to_a_database() {
    let redis = Redis::start();
    redis.insert_tag("orders", 1, 1000);
    let ids = Database::shared(Kind::Postgres).fresh();
    ids.create_table();
    ids.grant_deleting();
    let (seen, folders) = (UniqueIds::default(), [(); 2].map(|()| tempfile::tempdir().unwrap()));
    let old = folders.each_ref().map(|folder| Home::new(folder.path()).with_redis(&redis));
    let new = folders.each_ref().map(|folder| Home::new(folder.path()).with_database(&ids));
    let daemons = old.each_ref().map(Home::start);
    let take = |home: &Home| {
        let mut client = blocking::Client::new(home.options());
        for _ in 0..SOME {
            seen.add("orders", &client.next_many("orders", 5).unwrap());
        }
    };
    old.iter().for_each(take);
    let guide = Guide::new("From a counter in Redis to a database", &new[0]);
    install_redis_cli(&guide, &redis);
    guide.run("GETSET");
    // Memory serves, and nothing repairs the counter.
    for home in &old {
        let mut client = blocking::Client::new(home.options());
        let mut served = 0;
        while let Ok(ids) = client.next_many("orders", 100) {
            seen.add("orders", &ids);
            served += 100;
        }
        println!("{served} IDs from memory");
    }
    assert_eq!(redis.counter("orders").as_deref(), Some("moved to leafd"));
    let [one, other] = daemons;
    one.stop();
    let one = new[0].start();
    guide.run("tag create");
    other.stop();
    let other = new[1].start();
    new.iter().for_each(take);
    println!("{} IDs of two hosts, on Redis and then on a database", seen.count("orders"));
    one.stop();
    other.stop();
}
