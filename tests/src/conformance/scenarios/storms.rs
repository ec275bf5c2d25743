//! Many callers at once on a real leafd that is killed and restarted all the time: no call fails, and no
//! ID comes twice.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use super::{Need, Scenario, needing, scenario};
use crate::SetOnDrop;
use crate::conformance::stage::Stage;
use crate::daemon::Home;
use crate::long::short_or_long;

pub(super) const ALL: &[Scenario] = &[
    scenario("real_leafd", "A real leafd answers every kind of call", real_leafd),
    scenario("storm_tag", "A storm for IDs of a tag: no call fails, no ID comes twice", storm_tag),
    scenario("storm_snowflake", "A storm for snowflakes", storm_snowflake),
    needing(&[Need::Pools], "storm_pool", "A storm on a pool of a tag", storm_pool),
    needing(
        &[Need::Pools],
        "storm_pool_snowflake",
        "A storm on a pool of snowflakes",
        storm_pool_snowflake,
    ),
];

/// Nothing takes that long, not even on a machine where every restart of leafd takes seconds.
const TIMEOUT_MS: u32 = 120_000;

fn real_leafd(stage: &mut Stage<'_>) {
    let home = Home::new(stage.folder());
    let daemon = home.start();
    let client = stage.open();
    let first = stage.next(&client);
    let first = stage.wait(first).id();
    let many = stage.next_many(&client, 1000);
    assert_eq!(stage.wait(many).runs(), [(first + 1, 1000)]);
    let fields = json!({"client": client});
    let flake = stage.ask("snowflake", fields.clone()).id();
    let decoded = stage.ask("decode_id", json!({"layout": "leaf", "value": flake.to_string()}));
    let decoded = decoded.ok();
    let time = stage.ask("time", fields.clone()).ok();
    let ms = |value: &serde_json::Value| -> u64 {
        value["unix_ms"].as_str().and_then(|text| text.parse().ok()).expect("a time")
    };
    // Under load an ID leads the clock by 10 ms at most.
    assert!(ms(&decoded) <= ms(&time) + 10, "{decoded} {time}");
    assert!(ms(&time) - ms(&decoded) < 600_000, "{decoded} {time}");
    let flakes = stage.ask("snowflakes", json!({"client": client, "count": 20_000})).runs();
    assert_eq!(flakes.iter().map(|(_, count)| count).sum::<u64>(), 20_000);
    let status = stage.ask("status", fields).ok();
    assert_eq!(status["pid"], json!(daemon.pid()), "{status}");
    assert_eq!(status["snowflake"]["state"]["variant"], "Serving", "{status}");
    // The daemon's own limits and errors.
    let line = stage.next_many(&client, 100_001);
    stage.wait(line).refused(200);
    if stage.about().pools {
        let pool = stage.pool(json!({}));
        let id = stage.ask("pool_next", json!({"pool": pool})).id();
        assert!(id > first + 1000);
    }
    daemon.stop();
}

fn storm_tag(stage: &mut Stage<'_>) {
    storm(stage, Some("storm"), "client", short_or_long(250_000, 25_000_000));
}

fn storm_snowflake(stage: &mut Stage<'_>) {
    storm(stage, None, "client", short_or_long(250_000, 25_000_000));
}

fn storm_pool(stage: &mut Stage<'_>) {
    storm(stage, Some("storm"), "pool", short_or_long(1_000_000, 50_000_000));
}

fn storm_pool_snowflake(stage: &mut Stage<'_>) {
    storm(stage, None, "pool", short_or_long(250_000, 25_000_000));
}

fn storm(stage: &mut Stage<'_>, tag: Option<&str>, what: &str, ids: u64) {
    let home = Home::new(stage.folder()).with_time_for_the_disk();
    let out = stage.folder().join("ids");
    std::fs::create_dir(&out).expect("a folder");
    // With few IDs in a call, kills hit calls; the long form has enough of them anyway.
    let batch = if what == "pool" { 1 } else { short_or_long(20, 200) };
    let fields = json!({
        "socket": home.socket(), "tag": tag, "use": what, "workers": 4, "threads": 3,
        "fork_again": stage.about().forks, "batch": batch, "ids": ids.to_string(),
        "timeout_ms": TIMEOUT_MS, "out": out,
    });
    let mut daemon = home.start();
    let began = Instant::now();
    let line = stage.send("storm", fields);
    let stop = AtomicBool::new(false);
    let mut kills = 0;
    // When it counts as stuck.
    let limit = Duration::from_secs(short_or_long(15 * 60, 3 * 3600));
    let said = std::thread::scope(|scope| {
        let _end = SetOnDrop(&stop);
        let killer = scope.spawn(|| {
            let mut kills = 0;
            while !stop.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(fastrand::u64(30..250)));
                // Now and then it is restarted in an orderly way.
                if fastrand::u8(..) < 64 {
                    daemon.stop()
                } else {
                    daemon.kill()
                };
                kills += 1;
                daemon = home.start();
            }
            (kills, daemon)
        });
        let said = stage.wait_within(line, limit).ok();
        stop.store(true, Ordering::Relaxed);
        let (ended, daemon) = killer.join().expect("leafd starts again");
        kills = ended;
        daemon.stop();
        said
    });
    let seconds = began.elapsed().as_secs_f64();
    let found = IssuedIds::read(&out);
    let issued: u64 = said["issued"].as_str().and_then(|text| text.parse().ok()).expect("issued");
    stage.note(format!(
        "{} IDs in {} runs and {} files, {} calls, {} failed, {kills} restarts, {seconds:.1} s",
        found.total,
        found.runs.len(),
        found.files,
        said["calls"],
        said["failed"],
    ));
    if let Some((one, other)) = found.duplicate() {
        panic!("DUPLICATE: the runs {one:?} and {other:?} overlap");
    }
    assert_eq!(said["failed"], 0, "calls failed: {said}");
    assert_eq!(found.total, issued, "the files hold other IDs than it says: {said}");
    assert!(issued >= ids, "{issued} of {ids} IDs");
}

/// The IDs in the files of a storm.
struct IssuedIds {
    runs: Vec<(u64, u64)>,
    total: u64,
    files: usize,
}

impl IssuedIds {
    fn read(folder: &Path) -> Self {
        let (mut runs, mut files) = (Vec::new(), 0);
        for entry in std::fs::read_dir(folder).expect("the files") {
            let bytes = std::fs::read(entry.expect("a file").path()).expect("a file");
            assert_eq!(bytes.len() % 12, 0, "a file ends within a run");
            files += 1;
            runs.extend(bytes.chunks_exact(12).map(|run| {
                let (first, count) = run.split_at(8);
                let first = u64::from_le_bytes(first.try_into().expect("eight bytes"));
                (first, u64::from(u32::from_le_bytes(count.try_into().expect("four bytes"))))
            }));
        }
        runs.sort_unstable();
        let total = runs.iter().map(|(_, count)| count).sum();
        Self { runs, total, files }
    }

    fn duplicate(&self) -> Option<((u64, u64), (u64, u64))> {
        let pairs = self.runs.iter().zip(self.runs.iter().skip(1));
        let mut overlaps = pairs.filter(|(low, high)| low.0 + low.1 > high.0);
        overlaps.next().map(|(low, high)| (*low, *high))
    }
}
