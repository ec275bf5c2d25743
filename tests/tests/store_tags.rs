//! Tags that look alike, and tags with odd characters. On leafd's table each is a tag of its own. On a
//! table that equates some of them, none is ever served from the row of another.

use std::collections::BTreeSet;

use leafd::store::{NewTag, StoreError};
use leafd_tests::store_server::StoreServerKind;
use leafd_tests::stores::{ASK, TestStore, run, span, tag};
use leafd_tests::{on_every_sql_store, on_every_store};

on_every_store! {
    every_tag_that_differs_in_a_byte_is_a_tag_of_its_own,
}

on_every_sql_store! {
    a_tag_that_the_collation_equates_with_another_is_never_served_from_its_row,
    a_tag_that_the_table_cannot_hold_harms_no_other,
}

fn odd_tags() -> BTreeSet<String> {
    let mut tags: BTreeSet<String> = [
        "a",
        "A",
        "á",
        "a\u{301}",
        "ａ",
        "𝐚",
        "а",
        "aa",
        "a.",
        "a ",
        " a",
        " ",
        "  ",
        "a\u{a0}",
        "a\u{3000}",
        "a\u{200b}",
        "a\u{200d}",
        "\u{feff}a",
        "a\u{ad}",
        "a\u{e000}",
        "a\u{ffff}",
        "ß",
        "ss",
        "SS",
        "ẞ",
        "ı",
        "i",
        "İ",
        "I",
        "ﬁ",
        "fi",
        "Å",
        "\u{212b}",
        "A\u{30a}",
        "œ",
        "oe",
        "1",
        "01",
        "１",
        "²",
        "2",
        "1.0",
        "1e0",
        "0x1",
        "NULL",
        "null",
        "true",
        "DEFAULT",
        "%",
        "_",
        "%%",
        "a%",
        "a_",
        "?",
        "$1",
        ":a",
        "@a",
        "a.b.c",
        "a/b",
        "/",
        "..",
        "../a",
        "",
        "'",
        "''",
        "\"",
        "`",
        "\\",
        "\\\\",
        "\\'",
        "\\n",
        "a'b\"c`d\\e",
        "a' OR '1'='1",
        "a';--",
        "a;b",
        "a#b",
        "a--b",
        "/*a*/",
        "{a}",
        "[a]",
        "(a)",
        "a,b",
        "a=b",
        "a&b",
        "a|b",
        "a\tb",
        "🦀",
        "🦀🦀",
        "👩‍💻",
        "👩💻",
        "🇩🇪",
        "e\u{fe0f}",
        "订单",
        "注文",
        "טסט",
        "\u{202e}a",
        "अ",
    ]
    .into_iter()
    .filter(|name| !name.is_empty() && !name.contains('\t'))
    .map(str::to_owned)
    .collect();
    for longest in ["x", "X", "🦀", "é", " ", "'"] {
        tags.insert(longest.repeat(128));
        tags.insert(longest.repeat(127));
    }
    tags
}

fn every_tag_that_differs_in_a_byte_is_a_tag_of_its_own(bench: &TestStore) {
    bench.create_table();
    tell_all_tags_apart(bench);
    if bench.is_redis() || bench.is_several() {
        return;
    }
    // Other columns that distinguish them.
    let columns: &[&str] = bench.by_kind(
        &["text COLLATE BINARY"],
        &["varbinary(512)"],
        &["varchar(128)", "text COLLATE ucs_basic"],
    );
    for column in columns {
        bench.create_table_of(column, "bigint", "int");
        tell_all_tags_apart(bench);
    }
}

fn tell_all_tags_apart(bench: &TestStore) {
    let (store, other) = (bench.open(), bench.open());
    let tags = odd_tags();
    for name in &tags {
        assert_eq!(run(store.lease(&tag(name), ASK)), Err(StoreError::NoSuchTag), "{name:?}");
        run(store.create(&tag(name), NewTag::new(1, 10, name)))
            .unwrap_or_else(|e| panic!("{name:?}: {e}"));
        assert_eq!(
            run(other.create(&tag(name), NewTag::new(1, 10, ""))),
            Err(StoreError::Exists),
            "{name:?}"
        );
    }
    // Each tag has a step and a position of its own, so that a mix-up of rows would show.
    for (number, name) in (1..).zip(&tags) {
        run(store.set_step(&tag(name), number)).unwrap();
        let first = number * 1000;
        assert_eq!(run(other.raise(&tag(name), first)).unwrap(), Some(1), "{name:?}");
        let leased = run(other.lease(&tag(name), ASK)).unwrap();
        assert_eq!(span(&leased), (first, first + number), "{name:?}");
    }
    let mut listed: Vec<_> = run(store.page("", 1000)).unwrap();
    listed.sort_by(|a, b| a.tag.cmp(&b.tag));
    assert!(listed.iter().map(|row| &row.tag).eq(&tags));
    for (number, (row, name)) in (1..).zip(listed.iter().zip(&tags)) {
        assert_eq!(run(store.show(&tag(name))).as_ref(), Ok(row));
        assert_eq!((row.max_id.get(), row.step.get()), (Some(number * 1001), Some(number)));
        assert_eq!(&row.description, name);
        assert_eq!(bench.max_id(name), (number * 1001).unsigned_abs(), "as an operator sees it");
    }
}

fn a_tag_that_the_collation_equates_with_another_is_never_served_from_its_row(bench: &TestStore) {
    if bench.kind() == Some(StoreServerKind::POSTGRES) {
        bench.sql(
            "CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level1', deterministic = false)",
        );
    }
    let (same, columns): (&[&str], &[&str]) = bench.by_kind(
        (&["orders", "ORDERS"], &["varchar(128) COLLATE NOCASE"]),
        (
            &["orders", "ORDERS", "Orders ", "orders  ", "órders"],
            &[
                "varchar(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
                "varchar(128) CHARACTER SET utf8mb3 COLLATE utf8mb3_general_ci",
                "varchar(128) CHARACTER SET latin1 COLLATE latin1_swedish_ci",
            ],
        ),
        (&["orders", "ORDERS", "órders"], &["varchar(128) COLLATE loose"]),
    );
    let store = bench.open();
    for column in columns {
        bench.create_table_of(column, "bigint", "int");
        run(store.create(&tag("Orders"), NewTag::new(1, 10, ""))).unwrap();
        run(store.create(&tag("users"), NewTag::new(1, 10, ""))).unwrap();
        let before = bench.query("SELECT * FROM leaf_alloc ORDER BY biz_tag");
        for name in same {
            let name = &tag(name);
            assert_eq!(
                run(store.lease(name, ASK)),
                Err(StoreError::NoSuchTag),
                "{column} {name:?}"
            );
            assert_eq!(run(store.show(name)), Err(StoreError::NoSuchTag));
            assert_eq!(run(store.set_step(name, 99)), Err(StoreError::NoSuchTag));
            assert_eq!(run(store.raise(name, 99)), Err(StoreError::NoSuchTag));
            let error = run(store.create(name, NewTag::new(1, 10, ""))).unwrap_err();
            assert!(
                matches!(&error, StoreError::BadRow(why) if why.contains("collation")),
                "{error}"
            );
        }
        assert_eq!(bench.query("SELECT * FROM leaf_alloc ORDER BY biz_tag"), before);
        let orders = &tag("Orders");
        assert_eq!(run(store.create(orders, NewTag::new(1, 10, ""))), Err(StoreError::Exists));
        run(store.set_step(orders, 20)).unwrap();
        assert_eq!(run(store.raise(orders, 50)).unwrap(), Some(1));
        assert_eq!(span(&run(store.lease(orders, ASK)).unwrap()), (50, 70));
        assert_eq!(run(store.show(orders)).unwrap().max_id.get(), Some(70));
    }
}

fn a_tag_that_the_table_cannot_hold_harms_no_other(bench: &TestStore) {
    let columns: &[&str] = bench.by_kind(
        &["varchar(128) CHECK (length(biz_tag) < 20 AND unicode(biz_tag) < 256)"],
        &[
            "varchar(16) CHARACTER SET utf8mb3",
            "varchar(16) CHARACTER SET latin1",
            "varchar(16) CHARACTER SET latin1 COLLATE latin1_bin",
            "varchar(16) CHARACTER SET ascii",
        ],
        &["varchar(16) CHECK (ascii(biz_tag) < 256)"],
    );
    let (store, unheard, long) = (bench.open(), tag("🦀"), tag(&"long".repeat(32)));
    for column in columns {
        bench.create_table_of(column, "bigint", "int");
        run(store.create(&tag("orders"), NewTag::new(1, 10, ""))).unwrap();
        for name in [&unheard, &long] {
            assert_eq!(run(store.lease(name, ASK)), Err(StoreError::NoSuchTag), "{column} {name}");
            assert_eq!(run(store.show(name)), Err(StoreError::NoSuchTag), "{column} {name}");
            let error = run(store.create(name, NewTag::new(1, 10, ""))).unwrap_err();
            assert!(matches!(error, StoreError::BadRow(_)), "{column}: {error:?}");
        }
        assert_eq!(run(store.page("", 1000)).unwrap().len(), 1);
        run(store.lease(&tag("orders"), ASK)).unwrap();
    }
}
