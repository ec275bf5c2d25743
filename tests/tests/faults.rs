//! Faults of the disk, injected into the real daemon by strace: a kill at the first, second, … write,
//! sync and rename of the state, and a series of failures of each kind. (strace counts per thread, so
//! the first calls of the writing thread are covered where no other thread has made as many. The unit
//! tests of the files cut off a write at every byte.)

use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

use leaf_client::Error;
use leaf_client::blocking::Client;
use leaf_client::wire::ErrorCode;
use leafd_tests::daemon::{Daemon, Home};
use leafd_tests::{PATIENCE, UniqueIds};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// The files whose system calls strace counts and makes fail.
const FILES: [&str; 10] = [
    "",
    "segments.journal",
    "segments.journal.new",
    "worker.properties",
    "worker.properties.new",
    "owner.properties.new",
    "database.properties.new",
    "leafd.db",
    "leafd.db-wal",
    "leafd.db-journal",
];

/// A full pipe.
fn full_pipe() -> (std::io::PipeReader, std::io::PipeWriter) {
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    fcntl(&writer, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).expect("not blocking");
    while writer.write(&[b'x'; 4096]).is_ok() {}
    while writer.write(b"x").is_ok() {}
    fcntl(&writer, FcntlArg::F_SETFL(OFlag::empty())).expect("blocking");
    (reader, writer)
}

fn under_strace(home: &Home, injection: &str) -> Home {
    let paths: Vec<_> =
        FILES.iter().map(|file| home.state().join(file).display().to_string()).collect();
    let mut words = vec!["strace", "-f", "-qqq", "-o", "/dev/null", "-e", injection];
    for path in &paths {
        words.extend(["-P", path.trim_end_matches('/')]);
    }
    home.clone().through(&words)
}

/// Kills the process that holds the state directory. The child process is only strace.
fn kill_holder(home: &Home) {
    let lock = std::fs::read_to_string(home.state().join("lock")).unwrap_or_default();
    if let Ok(pid) = lock.trim().parse() {
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
}

/// Asks for IDs of both schemes. Returns whether every call was served.
fn use_it(home: &Home, seen: &UniqueIds, timeout: Duration) -> bool {
    let mut client = Client::new(home.options().timeout(timeout));
    for tag in ["a", "b", "a", "a", "b"] {
        match client.next_many(tag, 150) {
            Ok(ids) => seen.add(tag, &ids),
            Err(_) => return false,
        }
    }
    match client.snowflake_many(5000) {
        Ok(ids) => seen.add("snowflake", &ids),
        Err(_) => return false,
    }
    true
}

/// Asks until every call was served or the daemon has ended. Returns whether every call was served.
/// A failed call alone may just mean that the machine is slow.
fn served_before_its_end(daemon: &mut Daemon, seen: &UniqueIds) -> bool {
    let began = Instant::now();
    loop {
        if use_it(daemon.home(), seen, Duration::from_secs(1)) {
            return true;
        }
        if daemon.has_ended() {
            return false;
        }
        let log = || daemon.home().log();
        assert!(began.elapsed() < PATIENCE, "neither served nor ended\n{}", log());
    }
}

/// Runs this for each of the system calls at the same time.
fn on_every<T: Send>(calls: &[&'static str], run: fn(&str) -> T) -> Vec<T> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = calls.iter().map(|call| scope.spawn(move || run(call))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Kills the daemon at the first, second, … such system call while it makes a tag, until it makes the
/// tag without another such call. Returns how often it died.
fn deaths_in_a_creation(call: &str) -> u32 {
    const FIRST: u64 = 5_000_001;
    let mut deaths = 0;
    for nth in 1..=40 {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path()).with("SNOWFLAKE_ENABLED", "false");
        home.start().stop();
        let injection = format!("inject={call}:signal=KILL:when={nth}");
        let mut daemon = under_strace(&home, &injection).spawn();
        let began = Instant::now();
        // Until the creation is confirmed or the daemon has ended.
        let promised = loop {
            let mut client = Client::new(home.options().timeout(Duration::from_secs(1)));
            match client.tag_create("invoices", 0, FIRST, "") {
                Ok(_) => break true,
                Err(Error::Refused(error)) if error.code() == ErrorCode::TagExists => {
                    break true;
                }
                Err(_) if daemon.has_ended() => break false,
                Err(error) => assert!(began.elapsed() < PATIENCE, "{error}\n{}", home.log()),
            }
        };
        kill_holder(&home);
        daemon.wait();
        deaths += u32::from(!promised);
        // What SQLite has not yet moved into the database is lost too.
        for suffix in ["-wal", "-shm"] {
            let _ = std::fs::remove_file(home.state().join(format!("leafd.db{suffix}")));
        }
        let daemon = home.start();
        let began = Instant::now();
        let first = loop {
            match daemon.client().next("invoices") {
                // A busy disk may take longer than the request's deadline.
                Err(Error::Refused(error))
                    if error.message.contains("answer") && began.elapsed() < PATIENCE => {}
                outcome => break outcome,
            }
        };
        match first {
            Ok(first) => assert!(!promised || first >= FIRST, "{injection}: {first}"),
            Err(Error::Refused(error)) => {
                assert_eq!(error.code(), ErrorCode::StoreUnavailable, "{injection}: {error}");
                assert!(error.message.contains("leafd adopt"), "{injection}: {error}");
            }
            Err(error) => panic!("{injection}: {error}"),
        }
        daemon.stop();
        if promised {
            break;
        }
    }
    deaths
}

#[test]
fn after_a_kill_at_any_step_of_its_creation_a_tag_never_begins_below_its_promised_first_id() {
    let deaths = on_every(&["write", "pwrite64", "fdatasync", "fsync"], deaths_in_a_creation);
    let deaths: u32 = deaths.iter().sum();
    assert!(deaths >= 8, "only {deaths} kills: the injection hardly hits");
}

/// Kills the daemon at the first, second, … such system call while it deletes a tag, until it deletes
/// the tag without another such call. Returns how often it died.
fn deaths_in_a_deletion(call: &str) -> u32 {
    let mut deaths = 0;
    for nth in 1..=40 {
        let folder = tempfile::tempdir().unwrap();
        let home =
            Home::new(folder.path()).with("SNOWFLAKE_ENABLED", "false").with_time_for_the_disk();
        let seen = UniqueIds::default();
        let take = |daemon: &Daemon| {
            seen.add("orders", &daemon.client().next_many("orders", 150).unwrap());
        };
        let daemon = home.start();
        take(&daemon);
        daemon.stop();
        let injection = format!("inject={call}:signal=KILL:when={nth}");
        let mut daemon = under_strace(&home, &injection).spawn();
        let began = Instant::now();
        // Until the deletion is confirmed or the daemon has ended.
        let deleted = loop {
            let mut client = Client::new(home.options().timeout(Duration::from_secs(1)));
            match client.tag_delete("orders") {
                Ok(_) => break true,
                Err(Error::Refused(error)) if error.code() == ErrorCode::UnknownTag => break true,
                Err(_) if daemon.has_ended() => break false,
                Err(error) => assert!(began.elapsed() < PATIENCE, "{error}\n{}", home.log()),
            }
        };
        kill_holder(&home);
        daemon.wait();
        deaths += u32::from(!deleted);
        let daemon = home.start();
        let listed = || !daemon.client().tag_list("", 10).unwrap().is_empty();
        let began = Instant::now();
        while deleted && listed() {
            assert!(began.elapsed() < PATIENCE, "{injection}: it is back\n{}", home.log());
        }
        take(&daemon);
        daemon.kill();
        let daemon = home.start();
        take(&daemon);
        daemon.stop();
        if deleted {
            break;
        }
    }
    deaths
}

#[test]
fn after_a_kill_at_any_step_of_its_deletion_a_tag_repeats_no_id_and_stays_deleted_once_it_was() {
    let deaths = on_every(&["write", "pwrite64", "fdatasync", "fsync"], deaths_in_a_deletion);
    let deaths: u32 = deaths.iter().sum();
    println!("{deaths} deaths in a deletion");
    assert!(deaths >= 8, "only {deaths} kills: the injection hardly hits");
}

/// Kills the daemon at the first, second, … such system call, until it lives to be served. Returns how
/// often it died, and how many IDs it gave.
fn deaths_and_ids(call: &str) -> (u32, u64) {
    let (mut deaths, mut ids) = (0, 0);
    for nth in 1..=40 {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path()).with("SNOWFLAKE_CEILING_AHEAD", "100ms");
        let seen = UniqueIds::default();
        let injection = format!("inject={call}:signal=KILL:when={nth}");
        let mut daemon = under_strace(&home, &injection).spawn();
        let survived = served_before_its_end(&mut daemon, &seen);
        if survived {
            kill_holder(&home);
            daemon.wait();
        } else {
            deaths += 1;
        }
        // Two more lives. The first of them ends in a crash too.
        for clean in [false, true] {
            let daemon = home.start();
            assert!(use_it(&home, &seen, Duration::from_secs(20)), "{injection}\n{}", home.log());
            if clean {
                daemon.stop()
            } else {
                daemon.kill()
            };
        }
        ids += seen.total();
        if survived {
            // There are fewer such calls than `nth`.
            break;
        }
    }
    (deaths, ids)
}

#[test]
fn a_kill_at_any_write_sync_or_rename_of_the_state_repeats_no_id() {
    let calls = ["write", "pwrite64", "fdatasync", "fsync", "rename", "ftruncate"];
    let (deaths, ids): (Vec<_>, Vec<_>) = on_every(&calls, deaths_and_ids).into_iter().unzip();
    let (deaths, ids): (u32, u64) = (deaths.iter().sum(), ids.iter().sum());
    println!("{deaths} deaths at a system call, {ids} IDs");
    assert!(deaths > 20, "{deaths}: the injection does not hit");
}

#[test]
fn a_disk_that_fails_for_a_while_causes_errors_but_no_duplicate_and_leafd_recovers() {
    for (call, error) in
        [("fdatasync", "EIO"), ("fsync", "EIO"), ("write", "ENOSPC"), ("rename", "EROFS")]
    {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path()).with("SNOWFLAKE_CEILING_AHEAD", "100ms");
        let seen = UniqueIds::default();
        // The failures begin after the start, since a start without a working disk is refused.
        home.start().stop();
        let injection = format!("inject={call}:error={error}:when=8..13");
        let mut daemon = under_strace(&home, &injection).spawn();
        let mut refused = 0;
        let mut is_served = || {
            let served = use_it(&home, &seen, Duration::from_millis(700));
            refused += u32::from(!served);
            served
        };
        // Until a failure has hit, and then until leafd serves again.
        let is_hit = |line: &str| {
            ["cannot be written", "the store fails"].iter().any(|part| line.contains(part))
        };
        home.log().wait_while(is_hit, || {
            is_served();
        });
        let began = Instant::now();
        while !is_served() {
            assert!(began.elapsed() < PATIENCE, "{injection}\n{}", home.log());
        }
        kill_holder(&home);
        daemon.wait();
        let daemon = home.start();
        assert!(use_it(&home, &seen, Duration::from_secs(20)), "{}", home.log());
        daemon.stop();
        println!("{injection}: {refused} rounds refused, {} IDs", seen.total());
    }
}

/// The number of renames in a trace after the lock was released.
fn renames_after_the_lock(trace: &str) -> usize {
    let released = trace.lines().position(|line| line.contains("LOCK_UN"));
    let renames = |line: &&str| line.contains("rename(") || line.contains("<... rename resumed>");
    released.map_or(0, |at| trace.lines().skip(at).filter(renames).count())
}

#[test]
fn a_stop_with_a_slow_disk_and_an_unread_log_ends_and_writes_nothing_without_the_lock() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path())
        .with("SHUTDOWN_GRACE", "100ms")
        .with("SNOWFLAKE_CEILING_AHEAD", "100ms");
    let seen = UniqueIds::default();
    let daemon = home.start();
    assert!(use_it(&home, &seen, Duration::from_secs(20)), "{}", home.log());
    daemon.stop();
    let (_unread, stderr) = full_pipe();
    let trace = folder.path().join("trace");
    let worker = home.state().join("worker.properties.new");
    // Longer than a stop may spend on its last writes.
    let slow = "inject=rename:delay_enter=4000000";
    let words = ["-f", "-qqq", "-e", "trace=rename,flock", "-e", slow];
    let mut strace = vec!["strace", "-o", trace.to_str().unwrap(), "-P", worker.to_str().unwrap()];
    let state = home.state();
    strace.extend(["-P", state.to_str().unwrap()]);
    strace.extend(words);
    // The full pipe is leafd's alone: strace would wait for ever to write what it has to say.
    strace.extend(["sh", "-c", "exec \"$@\" 2>&1 >/dev/null", "sh"]);
    let mut command = home.clone().through(&strace).command("leafd");
    let mut child = command.stdout(Stdio::from(stderr)).stderr(Stdio::null()).spawn().unwrap();
    let began = Instant::now();
    while Client::connect(home.options().timeout(Duration::from_secs(1))).is_err() {
        assert!(began.elapsed() < PATIENCE, "leafd does not get ready");
    }
    let holder = std::fs::read_to_string(home.state().join("lock")).unwrap();
    kill(Pid::from_raw(holder.trim().parse().unwrap()), Signal::SIGTERM).unwrap();
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > PATIENCE {
            kill_holder(&home);
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("leafd does not end\n{}", std::fs::read_to_string(&trace).unwrap());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let trace = std::fs::read_to_string(&trace).unwrap();
    assert!(trace.contains("rename("), "the disk was not slow\n{trace}");
    assert_eq!(renames_after_the_lock(&trace), 0, "{trace}");
    let daemon = home.start();
    assert!(use_it(&home, &seen, Duration::from_secs(20)), "{}", home.log());
    daemon.stop();
}

#[test]
fn a_first_start_syncs_every_directory_that_it_makes_before_it_issues_an_id() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, state) = (folder.path().join("trace"), folder.path().join("a/b/c"));
    let mut home = Home::new(folder.path()).with("STATE_DIR", state.to_str().unwrap());
    let file = trace.to_str().unwrap();
    home = home.through(&["strace", "-f", "-y", "-qqq", "-e", "trace=fsync,rename", "-o", file]);
    let daemon = home.start();
    let trace = std::fs::read_to_string(&trace).unwrap();
    // A start writes the owner file last.
    let before = trace.split("owner.properties.new").next().unwrap();
    for made in [folder.path(), &folder.path().join("a"), &folder.path().join("a/b")] {
        let synced = format!("<{}>)", made.canonicalize().unwrap().display());
        assert!(before.contains(&synced), "{synced} is not synced\n{trace}");
    }
    if let Ok(pid) = std::fs::read_to_string(state.join("lock")).unwrap().trim().parse() {
        kill(Pid::from_raw(pid), Signal::SIGTERM).unwrap();
    }
    drop(daemon);
}
