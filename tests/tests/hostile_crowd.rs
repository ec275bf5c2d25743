//! More connections than usual, than configured, or than the operating system allows. Open connections
//! are served, excess ones are refused with the reason, and freed places are reused.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::{Duration, Instant};

use leaf_client::wire::{Call, ErrorCode, Reply, Response, UNSOLICITED};
use leafd_tests::daemon::Home;
use leafd_tests::load::Load;
use leafd_tests::other_user::{OtherUser, open_to_all};
use leafd_tests::raw::{Raw, frame, hello, segment, snowflakes};
use leafd_tests::watch::{Bystanders, peak_mib};
use leafd_tests::{Daemon, UniqueIds};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

fn one_id() -> Call<'static> {
    segment("orders", 1)
}

/// Opens a connection. Fails with the limit if leafd refuses it because of that.
fn finds_place(home: &Home) -> Result<Raw, u64> {
    let mut raw = Raw::connect(&home.socket());
    raw.send(&hello());
    match raw.receive() {
        Some(Response { id: 1, reply: Reply::Hello { .. } }) => Ok(raw),
        Some(Response { id: UNSOLICITED, reply: Reply::Error(error) }) => {
            assert_eq!(error.code(), ErrorCode::TooManyConnections, "{error}");
            assert!(error.retry_after_ms > 0);
            assert_eq!(raw.receive(), None);
            Err(error.detail)
        }
        other => panic!("{other:?}"),
    }
}

/// Opens connections until one is refused. Returns them, and the limit.
fn fill(home: &Home) -> (Vec<Raw>, u64) {
    let mut inside = Vec::new();
    loop {
        match finds_place(home) {
            Ok(raw) => inside.push(raw),
            Err(limit) => return (inside, limit),
        }
    }
}

/// Opens a connection as soon as there is a place for it.
fn wait_for_place(home: &Home) -> Raw {
    let began = Instant::now();
    loop {
        match finds_place(home) {
            Ok(raw) => return raw,
            Err(_) => assert!(began.elapsed() < Duration::from_secs(30), "{}", home.log()),
        }
    }
}

/// Waits until the daemon has noticed that connections ended, and has this many.
fn wait_until_open(watcher: &mut Raw, connections: u32) {
    let began = Instant::now();
    loop {
        let Reply::Status(status) = watcher.ask(9, Call::Status) else { panic!("no status") };
        if status.connections <= connections {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{} are open", status.connections);
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn ten_thousand_connections_at_once_are_served_and_cost_little_memory() {
    const CONNECTIONS: usize = 10_000;
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    let needed = CONNECTIONS as u64 + 500;
    assert!(hard >= needed, "this test needs `ulimit -Hn` of {needed}; it is {hard}");
    setrlimit(Resource::RLIMIT_NOFILE, soft.max(needed), hard).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with("SOCKET_REQUEST_TIMEOUT", "10m");
    let daemon = home.start();
    let others = Bystanders::of(&home);
    let half = frame(2, one_id());
    let (begun, rest) = half.split_at(half.len() / 2);
    let mut crowd: Vec<_> = (0..CONNECTIONS)
        .map(|number| {
            let mut raw = Raw::connect(&home.socket());
            match number % 4 {
                // A quarter each: without a hello, idle, in the middle of a request, with an answer.
                0 => {}
                1 => raw.send(&hello()),
                2 => raw.send(&[&hello(), begun].concat()),
                _ => raw.send(&[hello(), frame(2, one_id())].concat()),
            }
            raw
        })
        .collect();
    others.are_served();
    let connections = daemon.client().status().unwrap().connections;
    assert!(connections as usize >= CONNECTIONS, "{connections}");
    let seen = UniqueIds::default();
    for (number, raw) in crowd.iter_mut().enumerate() {
        match number % 4 {
            0 => raw.send(&[hello(), frame(2, one_id())].concat()),
            1 => raw.send(&frame(2, one_id())),
            2 => raw.send(rest),
            _ => {}
        }
        assert!(matches!(raw.receive(), Some(Response { id: 1, reply: Reply::Hello { .. } })));
        match raw.receive() {
            Some(Response { id: 2, reply: Reply::Ids { first, .. } }) => {
                seen.add_run("orders", first.first, 1);
            }
            other => panic!("{other:?}"),
        }
    }
    let peak = peak_mib(&daemon);
    println!("peak of {peak} MiB");
    assert!(peak < 64, "{peak} MiB");
    others.noticed_nothing();
    daemon.stop();
}

#[test]
fn a_connection_above_the_limit_gets_a_typed_refusal_and_freed_places_are_reused() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with("SOCKET_MAX_CONNECTIONS", "20");
    let daemon = home.start();
    let others = Bystanders::of(&home);
    let mut watcher = Raw::greeted(&home.socket());
    for _ in 0..5 {
        // Two for the bystanders, one for the watcher.
        wait_until_open(&mut watcher, 3);
        let (mut inside, limit) = fill(&home);
        assert_eq!((limit, inside.len()), (20, 17));
        for raw in &mut inside {
            assert!(matches!(raw.ask(2, Call::Time), Reply::Time { .. }));
        }
        drop(inside.pop());
        inside.push(wait_for_place(&home));
        // The client library waits for a place by itself.
        let options = home.options().timeout(Duration::from_secs(30));
        let waits = std::thread::spawn(move || leaf_client::blocking::Client::connect(options));
        std::thread::sleep(Duration::from_millis(20));
        drop(inside.pop());
        waits.join().unwrap().unwrap();
    }
    others.noticed_nothing();
    daemon.stop();
}

#[test]
fn with_few_descriptors_leafd_accepts_fewer_connections_and_still_writes_its_state() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with("SNOWFLAKE_CEILING_AHEAD", "100ms");
    let home = home.through(&["sh", "-c", "ulimit -n 64; exec \"$0\" \"$@\""]);
    let daemon = home.start();
    home.log().wait_for("allows fewer connections");
    let others = Bystanders::of(&home);
    let (mut inside, limit) = fill(&home);
    assert!((20..64).contains(&limit), "{limit}");
    let mut raw = inside.pop().unwrap();
    // All other connections do not read their answers.
    let asked = frame(2, Call::Time).repeat(1000);
    for unread in &inside {
        unread.stream().set_nonblocking(true).unwrap();
        while (unread.stream()).write_all(&asked).is_ok() {}
    }
    // These need new leases, and new ceilings in the journal and the worker file.
    for number in 0..100 {
        let tag = format!("tag {number}");
        assert!(matches!(raw.ask(number + 2, segment(&tag, 5000)), Reply::Ids { .. }));
        assert!(matches!(raw.ask(number + 2, snowflakes(20_000)), Reply::Ids { .. }));
    }
    drop(inside);
    wait_for_place(&home);
    others.noticed_nothing();
    daemon.stop();
}

fn limit_descriptors(daemon: &Daemon, limit: usize) {
    let (pid, limit) = (format!("--pid={}", daemon.pid()), format!("--nofile={limit}:"));
    let status = std::process::Command::new("prlimit").args([pid, limit]).status();
    assert!(status.unwrap().success());
}

#[test]
fn without_free_descriptors_open_connections_are_served_and_new_ones_are_accepted_later() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with("SEGMENT_DEFAULT_STEP", "1000000");
    let daemon = home.start();
    let seen = UniqueIds::default();
    let load = Load::start(&home.options(), &seen, &["orders", "users"], 100);
    let mut inside = Raw::greeted(&home.socket());
    while seen.count("orders").min(seen.count("users")) == 0 {
        std::thread::sleep(Duration::from_millis(2));
    }
    let open = std::fs::read_dir(format!("/proc/{}/fd", daemon.pid())).unwrap().count();
    limit_descriptors(&daemon, open);
    let mut outside: Vec<_> = (0..20).map(|_| Raw::connect(&home.socket())).collect();
    for raw in &mut outside {
        raw.send(&hello());
    }
    let refused = |line: &str| line.contains("cannot accept a connection");
    home.log().wait_while(refused, || {
        assert!(matches!(inside.ask(2, one_id()), Reply::Ids { .. }));
    });
    for _ in 0..1000 {
        assert!(matches!(inside.ask(2, one_id()), Reply::Ids { .. }));
    }
    limit_descriptors(&daemon, 1000);
    for raw in &mut outside {
        assert!(matches!(raw.receive(), Some(Response { id: 1, reply: Reply::Hello { .. } })));
    }
    assert_eq!(load.finish(), 0, "{}", home.log());
    daemon.stop();
}

/// Opens connections, sends a hello and a thousand status requests on each, and never reads an answer.
const CROWD: &str = r"
import resource, socket, sys
path, number = sys.argv[1], int(sys.argv[2])
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(number + 50, hard), hard))
hello = bytes.fromhex('00000012010000000000000000000000') + b'LEAF' + b'\1\0'
status = bytes.fromhex('0000000c020000000000000004000000')
# A request for 0 IDs: the status counts it, and leafd refuses it at once.
none = bytes.fromhex('00000014030000000000000002000000' + 16 * '0')
crowd = []
for _ in range(number):
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    connection.send(hello + (none + status) * 1000)
    crowd.append(connection)
print('sent', flush=True)
sys.stdin.read()
";

#[test]
fn another_users_many_connections_that_never_read_do_not_delay_a_new_connection() {
    const CROWD_SIZE: u64 = 1000;
    let folder = tempfile::tempdir().unwrap();
    open_to_all(folder.path());
    let home = Home::new(folder.path()).with("SOCKET_MODE", "0666");
    let daemon = home.start();
    let mut watcher = Raw::greeted(&home.socket());
    let requests = |watcher: &mut Raw| match watcher.ask(9, Call::Status) {
        Reply::Status(status) => status.requests,
        other => panic!("{other:?}"),
    };
    // Frozen, so that the daemon finds everything at once.
    daemon.freeze();
    let mut crowd = OtherUser::new(61_001, 61_001)
        .command()
        .args(["/usr/bin/python3", "-c", CROWD])
        .arg(home.socket())
        .arg(CROWD_SIZE.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(crowd.stdout.take().unwrap()).lines();
    assert_eq!(said.next().unwrap().unwrap(), "sent");
    let mut fresh = Raw::connect(&home.socket());
    fresh.send(&[hello(), frame(2, Call::Status)].concat());
    daemon.thaw();
    assert!(matches!(fresh.receive(), Some(Response { reply: Reply::Hello { .. }, .. })));
    let Some(Response { reply: Reply::Status(status), .. }) = fresh.receive() else { panic!() };
    let by_then = status.requests;
    // Waits until the crowd's sockets are full, so that leafd answers no more of its requests.
    let (mut all, began) = (0, Instant::now());
    loop {
        std::thread::sleep(Duration::from_millis(300));
        let now = requests(&mut watcher);
        if now < all + 100 && all > by_then {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(120), "{now}");
        all = now;
    }
    println!("{by_then} of {all} requests were answered before the fresh connection");
    assert!(by_then < all / 4, "{by_then} of {all}");
    let peak = peak_mib(&daemon);
    println!("peak of {peak} MiB");
    // 45 kB for each of the thousand connections would be 45 MB more.
    assert!(peak < 48, "{peak} MiB");
    crowd.kill().unwrap();
    crowd.wait().unwrap();
    daemon.stop();
}
