//! Connections that leafd refuses. The client learns the reason whatever it does first, and a flood of
//! such connections affects no other client.

use std::io::Write;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use leaf_client::wire::{Call, ErrorCode, MAGIC, Reply, Response, WireError};
use leafd_tests::daemon::Home;
use leafd_tests::other_user::{OtherUser, open_to_all};
use leafd_tests::raw::{Raw, frame, hello};
use leafd_tests::watch::Bystanders;
use leafd_tests::{Daemon, PATIENCE};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

const GREEDY: u32 = 61_001;

/// The refusal that a naive client sees, which writes `late` before it reads. The write must not fail.
/// leafd waits for such a client for 250 ms, which a busy machine may exceed, so this tries repeatedly.
fn refusal(connect: impl Fn() -> Raw, late: &[u8]) -> WireError {
    for _ in 0..50 {
        let mut raw = connect();
        let mut watched = [PollFd::new(raw.stream().as_fd(), PollFlags::POLLIN)];
        assert!(
            poll(&mut watched, PollTimeout::from(60_000_u16)).unwrap() > 0,
            "leafd sends nothing"
        );
        std::thread::sleep(Duration::from_millis(5));
        if raw.stream().write_all(late).is_ok() {
            let (_, error) = raw.refusal();
            assert_eq!(raw.receive(), None, "the connection goes on after {error}");
            return error;
        }
    }
    panic!("the write failed every time, so the error was lost");
}

#[test]
fn an_error_before_hello_reaches_a_client_that_writes_hello_first() {
    let folder = tempfile::tempdir().unwrap();
    open_to_all(folder.path());
    let rules = format!("[{{ users = [{GREEDY}], connect = false }}, {{ users = ['*'] }}]");
    let home = Home::new(folder.path())
        .with("SOCKET_MODE", "0666")
        .with("ACCESS_RULES", &rules)
        .with("SOCKET_MAX_CONNECTIONS", "1");
    let _daemon = home.start();
    let inside = take_place(&home);
    let error = refusal(|| Raw::connect(&home.socket()), &hello());
    assert_eq!((error.code(), error.detail), (ErrorCode::TooManyConnections, 1), "{error}");
    drop(inside);
    // Through a relay, which writes the hello as soon as it can.
    let (_, answer) = OtherUser::new(GREEDY, GREEDY).greets(&home.socket());
    let Reply::Error(error) = answer.reply else { panic!("{answer:?}") };
    assert_eq!(error.code(), ErrorCode::Forbidden, "{error}");
}

#[test]
fn an_error_that_ends_the_connection_reaches_a_client_that_is_still_writing() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let _daemon = home.start();
    let more = frame(2, Call::Time).repeat(10);
    for (first, code) in [
        (frame(1, Call::Hello { magic: *b"FAEL", version: 1 }), ErrorCode::BadMagic),
        (frame(1, Call::Hello { magic: MAGIC, version: 0 }), ErrorCode::VersionUnsupported),
        (frame(1, Call::Time), ErrorCode::HelloExpected),
        (5000_u32.to_be_bytes().to_vec(), ErrorCode::FrameTooLarge),
    ] {
        let connect = || {
            let mut raw = Raw::connect(&home.socket());
            raw.send(&first);
            raw
        };
        assert_eq!(refusal(connect, &more).code(), code);
    }
}

/// Takes the only place. The connection that checked whether the daemon is ready may still hold it.
fn take_place(home: &Home) -> Raw {
    let began = Instant::now();
    loop {
        let mut raw = Raw::connect(&home.socket());
        raw.send(&hello());
        if matches!(raw.receive(), Some(Response { reply: Reply::Hello { .. }, .. })) {
            return raw;
        }
        assert!(began.elapsed() < PATIENCE, "no place");
    }
}

/// The number of sockets that the daemon has open. Files are not counted, since they come and go.
fn sockets(daemon: &Daemon) -> usize {
    let open = std::fs::read_dir(format!("/proc/{}/fd", daemon.pid())).unwrap();
    let links = open.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
    links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
}

fn wait_for_sockets(daemon: &Daemon, at_most: usize) {
    let began = Instant::now();
    while sockets(daemon) > at_most {
        assert!(began.elapsed() < PATIENCE, "{} are open", sockets(daemon));
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Opens connections as fast as it can and keeps the last hundred. Prints a line for each thousand.
const FLOOD: &str = r"
import socket, sys
kept = []
for number in range(10**9):
    if number % 1000 == 0:
        print(number, flush=True)
    try:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(sys.argv[1])
        connection.send(b'\0' * 100)
    except OSError:
        pass
    kept.append(connection)
    del kept[:-100]
";

fn flood(path: &Path) -> std::process::Child {
    let mut command = OtherUser::new(GREEDY, GREEDY).command();
    command.args(["/usr/bin/python3", "-c", FLOOD]).arg(path);
    command.stdout(std::process::Stdio::piped()).spawn().unwrap()
}

#[test]
fn a_flood_of_refused_connections_holds_few_descriptors_and_nobody_else_notices() {
    let folder = tempfile::tempdir().unwrap();
    open_to_all(folder.path());
    let rules = format!("[{{ users = [{GREEDY}], connect = false }}, {{ users = ['*'] }}]");
    let home = Home::new(folder.path()).with("SOCKET_MODE", "0666").with("ACCESS_RULES", &rules);
    let daemon = home.start();
    let others = Bystanders::of(&home);
    let before = sockets(&daemon);
    let mut flood = flood(&home.socket());
    let mut most = 0;
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(flood.stdout.take().unwrap()));
    for _ in 0..5 {
        lines.next().unwrap().unwrap();
        most = most.max(sockets(&daemon));
        // Other users are served meanwhile.
        let mut root = Raw::greeted(&home.socket());
        assert!(matches!(root.ask(2, Call::Time), Reply::Time { .. }));
    }
    // Eight lingering sockets, one that is being refused, and those of this test.
    assert!(most <= before + 20, "{most} sockets, {before} before");
    flood.kill().unwrap();
    flood.wait().unwrap();
    others.noticed_nothing();
    daemon.stop();
}

#[test]
fn a_refused_connection_that_its_client_keeps_open_is_closed_soon() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with("SOCKET_MAX_CONNECTIONS", "1");
    let daemon = home.start();
    let _inside = take_place(&home);
    let before = sockets(&daemon);
    let _kept: Vec<_> = (0..50).map(|_| Raw::connect(&home.socket())).collect();
    wait_for_sockets(&daemon, before);
    daemon.stop();
}
