//! `leafctl run` as the entry point of a container, with leafd on the host, as the manual says. Each
//! command holds a lock on the file of its number, so that a number in two live processes shows.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use leaf_client::blocking::Client;
use leafd_tests::daemon::Home;
use leafd_tests::pod::{CgroupView, ContainerSettings, RuncContainer};
use leafd_tests::{Daemon, PATIENCE, scrape};
use nix::sys::signal::Signal;

/// The user in a container that is not root.
const USER: u32 = 10001;

/// Takes the lock, which whatever the command starts has as well, and says which number it has and in
/// which cgroup. From then on it ends with 7 when it is told to end.
const BEGIN: &str = r#"
trap 'echo told; exit 7' TERM
exec 9>"/run/numbers/$WORKER_ID"
flock --nonblock 9 || { echo "worker ID $WORKER_ID is in use"; exit 99; }
echo "number $WORKER_ID in $(grep ^0:: /proc/self/cgroup)"
"#;

/// Goes on until it is told to end.
const SERVE: &str = "while :; do sleep 0.1; done";

/// leafd on this host, and what its containers share.
struct Node {
    folder: tempfile::TempDir,
    home: Home,
}

impl Node {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        // Containers get the folder of the socket, which has nothing else but the log.
        let home = Home::new(&folder.path().join("socket"))
            .with("STATE_DIR", &path("state"))
            .with("SOCKET_MODE", "0666")
            .with("WORKER_REGISTRY", "database")
            .with("DATABASE_PATH", &path("registry.db"))
            .with("WORKER_IDENTITY", "here")
            .with("PEER_LISTEN", "")
            .with("HTTP_LISTEN", "127.0.0.1:0")
            .with("WORKER_FENCE_AFTER", "10s")
            .with("WORKER_RECLAIM_AFTER", "20s")
            .with("LEND_POOLS", "default:10,tiny:1");
        let numbers = folder.path().join("numbers");
        std::fs::create_dir(&numbers).unwrap();
        std::fs::set_permissions(&numbers, PermissionsExt::from_mode(0o777)).unwrap();
        Self { folder, home }
    }

    /// Starts a container with the entry point of the manual, which gets more `options`.
    fn run(&self, view: CgroupView, options: &[&str], script: &str) -> RuncContainer {
        let uid = if view == CgroupView::OwnWritable { 0 } else { USER };
        let entry_point = entry_point();
        let (dashes, leafctl) = entry_point.split_last().unwrap();
        let script = format!("{BEGIN}{script}");
        let mut command: Vec<_> = leafctl.iter().map(String::as_str).collect();
        command.extend_from_slice(options);
        command.extend([dashes, "sh", "-c", &script]);
        let [socket, numbers] = ["socket", "numbers"].map(|name| self.folder.path().join(name));
        RuncContainer::start(ContainerSettings {
            uid,
            cgroups: view,
            reads: (&socket, "/run/leafd"),
            writes: (&numbers, "/run/numbers"),
            command: &command,
        })
    }

    /// Starts a container that serves.
    fn serve(&self, view: CgroupView) -> RuncContainer {
        self.run(view, &[], SERVE)
    }
}

/// The entry point in the manual's Dockerfile.
fn entry_point() -> Vec<String> {
    let manual = leafd_tests::binaries::workspace().join("docs/operations/lend.md");
    let text = std::fs::read_to_string(manual).unwrap();
    let mut entry_points = text.lines().filter_map(|line| line.strip_prefix("ENTRYPOINT "));
    serde_json::from_str(entry_points.next().expect("an entry point")).unwrap()
}

/// Whether a line says why the command has no number of its own.
fn is_refusal(line: &str) -> bool {
    line.starts_with("leafctl: ") || line.ends_with(" is in use")
}

/// The number that a container's command got, and its cgroup.
fn number_and_cgroup(container: &RuncContainer) -> (u64, String) {
    let is_it = |line: &str| line.starts_with("number ") || is_refusal(line);
    let said = container.output().wait_while(is_it, || {});
    let line = said.lines().find_map(|line| line.strip_prefix("number "));
    let line = line.unwrap_or_else(|| panic!("{said}"));
    let (number, cgroup) = line.split_once(" in 0::").unwrap();
    (number.parse().unwrap(), cgroup.to_owned())
}

fn number(container: &RuncContainer) -> u64 {
    number_and_cgroup(container).0
}

/// Ends a container as `docker stop` does. Returns its exit status, and what it said.
fn stop(container: RuncContainer) -> (i32, String) {
    container.signal(Signal::SIGTERM);
    container.wait()
}

fn stops(container: RuncContainer) {
    let (status, said) = stop(container);
    assert!(status == 7 && said.ends_with("told\n"), "{status}: {said}");
}

/// Kills a container's process 1, and waits until leafd has noticed.
fn kill(container: RuncContainer, home: &Home) {
    container.signal(Signal::SIGKILL);
    let (status, said) = container.wait();
    assert_eq!(status, 128 + 9, "{said}");
    home.log().wait_for("the borrower of a worker ID has disconnected");
}

#[test]
fn the_command_has_its_number_and_what_it_leaves_behind_ends_before_the_container() {
    let node = Node::new();
    let daemon = node.home.start();
    let script = r#"
        echo "the file has $(cat /tmp/worker)"
        (sh -c 'echo $$ >/tmp/orphan.new; mv /tmp/orphan.new /tmp/orphan' &)
        until [ -e /tmp/orphan ]; do sleep 0.01; done
        while [ -e "/proc/$(cat /tmp/orphan)" ]; do sleep 0.01; done
        echo "the orphan is reaped"
        (setsid sh -c '
            trap "sleep 1; echo the daemon ends; exit" TERM
            until [ "$(cut -d " " -f 4 /proc/$$/stat)" = 1 ]; do sleep 0.01; done
            : >/tmp/daemon
            while :; do sleep 0.1; done' 2>/dev/null &)
        until [ -e /tmp/daemon ]; do sleep 0.01; done
        exit 5"#;
    for view in [CgroupView::Own, CgroupView::OwnWritable, CgroupView::Host] {
        let container = node.run(view, &["--worker-file", "/tmp/worker"], script);
        let (number, cgroup) = number_and_cgroup(&container);
        let (status, said) = container.wait();
        assert_eq!(status, 5, "{said}\n{}", node.home.log());
        let rest = format!("the file has {number}\nthe orphan is reaped\nthe daemon ends\n");
        assert!(said.ends_with(&rest), "{said}");
        let is_as_meant = match view {
            CgroupView::Own => cgroup == "/",
            CgroupView::OwnWritable => cgroup.starts_with("/leafctl-run-1-"),
            CgroupView::Host => cgroup.starts_with("/leafd-container-"),
        };
        assert!(is_as_meant, "{view:?}: {cgroup}");
    }
    let ended = daemon.stop();
    assert_eq!(ended.count("a worker ID was returned"), 3, "{ended}");
    assert_eq!(ended.count("has disconnected"), 0, "{ended}");
}

#[test]
fn containers_that_are_stopped_return_their_numbers_and_the_next_ones_get_them() {
    let node = Node::new();
    let _daemon = node.home.start();
    for _ in 0..2 {
        let both = [(); 2].map(|()| node.serve(CgroupView::Own));
        let numbers: BTreeSet<_> = both.iter().map(number).collect();
        assert_eq!(numbers, BTreeSet::from([0, 1]), "{}", node.home.log());
        both.into_iter().for_each(stops);
    }
    // A command that has no word for the end ends by the signal.
    let script = "trap - TERM; echo ready; exec sleep infinity";
    let container = node.run(CgroupView::Own, &[], script);
    container.output().wait_for("ready");
    let (status, said) = stop(container);
    assert_eq!(status, 128 + 15, "{said}");
}

/// `view` does not let leafd see the container's cgroup.
fn a_killed_container_keeps_its_number_for_reclaim_after(view: CgroupView) {
    let node = Node::new();
    let _daemon = node.home.start();
    let tiny = ["--pool", "tiny", "--wait", "1h"];
    let serve = |script: &str| node.run(view, &tiny, script);
    let killed = serve(SERVE);
    assert_eq!(number(&killed), 0, "{}", node.home.log());
    kill(killed, &node.home);
    // The pool has two numbers.
    let other = serve(SERVE);
    assert_eq!(number(&other), 1, "{}", node.home.log());
    let later = serve("exit 0");
    let got = number_in_the_end(&later);
    assert_eq!(got, 0, "{}", node.home.log());
    assert_eq!(later.wait().0, 0, "{}", node.home.log());
    stops(other);
}

fn wait_until(what: &str, home: &Home, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "gave up waiting: {what}\n{}", home.log());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The number of a container for which one has to be reclaimed first.
fn number_in_the_end(container: &RuncContainer) -> u64 {
    // leafd waits a minute for the borrower to connect again.
    const RECLAIMED: Duration = Duration::from_secs(300);
    let began = Instant::now();
    while !container.has_ended() {
        assert!(began.elapsed() < RECLAIMED, "no number\n{}", container.output());
        std::thread::sleep(Duration::from_millis(50));
    }
    number(container)
}

#[test]
fn a_killed_container_with_cgroups_of_its_own_keeps_its_number_for_reclaim_after() {
    a_killed_container_keeps_its_number_for_reclaim_after(CgroupView::Own);
}

#[test]
fn a_killed_container_that_makes_cgroups_keeps_its_number_for_reclaim_after() {
    a_killed_container_keeps_its_number_for_reclaim_after(CgroupView::OwnWritable);
}

#[test]
fn a_container_that_is_killed_in_the_hosts_cgroups_gives_its_number_to_the_next_one() {
    let node = Node::new();
    let _daemon = node.home.start();
    let [killed, other] = [(); 2].map(|()| node.serve(CgroupView::Host));
    let had = [number(&killed), number(&other)];
    assert_eq!(BTreeSet::from(had), BTreeSet::from([0, 1]), "{}", node.home.log());
    kill(killed, &node.home);
    let address = scrape::address(&node.home, 1);
    wait_until("leafd sees that its cgroup is empty", &node.home, || {
        let adrift = [("pool", "default"), ("state", "adrift")];
        scrape::scrape(address).value("leafd_loans", &adrift) < 1.0
    });
    let next = node.serve(CgroupView::Host);
    assert_eq!(number(&next), had[0], "{}", node.home.log());
    [other, next].into_iter().for_each(stops);
}

/// Waits until leafd reports a number of the pool `default`.
fn is_reported(worker: u64, daemon: &Daemon) {
    let mut client = Client::new(daemon.home().options());
    wait_until("leafd reports the number", daemon.home(), || {
        // The registry may be busy.
        let listed = client.pool_list("default", 0, 100).unwrap_or_default();
        listed.iter().any(|one| one.worker == worker && one.live && one.own)
    });
}

#[test]
fn a_containers_command_keeps_its_number_while_leafd_restarts() {
    let node = Node::new();
    let mut daemon = node.home.start();
    let container = node.run(CgroupView::Own, &["--worker-file", "/tmp/worker"], SERVE);
    assert_eq!(number(&container), 0, "{}", node.home.log());
    for how in [Daemon::stop, Daemon::kill] {
        is_reported(0, &daemon);
        how(daemon);
        daemon = node.home.start();
    }
    is_reported(0, &daemon);
    let other = node.serve(CgroupView::Own);
    assert_eq!(number(&other), 1, "{}", node.home.log());
    assert!(!container.has_ended(), "{}", container.output());
    let file = std::fs::read_to_string(container.path("/tmp/worker")).unwrap();
    assert_eq!(file, "0\n");
    [container, other].into_iter().for_each(stops);
    let ended = daemon.stop();
    assert_eq!(ended.count("a worker ID was returned"), 2, "{ended}");
    assert_eq!(ended.count("has lost its worker ID"), 0, "{ended}");
}
