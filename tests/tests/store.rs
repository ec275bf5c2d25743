//! What every store promises about its rows: leases by Leaf's convention, administration, and invalid
//! rows.

use leafd::store::LeaseAsk;
use leafd::store::{NewTag, Row, StoreError};
use leafd_tests::stores::{ASK, TestStore, run, span, tag};
use leafd_tests::{on_every_sql_store, on_every_store};

on_every_store! {
    a_lease_follows_leafs_convention,
    a_lease_is_as_large_as_asked_and_never_smaller_than_the_step,
    a_row_below_the_high_water_mark_is_moved_forward_and_the_lease_says_from_where,
    a_tag_is_made_once_and_shown_as_it_was_made,
    raising_a_row_only_moves_it_forward,
    a_changed_step_applies_to_the_next_lease,
    a_missing_tag_has_an_error_of_its_own_and_the_handle_keeps_working,
    an_absurd_row_is_reported_and_left_alone_until_an_operator_repairs_it,
}

on_every_sql_store! {
    a_lease_changes_the_time_of_its_row_and_nothing_else,
    a_value_of_another_type_is_reported_and_does_not_hide_the_other_rows,
    a_value_that_does_not_fit_its_column_affects_only_its_row,
}

fn row(name: &str, max_id: i64, step: i64, description: &str) -> Row {
    Row {
        tag: name.into(),
        max_id: max_id.into(),
        step: step.into(),
        description: description.into(),
    }
}

fn texts<const N: usize>(values: [&str; N]) -> [Option<String>; N] {
    values.map(|value| Some(value.to_owned()))
}

fn a_lease_follows_leafs_convention(bench: &TestStore) {
    bench.create_table();
    bench.insert("orders", "1", "2000");
    let store = bench.open();
    for (start, end) in [(1, 2001), (2001, 4001), (4001, 6001)] {
        let leased = run(store.lease(&tag("orders"), ASK)).unwrap();
        assert_eq!((span(&leased), leased.lease.row_step), ((start, end), 2000));
        assert_eq!((leased.moved_from, bench.max_id("orders")), (None, end));
    }
    let other = run(bench.open().lease(&tag("orders"), ASK)).unwrap();
    assert_eq!(span(&other), (6001, 8001));
}

fn a_lease_is_as_large_as_asked_and_never_smaller_than_the_step(bench: &TestStore) {
    bench.create_table();
    let end_of_all = bench.last_end(false);
    let last = end_of_all - 10;
    bench.insert("orders", "1", "100");
    bench.insert("ends", &last.to_string(), "10");
    let store = bench.open();
    for (at_least, end) in [(5000, 5001), (99, 5101), (101, 5202)] {
        let ask = LeaseAsk { at_least, floor: 0 };
        assert_eq!(span(&run(store.lease(&tag("orders"), ask)).unwrap()).1, end);
        assert_eq!(bench.max_id("orders"), end);
    }
    let ask = LeaseAsk { at_least: 1_000_000, floor: 0 };
    let leased = run(store.lease(&tag("ends"), ask)).unwrap();
    assert_eq!(span(&leased), (last.unsigned_abs(), end_of_all.unsigned_abs()));
    let error = run(store.lease(&tag("ends"), ASK)).unwrap_err();
    assert!(matches!(&error, StoreError::BadRow(why) if why.contains("2^63")), "{error}");
    assert_eq!(bench.max_id("ends"), end_of_all.unsigned_abs());
}

fn a_row_below_the_high_water_mark_is_moved_forward_and_the_lease_says_from_where(
    bench: &TestStore,
) {
    bench.create_table();
    bench.insert("orders", "700", "10");
    let store = bench.open();
    let lease = |floor| run(store.lease(&tag("orders"), LeaseAsk { at_least: 0, floor })).unwrap();
    for (floor, start, moved_from) in
        [(700, 700, None), (5000, 5000, Some(710)), (4000, 5010, None), (5020, 5020, None)]
    {
        let leased = lease(floor);
        assert_eq!((span(&leased).0, leased.moved_from), (start, moved_from), "{floor}");
        assert_eq!(bench.max_id("orders"), start + 10);
    }
    // A backup is restored.
    bench.set_max_id("orders", "1");
    let leased = lease(5030);
    assert_eq!((span(&leased), leased.moved_from), ((5030, 5040), Some(1)));
}

fn a_lease_changes_the_time_of_its_row_and_nothing_else(bench: &TestStore) {
    bench.create_table();
    let store = bench.open();
    run(store.create(&tag("orders"), NewTag::new(1, 2000, "für 'Bestellungen' \\ 订单 🦀")))
        .unwrap();
    bench.insert("other", "5", "6");
    let old = "2001-02-03 04:05:06";
    let times = || {
        bench.query(&format!(
            "SELECT biz_tag FROM leaf_alloc WHERE update_time <> '{old}' ORDER BY biz_tag"
        ))
    };
    let reset = || bench.sql(&format!("UPDATE leaf_alloc SET update_time = '{old}'"));
    assert_eq!(times(), [texts(["orders"]), texts(["other"])], "both rows were just created");
    let calls: [&dyn Fn(); 3] = [
        &|| assert!(run(store.lease(&tag("orders"), ASK)).is_ok()),
        &|| assert!(run(store.raise(&tag("orders"), 9000)).is_ok()),
        &|| assert!(run(store.set_step(&tag("orders"), 30)).is_ok()),
    ];
    for call in calls {
        reset();
        assert_eq!(times(), [[None; 0]; 0]);
        call();
        assert_eq!(times(), [texts(["orders"])]);
    }
    assert_eq!(bench.row("orders"), texts(["9000", "30", "für 'Bestellungen' \\ 订单 🦀"]));
    assert_eq!(bench.row("other"), [Some("5".into()), Some("6".into()), None]);
}

fn a_tag_is_made_once_and_shown_as_it_was_made(bench: &TestStore) {
    bench.create_table();
    let store = bench.open();
    assert_eq!(run(store.page("", 1000)).unwrap(), []);
    run(store.create(&tag("orders"), NewTag::new(1, 2000, ""))).unwrap();
    let long = "🦀".repeat(256);
    run(store.create(&tag("users"), NewTag::new(1_000_000, 7, &long))).unwrap();
    let again = run(store.create(&tag("orders"), NewTag::new(5, 6, "another")));
    assert_eq!(again, Err(StoreError::Exists));
    let (orders, users) = (row("orders", 1, 2000, ""), row("users", 1_000_000, 7, &long));
    assert_eq!(run(store.show(&tag("orders"))).unwrap(), orders);
    assert_eq!(run(store.show(&tag("users"))).unwrap(), users);
    let mut listed = run(bench.open().page("", 1000)).unwrap();
    listed.sort_by(|a, b| a.tag.cmp(&b.tag));
    assert_eq!(listed, [orders, users]);
    // The first million is the first database's, and then every 64th.
    let begins = if bench.is_several() { 64_000_000 } else { 1_000_000 };
    assert_eq!(span(&run(store.lease(&tag("users"), ASK)).unwrap()), (begins, begins + 7));
    // An operator takes it out and puts it back.
    bench.remove("orders");
    assert_eq!(run(store.show(&tag("orders"))), Err(StoreError::NoSuchTag));
    run(store.create(&tag("orders"), NewTag::new(3, 4, ""))).unwrap();
    assert_eq!(run(store.show(&tag("orders"))).unwrap(), row("orders", 3, 4, ""));
}

fn raising_a_row_only_moves_it_forward(bench: &TestStore) {
    bench.create_table();
    bench.insert("orders", "100", "10");
    bench.insert("negative", "-5", "10");
    let store = bench.open();
    for (floor, from, max_id) in
        [(100, None, 100), (99, None, 100), (101, Some(100), 101), (0, None, 101)]
    {
        assert_eq!(run(store.raise(&tag("orders"), floor)).unwrap(), from, "{floor}");
        assert_eq!(bench.max_id("orders"), max_id);
    }
    // An invalid value is not silently repaired: a lease reports it.
    assert_eq!(run(store.raise(&tag("negative"), 30)).unwrap(), None);
    let refused = run(store.lease(&tag("negative"), ASK));
    assert!(
        matches!(&refused, Err(StoreError::BadRow(why)) if why.contains(&bench.shown(-5))),
        "{refused:?}"
    );
    assert_eq!(run(store.raise(&tag("orders"), i64::MAX.unsigned_abs())).unwrap(), Some(101));
    assert_eq!(bench.max_id("orders"), i64::MAX.unsigned_abs());
}

fn a_changed_step_applies_to_the_next_lease(bench: &TestStore) {
    bench.create_table();
    bench.insert("orders", "1", "10");
    bench.insert("idle", "1", "0");
    let (store, other) = (bench.open(), bench.open());
    assert_eq!(span(&run(store.lease(&tag("orders"), ASK)).unwrap()), (1, 11));
    for step in [500, 500, 1] {
        run(other.set_step(&tag("orders"), step)).unwrap();
        let leased = run(store.lease(&tag("orders"), ASK)).unwrap();
        assert_eq!((leased.lease.range.count(), leased.lease.row_step), (step, step));
    }
    // It can also repair a row.
    run(store.set_step(&tag("idle"), 20)).unwrap();
    assert_eq!(span(&run(store.lease(&tag("idle"), ASK)).unwrap()), (1, 21));
}

fn a_missing_tag_has_an_error_of_its_own_and_the_handle_keeps_working(bench: &TestStore) {
    bench.create_table();
    bench.insert("orders", "1", "10");
    let store = bench.open();
    let works = |start| {
        assert_eq!(span(&run(store.lease(&tag("orders"), ASK)).unwrap()), (start, start + 10));
    };
    let missing = &tag("missing");
    assert_eq!(run(store.lease(missing, ASK)), Err(StoreError::NoSuchTag));
    works(1);
    assert_eq!(run(store.show(missing)), Err(StoreError::NoSuchTag));
    works(11);
    assert_eq!(run(store.raise(missing, 50)), Err(StoreError::NoSuchTag));
    works(21);
    assert_eq!(run(store.set_step(missing, 50)), Err(StoreError::NoSuchTag));
    works(31);
    assert_eq!(run(store.create(&tag("orders"), NewTag::new(1, 1, ""))), Err(StoreError::Exists));
    works(41);
    assert_eq!(run(store.page("", 1000)).unwrap(), [row("orders", 51, 10, "")]);
}

fn an_absurd_row_is_reported_and_left_alone_until_an_operator_repairs_it(bench: &TestStore) {
    bench.create_table();
    bench.insert("good", "1", "10");
    bench.insert("bad", "1", "10");
    let store = bench.open();
    for (max_id, step) in
        [(-1, 10), (i64::MIN, 10), (i64::MAX, 10), (i64::MAX - 7, 10), (1, 0), (1, -7)]
    {
        bench.update("bad", &max_id.to_string(), &step.to_string());
        let before = bench.row("bad");
        let error = run(store.lease(&tag("bad"), ASK)).unwrap_err();
        let named = match step {
            10 => bench.shown(max_id),
            0 if bench.is_redis() => "the step is \"0\"".to_owned(),
            0 => "step is 0".to_owned(),
            step => step.to_string(),
        };
        assert!(matches!(&error, StoreError::BadRow(why) if why.contains(&named)), "{error}");
        assert_eq!(bench.row("bad"), before);
        assert_eq!(run(store.page("", 1000)).unwrap().len(), 2);
        run(store.lease(&tag("good"), ASK)).unwrap();
    }
    bench.update("bad", "5000", "10");
    assert_eq!(span(&run(store.lease(&tag("bad"), ASK)).unwrap()), (5000, 5010));
}

/// A column type that leafd does not expect, with values and the part of the error that names each.
type Odd = (&'static str, &'static [(&'static str, &'static str)]);

fn a_value_of_another_type_is_reported_and_does_not_hide_the_other_rows(bench: &TestStore) {
    const PAST: &str = "9223372036854775808";
    const IS_PAST: (&str, &str) = (PAST, "is 9223372036854775808");
    const NULL: (&str, &str) = ("NULL", "is NULL");
    const TEXTS: &[(&str, &str)] =
        &[NULL, ("'many'", "is many"), ("''", "is ,"), ("'1.5'", "is 1.5"), ("'1e3'", "is 1e3")];
    let odd: &[Odd] = bench.by_kind(
        &[
            ("bigint", &[NULL, ("'many'", "is many"), ("1.5", "is 1.5"), (PAST, "is 9.22")]),
            ("double", &[NULL, ("1.5", "is 1.5"), (PAST, "is 9.22")]),
            ("blob", &[NULL, ("x'6d616e79'", "is many"), ("'1.5'", "is 1.5")]),
        ],
        &[
            ("decimal(30,0)", &[NULL, IS_PAST, ("-1", "is -1")]),
            ("decimal(30,1)", &[NULL, IS_PAST, ("1.5", "is 1.5")]),
            ("bigint unsigned", &[NULL, IS_PAST]),
            ("double", &[NULL, ("1.5", "is 1.5"), (PAST, "is 9.22")]),
            ("varchar(64)", TEXTS),
            ("varbinary(64)", TEXTS),
        ],
        &[
            ("numeric", &[NULL, IS_PAST, ("1.5", "is 1.5"), ("'NaN'", "is NaN")]),
            ("double precision", &[NULL, ("1.5", "is 1.5"), (PAST, "is 9.22")]),
            ("text", TEXTS),
        ],
    );
    let store = bench.open();
    for (column_type, values) in odd {
        for column in ["max_id", "step"] {
            match column {
                "max_id" => bench.create_table_of("varchar(128)", column_type, "int"),
                _ => bench.create_table_of("varchar(128)", "bigint", column_type),
            }
            bench.insert("good", "'1'", "'10'");
            bench.insert("bad", "'1'", "'10'");
            for (value, named) in *values {
                let at = format!("{column} {column_type}: {value}");
                let set = format!("UPDATE leaf_alloc SET {column} = {value} WHERE biz_tag = 'bad'");
                bench.sql(&set);
                let before = bench.row("bad");
                let error = run(store.lease(&tag("bad"), ASK)).unwrap_err();
                let StoreError::BadRow(why) = &error else { panic!("{at}: {error:?}") };
                assert!(why.contains(&format!("{column} {named}")), "{at}: {error}");
                assert_eq!(bench.row("bad"), before, "{at}");
                assert_eq!(run(store.page("", 1000)).unwrap().len(), 2, "{at}");
                assert_eq!(run(store.show(&tag("good"))).unwrap().tag, "good", "{at}");
            }
        }
    }
    bench.create_table_of("varchar(128)", "bigint", "int");
    bench.insert("bad", "1", "10");
    assert_eq!(span(&run(store.lease(&tag("bad"), ASK)).unwrap()), (1, 11));
}

fn a_value_that_does_not_fit_its_column_affects_only_its_row(bench: &TestStore) {
    let (max_id, step) = bench.by_kind(
        ("int CHECK (max_id <= 32767)", "int CHECK (step <= 32767)"),
        ("smallint", "smallint"),
        ("smallint", "smallint"),
    );
    bench.create_table_of("varchar(128)", max_id, step);
    bench.insert("full", "32760", "10");
    bench.insert("good", "1", "10");
    let store = bench.open();
    for outcome in [
        run(store.lease(&tag("full"), ASK)).map(drop),
        run(store.raise(&tag("full"), 40_000)).map(drop),
        run(store.set_step(&tag("full"), 40_000)).map(drop),
        run(store.create(&tag("new"), NewTag::new(1, 40_000, ""))).map(drop),
    ] {
        assert!(matches!(outcome, Err(StoreError::BadRow(_))), "{outcome:?}");
        run(store.lease(&tag("good"), ASK)).unwrap();
    }
    assert_eq!(bench.row("full"), [Some("32760".into()), Some("10".into()), None]);
    assert_eq!(run(store.show(&tag("new"))), Err(StoreError::NoSuchTag));
}
