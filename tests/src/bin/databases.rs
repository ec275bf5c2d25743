//! Starts a database server of each kind with leafd's tables, for experiments by hand. Runs until the
//! end of its input: `cargo run -p leafd-tests --bin databases`. The harness's own tests kill it.

use std::time::Instant;

use leafd_tests::Database;
use leafd_tests::database::Kind;

fn main() {
    let frozen = std::env::args().any(|argument| argument == "--frozen");
    for kind in Kind::ALL {
        let began = Instant::now();
        // The servers are statics, as in tests, so they are never dropped.
        let database = Database::shared(kind);
        let elapsed = began.elapsed();
        database.create_table();
        if frozen {
            database.freeze();
        }
        println!("{} in {} after {elapsed:.1?}", database.url(), database.folder().display());
    }
    let _ = std::io::stdin().read_line(&mut String::new());
}
