//! leafd under a service manager. It uses the sockets that it inherits, reports correctly when it serves
//! and how it is, and pets the watchdog. Restarts fail no call.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::time::{Duration, Instant};

use leaf_client::blocking;
use leaf_client::wire::{Call, Reply, Response};
use leafd_tests::daemon::Home;
use leafd_tests::load::{AsyncLoad, Load, SNOWFLAKE};
use leafd_tests::raw::{Raw, frame, hello};
use leafd_tests::service_manager::ServiceManager;
use leafd_tests::{PATIENCE, UniqueIds};

#[test]
fn leafd_reports_ready_when_it_answers_calls_and_stopping_before_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let manager = ServiceManager::new(folder.path());
    let daemon = manager.home().spawn();
    let heard = manager.hears("READY=1");
    // No retries, since leafd must serve from this moment on.
    let mut raw = Raw::connect(&manager.home().socket());
    raw.send(&[hello(), frame(2, Call::Time)].concat());
    assert!(matches!(raw.receive(), Some(Response { id: 1, reply: Reply::Hello { .. } })));
    assert!(matches!(raw.receive(), Some(Response { id: 2, reply: Reply::Time { .. } })));
    let status = "STATUS=Serving; 0 tags from the embedded store; snowflakes with worker ID 0";
    assert_eq!(heard, [format!("READY=1\n{status}\n")]);
    daemon.stop();
    let heard = manager.hears("STATUS=Stopped");
    assert!(heard.iter().any(|message| message.starts_with("STOPPING=1\nSTATUS=Stopping")));
    assert_eq!(manager.hears_within(Duration::from_millis(50)), None);
}

#[test]
fn the_reported_status_says_what_is_served_and_that_the_store_fails() {
    let folder = tempfile::tempdir().unwrap();
    let manager = ServiceManager::new(folder.path());
    manager.home().break_store();
    let daemon = manager.home().with("SNOWFLAKE_ENABLED", "false").start();
    let mut client = blocking::Client::new(manager.home().options().timeout(PATIENCE));
    let waiting = std::thread::spawn(move || client.next("orders").unwrap());
    let heard = manager.hears("STATUS=Serving from memory: the embedded store fails (");
    assert!(heard.last().unwrap().contains("no snowflake IDs: "), "{heard:?}");
    manager.home().repair_store();
    assert_eq!(waiting.join().unwrap(), 1);
    let _ = manager.hears("STATUS=Serving; 1 tag from the embedded store; ");
    daemon.stop();
}

#[test]
fn a_start_that_fails_reports_why_and_never_reports_ready() {
    let folder = tempfile::tempdir().unwrap();
    let manager = ServiceManager::listening(folder.path());
    let missing = folder.path().join("credentials").display().to_string();
    let credential = manager
        .home()
        .with_variable("CREDENTIALS_DIRECTORY", &missing)
        .with("STORE_KIND", "mysql")
        .with("STORE_URL", "mysql://leaf@127.0.0.1:1/leaf")
        .with("STORE_PASSWORD_FILE", "store-password");
    let unreadable = manager.home().with("STATE_DIR", "/dev/null/state");
    let wrong = manager.home().with("SEGMENT_MAX_STEP", "many");
    for (home, code, message) in [
        (wrong, 78, "LEAFD_SEGMENT_MAX_STEP (segment.max-step): \"many\""),
        (credential, 78, "LoadCredential=store-password:"),
        (unreadable, 74, "/dev/null/state"),
    ] {
        let (ended, text) = refused(&home);
        assert_eq!(ended, Some(code), "{text}");
        let heard = manager.hears("STATUS=");
        assert!(heard[0].starts_with("STATUS=") && heard[0].contains(message), "{heard:?}");
        assert_eq!(manager.hears_within(Duration::from_millis(50)), None, "{message}");
    }
    // The next daemon can still use the socket.
    manager.home().start().stop();
}

#[test]
fn a_service_manager_that_is_gone_or_does_not_read_delays_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let gone = folder.path().join("gone");
    let home = Home::new(folder.path()).with_variable("WATCHDOG_USEC", "3000");
    let mut daemon = home.clone().with_variable("NOTIFY_SOCKET", gone.to_str().unwrap()).start();
    daemon.client().next("orders").unwrap();
    daemon.stop();
    let full = folder.path().join("full");
    let _hanging = UnixDatagram::bind(&full).unwrap();
    daemon = home.with_variable("NOTIFY_SOCKET", full.to_str().unwrap()).start();
    // Long enough for many more watchdog messages than a socket buffer holds.
    let seen = UniqueIds::default();
    let load = Load::start(&daemon.home().options(), &seen, &["orders", SNOWFLAKE], 100);
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(load.finish(), 0);
    daemon.stop();
}

#[test]
fn the_watchdog_is_petted_while_leafd_runs_and_not_while_it_is_frozen() {
    let folder = tempfile::tempdir().unwrap();
    let manager = ServiceManager::new(folder.path());
    let daemon = manager.home().with_variable("WATCHDOG_USEC", "300000").start();
    for _ in 0..5 {
        let _ = manager.hears("WATCHDOG=1");
    }
    daemon.freeze();
    // Discards the messages that were sent before.
    while manager.hears_within(Duration::from_millis(500)).is_some() {}
    assert_eq!(manager.hears_within(Duration::from_secs(2)), None);
    daemon.thaw();
    let _ = manager.hears("WATCHDOG=1");
    daemon.stop();
    // The variables are meant for another process.
    let other = manager.home().with_variable("WATCHDOG_USEC", "300000");
    let daemon = other.with_variable("WATCHDOG_PID", "1").start();
    let _ = manager.hears("READY=1");
    assert_eq!(manager.hears_within(Duration::from_secs(1)), None);
    daemon.stop();
}

#[test]
fn restarts_and_crashes_under_load_fail_no_call_while_the_service_manager_listens() {
    const LIVES: u32 = 10;
    let folder = tempfile::tempdir().unwrap();
    let manager = ServiceManager::listening(folder.path());
    let home = manager.home();
    let seen = UniqueIds::default();
    let mut daemon = home.start();
    let options = home.options().timeout(PATIENCE);
    let spaces = ["orders", "users", SNOWFLAKE];
    let shared = AsyncLoad::start(&options, &seen);
    let load = Load::start(&options, &seen, &spaces, 3000);
    for life in 0..LIVES {
        let before = spaces.map(|space| seen.count(space));
        std::thread::sleep(Duration::from_millis(fastrand::u64(1..200)));
        if life % 3 == 2 {
            daemon.kill();
        } else {
            daemon.stop();
        }
        assert!(home.socket().exists(), "leafd removed a socket that is not its own");
        // Long enough for clients to fail if connections were refused.
        std::thread::sleep(Duration::from_millis(fastrand::u64(0..200)));
        daemon = home.start();
        let began = Instant::now();
        while spaces.iter().zip(before).any(|(space, before)| seen.count(space) == before) {
            assert!(!load.is_broken(), "in life {life}\n{}", home.log());
            assert!(began.elapsed() < PATIENCE, "in life {life}\n{}", home.log());
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    assert_eq!(shared.finish(), [""; 0], "calls of asynchronous clients\n{}", home.log());
    assert_eq!(load.finish(), 0, "calls of blocking clients\n{}", home.log());
    println!("{LIVES} lives, {} IDs", seen.total());
    daemon.stop();
}

#[test]
fn connections_made_while_no_daemon_runs_are_answered_by_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let manager = ServiceManager::listening(folder.path());
    let mut first = Raw::connect(&manager.home().socket());
    first.send(&[hello(), frame(2, Call::Time)].concat());
    manager.home().start().stop();
    assert!(matches!(first.receive(), Some(Response { id: 1, reply: Reply::Hello { .. } })));
    assert!(matches!(first.receive(), Some(Response { id: 2, reply: Reply::Time { .. } })));
    // Socket activation: a call before the start of the service is answered without an error.
    let mut client = blocking::Client::new(manager.home().options().timeout(PATIENCE));
    let asking = std::thread::spawn(move || client.next("orders").unwrap());
    std::thread::sleep(Duration::from_millis(200));
    let daemon = manager.home().start();
    assert_eq!(asking.join().unwrap(), 1);
    daemon.stop();
}

#[test]
fn requests_that_wait_for_a_dead_store_delay_no_restart_and_are_served_by_the_successor() {
    let folder = tempfile::tempdir().unwrap();
    let manager = ServiceManager::listening(folder.path());
    let home = manager.home().with("SEGMENT_MAX_WAIT", "1h").with("SHUTDOWN_GRACE", "10m");
    home.break_store();
    let daemon = home.start();
    let options = home.options().timeout(PATIENCE);
    let mut waiting: Vec<_> = (0..4)
        .map(|_| {
            let mut client = blocking::Client::new(options.clone());
            std::thread::spawn(move || client.next("orders").unwrap())
        })
        .collect();
    let shared = options.clone();
    waiting.push(std::thread::spawn(move || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().build().unwrap().block_on(async {
            leaf_client::Client::connect(shared).await.unwrap().next("orders").await.unwrap()
        })
    }));
    let mut gone = Raw::greeted(&home.socket());
    gone.send(&frame(2, Call::Segment { tag: "orders", count: 1, timeout_ms: 3_600_000 }));
    wait_for_waiting(&home, 6);
    // A client that only shuts down its writing side still waits; one that hangs up does not.
    gone.stream().shutdown(Shutdown::Write).unwrap();
    wait_for_waiting(&home, 6);
    drop(gone);
    wait_for_waiting(&home, 5);
    let seen = UniqueIds::default();
    let load = Load::start(&options, &seen, &[SNOWFLAKE], 100);
    // The stop does not take the whole grace period, since clients hang up and repeat their calls.
    daemon.stop();
    home.repair_store();
    let daemon = home.start();
    let mut ids: Vec<_> = waiting.into_iter().map(|thread| thread.join().unwrap()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 5);
    assert_eq!(load.finish(), 0, "{}", home.log());
    daemon.stop();
}

/// Waits until this many requests wait for the store.
fn wait_for_waiting(home: &Home, expected: u64) {
    let began = Instant::now();
    let mut client = blocking::Client::new(home.options());
    loop {
        let waiting = client.status().unwrap().segments.waiting;
        if waiting == expected {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{waiting} wait instead of {expected}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Starts a leafd that ends by itself. Returns its exit code and what it printed as an error.
fn refused(home: &Home) -> (Option<i32>, String) {
    let (code, _, errors) = home.run("leafd", &[]);
    (code, errors)
}

fn tcp() -> OwnedFd {
    TcpListener::bind("127.0.0.1:0").unwrap().into()
}

#[test]
fn unsuitable_sockets_end_the_start_with_78_and_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let unix = || -> OwnedFd {
        let path = folder.path().join(format!("{}.sock", fastrand::u64(..)));
        UnixListener::bind(path).unwrap().into()
    };
    let datagram = UnixDatagram::bind(folder.path().join("datagram")).unwrap();
    let manager = ServiceManager::new(folder.path());
    let home = || manager.home();
    for (home, message) in [
        (home().inheriting("leafd.socket", unix()), "named \"leafd.socket\""),
        (home().inheriting("local", unix()).inheriting("web", tcp()), "named \"web\""),
        (home().inheriting("local", unix()).inheriting("local", unix()), "two sockets"),
        (home().inheriting("local", tcp()), "an Internet stream socket (listening, 127.0.0.1:"),
        (home().inheriting("local", datagram), "a Unix datagram socket"),
        (home().inheriting("local", unix()).inheriting("peer", unix()), "FileDescriptorName=peer"),
        (home().inheriting("local:peer", unix()), "LISTEN_FDNAMES=\"local:peer\""),
    ] {
        let (code, text) = refused(&home);
        assert_eq!(code, Some(78), "{text}");
        assert!(
            text.contains(message) && text.contains("FileDescriptorName="),
            "{message}: {text}"
        );
        assert!(manager.hears("STATUS=")[0].contains(message), "{message}");
        assert!(!home.socket().exists() && !home.state().exists(), "{message}");
    }
    // leafd ignores sockets that are meant for another process.
    let other = home().inheriting("web", unix()).through(&["env"]);
    let daemon = other.with_variable("LISTEN_PID", "1").start();
    daemon.stop();
}

#[test]
fn keys_that_do_not_apply_to_an_inherited_socket_cause_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let manager = ServiceManager::listening(folder.path());
    let other = folder.path().join("other.sock");
    let home = manager.home().with("SOCKET_MODE", "0600").inheriting("peer", tcp());
    let daemon = home.with("SOCKET_PATH", other.to_str().unwrap()).start();
    manager.home().log().wait_for("ListenStream=");
    manager.home().log().wait_for("passes a peer port");
    manager.home().log().wait_for(other.to_str().unwrap());
    assert!(!other.exists() && !folder.path().join("leafd.sock.lock").exists());
    let ended = daemon.stop();
    let same = manager.home().socket();
    let same = manager.home().with("SOCKET_PATH", same.to_str().unwrap()).start().stop();
    assert_eq!(same.count("ListenStream="), ended.count("ListenStream="), "{same}");
}

#[test]
fn an_inherited_peer_port_answers_with_the_time_and_stays_for_the_successor() {
    let folder = tempfile::tempdir().unwrap();
    let manager = ServiceManager::listening(folder.path());
    let peer = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = peer.local_addr().unwrap();
    // ZooKeeper is unreachable, which does not matter for the port.
    let home = manager.home().with_zookeeper("127.0.0.1:1").inheriting("peer", peer);
    for _ in 0..2 {
        let mut asking = TcpStream::connect(address).unwrap();
        asking.set_read_timeout(Some(PATIENCE)).unwrap();
        asking.write_all(&hello()).unwrap();
        let daemon = home.start();
        let mut header = [0; 4];
        asking.read_exact(&mut header).unwrap();
        assert!(u32::from_be_bytes(header) > 0);
        daemon.stop();
    }
}
