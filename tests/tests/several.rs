//! Several independent databases, each with a share of the IDs: a MariaDB and a PostgreSQL server (or
//! more), of which one, the other and both are killed and frozen under load. Any one that works is
//! enough. Lists that do not fit together are refused, and databases come and go by the procedure of the
//! manual.

use std::process::Output;
use std::time::{Duration, Instant};

use leafd_tests::binaries::program;
use leafd_tests::caller::{Caller, wait_until};
use leafd_tests::daemon::Home;
use leafd_tests::database::{Database, Kind};
use leafd_tests::fleet::Fleet;
use leafd_tests::load::Load;
use leafd_tests::long::short_or_long;
use leafd_tests::scrape::{address, scrape};
use leafd_tests::several::{
    Several, create_tables, divide, divide_until, max_id, name_in, settings_of, urls,
};
use leafd_tests::{PATIENCE, StoreServer, UniqueIds};

/// IDs in a block, unless a test says otherwise.
const BLOCK: u64 = 1_000_000;

/// A MariaDB and a PostgreSQL server with shares, and a tag.
fn two(tag: &str, step: i32) -> Several {
    let several = Several::start(&[Kind::MariaDb, Kind::Postgres]);
    several.create_tables();
    several.insert_tag(tag, 1, step);
    several
}

fn home_of(several: &Several, folder: &std::path::Path) -> Home {
    with(Home::new(folder), &several.settings(Database::port)).with("STORE_TIMEOUT", "1600ms")
}

fn with(home: Home, settings: &[(&str, String)]) -> Home {
    settings.iter().fold(home, |home, (key, value)| home.with(key, value))
}

/// The shares of the first and the second database of a division, from 0 on: the second gets a quarter of
/// the first one's 64.
const FIRST: u64 = 0;
const SECOND: u64 = 48;

/// The share of an ID, from 0 on.
const fn share_of(id: u64) -> u64 {
    id / BLOCK % 64
}

fn text(output: &Output) -> String {
    let both = [&output.stdout, &output.stderr];
    both.map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat()
}

fn is_refused(output: &Output, told: &str) {
    let text = text(output);
    assert!(!output.status.success() && text.contains(told), "{told}: {text}");
}

/// What a single operator's fault does to one of the databases.
#[derive(Debug, Clone, Copy)]
enum Fault {
    Kill,
    Stop,
    Freeze,
}

impl Fault {
    fn begin(self, database: &Database) {
        match self {
            Self::Kill => database.kill(),
            Self::Stop => database.stop(),
            Self::Freeze => database.freeze(),
        }
    }

    fn end(self, database: &Database) {
        match self {
            Self::Kill | Self::Stop => database.start_again(),
            Self::Freeze => database.thaw(),
        }
    }
}

#[test]
fn one_and_then_the_other_is_killed_stopped_and_frozen_and_every_call_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let several = two("orders", 100);
    // Small steps, so that there are leases all the time.
    let home = home_of(&several, folder.path())
        .with("SEGMENT_DEFAULT_STEP", "1")
        .with("SEGMENT_MAX_STEP", "200");
    let daemon = home.start();
    let seen = UniqueIds::default();
    let options = home.options().timeout(Duration::from_secs(55));
    let load = Load::start(&options, &seen, &["orders", "orders"], 50);
    let leases = || daemon.client().status().unwrap().segments.leases;
    for fault in [Fault::Kill, Fault::Stop, Fault::Freeze] {
        for index in [0, 1] {
            let database = several.database(index);
            fault.begin(database);
            let before = leases();
            wait_until(&home, "leases go on from the other database", || leases() > before + 20);
            fault.end(database);
            let works = || daemon.client().status().unwrap().segments.store;
            wait_until(&home, "all work", || !works().contains("fail"));
        }
    }
    assert_eq!(load.finish(), 0, "calls failed\n{}", home.log());
    println!("{} IDs across faults of one and the other database", seen.total());
    let ended = daemon.stop();
    assert_eq!(ended.count("the store fails"), 0, "{ended}");
    assert!(ended.count("one of the store's databases works again") >= 3, "{ended}");
    // Both have given IDs.
    assert!(several.max_id_in(0, "orders") > 1 && several.max_id_in(1, "orders") > 1);
}

#[test]
fn both_are_down_and_leases_resume_with_the_first_that_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let several = two("orders", 1000);
    let home = home_of(&several, folder.path());
    let daemon = home.start();
    let seen = UniqueIds::default();
    let orders = Caller::of(&daemon, "orders", &seen);
    for (fault, back) in [(Fault::Kill, 0), (Fault::Freeze, 1)] {
        let left = orders.fills_memory();
        several.databases().iter().for_each(|database| fault.begin(database));
        assert_eq!(orders.drain(Duration::from_secs(20)), left, "memory serves");
        orders.is_refused(Duration::from_secs(3));
        let waiter = orders.waits();
        fault.end(several.database(back));
        waiter.is_served("one is back", Instant::now());
        fault.end(several.database(1 - back));
        home.log().wait_for("the store works again");
        let store = || daemon.client().status().unwrap().segments.store;
        wait_until(&home, "all work", || !store().contains("fail"));
    }
    daemon.stop();
}

#[test]
fn ids_go_on_rising_when_another_database_takes_over_and_when_the_first_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let several = two("orders", 10);
    let home = home_of(&several, folder.path())
        .with("SEGMENT_DEFAULT_STEP", "1")
        .with("SEGMENT_MAX_STEP", "10");
    let daemon = home.start();
    let mut client = daemon.client();
    let mut last = 0;
    let mut shares = Vec::new();
    for round in 0..4 {
        match round {
            1 | 3 => several.database(0).kill(),
            2 => several.database(0).start_again(),
            _ => {}
        }
        if round == 2 {
            let store = || daemon.client().status().unwrap().segments.store;
            wait_until(&home, "the first works again", || !store().contains("fail"));
        }
        // What was leased before comes first.
        for _ in 0..60 {
            let id = client.next("orders").unwrap();
            assert!(id > last, "{id} after {last}\n{}", home.log());
            last = id;
        }
        shares.push(share_of(last));
    }
    assert_eq!(shares, [FIRST, SECOND, FIRST, SECOND]);
    several.database(0).start_again();
    // A restart of leafd forgets nothing.
    daemon.kill();
    let daemon = home.start();
    let id = daemon.client().next("orders").unwrap();
    assert!(id > last, "{id} after {last}");
    let ended = daemon.stop();
    assert_eq!(ended.count("went backwards"), 0, "one that is behind has lost nothing: {ended}");
}

#[test]
fn a_fleet_gives_no_id_twice_while_the_databases_fail_independently() {
    let (lasts, least) =
        short_or_long((Duration::from_secs(15), 300_000), (Duration::from_secs(120), 5_000_000));
    let several = two("orders", 1000);
    several.insert_tag("busy", 1, 10);
    let seen = UniqueIds::default();
    let settings =
        [("SEGMENT_MAX_STEP", "5000"), ("SHUTDOWN_GRACE", "1s"), ("STORE_TIMEOUT", "1600ms")];
    let server = StoreServer::Several(several);
    let StoreServer::Several(several) = &server else { unreachable!() };
    let own: Vec<(&str, String)> = several.settings(Database::port);
    let settings: Vec<(&str, &str)> =
        settings.into_iter().chain(own.iter().map(|(key, value)| (*key, value.as_str()))).collect();
    let mut fleet = Fleet::start(5, &server, &settings, &["orders", "busy"], &seen);
    let began = Instant::now();
    let mut faults = 0;
    while began.elapsed() < lasts || seen.total() < least || faults < 6 {
        assert!(began.elapsed() < 3 * PATIENCE + 3 * lasts, "only {} IDs", seen.total());
        let fault = [Fault::Kill, Fault::Stop, Fault::Freeze][faults % 3];
        // Now and then both at once.
        let which: &[usize] = [&[0][..], &[1], &[0, 1]][fastrand::usize(..3)];
        which.iter().for_each(|index| fault.begin(several.database(*index)));
        for _ in 0..3 {
            std::thread::sleep(Duration::from_millis(fastrand::u64(..700)));
            fleet.disturb();
        }
        which.iter().for_each(|index| fault.end(several.database(*index)));
        faults += 1;
        if faults % 3 == 0 {
            fleet.recover();
        }
    }
    fleet.recover();
    fleet.audit();
    let (kills, stops) = fleet.ends();
    let (failures, ended) = fleet.finish();
    println!(
        "{} IDs, {faults} faults of the databases, {kills} daemons killed, {stops} stopped; failed \
         calls of hasty clients: {:?}",
        seen.total(),
        failures.hasty
    );
    assert!(failures.patient.is_empty(), "{:?}", failures.patient);
    for ended in ended {
        assert_eq!(ended.count("went backwards"), 0, "{ended}");
    }
}

#[test]
fn hosts_with_different_lists_are_refused_what_does_not_belong_together() {
    let folder = tempfile::tempdir().unwrap();
    let server = Database::start(Kind::MariaDb);
    let (ours, theirs) = (
        Several::of(vec![server.fresh(), server.fresh()]),
        Several::of(vec![server.fresh(), server.fresh()]),
    );
    for several in [&ours, &theirs] {
        several.create_tables();
        several.insert_tag("orders", 1, 10);
    }
    // The first of ours, and the second of another division, which has the same share as our second.
    let mixed = urls([ours.database(0).url(), theirs.database(1).url()]);
    is_refused(&divide(&mixed, &ours.division(), &["make"]), "belongs to the division");
    let home = with(Home::new(folder.path()), &settings_of(&mixed, &ours.division()));
    let daemon = home.start();
    assert_eq!(share_of(daemon.client().next("orders").unwrap()), FIRST);
    home.log().wait_for("belongs to the division");
    daemon.stop();
    // Alone, it gives this host nothing.
    let alone = urls([theirs.database(1).url()]);
    let folder = tempfile::tempdir().unwrap();
    let home = with(Home::new(folder.path()), &settings_of(&alone, &ours.division()));
    let daemon = home.start();
    let orders = Caller::of(&daemon, "orders", &UniqueIds::default());
    let error = orders.is_refused(Duration::from_secs(3));
    assert!(error.message.contains("belongs to the division"), "{error}");
    daemon.stop();
    assert_eq!(theirs.max_id_in(1, "orders"), 1);
    // A part of the list is a part of the shares, and no danger.
    let folder = tempfile::tempdir().unwrap();
    let part = urls([ours.database(1).url()]);
    let daemon = with(Home::new(folder.path()), &settings_of(&part, &ours.division())).start();
    assert_eq!(share_of(daemon.client().next("orders").unwrap()), SECOND);
    daemon.stop();
}

#[test]
fn a_copy_of_a_database_in_the_list_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let server = Database::start(Kind::MariaDb);
    let several = Several::of(vec![server.fresh(), server.fresh()]);
    several.create_tables();
    several.insert_tag("orders", 1, 10);
    // A dump of the first, restored elsewhere.
    let copy = server.fresh();
    create_tables(&copy);
    for table in ["leafd_share_tag", "leafd_division", "leafd_share_grant"] {
        let from = several.database(0).name();
        copy.sql(&format!("INSERT INTO {table} SELECT * FROM {from}.{table}"));
    }
    let list = urls([several.database(0).url(), several.database(1).url(), copy.url()]);
    is_refused(&divide(&list, &several.division(), &["make"]), "one is a copy");
    let home = with(Home::new(folder.path()), &settings_of(&list, &several.division()));
    let daemon = home.start();
    daemon.client().next("orders").unwrap();
    home.log().wait_for("one is a copy of the other");
    daemon.stop();
    assert_eq!(max_id(&copy, "orders"), 1);
}

#[test]
fn a_database_is_added_and_another_one_retired_under_load_as_the_manual_says() {
    let folder = tempfile::tempdir().unwrap();
    let several = two("orders", 100);
    let third = Database::start(Kind::MariaDb);
    create_tables(&third);
    let seen = UniqueIds::default();
    let home = home_of(&several, folder.path())
        .with("SEGMENT_DEFAULT_STEP", "1")
        .with("SEGMENT_MAX_STEP", "200");
    let mut daemon = home.start();
    let options = home.options().timeout(Duration::from_secs(55));
    let load = Load::start(&options, &seen, &["orders", "orders"], 50);

    let all = urls([several.database(0).url(), several.database(1).url(), third.url()]);
    let at = several.max_id("orders");
    let made = divide(&all, &several.division(), &["make"]);
    // A quarter of the 48 shares that the first one has left.
    assert!(text(&made).contains("share 37 of 64"), "{}", text(&made));
    assert_eq!(name_in(&text(&made)), Some(several.division()));
    // The new one begins above the others, and knows the tags.
    assert!(max_id(&third, "orders") > at);
    let again = divide(&all, &several.division(), &["make"]);
    assert!(again.status.success() && !text(&again).contains("share 3"), "{}", text(&again));

    daemon.stop();
    let home = with(home, &settings_of(&all, &several.division()));
    daemon = home.start();
    several.databases().iter().for_each(Database::kill);
    let leases = || blocking(&home).status().unwrap().segments.leases;
    let before = leases();
    wait_until(&home, "leases come from the third", || leases() > before + 5);
    several.databases().iter().for_each(Database::start_again);
    let store = || blocking(&home).status().unwrap().segments.store;
    wait_until(&home, "all work", || !store().contains("fail"));

    // The first one retires.
    let closed = divide(&all, &several.division(), &["close", "1"]);
    assert!(text(&closed).contains("share 1 is closed"), "{}", text(&closed));
    home.log().wait_for("its share is closed");
    let at = several.max_id_in(0, "orders");
    let before = leases();
    wait_until(&home, "leases go on", || leases() > before + 20);
    assert_eq!(several.max_id_in(0, "orders"), at, "nobody leases from a closed share");
    is_refused(&divide(&all, &several.division(), &["make"]), "is closed");
    let rest = urls([several.database(1).url(), third.url()]);
    daemon.stop();
    let daemon = with(home.clone(), &settings_of(&rest, &several.division())).start();
    assert_eq!(load.finish(), 0, "calls failed\n{}", home.log());
    println!("{} IDs while databases came and went", seen.total());
    // Its shares are nobody's: the next one gets a part of the second one's.
    let fourth = several.database(1).fresh();
    create_tables(&fourth);
    let more = urls([several.database(1).url(), third.url(), fourth.url()]);
    let made = divide(&more, &several.division(), &["make"]);
    assert!(text(&made).contains("share 61 of 64"), "{}", text(&made));
    // What was closed can be opened, since nobody else can have it.
    let opened = divide(&all, &several.division(), &["open", "1"]);
    assert!(text(&opened).contains("share 1 is open"), "{}", text(&opened));
    let all_four =
        urls([several.database(0).url(), several.database(1).url(), third.url(), fourth.url()]);
    let made = divide(&all_four, &several.division(), &["make"]);
    assert!(made.status.success(), "{}", text(&made));
    // It missed what happened to the tags meanwhile.
    assert!(several.max_id_in(0, "orders") >= several.max_id_in(1, "orders"));
    let shown = divide(&all, &several.division(), &["show"]);
    assert!(text(&shown).contains("share 1 of 64, 35 more to give away"), "{}", text(&shown));
    is_refused(&divide(&all, &several.division(), &["close", "2"]), "no database that answers");
    daemon.stop();
}

fn blocking(home: &Home) -> leaf_client::blocking::Client {
    leaf_client::blocking::Client::new(home.options())
}

/// The range of shares of a database; none while it has none.
fn range_of(database: &Database) -> Option<(i64, i64)> {
    let rows = database.query("SELECT share, share_end FROM leafd_division");
    let number = |text: &Option<String>| text.as_ref()?.parse().ok();
    let row = rows.first()?;
    Some((number(&row[0])?, number(&row[1])?)).filter(|(first, _): &(i64, i64)| *first >= 0)
}

/// No two of these databases have a share in common.
fn share_nothing(databases: &[&Database]) {
    let ranges: Vec<_> = databases.iter().filter_map(|database| range_of(database)).collect();
    for (index, one) in ranges.iter().enumerate() {
        let meets = |other: &(i64, i64)| one.0 < other.1 && other.0 < one.1;
        assert!(!ranges[..index].iter().any(meets), "{ranges:?}");
    }
}

#[test]
fn operators_at_once_with_other_lists_and_kills_at_any_moment_give_no_share_twice() {
    let server = Database::start(Kind::Postgres);
    let old = Several::of(vec![server.fresh(), server.fresh()]);
    old.create_tables();
    for round in 0..4_u64 {
        let new: Vec<Database> = (0..2).map(|_| server.fresh()).collect();
        new.iter().for_each(create_tables);
        let (old_urls, new_urls): (Vec<String>, Vec<String>) = (
            old.databases().iter().map(Database::url).collect(),
            new.iter().map(Database::url).collect(),
        );
        let both = urls(old_urls.iter().chain(new_urls.iter().rev()).cloned());
        let backwards = urls(new_urls.iter().chain(old_urls.iter().rev()).cloned());
        let part = urls([old_urls[1].clone(), new_urls[0].clone()]);
        let alone = urls(new_urls.iter().cloned());
        let division = old.division();
        std::thread::scope(|scope| {
            for (index, list) in (0..).zip([&both, &backwards, &part]) {
                let kill_after = Duration::from_millis(20 * (round + index) % 130);
                let division = &division;
                scope.spawn(move || divide_until(list, division, kill_after));
            }
        });
        // Two that have only begun to join know nothing of the division.
        if new.iter().all(|database| range_of(database).is_none()) {
            is_refused(&divide(&alone, &division, &["make"]), "has a share of it");
        }
        let known: Vec<&Database> = old.databases().iter().chain(&new).collect();
        share_nothing(&known);
        // Whatever came of it, another run of the whole list finishes it.
        let finished = divide(&both, &division, &["make"]);
        assert!(finished.status.success(), "{}", text(&finished));
        assert!(known.iter().all(|database| range_of(database).is_some()));
        share_nothing(&known);
    }
}

#[test]
fn shares_are_not_given_to_a_division_that_the_giver_has_left_meanwhile() {
    for kind in Kind::ALL {
        let server = Database::start(kind);
        let several = Several::of(vec![server.fresh(), server.fresh()]);
        several.create_tables();
        let newcomer = server.fresh();
        create_tables(&newcomer);
        let giver = several.database(0);
        let mut session = giver.session();
        session.execute("BEGIN");
        session.execute("UPDATE leafd_division SET closed = 0, block = block + 1");
        let list = urls([giver.url(), several.database(1).url(), newcomer.url()]);
        let division = several.division();
        std::thread::scope(|scope| {
            let make = scope.spawn(|| divide(&list, &division, &["make"]));
            // It takes the giver for one of its division, since it cannot see what is not committed.
            let mut watcher = giver.session();
            let asks = || watcher.waiting_for_locks() > 0 || make.is_finished();
            leafd_tests::stores::wait_until("the giver is asked for shares", asks);
            // As if somebody had made the tables anew, and a division of this database alone.
            session.execute(
                "UPDATE leafd_division SET block = block - 1, share_end = 64, \
                 division = '00000000000000000000000000000002', \
                 member = '00000000000000000000000000000003'",
            );
            session.execute("COMMIT");
            is_refused(&make.join().unwrap(), "another leafd division runs");
        });
        assert_eq!(range_of(giver), Some((0, 64)), "it has given nothing away");
        assert_eq!(range_of(&newcomer), None);
    }
}

#[test]
fn a_deleted_tag_begins_above_its_end_in_a_database_that_was_added_later_too() {
    let server = Database::start(Kind::MariaDb);
    let several = Several::of(vec![server.fresh(), server.fresh()]);
    several.create_tables();
    let start = |list: &str| {
        let folder = tempfile::tempdir().unwrap();
        let home = with(Home::new(folder.path()), &settings_of(list, &several.division()));
        (home.start(), folder)
    };
    let (daemon, _folder) = start(&several.urls(Database::port));
    let mut client = daemon.client();
    client.tag_create("orders", 100, 3_000_000_000, "").unwrap();
    client.next("orders").unwrap();
    client.tag_delete("orders").unwrap();
    daemon.stop();
    let third = server.fresh();
    create_tables(&third);
    let all = urls([several.database(0).url(), several.database(1).url(), third.url()]);
    assert!(divide(&all, &several.division(), &["make"]).status.success());
    // A host that has never seen the tag makes it again.
    let (daemon, _folder) = start(&all);
    daemon.client().tag_create("orders", 100, 1, "").unwrap();
    for database in several.databases().iter().chain([&third]) {
        assert!(max_id(database, "orders") > 3_000_000_000);
    }
    daemon.stop();
}

#[test]
fn a_database_restored_from_before_it_gave_shares_away_is_noticed() {
    let server = Database::start(Kind::MariaDb);
    let several = Several::of(vec![server.fresh(), server.fresh()]);
    several.create_tables();
    several.database(0).sql("UPDATE leafd_division SET share_end = 64");
    several.database(0).sql("DELETE FROM leafd_share_grant");
    let list = several.urls(Database::port);
    for command in ["make", "show"] {
        is_refused(&divide(&list, &several.division(), &[command]), "shares in common");
    }
}

#[test]
fn tags_are_made_deleted_and_changed_in_every_database_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let several = two("orders", 100);
    let home = home_of(&several, folder.path()).with("HTTP_LISTEN", "127.0.0.1:0");
    let daemon = home.start();
    let ctl = |arguments: &[&str]| {
        let mut command = std::process::Command::new(program("leafctl"));
        command.arg("--socket").arg(home.socket()).args(arguments).output().unwrap()
    };
    assert!(ctl(&["tag", "create", "users", "--step", "50"]).status.success());
    assert_eq!((several.max_id_in(0, "users"), several.max_id_in(1, "users")), (1, 1));
    is_refused(&ctl(&["tag", "create", "users"]), "already");
    several.database(1).stop();
    for change in [
        &["tag", "create", "items"][..],
        &["tag", "delete", "users", "--yes"],
        &["tag", "set-step", "users", "70"],
    ] {
        is_refused(&ctl(change), "needs all databases");
    }
    let examined = {
        let mut doctor = home.command("leafctl");
        doctor.arg("--socket").arg(home.socket()).arg("doctor").output().unwrap()
    };
    let examined = text(&examined);
    assert!(examined.contains("one of the store's databases cannot be used"), "{examined}");
    let scraped = scrape(address(&home, 1));
    assert_eq!(scraped.value("leafd_store_databases", &[("state", "failing")]), 1.0);
    assert_eq!(scraped.value("leafd_store_databases", &[("state", "working")]), 1.0);
    // What is there is served, and what is not is not called unknown as long as one cannot be asked.
    daemon.client().next("users").unwrap();
    several.database(1).start_again();
    let store = || daemon.client().status().unwrap().segments.store;
    wait_until(&home, "all work", || !store().contains("fail"));
    // A row that an interrupted call has made in one of them only.
    let quoted = several.database(0).quote("items");
    several.database(0).sql(&format!(
        "INSERT INTO leafd_share_tag (biz_tag, max_id, step) VALUES ({quoted}, 500, 20)"
    ));
    is_refused(&ctl(&["tag", "create", "items"]), "already");
    assert_eq!(several.max_id_in(1, "items"), 500, "it was completed");
    assert!(ctl(&["tag", "delete", "users", "--yes"]).status.success());
    for database in several.databases() {
        assert_eq!(database.query("SELECT biz_tag FROM leafd_share_tag").len(), 2);
        assert_eq!(database.query("SELECT biz_tag FROM leafd_share_tombstone").len(), 1);
    }
    daemon.stop();
}

#[test]
fn rows_that_a_database_has_lost_are_noticed_told_and_moved_forward() {
    let folder = tempfile::tempdir().unwrap();
    let several = two("orders", 100);
    let home = home_of(&several, folder.path()).with("SEGMENT_REFRESH", "300ms");
    let daemon = home.start();
    let seen = UniqueIds::default();
    let orders = Caller::of(&daemon, "orders", &seen);
    orders.gets(1000);
    let at = several.max_id_in(0, "orders");
    several.database(0).sql("UPDATE leafd_share_tag SET max_id = 1");
    home.log().wait_for("has lost leases");
    wait_until(&home, "the row is moved forward", || several.max_id_in(0, "orders") >= at);
    orders.gets(1000);
    // One that was never used, and so is behind, has lost nothing.
    let ended = daemon.stop();
    assert_eq!(ended.count("has lost leases"), 1, "{ended}");
}
