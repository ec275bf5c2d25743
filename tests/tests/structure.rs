//! The structure of the crates is as in `docs/design.md`: no two files use each other, and no room uses
//! one above it.

use std::collections::BTreeSet;
use std::fmt::Write;

use leafd_tests::binaries::workspace;
use leafd_tests::structure::Structure;

/// From the top floor down. Rooms on one floor do not use each other.
const FLOORS: [&[&str]; 16] = [
    &["cli"],
    &["app"],
    &["manager"],
    &["transport"],
    &["metrics"],
    &["service", "doctor"],
    &["forecast"],
    &["worker", "segment"],
    &["snowflake", "access"],
    &["log", "audit"],
    &["config", "readiness"],
    &["store"],
    &["tls"],
    &["state", "input"],
    &["ids", "safety", "supervise", "patience", "environment", "secret", "rfc3339", "actor"],
    &["duration", "backoff", "frame", "lock", "prefetch", "stdout", "tally"],
];

fn floor(room: &str) -> usize {
    let floor = FLOORS.iter().position(|rooms| rooms.contains(&room));
    floor.unwrap_or_else(|| panic!("the room {room} has no floor: give it one in this test"))
}

fn crates() -> [(&'static str, Structure); 3] {
    ["daemon/src/lib.rs", "daemon/src/bin/leafctl/main.rs", "client/src/lib.rs"]
        .map(|root| (root, Structure::read(&workspace().join(root))))
}

#[test]
fn no_two_files_use_each_other() {
    for (root, structure) in crates() {
        let circles = structure.circles();
        assert!(circles.is_empty(), "{root}: {circles:#?}");
    }
}

#[test]
fn no_room_of_the_daemon_uses_one_above_it() {
    let [(_, daemon), ..] = crates();
    let rooms = daemon.rooms();
    assert!(rooms.len() > FLOORS.len(), "{rooms:?}");
    let up: Vec<_> = rooms.iter().filter(|(from, to)| floor(from) >= floor(to)).collect();
    assert!(up.is_empty(), "{up:#?}");
}

/// The arrows as `docs/design.md` shows them: a line for each folder of the daemon, from the top
/// floor down, with the folders that it uses. Single files are left out.
fn arrows(rooms: &BTreeSet<(String, String)>) -> String {
    let is_folder = |room: &str| workspace().join("daemon/src").join(room).is_dir();
    let mut lines = String::new();
    for room in FLOORS.iter().flat_map(|floor| floor.iter()).filter(|room| is_folder(room)) {
        let used = rooms.iter().filter(|(from, to)| from == room && is_folder(to));
        let mut used: Vec<_> = used.map(|(_, to)| to.as_str()).collect();
        used.sort_by_key(|to| floor(to));
        if !used.is_empty() {
            writeln!(lines, "{room:<9} → {}", used.join(", ")).expect("a string takes it");
        }
    }
    lines
}

#[test]
fn the_arrows_that_the_design_shows_are_those_of_the_code() {
    let [(_, daemon), ..] = crates();
    let arrows = arrows(&daemon.rooms());
    let design = std::fs::read_to_string(workspace().join("docs/design.md")).expect("the page");
    assert!(
        design.contains(&arrows),
        "docs/design.md shows other arrows than the code has:\n{arrows}"
    );
}

#[test]
fn the_claim_of_a_worker_id_uses_no_particular_registry_and_no_shell() {
    let [(_, daemon), ..] = crates();
    let used = daemon.used_below(&["worker", "claim"]);
    assert!(!used.is_empty());
    let beyond: Vec<_> = used
        .iter()
        .filter(|module| module.starts_with("worker::") && *module != "worker::peers")
        .collect();
    assert!(beyond.is_empty(), "{beyond:#?}");
}
