//! The process is killed at the first, second, … write, sync and rename that one of its threads
//! does to its state, and the disk refuses several in a row of each kind, by strace's fault
//! injection into the real daemon. (strace counts per thread, so the first calls of the thread that
//! writes are covered where no other thread has done as many. A write cut off in its middle is
//! tried at every byte in the unit tests of the files.)

use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

use leaf_client::Error;
use leaf_client::blocking::Client;
use leaf_client::wire::ErrorCode;
use leafd_tests::Seen;
use leafd_tests::daemon::{Daemon, Home};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// How long anything may take before a test gives up. No test measures time by it.
const PATIENCE: Duration = Duration::from_secs(60);

/// The files whose system calls are counted and hit.
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

/// The writing end of a pipe that is full, and its reading end, which nobody reads.
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

/// The process that holds the state directory; strace is only its parent.
fn kill_holder(home: &Home) {
    let lock = std::fs::read_to_string(home.state().join("lock")).unwrap_or_default();
    if let Ok(pid) = lock.trim().parse() {
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
}

/// Asks for IDs of both schemes. Says whether all was answered.
fn use_it(home: &Home, seen: &Seen, timeout: Duration) -> bool {
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

/// Asks until all was answered or the daemon has ended, whichever comes first. Says whether all was.
/// That a call fails does not tell an end from a slow machine.
fn served_before_its_end(daemon: &mut Daemon, seen: &Seen) -> bool {
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
        // Until it is promised, or nobody is there to promise it.
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
        // What SQLite has not moved into the database is lost as well.
        for suffix in ["-wal", "-shm"] {
            let _ = std::fs::remove_file(home.state().join(format!("leafd.db{suffix}")));
        }
        let daemon = home.start();
        let began = Instant::now();
        let first = loop {
            match daemon.client().next("invoices") {
                // The disk may take longer than a request waits.
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
fn killed_at_any_step_of_a_tags_creation_it_never_gives_less_than_was_promised() {
    let deaths = on_every(&["write", "pwrite64", "fdatasync", "fsync"], deaths_in_a_creation);
    let deaths: u32 = deaths.iter().sum();
    assert!(deaths >= 8, "it was hardly hit: {deaths}");
}

/// Kills the daemon at the first, second, … such system call, until it lives to be served. Returns how
/// often it died, and how many IDs it gave.
fn deaths_and_ids(call: &str) -> (u32, u64) {
    let (mut deaths, mut ids) = (0, 0);
    for nth in 1..=40 {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path()).with("SNOWFLAKE_CEILING_AHEAD", "100ms");
        let seen = Seen::default();
        let injection = format!("inject={call}:signal=KILL:when={nth}");
        let mut daemon = under_strace(&home, &injection).spawn();
        let survived = served_before_its_end(&mut daemon, &seen);
        if survived {
            kill_holder(&home);
            daemon.wait();
        } else {
            deaths += 1;
        }
        // Two lives after it, the first of which ends in a crash as well.
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
            // So many of this call there are not.
            break;
        }
    }
    (deaths, ids)
}

#[test]
fn killed_at_every_write_sync_and_rename_of_its_state_it_gives_no_id_twice() {
    let calls = ["write", "pwrite64", "fdatasync", "fsync", "rename", "ftruncate"];
    let (deaths, ids): (Vec<_>, Vec<_>) = on_every(&calls, deaths_and_ids).into_iter().unzip();
    let (deaths, ids): (u32, u64) = (deaths.iter().sum(), ids.iter().sum());
    println!("{deaths} deaths at a system call, {ids} IDs");
    assert!(deaths > 20, "{deaths}: the injection does not hit");
}

#[test]
fn a_disk_that_refuses_for_a_while_costs_errors_and_no_id_twice_and_it_recovers() {
    for (call, error) in
        [("fdatasync", "EIO"), ("fsync", "EIO"), ("write", "ENOSPC"), ("rename", "EROFS")]
    {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path()).with("SNOWFLAKE_CEILING_AHEAD", "100ms");
        let seen = Seen::default();
        // Counted per thread, and the start is spared: without its disk, it is refused.
        home.start().stop();
        let injection = format!("inject={call}:error={error}:when=8..13");
        let mut daemon = under_strace(&home, &injection).spawn();
        let mut refused = 0;
        let mut is_served = || {
            let served = use_it(&home, &seen, Duration::from_millis(700));
            refused += u32::from(!served);
            served
        };
        // Until it has been hit, and after that serves again.
        let is_hit = |line: &str| {
            ["cannot be written", "the store fails"].iter().any(|told| line.contains(told))
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

/// What the trace of a life says of its end: the lock is released, or the process ends, before a
/// rename that comes after.
fn renames_after_the_lock(trace: &str) -> usize {
    let released = trace.lines().position(|line| line.contains("LOCK_UN"));
    let renames = |line: &&str| line.contains("rename(") || line.contains("<... rename resumed>");
    released.map_or(0, |at| trace.lines().skip(at).filter(renames).count())
}

#[test]
fn a_stop_with_a_slow_disk_and_an_error_output_that_nobody_reads_ends_and_writes_nothing_unlocked()
{
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path())
        .with("SHUTDOWN_GRACE", "100ms")
        .with("SNOWFLAKE_CEILING_AHEAD", "100ms");
    let seen = Seen::default();
    let daemon = home.start();
    assert!(use_it(&home, &seen, Duration::from_secs(20)), "{}", home.log());
    daemon.stop();
    let (_unread, stderr) = full_pipe();
    let trace = folder.path().join("trace");
    let worker = home.state().join("worker.properties.new");
    // Longer than the last writes may take.
    let slow = "inject=rename:delay_enter=4000000";
    let words = ["-f", "-qqq", "-e", "trace=rename,flock", "-e", slow];
    let mut strace = vec!["strace", "-o", trace.to_str().unwrap(), "-P", worker.to_str().unwrap()];
    let state = home.state();
    strace.extend(["-P", state.to_str().unwrap()]);
    strace.extend(words);
    let mut command = home.clone().through(&strace).command("leafd");
    let mut child = command.stderr(Stdio::from(stderr)).stdout(Stdio::null()).spawn().unwrap();
    let began = Instant::now();
    while Client::connect(home.options().timeout(Duration::from_secs(1))).is_err() {
        assert!(began.elapsed() < PATIENCE, "it does not get ready");
    }
    let holder = std::fs::read_to_string(home.state().join("lock")).unwrap();
    kill(Pid::from_raw(holder.trim().parse().unwrap()), Signal::SIGTERM).unwrap();
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > PATIENCE {
            kill_holder(&home);
            let _ = child.wait();
            panic!("it does not end\n{}", std::fs::read_to_string(&trace).unwrap());
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
fn every_directory_that_a_first_start_makes_is_on_disk_before_anything_is_issued() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, state) = (folder.path().join("trace"), folder.path().join("a/b/c"));
    let mut home = Home::new(folder.path()).with("STATE_DIR", state.to_str().unwrap());
    let file = trace.to_str().unwrap();
    home = home.through(&["strace", "-f", "-y", "-qqq", "-e", "trace=fsync,rename", "-o", file]);
    let daemon = home.start();
    let trace = std::fs::read_to_string(&trace).unwrap();
    // The owner file is the last one that a start makes.
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
