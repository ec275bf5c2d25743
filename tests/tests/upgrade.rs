//! State that earlier versions wrote: leafd starts on it, serves, and repeats nothing of what was
//! issued before. The fixtures are kept for ever; `CONTRIBUTING.md` says how to add those of a new
//! version.

use std::time::Duration;

use leaf_client::blocking::Client;
use leafd_tests::Daemon;
use leafd_tests::fixture::{Fixture, Laid};
use leafd_tests::load::SNOWFLAKE;
use leafd_tests::seen::Seen;

/// More than any range that was left.
const MANY: u32 = 10_000;

fn use_it(daemon: &Daemon, fixture: &Fixture, seen: &Seen) {
    let options = daemon.home().options().timeout(Duration::from_secs(60));
    let mut client = Client::new(options);
    let log = || daemon.home().log();
    for space in fixture.spaces() {
        for count in [1, 10, MANY] {
            let ids = if space == SNOWFLAKE {
                client.snowflake_many(count)
            } else {
                client.next_many(&space, count)
            };
            let ids = ids.unwrap_or_else(|error| {
                panic!("{}: {space}: {error}\n{}", fixture.name(), log());
            });
            seen.add(&space, &ids);
        }
    }
}

fn serves_and_repeats_nothing(fixture: &Fixture) {
    let folder = tempfile::tempdir().unwrap();
    let seen = fixture.issued();
    let Laid { home, database: _database } = fixture.lay_out(folder.path());
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
