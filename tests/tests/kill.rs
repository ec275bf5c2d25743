//! Kills at any moment under load. State and store are kept, and no ID comes twice.

use std::time::Duration;

use leafd_tests::UniqueIds;
use leafd_tests::daemon::Home;
use leafd_tests::load::{Load, SNOWFLAKE};
use leafd_tests::long::short_or_long;

#[test]
fn many_kills_under_load_give_no_id_twice() {
    let kills: u32 = short_or_long(60, 200);
    let folder = tempfile::tempdir().unwrap();
    // A ceiling close ahead, so that even lives of milliseconds issue snowflake IDs.
    let home = Home::new(folder.path()).with("SNOWFLAKE_CEILING_AHEAD", "100ms");
    let seen = UniqueIds::default();
    let options = home.options().timeout(Duration::from_secs(20));
    let spaces = ["orders", "orders", "users", "a/b c%d\u{e9}", SNOWFLAKE, SNOWFLAKE];
    let load = Load::start(&options, &seen, &spaces, 3000);
    for kill in 0..kills {
        let daemon = home.spawn();
        // Sometimes in the middle of the start.
        std::thread::sleep(Duration::from_millis(fastrand::u64(1..350)));
        daemon.kill();
        assert!(!load.is_broken(), "after {kill} kills\n{}", home.log());
    }
    let daemon = home.start();
    let failures = load.finish();
    daemon.stop();
    println!(
        "{kills} kills, {} IDs received ({} of orders, {} snowflake), {failures} calls failed",
        seen.total(),
        seen.count("orders"),
        seen.count(SNOWFLAKE),
    );
    for space in spaces {
        assert!(seen.count(space) > 1000, "{space}: {}", seen.count(space));
    }
}
