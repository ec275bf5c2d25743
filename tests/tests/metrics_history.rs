//! Forecasts, and the rate history behind them: a file that survives restarts and that nothing depends
//! on.

use std::path::Path;

use leafd_tests::caller::wait_until;
use leafd_tests::daemon::Home;
use leafd_tests::faketime::FakeTime;
use leafd_tests::scrape::{Scrape, address, scrape};

const DAY_MS: i64 = 86_400_000;
const DAY_S: f64 = 86_400.0;

fn home(folder: &Path) -> Home {
    Home::new(folder)
        .with("HTTP_LISTEN", "127.0.0.1:0")
        .with("METRICS_TAGS", "[\"orders\"]")
        // Another clock than the registry's would be needed for these.
        .with("SNOWFLAKE_ENABLED", "false")
        .with_time_for_the_disk()
}

fn growth(scrape: &Scrape) -> Option<f64> {
    scrape.find("leafd_tag_growth_ids_per_second", &[("tag", "orders")])
}

#[test]
fn a_forecast_goes_by_what_leafd_knew_before_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let clock = FakeTime::new(folder.path());
    let home = home(folder.path()).with_clock(&clock);
    clock.set_offset_ms(-2 * DAY_MS);
    let daemon = home.start();
    daemon.client().next_many("orders", 1000).unwrap();
    let young = scrape(address(&home, 1));
    assert_eq!(growth(&young), None, "{}", young.text);
    daemon.stop();
    clock.set_offset_ms(0);
    let daemon = home.start();
    for _ in 0..100 {
        daemon.client().next_many("orders", 10_000).unwrap();
    }
    let scrape = scrape(address(&home, 2));
    let rate = growth(&scrape).expect("the rate of two days");
    let max_id = scrape.value("leafd_tag_max_id", &[("tag", "orders")]);
    // The first mark was some thousands, and the time is two days and the duration of this test.
    assert!(rate > (max_id - 100_000.0) / (2.5 * DAY_S), "{rate}");
    assert!(rate < max_id / (2.0 * DAY_S), "{rate}");
    let start = scrape.value("leafd_start_timestamp_seconds", &[]);
    let limit = [("tag", "orders"), ("limit", "int32")];
    let at = scrape.value("leafd_tag_limit_timestamp_seconds", &limit);
    let seconds = (f64::from(1 << 30) * 2.0 - max_id) / rate;
    assert!((at - start - seconds).abs() < DAY_S, "{at}, {seconds} after {start}");
    let earliest = [("limit", "int32")];
    assert_eq!(scrape.value("leafd_earliest_limit_timestamp_seconds", &earliest), at);
    // 2^63 is more than a thousand years away.
    let far = [("tag", "orders"), ("limit", "int64")];
    assert_eq!(scrape.find("leafd_tag_limit_timestamp_seconds", &far), None);
}

#[test]
fn a_crash_costs_the_history_at_most_what_was_not_written_yet() {
    let folder = tempfile::tempdir().unwrap();
    let clock = FakeTime::new(folder.path());
    let home = home(folder.path()).with_clock(&clock);
    clock.set_offset_ms(-DAY_MS);
    let daemon = home.start();
    daemon.client().next("orders").unwrap();
    daemon.stop();
    let killed = home.start();
    let _ = address(&home, 2);
    killed.kill();
    clock.set_offset_ms(0);
    let daemon = home.start();
    daemon.client().next_many("orders", 50_000).unwrap();
    assert!(growth(&scrape(address(&home, 3))).is_some_and(|rate| rate > 0.0));
    drop(daemon);
}

#[test]
fn a_damaged_or_foreign_history_is_dropped_with_one_line_and_never_refuses_a_start() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path());
    let file = home.state().join("rates.history");
    let daemon = home.start();
    daemon.client().next("orders").unwrap();
    daemon.stop();
    let whole = std::fs::read(&file).expect("a clean stop writes it");
    assert!(String::from_utf8(whole.clone()).unwrap().contains(" tag orders "));
    let cut = whole[..whole.len() / 2].to_vec();
    let huge = vec![b'x'; 3 << 20];
    for (number, content) in [cut, b"\xff\0".to_vec(), Vec::new(), huge].into_iter().enumerate() {
        std::fs::write(&file, content).unwrap();
        let daemon = home.start();
        daemon.client().next("orders").unwrap();
        let ended = daemon.stop();
        assert_eq!(ended.count("rates.history is not used"), number + 1, "{ended}");
        assert_eq!(std::fs::read(&file).unwrap().len(), whole.len(), "it was not written anew");
    }
    // Of another host's directory.
    let foreign = tempfile::tempdir().unwrap();
    let other = Home::new(foreign.path()).with("STATE_MACHINE_ID", "another");
    let daemon = other.start();
    daemon.client().next("orders").unwrap();
    daemon.stop();
    std::fs::copy(other.state().join("rates.history"), &file).unwrap();
    let ended = home.start().stop();
    assert_eq!(ended.count("rates.history is not used"), 5, "{ended}");
    assert!(ended.log().contains("belongs to another host"), "{ended}");
}

#[test]
fn a_history_that_cannot_be_written_stops_no_id() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path());
    let blocked = home.state().join("rates.history.new");
    std::fs::create_dir_all(&blocked).unwrap();
    let daemon = home.start();
    daemon.client().next("orders").unwrap();
    let address = address(&home, 1);
    wait_until(&home, "metrics", || scrape(address).value("leafd_tags", &[]) == 1.0);
    let ended = daemon.stop();
    assert_eq!(ended.count("rates.history cannot be written"), 1, "{ended}");
}
