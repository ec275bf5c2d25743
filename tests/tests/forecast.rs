//! `leafctl forecast`: the figures of leafd's metrics, in the order in which tags outgrow their types.

use std::collections::BTreeSet;
use std::path::Path;

use leafd_tests::Terminal;
use leafd_tests::caller::wait_until;
use leafd_tests::daemon::{Daemon, Home};
use leafd_tests::faketime::FakeTime;
use leafd_tests::lending::LendingDaemon;
use leafd_tests::other_user::{OtherUser, open_to_all};
use leafd_tests::scrape::{address, scrape};
use serde_json::{Value, json};

const DAY_MS: i64 = 86_400_000;
const INT32: u64 = 1 << 31;

/// A user without a name.
const SOMEBODY: u32 = 4242;

fn home(folder: &Path) -> Home {
    Home::new(folder).with_time_for_the_disk()
}

fn leafctl(home: &Home, arguments: &[&str]) -> String {
    let (code, out, errors) = home.run("leafctl", arguments);
    assert_eq!((code, errors.as_str()), (Some(0), ""), "{arguments:?}");
    out
}

/// `leafctl forecast --json` with further arguments.
fn forecast(home: &Home, arguments: &[&str]) -> Value {
    let out = leafctl(home, &[&["forecast", "--json"], arguments].concat());
    assert_eq!(out.lines().count(), 1, "{out}");
    serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}"))
}

/// The tag of this name in a forecast.
fn tag<'a>(forecast: &'a Value, name: &str) -> &'a Value {
    let tags = forecast["tags"].as_array().expect("a list");
    let found = tags.iter().find(|tag| tag["tag"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {forecast}"))
}

fn names(forecast: &Value) -> Vec<&str> {
    let tags = forecast["tags"].as_array().expect("a list").iter();
    tags.map(|tag| tag["tag"].as_str().expect("a name")).collect()
}

/// A daemon that has known the tags `orders`, `still` and `wide` for two days. Of `orders` it has given
/// out a million IDs, `still` has rested since, and `wide` has passed `int32`.
fn grown(home: &Home, clock: &FakeTime) -> Daemon {
    clock.set_offset_ms(-2 * DAY_MS);
    let daemon = home.start();
    let mut client = daemon.client();
    client.next("orders").unwrap();
    client.next("still").unwrap();
    client.tag_create("wide", 1000, INT32, "").unwrap();
    client.next("wide").unwrap();
    daemon.stop();
    clock.set_offset_ms(0);
    let daemon = home.start();
    let mut client = daemon.client();
    for _ in 0..100 {
        client.next_many("orders", 10_000).unwrap();
    }
    client.next_many("wide", 5000).unwrap();
    daemon
}

#[test]
fn the_figures_are_those_of_the_metrics_and_what_ends_first_comes_first() {
    let folder = tempfile::tempdir().unwrap();
    let clock = FakeTime::new(folder.path());
    let home = home(folder.path())
        .with("HTTP_LISTEN", "127.0.0.1:0")
        .with("METRICS_TAGS", "[\"*\"]")
        .with_clock(&clock);
    let daemon = grown(&home, &clock);
    daemon.client().next("young").unwrap();
    let address = address(&home, 2);
    let rate_of =
        |name: &str| scrape(address).value("leafd_tag_growth_ids_per_second", &[("tag", name)]);
    let at_of = |name: &str, limit: &str| {
        let labels = [("tag", name), ("limit", limit)];
        scrape(address).find("leafd_tag_limit_timestamp_seconds", &labels)
    };
    // Leases under way end first, so that from here on a rate only falls and its dates only move away.
    let marks = || forecast(&home, &[])["tags"].as_array().unwrap().len();
    wait_until(&home, "the four tags", || marks() == 4);
    let max_id = |name: &str| scrape(address).value("leafd_tag_max_id", &[("tag", name)]);
    let mut last = 0.0;
    wait_until(&home, "the last lease", || {
        std::thread::sleep(std::time::Duration::from_millis(300));
        let before = std::mem::replace(&mut last, max_id("orders"));
        before == last
    });
    let before = (rate_of("orders"), at_of("orders", "int32").unwrap());
    let found = forecast(&home, &[]);
    let orders = tag(&found, "orders");
    assert_eq!(orders["max_id"], json!(last as u64));
    let rate = orders["ids_per_second"].as_f64().expect("a rate");
    let at = orders["limits"]["int32"]["at_unix_s"].as_f64().expect("a time");
    assert!(rate <= before.0 && at + 1.0 > before.1, "{orders} after {before:?}");
    wait_until(&home, "a later scrape", || rate_of("orders") < rate);
    assert!(at_of("orders", "int32").unwrap() >= at);
    let text = orders["limits"]["int32"]["at"].as_str().unwrap();
    assert!(text.starts_with("20") && text.ends_with('Z'), "{text}");
    let measured = orders["measured_s"].as_u64().unwrap();
    assert!((2 * 86_400..3 * 86_400).contains(&measured), "{measured}");

    let far = json!({ "passed": false, "at": null, "at_unix_s": null });
    assert_eq!(orders["limits"]["int64"], far);
    assert_eq!(at_of("orders", "int64"), None);
    let wide = tag(&found, "wide");
    let passed = json!({ "passed": true, "at": null, "at_unix_s": null });
    assert_eq!((&wide["limits"]["int32"], &wide["limits"]["2^53"]), (&passed, &far));
    let still = tag(&found, "still");
    assert_eq!((&still["ids_per_second"], &still["limits"]["int32"]), (&json!(0.0), &far));
    let young = tag(&found, "young");
    assert!(young["ids_per_second"].is_null() && young["measured_s"].is_null(), "{young}");
    assert_eq!(young["limits"]["int32"], far);
    let end = scrape(address).value("leafd_layout_end_timestamp_seconds", &[]);
    assert_eq!(found["layout_end_unix_s"].as_u64(), Some(end as u64));
    assert_eq!(found["layout_end"], "2080-07-10T17:30:30.209Z");

    // Then those without a date, the highest IDs first.
    assert_eq!(names(&found)[..2], ["orders", "wide"]);
    let out = leafctl(&home, &["forecast"]);
    let rows: Vec<Vec<&str>> = out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["TAG", "RATE/S", "OVER", "MAX_ID", "INT32", "2^53", "INT64"]);
    assert_eq!(rows[1][0], "orders");
    assert_eq!(rows[1][7], text.split_once('T').unwrap().0, "{out}");
    let has = |name: &str, words: &str| {
        out.lines().any(|line| line.starts_with(name) && line.contains(words))
    };
    assert!(has("wide ", "  passed  ") && has("still ", "  not at this rate  "), "{out}");
    assert!(has("young ", "  unknown  ") && has("unknown: ", "ten minutes"), "{out}");
    assert!(has("snowflake IDs end on 2080-07-10", ""), "{out}");

    // One tag alone.
    let one = forecast(&home, &["orders"]);
    assert_eq!((names(&one), &one["layout_end"]), (vec!["orders"], &found["layout_end"]));
    let out = leafctl(&home, &["forecast", "wide"]);
    assert!(out.starts_with("tag     wide\nmax_id  2147"), "{out}");
    assert!(out.contains("\nint32   passed\n2^53    not at this rate\n"), "{out}");

    let mut terminal = Terminal::open(80, 24);
    let mut command = home.command("leafctl");
    terminal.run(command.arg("forecast"));
    let ended = terminal.wait();
    assert!(ended.status.success() && ended.restored, "{ended:?}");
    assert!(!terminal.has_wrapped() && ended.screen[0].contains("INT64"), "{ended:?}");
    daemon.stop();
}

#[test]
fn a_clock_that_jumps_gives_no_date_instead_of_a_wrong_one() {
    let folder = tempfile::tempdir().unwrap();
    let clock = FakeTime::new(folder.path());
    let home = home(folder.path()).with("SNOWFLAKE_ENABLED", "false").with_clock(&clock);
    let daemon = grown(&home, &clock);
    assert!(tag(&forecast(&home, &[]), "orders")["ids_per_second"].is_number());
    for days in [-30, 300, 300_000] {
        clock.set_offset_ms(days * DAY_MS);
        let found = forecast(&home, &["orders"]);
        let orders = tag(&found, "orders");
        assert!(orders["ids_per_second"].is_null(), "{days}: {orders}");
        assert!(orders["limits"]["int32"]["at"].is_null(), "{days}: {orders}");
        let text = leafctl(&home, &["forecast", "orders"]);
        assert!(text.contains("\nint32   unknown\n"), "{days}: {text}");
    }
    // Nothing ends where nothing begins.
    let found = forecast(&home, &[]);
    assert!(found["layout_end"].is_null() && found["layout_end_unix_s"].is_null(), "{found}");
    assert!(leafctl(&home, &["forecast"]).contains("no snowflake IDs (snowflake.enabled)"));
    daemon.stop();
}

#[test]
fn more_tags_than_a_page_has_are_all_there_once() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path());
    let daemon = home.start();
    assert_eq!(names(&forecast(&home, &[])), [""; 0]);
    let none = leafctl(&home, &["forecast"]);
    assert!(none.starts_with("This leafd has used no tags.\n"), "{none}");
    let mut client = daemon.client();
    let made: BTreeSet<_> = (0..230).map(|number| format!("tag-{number:03}")).collect();
    for tag in &made {
        client.next(tag).unwrap();
    }
    // A row that nobody has used has no rate.
    client.tag_create("unused", 1000, 1, "").unwrap();
    let found = forecast(&home, &[]);
    let found_names = names(&found);
    assert_eq!((found_names.len(), &found["tags_left_out"]), (230, &json!(0)));
    assert_eq!(found_names.into_iter().map(str::to_owned).collect::<BTreeSet<_>>(), made);
    client.tag_delete("tag-000").unwrap();
    assert_eq!(names(&forecast(&home, &[])).len(), 229, "a deleted tag has no forecast");
    daemon.stop();
}

#[test]
fn whoever_may_not_list_tags_gets_no_forecast_and_no_name() {
    let folder = tempfile::tempdir().unwrap();
    open_to_all(folder.path());
    let home = home(folder.path()).with("SOCKET_MODE", "0666");
    let daemon = home.start();
    daemon.client().next("orders").unwrap();
    let somebody = OtherUser::new(SOMEBODY, SOMEBODY);
    for arguments in [&["forecast"][..], &["forecast", "orders"], &["forecast", "unknown"]] {
        let output = somebody.leafctl(folder.path(), &home.socket(), arguments);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(64), 0), "{errors}");
        assert!(errors.contains("206 Forbidden") && !errors.contains("orders"), "{errors}");
    }
    let ended = daemon.stop();
    let refused = ended.log();
    assert!(refused.contains("tag-forecasts refused"), "{ended}");
}

#[test]
fn a_wrong_tag_or_command_line_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path());
    let daemon = home.start();
    daemon.client().tag_create("unused", 1000, 1, "").unwrap();
    let refused = |arguments: &[&str]| {
        let (code, out, errors) = home.run("leafctl", &[&["forecast"], arguments].concat());
        assert_eq!(out, "", "{arguments:?}");
        assert!(!errors.contains('\x1b'), "{errors:?}");
        (code, errors)
    };
    let long = "x".repeat(129);
    for arguments in [
        &[""][..],
        &["a\x1b[2J"],
        &[&long],
        &["orders", "users"],
        &["--all"],
        &["--json", "--", "--json", "orders"],
    ] {
        let (code, errors) = refused(arguments);
        assert!(code == Some(64) && !errors.is_empty(), "{arguments:?}: {errors}");
    }
    for tag in ["unused", "never made"] {
        let (code, errors) = refused(&[tag]);
        assert_eq!(code, Some(64), "{errors}");
        assert!(errors.contains("202 UnknownTag") && errors.contains("tag show"), "{errors}");
        let (_, error) = refused(&[tag, "--json"]);
        let error: Value = serde_json::from_str(&error).unwrap();
        assert_eq!((&error["code"], &error["exit_status"]), (&json!(202), &json!(64)));
    }
    daemon.stop();
    assert_eq!(refused(&["--timeout", "100ms"]).0, Some(69));
}

#[test]
fn an_older_leafd_that_does_not_know_the_call_is_called_too_old() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path());
    let _older = LendingDaemon::start(&home.socket(), 1000);
    for arguments in [&["forecast"][..], &["forecast", "orders"]] {
        let (code, out, errors) = home.run("leafctl", arguments);
        assert_eq!((code, out.as_str()), (Some(76), ""), "{errors}");
        assert!(errors.contains("leafd is older than this leafctl: upgrade it"), "{errors}");
    }
}
