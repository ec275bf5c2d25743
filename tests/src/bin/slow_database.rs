//! Starts a database server with tags, and a slow proxy in front of it, for measurements. Prints the
//! URL without and with the proxy. Runs until the end of its input.
//!
//! `slow_database mariadb|postgres DELAY_MS TAGS STEP`

use std::time::Duration;

use leafd_tests::database::{Database, Kind};
use leafd_tests::proxy::Proxy;

/// Rows per statement.
const ROWS: u64 = 1000;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kind, delay_ms, tags, step] = arguments.as_slice() else {
        panic!("usage: slow_database mariadb|postgres DELAY_MS TAGS STEP");
    };
    let kind = match kind.as_str() {
        "mariadb" => Kind::MariaDb,
        "postgres" => Kind::Postgres,
        other => panic!("{other:?} is neither mariadb nor postgres"),
    };
    let number = |text: &str| -> u64 { text.parse().expect("a number") };
    let (delay_ms, tags, step) = (number(delay_ms), number(tags), number(step));
    let database = Database::start(kind);
    database.create_table();
    database.create_worker_tables();
    // The names that `leafctl bench` uses with and without `--tags`.
    let width = tags.saturating_sub(1).to_string().len();
    let mut names = vec!["bench".to_owned()];
    names.extend((0..tags).map(|tag| format!("bench-{tag:0width$}")));
    for names in names.chunks(ROWS as usize) {
        let rows: Vec<String> = names.iter().map(|name| format!("('{name}', 1, {step})")).collect();
        let rows = rows.join(", ");
        database.sql(&format!("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES {rows}"));
    }
    let proxy = Proxy::to(database.port());
    proxy.delay(Duration::from_millis(delay_ms));
    println!("{}\n{}", database.url(), database.url_at(proxy.port()));
    let _ = std::io::stdin().read_line(&mut String::new());
}
