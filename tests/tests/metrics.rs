//! What leafd tells a monitoring system about its work.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use leaf_client::wire::ErrorCode;
use leafd::metrics::{FAMILIES, FamilyKind};
use leafd_tests::binaries::workspace;
use leafd_tests::caller::wait_until;
use leafd_tests::daemon::{Daemon, Home};
use leafd_tests::http::HttpPlace;
use leafd_tests::scrape::{OPEN_METRICS, address, get, scrape, scrape_as};
use leafd_tests::watch::Bystanders;

fn home(folder: &Path) -> Home {
    Home::new(folder).with("HTTP_LISTEN", "127.0.0.1:0").with_time_for_the_disk()
}

fn start(folder: &Path) -> Daemon {
    home(folder).start()
}

/// The metrics of `docs/operations/metrics.md`: name, type and labels.
fn documented() -> Vec<(String, String, Vec<String>)> {
    let page = workspace().join("docs/operations/metrics.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows = page.lines().filter(|line| line.starts_with("| `leafd_"));
    let rows = rows.map(|row| {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let labels = cells[3].split(", ").map(|label| label.trim_matches('`').to_owned());
        let labels = labels.filter(|label| !label.is_empty()).collect();
        (cells[1].trim_matches('`').to_owned(), cells[2].to_owned(), labels)
    });
    rows.collect()
}

#[test]
fn the_manual_lists_exactly_the_metrics_of_the_code_with_their_types_and_labels() {
    let documented = documented();
    let known = FAMILIES.iter().map(|family| {
        let labels = family.labels.iter().map(|label| (*label).to_owned()).collect();
        (family.name(), family.kind.name().to_owned(), labels)
    });
    let known: BTreeSet<_> = known.collect();
    let rows: BTreeSet<_> = documented.iter().cloned().collect();
    let missing: Vec<_> = known.difference(&rows).collect();
    let wrong: Vec<_> = rows.difference(&known).collect();
    assert!(missing.is_empty() && wrong.is_empty(), "missing: {missing:#?}\nwrong: {wrong:#?}");
    assert_eq!(documented.len(), rows.len(), "a metric has two rows");
}

#[test]
fn everything_served_is_on_the_list_with_its_type_and_labels_in_both_formats() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = home(folder.path()).with("METRICS_TAGS", "[\"*\"]").start();
    daemon.client().next("orders").unwrap();
    daemon.client().snowflake().unwrap();
    let address = address(daemon.home(), 1);
    let open = scrape(address);
    let known: BTreeMap<_, _> = FAMILIES.iter().map(|family| (family.name(), family)).collect();
    for (name, kind) in open.types() {
        let family = FAMILIES.iter().find(|family| {
            [family.name(), format!("{name}_total"), format!("{name}_info")]
                .contains(&family.name())
                && family.name().starts_with(name)
                && family.kind.name() == kind
        });
        assert!(family.is_some(), "{name} is not on the list");
    }
    let text = scrape_as(address, "text/plain");
    for (name, kind) in text.types() {
        let family = known.get(name).unwrap_or_else(|| panic!("{name} is not on the list"));
        let expected = if family.kind == FamilyKind::Info { "gauge" } else { family.kind.name() };
        assert_eq!(kind, expected, "{name}");
    }
    for (name, labels) in open.labels() {
        let stem = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
        let family = known.get(name).or_else(|| known.get(stem?));
        let family = family.unwrap_or_else(|| panic!("{name} is not on the list"));
        assert_eq!(labels, family.labels.iter().copied().collect(), "{name}");
    }
    // What needs a registry, several databases, a longer history or a waiting tag is missing here, and nothing else.
    let served = text.types();
    let missing: BTreeSet<_> =
        known.keys().map(String::as_str).filter(|name| !served.contains_key(name)).collect();
    let may_be_missing = BTreeSet::from([
        "leafd_worker_report_age_seconds",
        "leafd_worker_fence_remaining_seconds",
        "leafd_worker_fence_after_seconds",
        "leafd_registry_up",
        "leafd_store_databases",
        "leafd_store_epoch",
        "leafd_store_epoch_hosts",
        "leafd_store_epoch_open",
        "leafd_clock_offset_seconds",
        "leafd_clock_peers",
        "leafd_loans",
        "leafd_loans_begun_total",
        "leafd_loans_lost_total",
        "leafd_tag_growth_ids_per_second",
        "leafd_tag_limit_timestamp_seconds",
        "leafd_earliest_limit_timestamp_seconds",
    ]);
    assert_eq!(missing, may_be_missing);
}

#[test]
fn requests_are_counted_by_call_and_outcome_whether_they_waited_or_not() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = home(folder.path()).with("SEGMENT_AUTO_CREATE", "false").start();
    let mut client = daemon.client();
    client.tag_create("orders", 1000, 1, "").unwrap();
    for _ in 0..10 {
        client.next_many("orders", 5).unwrap();
        client.snowflake().unwrap();
    }
    client.next("unknown").unwrap_err();
    client.tag_show("unknown").unwrap_err();
    let scrape = scrape(address(daemon.home(), 1));
    let requests = |call: &str, code: &str| {
        scrape.find("leafd_requests_total", &[("call", call), ("code", code)]).unwrap_or(0.0)
    };
    assert_eq!((requests("segment", "0"), requests("snowflake", "0")), (10.0, 10.0));
    assert_eq!((requests("segment", "202"), requests("tag-show", "202")), (1.0, 1.0));
    assert_eq!(requests("tag-create", "0"), 1.0);
    let ids = |scheme: &str| scrape.value("leafd_ids_total", &[("scheme", scheme)]);
    assert_eq!((ids("segment"), ids("snowflake")), (50.0, 10.0));
    // The first request waited for its lease.
    let waits = scrape.value("leafd_request_wait_seconds_count", &[("scheme", "segment")]);
    assert!(waits >= 1.0, "{waits}");
    assert!(scrape.value("leafd_leases_total", &[("outcome", "granted")]) >= 1.0);
    assert!(scrape.value("leafd_lease_duration_seconds_count", &[]) >= 1.0);
    for file in ["segments", "worker"] {
        let writes = scrape.value("leafd_state_write_duration_seconds_count", &[("file", file)]);
        assert!(writes >= 1.0, "{file}");
    }
    assert_eq!(scrape.value("leafd_starts_total", &[]), 1.0);
}

#[test]
fn what_http_refuses_before_the_service_is_counted_too() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path());
    let _daemon = home.start();
    let place = HttpPlace::of(&home);
    for path in ["/v1/segment/orders?count=0", "/v1/snowflake?count=1001"] {
        place.send("POST", path, "").expect_error(400, "BadCount");
    }
    for _ in 0..100 {
        let _ = place.connect().with_token("wrong").get("/v1/status");
    }
    let scrape = scrape(address(&home, 1));
    let errors = [("name", "BadCount"), ("code", "200")];
    assert_eq!(scrape.value("leafd_errors_total", &errors), 2.0);
    for call in ["segment", "snowflake"] {
        let requests = [("call", call), ("code", "200")];
        assert_eq!(scrape.value("leafd_requests_total", &requests), 1.0, "{call}");
    }
    let refused = |reason| scrape.value("leafd_http_refused_total", &[("reason", reason)]);
    assert!(refused("token") >= 1.0 && refused("throttled") >= 1.0);
    assert_eq!((refused("token") + refused("throttled"), refused("busy")), (100.0, 0.0));
}

#[test]
fn http_connections_that_say_nothing_are_counted_beside_their_limit() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path()).with("HTTP_MAX_CONNECTIONS", "100");
    let _daemon = home.start();
    let place = HttpPlace::of(&home);
    let silent: Vec<_> = (0..20).map(|_| place.connect()).collect();
    let metric = |name| scrape(place.address()).value(name, &[]);
    // The scrape has a connection as well.
    wait_until(&home, "the silent ones", || metric("leafd_http_connections") == 21.0);
    wait_until(&home, "no session", || metric("leafd_connections") == 0.0);
    drop(silent);
    wait_until(&home, "they have gone", || metric("leafd_http_connections") == 1.0);
    assert_eq!(metric("leafd_http_max_connections"), 100.0);
}

#[test]
fn every_error_number_has_a_count_from_the_start_on() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = start(folder.path());
    let scrape = scrape(address(daemon.home(), 1));
    let codes: BTreeSet<_> = ErrorCode::ALL.iter().map(|code| code.number().to_string()).collect();
    let served = scrape.values_of("leafd_errors_total", "code");
    assert_eq!(served.into_iter().map(str::to_owned).collect::<BTreeSet<_>>(), codes);
    assert_eq!(scrape.value("leafd_errors_total", &[("name", "Forbidden")]), 0.0);
}

#[test]
fn only_tags_that_metrics_tags_matches_have_series_and_a_reload_changes_them() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("leafd.toml");
    std::fs::write(&file, "[metrics]\ntags = [\"bill.*\"]\n").unwrap();
    let home = home(folder.path()).with("CONFIG", file.to_str().unwrap());
    let daemon = home.start();
    for tag in ["orders", "bill.a", "bill.\"b\\"] {
        daemon.client().next(tag).unwrap();
    }
    let address = address(&home, 1);
    let tags = |metric: &str| -> BTreeSet<String> {
        let scrape = scrape(address);
        scrape.values_of(metric, "tag").into_iter().map(str::to_owned).collect()
    };
    for metric in ["leafd_tag_ids_total", "leafd_tag_max_id", "leafd_tag_remaining_ids"] {
        let expected = BTreeSet::from(["bill.a".to_owned(), "bill.\\\"b\\\\".to_owned()]);
        assert_eq!(tags(metric), expected, "{metric}");
    }
    assert_eq!(scrape(address).value("leafd_tags", &[]), 3.0);
    std::fs::write(&file, "[metrics]\ntags = [\"orders\"]\n").unwrap();
    daemon.send(nix::sys::signal::Signal::SIGHUP);
    wait_until(&home, "the reload", || {
        tags("leafd_tag_max_id") == BTreeSet::from(["orders".to_owned()])
    });
    assert_eq!(scrape(address).value("leafd_tag_ids_total", &[("tag", "orders")]), 1.0);
}

#[test]
fn a_scrape_of_many_tags_has_a_thousand_of_them_and_the_socket_notices_nothing() {
    const TAGS: u64 = 2000;
    // In memory: that many leases on a disk would take long.
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let home = home(folder.path()).with("METRICS_TAGS", "[\"*\"]");
    let daemon = home.start();
    let mut client = daemon.client();
    for tag in 0..TAGS {
        client.next(&format!("{tag:04}-{}", "x".repeat(120))).unwrap();
    }
    let bystanders = Bystanders::of(&home);
    let address = address(&home, 1);
    wait_until(&home, "all tags in a scrape", || {
        scrape(address).value("leafd_tags", &[]) == (TAGS + 1) as f64
    });
    for format in [OPEN_METRICS, "text/plain"] {
        let answer = get(address, "/metrics", format);
        println!("{} bytes of {format}", answer.body.len());
        assert!(answer.body.len() < 4 * 1024 * 1024, "{} bytes", answer.body.len());
        let scrape = scrape_as(address, format);
        assert_eq!(scrape.values_of("leafd_tag_max_id", "tag").len(), 1000);
        assert_eq!(scrape.value("leafd_metrics_tags_left_out", &[]), (TAGS + 1 - 1000) as f64);
        bystanders.are_served();
    }
    bystanders.noticed_nothing();
    daemon.stop();
}

#[test]
fn the_series_of_a_deleted_tag_end_even_if_callers_go_on_asking() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path())
        .with("METRICS_TAGS", "[\"*\"]")
        .with("SEGMENT_AUTO_CREATE", "false")
        .with("SEGMENT_REFRESH", "200ms");
    let daemon = home.start();
    let mut client = daemon.client();
    for tag in ["deleted", "dropped", "kept"] {
        client.tag_create(tag, 1000, 1 << 30, "").unwrap();
        client.next(tag).unwrap();
    }
    let address = address(&home, 1);
    let tags = || scrape(address).value("leafd_tags", &[]);
    assert_eq!(tags(), 3.0);
    client.tag_delete("deleted").unwrap();
    home.sql("DELETE FROM leaf_alloc WHERE biz_tag = 'dropped'");
    wait_until(&home, "the refresh", || tags() == 1.0);
    // Each of these looks for the row again sooner or later.
    for _ in 0..300 {
        for tag in ["deleted", "dropped"] {
            client.next(tag).unwrap_err();
        }
        let scrape = scrape(address);
        for metric in ["leafd_tag_max_id", "leafd_tag_ids_total", "leafd_tag_seconds_left"] {
            let named = scrape.values_of(metric, "tag");
            assert!(!named.contains("deleted") && !named.contains("dropped"), "{named:?}");
        }
    }
}

#[test]
fn quota_refusals_are_counted_by_quota() {
    let folder = tempfile::tempdir().unwrap();
    let home =
        home(folder.path()).with("QUOTA_TAGS", "[{ tags = [\"orders\"], ids-per-second = 1 }]");
    let daemon = home.start();
    daemon.client().next_many("orders", 2).unwrap_err();
    let scrape = scrape(address(&home, 1));
    let refusals = |quota| scrape.value("leafd_quota_refusals_total", &[("quota", quota)]);
    assert_eq!((refusals("tag"), refusals("user"), refusals("connections")), (1.0, 0.0, 0.0));
}

#[test]
fn a_store_that_fails_shows_in_the_metrics() {
    let folder = tempfile::tempdir().unwrap();
    let home =
        Home::new(folder.path()).with("HTTP_LISTEN", "127.0.0.1:0").with("SEGMENT_WAIT", "200ms");
    home.break_store();
    let daemon = home.start();
    daemon.client().next("orders").unwrap_err();
    let address = address(&home, 1);
    wait_until(&home, "the store is down", || scrape(address).value("leafd_store_up", &[]) == 0.0);
    let errors = [("name", "StoreUnavailable"), ("code", "302")];
    assert!(scrape(address).value("leafd_errors_total", &errors) >= 1.0);
}

#[test]
fn http_metrics_says_who_may_see_them() {
    let folder = tempfile::tempdir().unwrap();
    let rules = "[{ name = \"apps\", users = [\"*\"] }]";
    for (number, audience, rules, status) in [
        (0, "everybody", rules, 200),
        (1, "rules", rules, 403),
        (2, "rules", "[{ name = \"page\", http = true }]", 200),
        (3, "rules", "[]", 200),
        (4, "nobody", "[]", 404),
    ] {
        let home = home(&folder.path().join(number.to_string()))
            .with("HTTP_METRICS", audience)
            .with("ACCESS_RULES", rules);
        let daemon = home.start();
        let answer = get(address(&home, 1), "/metrics", OPEN_METRICS);
        assert_eq!(answer.status, status, "{audience} {rules}: {answer:?}");
        assert_eq!(answer.body.contains("leafd_"), status == 200, "{answer:?}");
        drop(daemon);
    }
}

#[test]
fn the_format_follows_what_the_caller_accepts() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = start(folder.path());
    let address = address(daemon.home(), 1);
    for (accept, kind, end) in [
        (OPEN_METRICS, "application/openmetrics-text; version=1.0.0", true),
        ("text/plain", "text/plain; version=0.0.4", false),
        ("*/*", "text/plain; version=0.0.4", false),
    ] {
        let answer = get(address, "/metrics", accept);
        assert!(answer.head.contains(&format!("content-type: {kind}")), "{answer:?}");
        assert_eq!(answer.body.ends_with("# EOF\n"), end, "{accept}");
    }
}
