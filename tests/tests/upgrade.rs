//! State that earlier versions wrote. leafd starts on it, serves, and repeats no ID that was issued
//! before. The fixtures are kept forever; `CONTRIBUTING.md` explains how to add those of a new version.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use leaf_client::blocking::Client;
use leaf_client::wire::ErrorCode;
use leaf_client::{Error, Layout};
use leafd_tests::Daemon;
use leafd_tests::faketime::FakeTime;
use leafd_tests::fixture::{Fixture, LaidOut};
use leafd_tests::load::SNOWFLAKE;
use leafd_tests::unique_ids::UniqueIds;

/// More IDs than were left of any range.
const MANY: u32 = 10_000;

fn use_it(daemon: &Daemon, fixture: &Fixture, seen: &UniqueIds) {
    let options = daemon.home().options().timeout(Duration::from_secs(60));
    let mut client = Client::new(options);
    let log = || daemon.home().log();
    for space in fixture.spaces() {
        for count in [1, 10, MANY] {
            let mut ask = || match space.as_str() {
                SNOWFLAKE => client.snowflake_many(count),
                tag => client.next_many(tag, count),
            };
            let began = Instant::now();
            let ids = loop {
                match ask() {
                    // Retried until the clock has passed the ceiling in the fixture.
                    Err(Error::Refused(error))
                        if error.code() == ErrorCode::ClockBackwards
                            && began.elapsed() < Duration::from_secs(60) =>
                    {
                        std::thread::sleep(Duration::from_millis(50));
                    }
                    outcome => break outcome,
                }
            };
            let ids = ids.unwrap_or_else(|error| {
                panic!("{}: {space}: {error}\n{}", fixture.name(), log());
            });
            seen.add(&space, &ids);
        }
    }
}

/// The time in the last snowflake ID of a fixture, in ms since 1970.
fn last_ms(seen: &UniqueIds) -> Option<i64> {
    let last = Layout::LEAF.decode(seen.highest(SNOWFLAKE)?).unwrap();
    Some(i64::try_from(last.unix_ms).unwrap())
}

fn serves_and_repeats_nothing(fixture: &Fixture) {
    let folder = tempfile::tempdir().unwrap();
    let seen = fixture.issued();
    let LaidOut { mut home, database: _database } = fixture.lay_out(folder.path());
    // The clock is a second behind the last ID, as if the upgrade came right after it.
    if let Some(last_ms) = last_ms(&seen) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
        let clock = FakeTime::new(folder.path());
        clock.set_offset_ms(last_ms - i64::try_from(now).unwrap() - 1000);
        home = home.with_clock(&clock);
    }
    // The upgrade, a crash right after it, and an ordinary restart.
    let daemon = home.start();
    use_it(&daemon, fixture, &seen);
    daemon.kill();
    let daemon = home.start();
    use_it(&daemon, fixture, &seen);
    daemon.stop();
    let daemon = home.start();
    use_it(&daemon, fixture, &seen);
    daemon.stop();
}

#[test]
fn state_of_every_released_version_is_read_and_nothing_issued_before_comes_again() {
    std::thread::scope(|scope| {
        for fixture in Fixture::all() {
            scope.spawn(move || serves_and_repeats_nothing(&fixture));
        }
    });
}
