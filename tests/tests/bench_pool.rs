//! `leafctl bench --pool` against a real leafd: its figures, its check of every ID, and what it leaves.

use std::process::{Child, Stdio};

use leafd_tests::Terminal;
use leafd_tests::daemon::{Daemon, Home};
use leafd_tests::stores::wait_until;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

const MODES: [&str; 2] = ["ordered", "per-thread"];

fn tags(daemon: &Daemon) -> Vec<String> {
    let tags = daemon.client().tag_list("", 100).unwrap();
    tags.into_iter().map(|tag| tag.tag).collect()
}

/// Runs a short benchmark of a pool. Returns its report.
fn bench(home: &Home, mode: &str, more: &[&str]) -> Value {
    bench_within("1m", home, mode, more)
}

/// As [`bench`], with another timeout of each call.
fn bench_within(timeout: &str, home: &Home, mode: &str, more: &[&str]) -> Value {
    let mut arguments = vec!["--timeout", timeout, "bench", "--pool", mode, "--json"];
    arguments.extend(["--warm-up", "50ms", "--duration", "300ms"]);
    arguments.extend(more);
    let (code, out, errors) = home.run("leafctl", &arguments);
    assert_eq!((code, errors.as_str()), (Some(0), ""), "{more:?}: {out}");
    serde_json::from_str(&out).unwrap()
}

/// Starts a benchmark that lasts until it is interrupted.
fn start(home: &Home, mode: &str) -> Child {
    let mut command = home.command("leafctl");
    command.args(["--timeout", "1m", "bench", "--pool", mode, "--threads", "2", "--json"]);
    command.args(["--verify", "--warm-up", "0s", "--duration", "1h"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Interrupts it. Returns its report.
fn interrupt(bench: Child) -> Value {
    kill(Pid::from_raw(bench.id().cast_signed()), Signal::SIGINT).unwrap();
    let output = bench.wait_with_output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && errors.is_empty(), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn wait_for_ids(daemon: &Daemon) {
    let mut client = daemon.client();
    wait_until("IDs are leased", || client.status().unwrap().segments.issued > 100_000);
}

fn number(report: &Value, name: &str) -> u64 {
    report[name].as_u64().unwrap_or_else(|| panic!("{name} is no whole number in {report}"))
}

/// That every ID was checked, and none came twice.
fn assert_unique(report: &Value) {
    assert!(number(report, "ids") > 0, "{report}");
    assert_eq!(report["verified"], report["ids"], "{report}");
    assert_eq!((&report["duplicates"], &report["too_old"]), (&json!(0), &json!(0)), "{report}");
    assert_eq!(report["pool"]["issued"], report["ids"], "{report}");
}

#[test]
fn a_bench_of_a_pool_verifies_every_id_compares_it_with_additions_and_deletes_its_tag() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Home::new(folder.path()).with_time_for_the_disk().start();
    for mode in MODES {
        for (tag, more) in [
            (json!("a"), &["--tag", "a"][..]),
            (json!("b"), &["--tag", "b", "--threads", "5"]),
            (Value::Null, &["--snowflake", "--threads", "2"]),
        ] {
            let report = bench(daemon.home(), mode, &[more, &["--verify"]].concat());
            let threads = more.last().and_then(|last| last.parse().ok()).unwrap_or(1);
            assert_unique(&report);
            assert_eq!((&report["mode"], &report["tag"]), (&json!(mode), &tag), "{report}");
            assert_eq!(number(&report, "threads"), threads, "{report}");
            assert_eq!((&report["errors"], &report["outages"]), (&json!(0), &json!(0)), "{report}");
            assert_eq!(report["check_included"], true, "{report}");
            for name in [
                "duration_seconds",
                "ids_per_second",
                "ns_per_id",
                "fetch_add_ratio",
                "addition_ratio",
                "fetch_add_per_second",
                "ns_per_addition",
                "waits",
                "longest_wait_ms",
                "refills",
            ] {
                assert!(report[name].as_f64().is_some_and(|n| n >= 0.0), "{name} in {report}");
            }
            for name in ["fetch_add_ratio", "addition_ratio"] {
                let [low, high] = [0, 1].map(|end| report[format!("{name}_range")][end].as_f64());
                let median = report[name].as_f64();
                assert!(low <= median && median <= high && low.is_some(), "{name} in {report}");
            }
            for name in ["p50", "p90", "p99", "p99_9", "p99_99", "max"] {
                assert!(report["latency_ns"][name].is_u64(), "{name} in {report}");
            }
            let pool = &report["pool"];
            let parts = ["issued", "held", "lent", "lost"].map(|name| number(pool, name));
            assert_eq!(number(pool, "leased"), parts.iter().sum::<u64>(), "{report}");
            assert!(tags(&daemon).is_empty(), "{mode} {more:?}");
            println!("{mode} {more:?}: {} IDs verified", report["verified"]);
        }
    }
}

#[test]
fn a_bench_of_a_pool_keeps_its_tag_if_told_to_and_says_nothing_of_a_check_that_it_did_not_make() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Home::new(folder.path()).with_time_for_the_disk().start();
    for mode in MODES {
        let report = bench(daemon.home(), mode, &["--keep", "--threads", "2"]);
        assert!(number(&report, "ids") > 0, "{report}");
        assert_eq!(report["check_included"], false, "{report}");
        assert!(report.get("verified").is_none(), "{report}");
        assert_eq!(tags(&daemon), ["bench"]);
    }
}

#[test]
fn under_a_quota_the_run_goes_on_and_counts_what_leafd_refused() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Home::new(folder.path()).with("QUOTA_IDS_PER_SECOND", "200").start();
    for mode in MODES {
        let more = ["--threads", "2", "--verify"];
        let report = bench(daemon.home(), mode, &more);
        assert_unique(&report);
        assert!(number(&report, "waits") > 0, "{report}");
        assert_eq!(report["errors"], 0, "{report}");
        // Whether a refusal is an outage depends on how long it lasts.
        let failures = number(&report["pool"], "failures");
        assert!(failures > 0 && failures >= number(&report, "outages"), "{report}");
    }
    assert!(tags(&daemon).is_empty());
}

#[test]
fn calls_that_time_out_are_counted_by_number_and_name() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Home::new(folder.path()).with("QUOTA_IDS_PER_SECOND", "1").start();
    // Only some of the threads get an ID in time.
    let more = ["--threads", "8", "--verify"];
    let report = bench_within("2500ms", daemon.home(), "ordered", &more);
    assert_unique(&report);
    let errors = report["errors_by_code"].as_array().unwrap();
    let sum: u64 = errors.iter().map(|error| number(error, "count")).sum();
    assert_eq!(sum, number(&report, "errors"), "{report}");
    let quota = errors.iter().find(|error| error["name"] == "QuotaExceeded");
    assert_eq!(quota.unwrap_or_else(|| panic!("{report}"))["code"], 312, "{report}");
    assert!(number(&report["errors_by_name"], "QuotaExceeded") > 0, "{report}");
}

#[test]
fn an_interrupted_bench_of_a_pool_keeps_its_figures_and_deletes_its_tag() {
    for mode in MODES {
        let folder = tempfile::tempdir().unwrap();
        let daemon = Home::new(folder.path()).with_time_for_the_disk().start();
        let run = start(daemon.home(), mode);
        wait_for_ids(&daemon);
        let report = interrupt(run);
        assert_unique(&report);
        assert!(number(&report, "refills") > 0, "{report}");
        assert!(tags(&daemon).is_empty(), "{mode}");
    }
}

#[test]
fn a_bench_of_a_pool_goes_on_after_a_kill_of_leafd_and_gets_no_id_twice() {
    for mode in MODES {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path()).with_time_for_the_disk();
        let daemon = home.start();
        let run = start(&home, mode);
        wait_for_ids(&daemon);
        daemon.kill();
        let daemon = home.start();
        // Of the new daemon, which the pool has found by itself.
        wait_for_ids(&daemon);
        assert_unique(&interrupt(run));
        assert!(tags(&daemon).is_empty(), "{mode}");
    }
}

#[test]
fn a_bench_of_a_pool_fails_at_once_where_it_cannot_work() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with("SEGMENT_AUTO_CREATE", "false");
    let bench = ["bench", "--pool", "ordered", "--duration", "1h"];
    let (code, out, errors) = home.run("leafctl", &bench);
    assert_eq!((code, out.as_str()), (Some(69), ""), "{errors}");
    let _daemon = home.start();
    let (code, out, errors) = home.run("leafctl", &bench);
    assert_eq!((code, out.as_str()), (Some(64), ""), "{errors}");
    assert!(errors.contains("UnknownTag"), "{errors}");
}

#[test]
fn the_report_of_a_pool_fits_on_a_terminal_and_its_progress_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with_time_for_the_disk();
    let _daemon = home.start();
    let mut terminal = Terminal::open(80, 30);
    let mut command = home.command("leafctl");
    command.args(["bench", "--pool", "per-thread", "--verify", "--duration", "1h"]);
    terminal.run(&command);
    terminal.wait_for_text("IDs  errors 0");
    terminal.type_keys("\x03");
    let screen = terminal.wait().screen;
    for line in ["IDs/s   ", "per ID   ", "fetch_add   ", "addition   ", "verified   "] {
        assert!(screen.iter().any(|shown| shown.starts_with(line)), "{line}: {terminal:?}");
    }
    assert!(!terminal.has_wrapped(), "{terminal:?}");
}
