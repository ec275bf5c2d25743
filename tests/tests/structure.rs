//! The house stays as `docs/design.md` draws it: no two files use each other, and no room uses one
//! above it.

use leafd_tests::binaries::workspace;
use leafd_tests::structure::Structure;

/// From the top floor down. Rooms on one floor do not use each other.
const FLOORS: [&[&str]; 13] = [
    &["cli"],
    &["app"],
    &["manager"],
    &["transport"],
    &["service"],
    &["worker", "segment"],
    &["snowflake", "access"],
    &["log", "audit"],
    &["config"],
    &["store"],
    &["state", "input"],
    &["ids", "environment", "safety", "supervise", "patience", "secret", "rfc3339"],
    &["duration", "backoff", "frame", "stdout"],
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
