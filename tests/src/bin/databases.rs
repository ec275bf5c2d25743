//! A server of each kind with Leaf's table in it, to try something by hand, until the end of the
//! input: `cargo run -p leafd-tests --bin databases`. The tests of the harness kill it.

use std::time::Instant;

use leafd_tests::Database;
use leafd_tests::database::Kind;

fn main() {
    let frozen = std::env::args().any(|argument| argument == "--frozen");
    for kind in Kind::ALL {
        let began = Instant::now();
        // Statics, as tests have them: nothing here drops them.
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
