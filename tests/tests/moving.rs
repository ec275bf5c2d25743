//! The manual's commands for moving from other sources of IDs, run word for word by bash while the old source
//! and leafd are under load. Only the addresses and the logins of the old servers are those of the test.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use leaf_client::{Error, Options, blocking};
use leafd_tests::binaries::{program, workspace};
use leafd_tests::daemon::{Daemon, Home};
use leafd_tests::database::{Extra, Kind, Session};
use leafd_tests::stores::wait_until;
use leafd_tests::{Background, Database, Redis, UniqueIds, manual};
use tempfile::TempDir;

/// How many IDs each phase of a move has to see before the test goes on.
const SOME: u64 = 300;

/// How many applications take IDs at a time.
const WRITERS: usize = 4;

/// The room that the page leaves the old source.
const ROOM: u64 = 1_000_000;

/// One section of the page, whose commands a shell runs as an operator would.
struct Guide {
    blocks: Vec<String>,
    done: RefCell<BTreeSet<usize>>,
    folder: TempDir,
}

impl Guide {
    /// The section with this heading, for an operator whose leafctl asks this host's leafd.
    fn new(heading: &str, home: &Home) -> Self {
        let path = workspace().join("docs/operations/moving.md");
        let page = std::fs::read_to_string(path).unwrap();
        let mut sections = page.split("\n## ");
        let section = sections.find(|section| section.starts_with(&format!("{heading}\n")));
        let blocks = manual::blocks(section.expect("the section"), "sh");
        let folder = tempfile::tempdir().unwrap();
        let guide = Self { blocks, done: RefCell::default(), folder };
        let leafctl = program("leafctl");
        let socket = home.socket();
        let leafctl =
            format!("LEAFD_SOCKET={} exec {} \"$@\"", socket.display(), leafctl.display());
        guide.install("leafctl", &leafctl);
        guide
    }

    /// Puts a program in front of the one that the page names: it adds the login.
    fn install(&self, name: &str, script: &str) {
        let path = self.folder.path().join(name);
        std::fs::write(&path, format!("#!/bin/bash\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    }

    fn install_mariadb(&self, folder: &Path) {
        let client = format!("{} \"$@\"", mariadb(folder));
        self.install("mariadb", &client);
    }

    /// Runs the one block that contains this text. Variables go on to the next block, as in one shell.
    fn try_run(&self, part: &str) -> Result<String, String> {
        let mut found = self.blocks.iter().enumerate().filter(|(_, block)| block.contains(part));
        let (number, block) = found.next().unwrap_or_else(|| panic!("no command with {part}"));
        assert!(found.next().is_none(), "several blocks with {part}");
        let script = format!(
            "touch variables; . ./variables\n{block}\n\
             (declare -p first last end 2>/dev/null || true) > variables"
        );
        let (own, system) = (self.folder.path().display(), std::env::var("PATH").unwrap());
        let mut bash = Command::new("bash");
        bash.args(["-ec", &script]).current_dir(self.folder.path());
        let output = bash.env("PATH", format!("{own}:{system}")).output().expect("bash");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if !output.status.success() {
            return Err(text(&output.stderr));
        }
        self.done.borrow_mut().insert(number);
        Ok(text(&output.stdout))
    }

    fn run(&self, part: &str) -> String {
        self.try_run(part).unwrap_or_else(|errors| panic!("{part}: {errors}"))
    }

    /// The number in a variable of the operator's shell.
    fn variable(&self, name: &str) -> u64 {
        let variables = std::fs::read_to_string(self.folder.path().join("variables")).unwrap();
        let start = format!("declare -- {name}=\"");
        let value = variables.lines().find_map(|line| line.strip_prefix(&start)?.strip_suffix('"'));
        value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name}: {variables}"))
    }

    /// Asserts that every block of the section was run.
    fn is_done(&self) {
        let left = self.blocks.iter().enumerate().filter(|(n, _)| !self.done.borrow().contains(n));
        let left: Vec<_> = left.collect();
        assert!(left.is_empty(), "not run: {left:?}");
    }
}

fn mariadb(folder: &Path) -> String {
    let socket = folder.join("socket");
    format!("exec /usr/bin/mariadb --no-defaults --user=root --socket={}", socket.display())
}

/// What the old source answers.
enum Old {
    Id(u64),
    /// It refuses to give any more.
    Closed,
    /// It failed, and the application cannot know of an ID.
    Nothing,
}

/// An application's way to the old source.
trait Source: Send {
    fn take(&mut self) -> Old;

    /// Keeps an ID that leafd gave.
    fn keep(&mut self, _id: u64) {}
}

/// Applications that take IDs from the old source until it is closed or they are told to move, and then from
/// leafd. On the way back they return to the old source when leafd has no such tag any more.
struct Writers {
    old: Arc<AtomicU64>,
    new: Arc<AtomicU64>,
    moved: Arc<Vec<AtomicBool>>,
    back: Arc<AtomicBool>,
    threads: Vec<Background<()>>,
    tag: &'static str,
}

impl Writers {
    /// Starts applications on these hosts that use the tag `orders`.
    fn start(homes: &[Home], seen: &UniqueIds, source: impl Fn() -> Box<dyn Source>) -> Self {
        Self::start_for("orders", homes, seen, source)
    }

    fn start_for(
        tag: &'static str,
        homes: &[Home],
        seen: &UniqueIds,
        source: impl Fn() -> Box<dyn Source>,
    ) -> Self {
        let (old, new) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let moved: Arc<Vec<AtomicBool>> =
            Arc::new((0..WRITERS).map(|_| AtomicBool::default()).collect());
        let back = Arc::<AtomicBool>::default();
        let threads = (0..WRITERS).map(|number| {
            let (seen, options) = (seen.clone(), homes[number % homes.len()].options());
            let (old, new, moved) = (Arc::clone(&old), Arc::clone(&new), Arc::clone(&moved));
            let back = Arc::clone(&back);
            let source = source();
            Background::start(move |stop| {
                let moved = moved.get(number).expect("a flag for each writer");
                write(&|| stop.is_set(), tag, source, options, &seen, (moved, &back), (&old, &new));
            })
        });
        let threads = threads.collect();
        Self { old, new, moved, back, threads, tag }
    }

    fn old(&self) -> u64 {
        self.old.load(Ordering::Relaxed)
    }

    fn new(&self) -> u64 {
        self.new.load(Ordering::Relaxed)
    }

    /// Moves one application to leafd, or back.
    fn set_moved(&self, number: usize, moved: bool) {
        self.moved[number].store(moved, Ordering::Relaxed);
    }

    /// Whether applications return to the old source when leafd does not know the tag.
    fn set_back(&self, back: bool) {
        self.back.store(back, Ordering::Relaxed);
    }

    fn wait(&self, what: &str, counter: impl Fn(&Self) -> u64) {
        let before = counter(self);
        wait_until(what, || {
            assert!(!self.threads.iter().any(Background::has_ended), "a writer found a bug");
            counter(self) >= before + SOME
        });
    }

    fn wait_old(&self) {
        self.wait("the old source gives IDs", Self::old);
    }

    fn wait_new(&self) {
        self.wait("leafd gives IDs", Self::new);
    }

    fn wait_all_moved(&self) {
        wait_until("all applications have moved", || {
            self.moved.iter().all(|moved| moved.load(Ordering::Relaxed))
        });
    }

    fn finish(self, what: &str, seen: &UniqueIds) {
        let (old, new) = (self.old, self.new);
        self.threads.into_iter().for_each(Background::finish);
        let (old, new) = (old.load(Ordering::Relaxed), new.load(Ordering::Relaxed));
        assert_eq!(seen.count(self.tag), old + new, "every ID was recorded once");
        println!("{what}: {old} IDs of the old source and {new} of leafd, all distinct");
    }
}

fn write(
    is_stopped: &dyn Fn() -> bool,
    tag: &str,
    mut source: Box<dyn Source>,
    options: Options,
    seen: &UniqueIds,
    (moved, back): (&AtomicBool, &AtomicBool),
    (old, new): (&AtomicU64, &AtomicU64),
) {
    let mut client = blocking::Client::new(options);
    while !is_stopped() {
        let (id, counter) = if moved.load(Ordering::Relaxed) {
            match client.next(tag) {
                Ok(id) => {
                    source.keep(id);
                    (id, new)
                }
                Err(error) => {
                    if is_unknown_tag(&error) && back.load(Ordering::Relaxed) {
                        moved.store(false, Ordering::Relaxed);
                    }
                    std::thread::sleep(Duration::from_millis(1));
                    continue;
                }
            }
        } else {
            match source.take() {
                Old::Id(id) => (id, old),
                Old::Closed => {
                    moved.store(true, Ordering::Relaxed);
                    continue;
                }
                Old::Nothing => {
                    std::thread::sleep(Duration::from_millis(1));
                    continue;
                }
            }
        };
        seen.add_run(tag, id, 1);
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

fn is_unknown_tag(error: &Error) -> bool {
    matches!(error, Error::Refused(refusal) if refusal.code().number() == 202)
}

/// An application's session with a SQL server, which it opens again after an error.
struct Sql {
    url: String,
    session: Option<Session>,
    /// SQLSTATE of the old source's end.
    closed: &'static str,
}

impl Sql {
    fn new(url: String, closed: &'static str) -> Self {
        Self { url, session: None, closed }
    }

    /// Runs statements up to the first that fails, and returns the number that the last one answered.
    fn number(&mut self, statements: &[&str]) -> Old {
        if self.session.is_none() {
            self.session = Session::open(&self.url).ok();
        }
        let Some(session) = &mut self.session else { return Old::Nothing };
        let mut number = None;
        for statement in statements {
            match session.try_query(statement) {
                Ok(rows) => {
                    number = rows.into_iter().flatten().flatten().next().or(number);
                }
                Err(error) => {
                    let code = error.as_database_error().and_then(|error| error.code());
                    let is_closed = code.as_deref() == Some(self.closed);
                    self.session = None;
                    return if is_closed { Old::Closed } else { Old::Nothing };
                }
            }
        }
        number.map_or(Old::Nothing, |number| Old::Id(number.parse().expect("a number")))
    }

    /// Runs a statement that must not fail while the server is there.
    fn run(&mut self, statement: &str) {
        loop {
            if self.session.is_none() {
                self.session = Session::open(&self.url).ok();
            }
            let Some(session) = &mut self.session else { return };
            match session.try_query(statement) {
                Ok(_) => return,
                Err(error) => {
                    let code = error.as_database_error().and_then(|error| error.code());
                    let is_duplicate = code.is_some_and(|code| code == "23000" || code == "23505");
                    assert!(!is_duplicate, "DUPLICATE: {statement}: {error}");
                    self.session = None;
                }
            }
        }
    }
}

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
    guide.install_mariadb(shop.folder());
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
    site.seen.add_run("orders", flying, 1);
    writers.old.fetch_add(1, Ordering::Relaxed);
    let errors = guide.try_run("CREATE TRIGGER").unwrap_err();
    assert!(errors.contains("Lock wait timeout exceeded"), "{errors}");
    writers.wait_old();
    assert_eq!(writers.new(), 0, "the gate is open still");
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
    assert_eq!(writers.new(), 0, "there is no tag yet");
    // leafd's connection to the restarted server is gone: 302, and the page says to repeat.
    wait_until("the tag is there", || guide.try_run("tag create").is_ok());
    assert!(guide.variable("first") > highest, "{} is taken", guide.variable("first"));
    writers.wait_new();

    // And back.
    writers.set_back(true);
    guide.run("DROP TRIGGER");
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
    guide.is_done();
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
    site.seen.add_run("orders", flying, 1);
    writers.old.fetch_add(1, Ordering::Relaxed);
    let errors = guide.try_run("tag create").unwrap_err();
    assert!(errors.contains("lock timeout"), "{errors}");
    in_flight.execute("ROLLBACK");
    // MAX(id) forgets the last rows.
    shop.sql("DELETE FROM orders WHERE id > (SELECT MAX(id) FROM orders) - 50");
    wait_until("the sequence ends", || guide.try_run("tag create").is_ok());
    let first = guide.variable("first");

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
        // That block is for the other kind of column alone.
        let (only, _) = guide
            .blocks
            .iter()
            .enumerate()
            .find(|(_, block)| block.contains("BY DEFAULT"))
            .unwrap();
        guide.done.borrow_mut().insert(only);
    }
    guide.is_done();
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
    guide.is_done();
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
    seen.add_run("orders", next, 1);
    writers.new.fetch_add(1, Ordering::Relaxed);
    for writer in 0..WRITERS {
        writers.wait_old();
        writers.set_moved(writer, true);
        writers.wait_new();
    }
    for writer in 0..WRITERS {
        writers.set_moved(writer, false);
        writers.wait_old();
    }
    guide.is_done();
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
    assert_eq!(writers.new(), 0, "there is no tag yet");
    guide.run("tag create");
    writers.wait_new();
    writers.set_back(true);
    guide.run("redis-cli SET");
    writers.wait_old();
    guide.is_done();
    writers.finish("INCR, then a database", &site.seen);
    site.stop();
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
    for daemon in daemons {
        daemon.stop();
    }
    let daemons = new.each_ref().map(Home::start);
    guide.run("tag create");
    new.iter().for_each(take);
    println!("{} IDs of two hosts, on Redis and then on a database", seen.count("orders"));
    for daemon in daemons {
        daemon.stop();
    }
}
