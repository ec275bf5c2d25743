//! Starts a server of a shared store with tags, and a slow proxy in front of it, for measurements.
//! Prints leafd's settings for it as JSON, first without and then with the proxy. Runs until the end of
//! its input.
//!
//! `slow_database mariadb|postgres|redis|several DELAY_MS TAGS STEP`

use std::collections::BTreeMap;
use std::time::Duration;

use leafd_tests::StoreServer;
use leafd_tests::binaries::use_programs_in;
use leafd_tests::proxy::Proxy;
use leafd_tests::store_server::StoreServerKind;

/// Tags per statement.
const TAGS: usize = 1000;

/// leafd's environment with the server at this port.
fn environment(server: &StoreServer, port: u16) -> String {
    let settings = server.settings_at(port).into_iter();
    let variables: BTreeMap<_, _> =
        settings.map(|(name, value)| (format!("LEAFD_{name}"), value)).collect();
    serde_json::to_string(&variables).expect("texts only")
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kind, delay_ms, tags, step] = arguments.as_slice() else {
        panic!("usage: slow_database mariadb|postgres|redis|several DELAY_MS TAGS STEP");
    };
    let kind = match kind.as_str() {
        "mariadb" => StoreServerKind::MARIADB,
        "postgres" => StoreServerKind::POSTGRES,
        "redis" => StoreServerKind::Redis,
        "several" => StoreServerKind::Several,
        other => panic!("{other:?} is not mariadb, postgres, redis or several"),
    };
    // The programs beside this one: those that are measured.
    let own = std::env::current_exe().expect("an own path");
    use_programs_in(own.parent().expect("a folder"));
    let number = |text: &str| -> u64 { text.parse().expect("a number") };
    let (delay_ms, tags) = (number(delay_ms), number(tags));
    let step = step.parse().expect("a step");
    let server = StoreServer::start(kind);
    server.create_table();
    if let StoreServer::Sql(database) = &server {
        database.create_worker_tables();
    }
    // The names that `leafctl bench` uses with and without `--tags`.
    let width = tags.saturating_sub(1).to_string().len();
    let mut names = vec!["bench".to_owned()];
    names.extend((0..tags).map(|tag| format!("bench-{tag:0width$}")));
    for names in names.chunks(TAGS) {
        server.insert_tags(names, step);
    }
    let proxy = Proxy::to(server.port());
    proxy.delay(Duration::from_millis(delay_ms));
    println!("{}", environment(&server, server.port()));
    println!("{}", environment(&server, proxy.port()));
    let _ = std::io::stdin().read_line(&mut String::new());
}
