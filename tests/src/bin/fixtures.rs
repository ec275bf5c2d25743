//! Makes the fixtures of a version that is about to be released:
//! `cargo run -p leafd-tests --bin fixtures -- VERSION [FOLDER]`, where FOLDER holds the version's
//! `leafd` and `leafctl`; without it, they are built from this tree. Existing fixtures stay.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use leaf_client::Ids;
use leafd_tests::database::Kind;
use leafd_tests::fixture::{Fixture, MACHINE, root};
use leafd_tests::{Daemon, Database, Ensemble, daemon::Home, zookeeper::Tree};

/// The IDs that clients received, in the format of the file `issued`.
#[derive(Default)]
struct Issued(String);

impl Issued {
    fn note(&mut self, space: &str, ids: &Ids) {
        for run in ids.runs() {
            writeln!(self.0, "{space} {} {}", run.first, run.count).expect("a line");
        }
    }

    fn tag(&mut self, daemon: &Daemon, tag: &str, count: u32) {
        self.note(tag, &daemon.client().next_many(tag, count).expect("IDs"));
    }

    fn snowflakes(&mut self, daemon: &Daemon, count: u32) {
        let options = daemon.home().options().timeout(Duration::from_secs(60));
        let mut client = leaf_client::blocking::Client::new(options);
        self.note("snowflake", &client.snowflake_many(count).expect("IDs"));
    }
}

/// A fixture that is being made.
struct FixtureBuilder {
    version: String,
    folder: tempfile::TempDir,
    settings: String,
}

impl FixtureBuilder {
    fn new(version: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self { version: version.to_owned(), folder, settings: String::new() }
    }

    fn with(mut self, key: &str, value: &str) -> Self {
        writeln!(self.settings, "{key}={value}").expect("a line");
        self
    }

    fn home(&self) -> Home {
        let home = Home::new(self.folder.path()).with("STATE_MACHINE_ID", MACHINE);
        self.settings.lines().fold(home, |home, line| {
            let (key, value) = line.split_once('=').expect("KEY=VALUE");
            home.with(key, value)
        })
    }

    /// Copies the state directory as it is now into the fixture.
    fn save(&self, name: &str, issued: &Issued) -> std::path::PathBuf {
        let target = root().join(&self.version).join(name);
        fs::create_dir_all(target.join("state")).expect("the fixture's folder");
        for entry in fs::read_dir(self.home().state()).expect("the state directory") {
            let entry = entry.expect("a file");
            fs::copy(entry.path(), target.join("state").join(entry.file_name())).expect("a copy");
        }
        fs::write(target.join("settings"), &self.settings).expect("the settings");
        fs::write(target.join("issued"), &issued.0).expect("the IDs");
        println!("{}", Fixture::of(&self.version, name).name());
        target
    }
}

fn embedded_stopped(version: &str) {
    let (bench, mut issued) = (FixtureBuilder::new(version), Issued::default());
    let daemon = bench.home().start();
    issued.tag(&daemon, "orders", 10);
    issued.tag(&daemon, "invoices", 250);
    issued.snowflakes(&daemon, 10);
    daemon.stop();
    bench.save("embedded-stopped", &issued);
}

/// The journal has ranges, and the last leases are only in the database's `-wal`.
fn embedded_killed(version: &str) {
    let (bench, mut issued) = (FixtureBuilder::new(version), Issued::default());
    let daemon = bench.home().start();
    issued.tag(&daemon, "orders", 700);
    issued.tag(&daemon, "invoices", 3);
    issued.tag(&daemon, "orders", 2500);
    issued.snowflakes(&daemon, 10);
    daemon.kill();
    bench.save("embedded-killed", &issued);
}

fn fixed_worker_killed(version: &str) {
    let (bench, mut issued) =
        (FixtureBuilder::new(version).with("WORKER_ID", "7"), Issued::default());
    let daemon = bench.home().start();
    issued.tag(&daemon, "orders", 5);
    issued.snowflakes(&daemon, 50_000);
    daemon.kill();
    bench.save("fixed-worker-killed", &issued);
}

fn mariadb_killed(version: &str) {
    let (bench, mut issued) = (FixtureBuilder::new(version), Issued::default());
    let database = Database::with_tag(Kind::MariaDb, "orders", 100);
    let daemon = bench.home().with_database(&database).start();
    issued.tag(&daemon, "orders", 150);
    issued.snowflakes(&daemon, 10);
    daemon.kill();
    let folder = bench.save("mariadb-killed", &issued);
    fs::write(folder.join("rows"), format!("orders {} 100\n", database.max_id("orders")))
        .expect("the rows");
}

fn zookeeper_killed(version: &str) {
    let bench = FixtureBuilder::new(version).with("WORKER_IDENTITY", "fixture:1");
    let (ensemble, mut issued) = (Ensemble::single(), Issued::default());
    let chroot = ensemble.fresh_path();
    let servers = ensemble.connect_string() + &chroot;
    let daemon = bench.home().with_zookeeper(&servers).with_peer("127.0.0.1:0").start();
    issued.tag(&daemon, "orders", 5);
    issued.snowflakes(&daemon, 1000);
    daemon.kill();
    let folder = bench.save("zookeeper-killed", &issued);
    let mut text = String::new();
    nodes(&Tree::at(&servers), "/snowflake", &mut text);
    fs::write(folder.join("tree"), text).expect("the tree");
}

/// Writes the persistent nodes from `path` down.
fn nodes(tree: &Tree, path: &str, out: &mut String) {
    let node = tree.get(path).expect("the node");
    if node.ephemeral_owner != 0 {
        return;
    }
    let data = String::from_utf8(node.data).expect("text");
    assert!(!data.contains('\n'), "{path} has two lines");
    writeln!(out, "{path} {data}").expect("a line");
    for child in tree.children(path) {
        nodes(tree, &format!("{path}/{child}"), out);
    }
}

fn main() {
    let version = std::env::args().nth(1).expect("VERSION");
    if let Some(folder) = std::env::args().nth(2) {
        leafd_tests::binaries::use_programs_in(Path::new(&folder));
    }
    let all = [
        ("embedded-stopped", embedded_stopped as fn(&str)),
        ("embedded-killed", embedded_killed),
        ("fixed-worker-killed", fixed_worker_killed),
        ("mariadb-killed", mariadb_killed),
        ("zookeeper-killed", zookeeper_killed),
    ];
    for (name, make) in all {
        if !root().join(&version).join(name).exists() {
            make(&version);
        }
    }
}
