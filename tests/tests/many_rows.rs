//! A table with very many rows. A daemon that uses a few of them keeps none of the others in memory, and
//! reads them only when a client asks for the list.

use leaf_client::wire::ErrorCode;
use leaf_client::{Error, TagStatus, blocking};
use leafd::store::NewTag;
use leafd_tests::daemon::Home;
use leafd_tests::database::{Database, Kind};
use leafd_tests::store_server::StoreServerKind;
use leafd_tests::stores::{TestStore, run, tag};
use leafd_tests::watch::peak_mib;
use leafd_tests::{on_every_sql_server, on_every_sql_store, on_every_store};

on_every_store! {
    pages_are_in_byte_order_and_complete_whatever_their_size,
    looking_up_many_tags_at_once_finds_the_same_rows_as_one_by_one,
}

// Redis has no order, so a page from the middle comes from the last search.
on_every_sql_store! {
    a_page_from_the_middle_has_a_tag_that_others_made_since_the_last_list,
}

on_every_sql_server! {
    pages_are_in_byte_order_and_complete_in_a_table_with_another_order,
}

/// Tags in byte order. Many collations have another order.
const NAMES: [&str; 9] = [" a", "A", "Z", "a", "a ", "a b", "b", "é", "🦀"];

#[track_caller]
fn assert_pages(bench: &TestStore, names: &[&str]) {
    let store = bench.open();
    for size in 1..=names.len() + 1 {
        let mut listed: Vec<String> = Vec::new();
        loop {
            let after = listed.last().cloned().unwrap_or_default();
            let page = run(store.page(&after, size)).unwrap();
            listed.extend(page.iter().map(|row| row.tag.clone()));
            if page.len() < size {
                break;
            }
        }
        assert_eq!(listed, names, "{size} at a time");
    }
    // A page may start after a name that no row has, or that no row can have.
    for after in ["a!", "a\0", "\0"] {
        let page = run(store.page(after, 100)).unwrap();
        let listed: Vec<&str> = page.iter().map(|row| row.tag.as_str()).collect();
        let due: Vec<&str> = names.iter().copied().filter(|name| *name > after).collect();
        assert_eq!(listed, due, "{after:?}");
    }
}

fn pages_are_in_byte_order_and_complete_whatever_their_size(bench: &TestStore) {
    bench.create_table();
    let store = bench.open();
    for name in NAMES.iter().rev() {
        run(store.create(&tag(name), NewTag::new(1, 10, name))).unwrap();
    }
    assert_pages(bench, &NAMES);
}

fn pages_are_in_byte_order_and_complete_in_a_table_with_another_order(bench: &TestStore) {
    let column = bench.by_kind(
        "",
        "varchar(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
        "varchar(128) COLLATE \"und-x-icu\"",
    );
    bench.create_table_of(column, "bigint", "int");
    let names = ["B", "C", "_", "a", "d", "z", "é"];
    for name in names.iter().rev() {
        bench.insert(name, "1", "10");
    }
    if bench.kind() == Some(StoreServerKind::MARIADB) {
        // This collation equates the two names.
        assert!(
            bench
                .session()
                .try_query("INSERT INTO leaf_alloc VALUES ('É', 1, 1, '', NOW())")
                .is_err()
        );
    }
    assert_pages(bench, &names);
}

fn a_page_from_the_middle_has_a_tag_that_others_made_since_the_last_list(bench: &TestStore) {
    bench.create_table();
    let store = bench.open();
    bench.insert("a", "1", "10");
    assert_eq!(run(store.page("", 10)).unwrap().len(), 1);
    bench.insert("b", "1", "10");
    let page = run(store.page("a", 10)).unwrap();
    assert_eq!(page.iter().map(|row| row.tag.as_str()).collect::<Vec<_>>(), ["b"]);
    bench.remove("b");
    assert_eq!(run(store.page("a", 10)).unwrap(), []);
}

fn looking_up_many_tags_at_once_finds_the_same_rows_as_one_by_one(bench: &TestStore) {
    bench.create_table();
    let store = bench.open();
    for name in NAMES {
        run(store.create(&tag(name), NewTag::new(1, 10, name))).unwrap();
    }
    // More names than one statement looks up, in no order, and most of them missing.
    let mut asked: Vec<_> = (0..600).map(|number| tag(&format!("none {number}"))).collect();
    asked.extend(NAMES.iter().rev().map(|name| tag(name)));
    asked.push(tag("b "));
    let mut found = run(store.find(&asked)).unwrap();
    found.sort_unstable_by(|a, b| a.tag.cmp(&b.tag));
    let one_by_one: Vec<_> =
        NAMES.iter().map(|name| run(store.show(&tag(name))).unwrap()).collect();
    assert_eq!(found, one_by_one);
    assert_eq!(run(store.find(&[])).unwrap(), []);
}

#[test]
fn a_name_that_the_column_cannot_hold_hides_no_other_tag() {
    let bench = TestStore::mariadb();
    bench.create_table_of("varchar(128) CHARACTER SET latin1", "bigint", "int");
    for name in ["a", "b", "ä"] {
        bench.insert(name, "1", "10");
    }
    let asked = ["🦀", "a", "订单", "b", "ä", "c"].map(tag);
    let mut found: Vec<_> =
        run(bench.open().find(&asked)).unwrap().into_iter().map(|row| row.tag).collect();
    found.sort_unstable();
    assert_eq!(found, ["a", "b", "ä"]);
}

fn names(tags: &[TagStatus]) -> Vec<&str> {
    tags.iter().map(|tag| tag.tag.as_str()).collect()
}

#[test]
fn unused_rows_take_no_memory_and_are_listed_in_pages() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with("SEGMENT_REFRESH", "100ms");
    let daemon = home.start();
    let mut client = daemon.client();
    client.next("orders").unwrap();
    home.sql(
        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 299999) \
         INSERT INTO leaf_alloc (biz_tag, max_id, step, description) \
         SELECT printf('row-%07d', i), 1, 1000, printf('description of row %d', i) FROM n",
    );
    // The rows are listed in pages, together with those that this host uses.
    let page = client.tag_list("row-0099999", 100).unwrap();
    assert_eq!((page[0].tag.as_str(), page.len()), ("row-0100000", 100));
    assert_eq!(page[0].description, "description of row 100000");
    assert_eq!(names(&client.tag_list("", 2).unwrap()), ["orders", "row-0000000"]);
    assert_eq!(names(&client.tag_list("row-0299998", 100).unwrap()), ["row-0299999"]);
    // Waits until a refresh has read this change.
    home.sql("UPDATE leaf_alloc SET max_id = 5000000 WHERE biz_tag = 'orders'");
    let seen = |client: &mut blocking::Client| client.tags_used("", 100).unwrap();
    while seen(&mut client)[0].max_id < 5_000_000 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(names(&seen(&mut client)), ["orders"]);
    assert_eq!(client.status().unwrap().segments.tags, 1);
    let memory = peak_mib(&daemon);
    println!("peak of {memory} MiB");
    assert!(memory < 100, "{memory} MiB");
}

#[test]
fn the_status_shows_tags_in_use_without_asking_the_store() {
    let database = Database::with_tag(Kind::MariaDb, "orders", 1000);
    database.insert_tag("unused", 1, 1000);
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with_database(&database);
    let daemon = home.start();
    let mut client = daemon.client();
    client.next("orders").unwrap();
    assert_eq!(names(&client.tag_list("", 100).unwrap()), ["orders", "unused"]);
    let mut holder = database.session();
    holder.execute("LOCK TABLES leaf_alloc WRITE");
    let output = home.command("leafctl").arg("status").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("orders"), "{text}");
    assert!(!text.contains("unused"), "{text}");
    // A list that cannot be read is an error and not an empty page.
    match client.tag_list("", 100) {
        Err(Error::Refused(error)) => assert_eq!(error.code(), ErrorCode::StoreUnavailable),
        other => panic!("{other:?}"),
    }
    holder.execute("UNLOCK TABLES");
}
