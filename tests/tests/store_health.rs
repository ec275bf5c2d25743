//! What leafd reports about a store while no request needs it: that it is down, that it answers but has
//! not yet proven that it can write, and that it works again.

use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use leafd_tests::caller::{Caller, store_error, wait_until};
use leafd_tests::daemon::Home;
use leafd_tests::store_server::StoreServerKind;
use leafd_tests::{Daemon, StoreServer, UniqueIds, on_every_store_server};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

on_every_store_server! {
    an_outage_that_no_request_meets_is_noticed_and_so_is_its_end,
}

type Fault = (&'static str, fn(&StoreServer), fn(&StoreServer));

/// The exit code and the output of a readiness probe.
fn readiness(home: &Home) -> (Option<i32>, String) {
    let (code, out, _) = home.run("leafctl", &["health", "--ready"]);
    (code, out)
}

fn an_outage_that_no_request_meets_is_noticed_and_so_is_its_end(kind: StoreServerKind) {
    let server = StoreServer::start_with_tag(kind, "orders", 1000);
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with_store(&server);
    let daemon = home.start();
    Caller::of(&daemon, "orders", &UniqueIds::default()).gets(1);
    let max_id = server.max_id("orders");
    let faults: [Fault; 2] = [
        ("killed", StoreServer::kill, StoreServer::start_again),
        ("frozen", StoreServer::freeze, StoreServer::thaw),
    ];
    for (what, begin, end) in faults {
        let began = std::time::Instant::now();
        begin(&server);
        wait_until(&home, "the status reports the outage", || !store_error(&home).is_empty());
        println!("{what}: known after {:.1?}", began.elapsed());
        let (code, ready) = readiness(&home);
        assert_eq!(code, Some(0), "memory still serves requests");
        assert!(ready.starts_with("leafd is ready, from memory: the store fails: "), "{ready}");
        end(&server);
        let began = std::time::Instant::now();
        wait_until(&home, "the status reports its end", || store_error(&home).is_empty());
        println!("{what}: works again after {:.1?}", began.elapsed());
        assert_eq!(readiness(&home), (Some(0), "leafd is ready\n".to_owned()));
        assert_eq!(server.max_id("orders"), max_id, "the probes leased nothing");
    }
    let ended = daemon.stop();
    for line in ["the store fails", "the store works again"] {
        assert_eq!(ended.count(line), 2, "{ended}");
    }
}

/// Makes writes to one file fail as on a full disk, until it is dropped.
struct FullDisk(Child);

impl FullDisk {
    fn begin(daemon: &Daemon, file: &Path) -> Self {
        let mut strace = Command::new("strace");
        let calls = "write,pwrite64,pwritev";
        strace.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={calls}")]);
        strace.args(["-e", &format!("inject={calls}:error=ENOSPC"), "-P"]).arg(file);
        let strace = strace.arg("-p").arg(daemon.pid().to_string()).spawn().expect("strace");
        let traced = |task: std::fs::DirEntry| {
            let status = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
            !status.contains("TracerPid:\t0")
        };
        wait_until(daemon.home(), "all threads are traced", || {
            let tasks = std::fs::read_dir(format!("/proc/{}/task", daemon.pid())).unwrap();
            tasks.flatten().all(traced)
        });
        Self(strace)
    }
}

impl Drop for FullDisk {
    fn drop(&mut self) {
        let pid = Pid::from_raw(self.0.id().cast_signed());
        let _ = kill(pid, Signal::SIGINT);
        let _ = self.0.wait();
    }
}

#[test]
fn a_store_on_a_full_disk_is_not_taken_for_one_that_works() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let daemon = home.start();
    let caller = Caller::of(&daemon, "orders", &UniqueIds::default());
    caller.gets(1);
    let full = FullDisk::begin(&daemon, &home.state().join("leafd.db-wal"));
    // Asks until a lease fails because of the full disk, and no more after that.
    wait_until(&home, "the store fails", || {
        let _ = caller.ask(100, Duration::from_millis(200));
        !store_error(&home).is_empty()
    });
    // Twice in turn: a probe succeeds, and then the write that has to follow fails.
    for _ in 0..2 {
        wait_until(&home, "the store answers", || store_error(&home).contains("answers again"));
        wait_until(&home, "a write fails", || !store_error(&home).contains("answers again"));
        assert!(!store_error(&home).is_empty(), "{}", home.log());
    }
    drop(full);
    wait_until(&home, "the store works", || store_error(&home).is_empty());
    let ended = daemon.stop();
    for line in ["the store fails", "the store works again"] {
        assert_eq!(ended.count(line), 1, "{ended}");
    }
}
