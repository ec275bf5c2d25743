//! leafd from its package in a real systemd: started by the first connection, restarted, killed and
//! frozen under load. No call fails and no ID comes twice.

use std::time::Duration;

use leafd_tests::load::{AsyncLoad, Load, SNOWFLAKE};
use leafd_tests::{Container, UniqueIds};
use serde_json::Value;

const SERVICE: &str = "leafd.service";

/// The tags of the blocking clients.
const SPACES: [&str; 3] = ["orders", "users", SNOWFLAKE];

/// Blocking and asynchronous clients on this host that keep asking for IDs.
struct Clients<'a> {
    container: &'a Container,
    seen: UniqueIds,
    load: Load,
    tasks: AsyncLoad,
}

impl<'a> Clients<'a> {
    fn of(container: &'a Container) -> Self {
        let seen = UniqueIds::default();
        // A long timeout, since every call has to succeed in the end.
        let options = container.options().timeout(Duration::from_secs(120));
        let load = Load::start(&options, &seen, &SPACES, 3000);
        let tasks = AsyncLoad::start(&options, &seen);
        let clients = Self { container, seen, load, tasks };
        clients.are_served();
        clients
    }

    /// Waits until each blocking client has been served once more.
    fn are_served(&self) {
        let before = SPACES.map(|space| self.seen.count(space));
        self.container.until("clients are served", || {
            assert!(!self.load.is_broken(), "{}", self.container.journal());
            SPACES.iter().zip(before).all(|(space, before)| self.seen.count(space) > before)
        });
    }

    /// Stops the clients, and asserts that no call failed. A duplicate would have failed the test.
    fn noticed_nothing(self) -> u64 {
        self.are_served();
        let journal = self.container.journal();
        assert_eq!(self.tasks.finish(), [""; 0], "calls of asynchronous clients\n{journal}");
        let failed = self.load.finish_with_names();
        assert!(failed.is_empty(), "calls of blocking clients: {failed:?}\n{journal}");
        self.seen.total()
    }
}

/// Identifies the listening socket, to show that it stays the same.
fn listening_socket(container: &Container) -> String {
    let inode = container.ok("stat --format=%i /run/leafd/leafd.sock");
    let since = container.property("leafd.socket", "ActiveEnterTimestampMonotonic");
    format!("inode {} since {since}", inode.trim())
}

#[test]
fn the_first_connection_starts_the_service_and_nothing_before_it_does() {
    let container = Container::with_leafd();
    assert_eq!(container.property("leafd.socket", "ActiveState"), "active");
    assert_eq!(container.property("leafd.socket", "UnitFileState"), "enabled");
    assert_eq!(container.property(SERVICE, "ActiveState"), "inactive");
    assert_eq!(container.main_pid(), 0);
    assert_eq!(container.ok("leafctl next orders"), "1\n");
    assert_eq!(container.property(SERVICE, "ActiveState"), "active");
    assert_eq!(container.property(SERVICE, "User"), "leafd");
    let status = container.status(SERVICE);
    let words = status.lines().find_map(|line| line.trim().strip_prefix("Status: "));
    assert!(words.is_some_and(|words| words.contains("Serving; ")), "{status}");
    // Snowflakes and the state work under all of the unit's restrictions too.
    let first = container.ok("leafctl snowflake --count 100000").lines().count();
    assert_eq!(first, 100_000);
    assert!(container.ok("stat --format=%U:%a /var/lib/leafd").starts_with("leafd:700"));
    let errors = container.ok("journalctl --quiet --priority=err --unit=leafd.service");
    assert_eq!(errors, "");
}

#[test]
fn restarts_under_load_fail_no_call_and_give_no_id_twice() {
    const RESTARTS: u32 = 15;
    let container = Container::with_leafd();
    let clients = Clients::of(&container);
    let socket = listening_socket(&container);
    let mut pids = vec![container.main_pid()];
    for _ in 0..RESTARTS {
        std::thread::sleep(Duration::from_millis(fastrand::u64(1..200)));
        container.ok("systemctl restart leafd.service");
        assert_eq!(listening_socket(&container), socket, "the socket went away");
        pids.push(container.main_pid());
        clients.are_served();
    }
    let total = clients.noticed_nothing();
    pids.dedup();
    assert_eq!(pids.len() as u32, RESTARTS + 1, "not restarted: {pids:?}");
    println!("{RESTARTS} restarts, {total} IDs");
}

#[test]
fn a_service_that_is_killed_under_load_is_restarted_and_gives_no_id_twice() {
    const KILLS: u32 = 5;
    let container = Container::with_leafd();
    let clients = Clients::of(&container);
    let socket = listening_socket(&container);
    for kill in 1..=KILLS {
        std::thread::sleep(Duration::from_millis(fastrand::u64(1..200)));
        container.ok("systemctl kill --kill-who=main --signal=KILL leafd.service");
        container.until_property(SERVICE, "NRestarts", &kill.to_string());
        clients.are_served();
        assert_eq!(listening_socket(&container), socket, "the socket went away");
    }
    let total = clients.noticed_nothing();
    println!("{KILLS} kills, {total} IDs");
}

#[test]
fn the_watchdog_restarts_a_service_that_hangs_without_a_failed_call() {
    let container = Container::with_leafd();
    let clients = Clients::of(&container);
    let frozen = container.main_pid();
    container.ok(&format!("kill -STOP {frozen}"));
    container.until_property(SERVICE, "NRestarts", "1");
    clients.are_served();
    assert_ne!(container.main_pid(), frozen);
    container.journal().wait_for("Watchdog timeout");
    println!("{} IDs", clients.noticed_nothing());
}

#[test]
fn a_stop_by_hand_lasts_until_the_next_connection() {
    let container = Container::with_leafd();
    let seen = UniqueIds::default();
    for _ in 0..3 {
        let first = container.ok("leafctl next orders").trim().parse().unwrap();
        seen.add_run("orders", first, 1);
        container.ok("systemctl stop leafd.service");
        assert_eq!(container.property(SERVICE, "ActiveState"), "inactive");
        assert_eq!(container.property(SERVICE, "Result"), "success");
    }
    assert_eq!(seen.highest("orders"), Some(3), "a clean stop has lost IDs");
    container.ok("systemctl stop leafd.socket leafd.service");
    let refused = container.sh("leafctl --timeout 1s next orders");
    assert_eq!(refused.code, Some(69), "{}", refused.text);
    assert_eq!(container.sh("ls /run/leafd/leafd.sock").code, Some(2), "the socket is left");
    container.ok("systemctl start leafd.socket");
    assert_eq!(container.ok("leafctl next orders"), "4\n");
}

#[test]
fn members_of_the_group_may_ask_for_ids_and_others_may_not_connect() {
    let container = Container::with_leafd();
    container.ok("useradd app --groups leafd; useradd stranger");
    assert_eq!(container.ok("runuser -u app -- leafctl next orders"), "1\n");
    let refused = container.sh("runuser -u stranger -- leafctl --timeout 2s next orders");
    assert_eq!(refused.code, Some(69), "{}", refused.text);
    assert!(refused.text.contains("Permission denied"), "{}", refused.text);
    let state = container.sh("runuser -u app -- ls /var/lib/leafd");
    assert!(state.text.contains("Permission denied"), "{}", state.text);
}

#[test]
fn a_reload_takes_new_access_rules_without_dropping_a_connection() {
    let container = Container::with_leafd();
    container.ok("useradd app --groups leafd");
    let clients = Clients::of(&container);
    assert_eq!(container.ok("runuser -u app -- leafctl next secret"), "1\n");
    let pid = container.main_pid();
    container.write(
        "/etc/leafd/leafd.toml",
        "[access]\nrules = [\n\
         { name = \"apps\", users = [\"app\"], tags = [\"public.*\"] },\n\
         { name = \"root\", users = [\"root\"], tags = [\"*\"], snowflake = true },\n]\n",
    );
    container.ok("systemctl reload leafd.service");
    container.until("the new rules are in force", || {
        container.sh("runuser -u app -- leafctl next secret").code == Some(64)
    });
    assert_eq!(container.ok("runuser -u app -- leafctl next public.a"), "1\n");
    assert_eq!(container.main_pid(), pid, "restarted");
    assert_eq!(container.property(SERVICE, "ActiveState"), "active");
    println!("{} IDs", clients.noticed_nothing());
}

#[test]
fn a_reload_of_a_wrong_configuration_fails_and_leafd_keeps_serving() {
    let container = Container::with_leafd();
    assert_eq!(container.ok("leafctl next orders"), "1\n");
    let pid = container.main_pid();
    container.write("/etc/leafd/leafd.toml", "[socket]\nmax-conections = 5\n");
    assert_ne!(container.sh("systemctl reload leafd.service").code, Some(0));
    let status = container.status(SERVICE);
    assert!(status.contains("max-conections"), "{status}");
    assert_eq!(container.property(SERVICE, "ActiveState"), "active");
    assert_eq!(container.main_pid(), pid);
    assert_eq!(container.ok("leafctl next orders"), "2\n");
}

#[test]
fn what_leafd_logs_is_in_the_journal_with_its_level_and_its_fields() {
    let container = Container::with_leafd();
    container.ok("leafctl next orders");
    let mut lines = Vec::new();
    container.until("the tag that was made is in the journal", || {
        let json = container.ok("journalctl --quiet --output=json --unit=leafd.service");
        let parsed = json.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines = parsed.filter(|line| line["SYSLOG_IDENTIFIER"] == "leafd").collect();
        lines.iter().any(|line| line["LEAFD_TAG"] == "orders")
    });
    for line in &lines {
        assert_eq!(line["_COMM"], "leafd", "{line}");
        let target = line["TARGET"].as_str().unwrap_or_default();
        assert!(target.starts_with("leafd") || target == "audit", "{line}");
    }
    // Each line has its own level, not the one of standard error.
    let ready = lines.iter().find(|line| line["LEAFD_SOCKET"] == "/run/leafd/leafd.sock");
    assert_eq!(ready.map(|line| &line["PRIORITY"]), Some(&Value::from("6")), "{lines:#?}");
    let worker = lines.iter().find(|line| line["PRIORITY"] == "4");
    assert!(worker.is_some(), "no warning that worker ID 0 is for one host: {lines:#?}");
}

#[test]
fn systemd_can_hold_the_peer_port_too() {
    let container = Container::with_leafd();
    // ZooKeeper is unreachable, which does not matter for the port.
    container.write(
        "/etc/leafd/leafd.toml",
        "[worker]\nregistry = \"zookeeper\"\nidentity = \"a\"\n\
         [zookeeper]\nservers = \"127.0.0.1:1\"\n",
    );
    container.ok("systemctl enable --now leafd-peer.socket");
    assert_eq!(container.main_pid(), 0);
    container.ok("bash -c 'exec 3<>/dev/tcp/127.0.0.1/8735'");
    container.until_property(SERVICE, "ActiveState", "active");
    assert_eq!(container.ok("leafctl next orders"), "1\n");
    let pid = container.main_pid();
    let sockets = container.ok(&format!("tr '\\0' '\\n' </proc/{pid}/environ"));
    assert!(sockets.contains("LISTEN_FDS=2"), "{sockets}");
    container.ok("systemctl restart leafd.service");
    container.ok("bash -c 'exec 3<>/dev/tcp/127.0.0.1/8735'");
}
