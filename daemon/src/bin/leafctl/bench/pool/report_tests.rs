//! The report of a made-up run.

use super::*;
use crate::bench::plan::tests::plan;
use crate::bench::pool::figures::{CYCLE, RoundPart};
use crate::bench::pool::outages;
use crate::bench::pool::trouble::Waits;
use crate::output::tests::printed;
use leaf_client::Error;
use leaf_client::pool::PoolEvent;
use leaf_client::wire::WireError;
use serde_json::json;

fn refused(code: ErrorCode) -> Error {
    Error::Refused(WireError::new(code, "no"))
}

/// Two threads, in one cycle of rounds of 100 ms.
fn figures() -> Figures {
    let (mut figures, began) = (Figures::new(2).unwrap(), Instant::now());
    let ended = began + Duration::from_millis(100);
    for (kind, taken) in CYCLE.into_iter().zip([2000, 4000, 5000, 3000]) {
        let parts = [0, 1].map(|thread| {
            let (waits, errors) = Default::default();
            RoundPart { thread, taken, began, ended, waits, errors, samples: vec![40, 41] }
        });
        figures.add(kind, parts.into());
    }
    figures.waits = Waits::default();
    figures.waits.add(Duration::from_micros(2500));
    for error in [
        refused(ErrorCode::QuotaExceeded),
        refused(ErrorCode::Other(999)),
        Error::DeadlineExceeded { call: "segment", timeout: Duration::from_secs(5) },
    ] {
        figures.errors.add(&error);
    }
    figures
}

fn report(figures: Figures, verifier: Option<&Verifier>) -> PoolReport {
    let (listener, mut outages) = outages::channel();
    listener(&PoolEvent::OutageBegan { error: refused(ErrorCode::StoreUnavailable), held: 1 });
    listener(&PoolEvent::OutageEnded { after: Duration::from_millis(70) });
    drop(listener);
    outages.wait_for_end(Duration::ZERO);
    let (plan, stats, measured) = (plan(1), PoolStats::default(), Duration::from_millis(400));
    let mode = PoolMode::PerThread;
    let run = PoolRun { plan: &plan, mode, threads: 2, measured, figures, stats, outages };
    PoolReport::new(&run, verifier)
}

#[test]
fn json_is_one_object_with_speed_ratios_and_trouble() {
    let value = serde_json::to_value(report(figures(), None)).unwrap();
    for (name, expected) in [
        ("mode", json!("per-thread")),
        ("threads", json!(2)),
        ("tag", json!("bench")),
        ("duration_seconds", json!(0.4)),
        ("ids", json!(10_000)),
        ("ids_per_second", json!(40_000.0)),
        ("ns_per_id", json!(50_000.0)),
        ("rounds", json!(1)),
        ("fetch_add_ratio", json!(0.5)),
        ("fetch_add_ratio_range", json!([0.5, 0.5])),
        ("addition_ratio", json!(2.5)),
        ("addition_ratio_range", json!([2.5, 2.5])),
        ("fetch_add_per_second", json!(80_000.0)),
        ("ns_per_addition", json!(20_000.0)),
        ("check_included", json!(false)),
        ("waits", json!(1)),
        ("longest_wait_ms", json!(2.5)),
        ("outages", json!(1)),
        ("outages_by_name", json!({"StoreUnavailable": 1})),
        ("longest_outage_ms", json!(70.0)),
        ("errors", json!(3)),
        ("errors_by_name", json!({"QuotaExceeded": 1, "999": 1, "DeadlineExceeded": 1})),
    ] {
        assert_eq!(value[name], expected, "{name}");
    }
    let latency = &value["latency_ns"];
    assert_eq!((&latency["p50"], &latency["max"]), (&json!(40), &json!(41)));
    assert_eq!(value["errors_by_code"][0]["code"], json!(null));
    assert_eq!(value["errors_by_code"][1]["code"], json!(312));
    for absent in ["verified", "duplicates", "outage_kinds"] {
        assert!(value.get(absent).is_none(), "{absent}");
    }
}

#[test]
fn a_verified_run_says_that_its_speed_contains_the_check() {
    let mut verifier = Verifier::unordered();
    verifier.add(1, 9);
    verifier.add_repeated(4, 3);
    let report = report(figures(), Some(&verifier));
    let value = serde_json::to_value(&report).unwrap();
    assert_eq!((&value["verified"], &value["duplicates"]), (&json!(12), &json!(3)));
    assert_eq!((&value["failed"], &value["check_included"]), (&json!([[4, 6]]), &json!(true)));
    let text = printed(|out| report.print(false, out));
    assert!(text.contains("40,000, with the time of the check\n"), "{text}");
    assert!(text.contains("verified     12, duplicates 3"), "{text}");
}

#[test]
fn a_run_without_ids_still_has_figures_and_says_why() {
    let (_, outages) = outages::channel();
    let (plan, stats, mode) = (plan(1), PoolStats::default(), PoolMode::Ordered);
    let (measured, mut figures) = (Duration::ZERO, Figures::new(1).unwrap());
    figures.errors.add(&refused(ErrorCode::StoreUnavailable));
    let run = PoolRun { plan: &plan, mode, threads: 1, measured, figures, stats, outages };
    let value = serde_json::to_value(PoolReport::new(&run, None)).unwrap();
    assert_eq!((&value["ids_per_second"], &value["ns_per_id"]), (&json!(0.0), &json!(null)));
    assert_eq!((&value["fetch_add_ratio"], &value["latency_ns"]["max"]), (&json!(null), &json!(0)));
    assert_eq!(run.no_ids(), Some("no".to_owned()));
}

#[test]
fn the_text_shows_the_figures_and_what_went_wrong() {
    let text = printed(|out| report(figures(), None).print(false, out));
    for part in [
        "tag bench, measured for 0.4 s\n",
        "load         pool per-thread, 2 threads\n",
        "IDs/s        40,000\n",
        "per ID       50000.00 ns in each thread\n",
        "fetch_add    0.50 of the speed of a shared AtomicU64 (0.50 to 0.50)\n",
        "addition     2.50 × the time of adding to a number (2.50 to 2.50)\n",
        "waits        1, the longest 2.5 ms, 0.0 s in all threads\n",
        "refills      0, outages 1, IDs lost 0\n",
        "1 × 302 StoreUnavailable: no\n",
        "errors       3\n",
        "1 × 312 QuotaExceeded: no\n",
        "1 × DeadlineExceeded: leafd did not answer segment within 5s\n",
    ] {
        assert!(text.contains(part), "{part} is not in:\n{text}");
    }
    assert!(!text.contains("check"), "{text}");
}
