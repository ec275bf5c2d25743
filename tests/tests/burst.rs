//! A burst against a tiny step and a slow database, which Java Leaf answers with "both segments not
//! ready". leafd serves every request, with hardly more leases than the step rule needs.

use std::time::{Duration, Instant};

use leaf_client::wire::TagStatus;
use leafd_tests::daemon::Home;
use leafd_tests::store_server::StoreServerKind;
use leafd_tests::{Daemon, PATIENCE, Proxy, StoreServer};
use serde_json::Value;

const STEP: u64 = 10;
const MAX_STEP: u64 = 1_000_000;

/// The delay of each statement. A lease has several statements.
const DELAY: Duration = Duration::from_millis(20);

/// The number of leases that the step rule needs for so many IDs, and two more: the one that was about
/// to begin, and the next.
fn most_leases(issued: u64) -> u64 {
    let steps = (0..).map(|lease: u32| {
        let doublings = lease.saturating_sub(1).min(32);
        (STEP << doublings).min(MAX_STEP)
    });
    let mut leased = 0;
    let needed = steps.take_while(|step| {
        leased += step;
        leased - step < issued
    });
    needed.count() as u64 + 2
}

/// Waits until no lease is in flight, and returns the tag's status: memory then has everything that was
/// leased from the row, and both ways to ask for the number of leases agree.
fn at_rest(daemon: &Daemon, server: &StoreServer) -> TagStatus {
    let began = Instant::now();
    loop {
        let max_id = server.max_id("burst").cast_unsigned();
        let tag = daemon.client().tag_show("burst").unwrap();
        let leases = daemon.client().status().unwrap().segments.leases;
        let last = tag.next.or(tag.current).map(|span| span.end);
        if (last, tag.max_id, leases) == (Some(max_id), max_id, tag.leases) {
            return tag;
        }
        assert!(began.elapsed() < PATIENCE, "{tag:?}, {leases} leases, max_id {max_id}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_burst_against_a_step_of_10_and_a_slow_database_is_served_with_few_leases() {
    for kind in StoreServerKind::ALL {
        let server = StoreServer::with_tag(kind, "burst", i32::try_from(STEP).unwrap());
        let proxy = Proxy::to(server.port());
        proxy.delay(DELAY);
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path())
            .with_store_at(&server, proxy.port())
            .with("SEGMENT_MAX_STEP", &MAX_STEP.to_string());
        let daemon = home.start();
        let mut bench = home.command("leafctl");
        bench.args(["bench", "--tag", "burst", "--verify", "--json", "--timeout", "30s"]);
        bench.args(["--connections", "4", "--in-flight", "256"]);
        // Without a warm-up, since the first requests count.
        bench.args(["--warm-up", "0s", "--duration", "5s"]);
        let output = bench.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}\n{said}\n{}", output.status, home.log());
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let figure = |name: &str| report[name].as_u64().unwrap_or_else(|| panic!("{name}"));
        for nothing in ["errors", "disconnects", "unanswered", "duplicates"] {
            assert_eq!(figure(nothing), 0, "{nothing}: {report}\n{}", home.log());
        }
        let tag = at_rest(&daemon, &server);
        println!(
            "{kind:?}: {} requests/s, p50 {} µs, p99.9 {} µs, max {} µs; {} IDs of {} leases \
             (at most {}), the last of {}, the next of {}",
            report["requests_per_second"],
            report["latency_us"]["p50"],
            report["latency_us"]["p99_9"],
            report["latency_us"]["max"],
            tag.issued,
            tag.leases,
            most_leases(tag.issued),
            tag.last_lease_size,
            tag.step,
        );
        assert!(tag.issued >= figure("verified") && tag.issued > 10_000, "{tag:?}");
        assert!(tag.leases <= most_leases(tag.issued), "{tag:?}");
        // The step doubles at each lease, and the row's step does not change.
        assert_eq!(tag.row_step, STEP);
        assert_eq!(tag.step, (STEP << (tag.leases - 1).min(32)).min(MAX_STEP), "{tag:?}");
        daemon.stop();
    }
}
