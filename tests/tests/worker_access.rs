//! Connections to ZooKeeper and from other daemons: dead or unknown servers, a chroot, passwords, the
//! peer port; and what `leafctl` shows of it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Output;
use std::time::{Duration, Instant};

use leaf_client::wire::{
    Call, ErrorCode, MAX_RESPONSE_LEN, Reply, Response, decode_response, split_frame,
};
use leafd_tests::daemon::Home;
use leafd_tests::raw::{frame, frame_of, hello};
use leafd_tests::snowflakes::{Snowflakes, serves_segments};
use leafd_tests::watch::Bystanders;
use leafd_tests::workers::instance;
use leafd_tests::zookeeper::{JavaLeaf, Tree};
use leafd_tests::{Ensemble, Proxy};
use serde_json::Value;
use zookeeper_client::{Acl, AuthId, Error, Permission};

/// Time limit for anything a test waits for. No test measures time by it.
const PATIENCE: Duration = Duration::from_secs(30);

const SECRET: &str = "pr1vate-0f-the-fleet";

/// Runs `leafctl`. Returns its exit code and what it printed, standard output first.
fn leafctl(home: &Home, arguments: &[&str]) -> (Option<i32>, String) {
    let output = home.command("leafctl").args(arguments).output();
    let Output { status, stdout, stderr } = output.unwrap();
    let text = [stdout, stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    (status.code(), text)
}

#[test]
fn a_missing_chroot_is_created_and_dead_or_silent_servers_are_skipped() {
    let ensemble = Ensemble::shared();
    let (all, folder) = (Snowflakes::default(), tempfile::tempdir().unwrap());
    let (chroot, live) = (format!("{}/of/ours", ensemble.fresh_path()), ensemble.port(0));
    let [resets, silent] = [(); 2].map(|()| Proxy::to(live));
    resets.cut();
    silent.hold();
    let (resets_at, silent_at) = (resets.port(), silent.port());
    let servers =
        format!("127.0.0.1:1,127.0.0.1:{resets_at},127.0.0.1:{silent_at},127.0.0.1:{live}{chroot}");
    let home = instance(folder.path(), &servers, "a");
    // leafd tries the servers in random order. Restart it until each has been tried.
    let mut starts = 0;
    while starts < 4 || resets.accepted() == 0 || silent.accepted() == 0 {
        starts += 1;
        assert!(starts < 50, "not every server was tried");
        let daemon = home.start();
        assert_eq!(all.works(&home).worker, 0);
        all.caller(&home).reports();
        daemon.stop();
    }
    let nodes = ensemble.tree().children(&format!("{chroot}/snowflake/leaf/forever"));
    assert_eq!(nodes, ["a-0000000000"]);
    println!("{starts} starts");
    assert!(all.count() > 2000);
}

#[test]
fn unresolvable_or_unreachable_servers_are_named_and_segments_are_served() {
    let folder = tempfile::tempdir().unwrap();
    let all = Snowflakes::default();
    let nowhere = "no.such.host.invalid:2181";
    let named = |name: &str, servers| instance(&folder.path().join(name), servers, name);
    let there = named("nowhere", nowhere).with("PEER_ADVERTISE", "127.0.0.1");
    let unreachable = named("unreachable", "127.0.0.1:1,127.0.0.1:2");
    for (home, server, text) in [
        (named("unresolvable", nowhere), nowhere, "zookeeper.servers"),
        (there, nowhere, "ZooKeeper has to give one"),
        (unreachable, "127.0.0.1:1,127.0.0.1:2", "no server can be reached"),
    ] {
        let daemon = home.start();
        let error = all.is_refused(&home, ErrorCode::WorkerUnavailable, text);
        println!("{error}");
        assert!(error.message.contains(server) && error.retry_after_ms > 0, "{error:?}");
        home.log().wait_for(text);
        let (code, status) = leafctl(&home, &["status"]);
        assert_eq!(code, Some(0), "{status}");
        assert!(
            status.contains("no worker ID by zookeeper") && status.contains(server),
            "{status}"
        );
        let (code, list) = leafctl(&home, &["worker", "list"]);
        assert!(code != Some(0) && list.contains("RegistryUnavailable"), "{code:?} {list}");
        assert!(list.contains(server), "{list}");
        serves_segments(&home);
        daemon.stop();
    }
}

#[test]
fn only_the_password_opens_the_nodes_and_it_is_never_printed() {
    let ensemble = Ensemble::shared();
    let (servers, folder, all) =
        (ensemble.fresh_chroot(), tempfile::tempdir().unwrap(), Snowflakes::default());
    let user = format!("leafd:{SECRET}");
    let file = folder.path().join("auth");
    std::fs::write(&file, format!("{user}\n")).unwrap();
    let home = |name: &str| {
        let home = instance(&folder.path().join(name), &servers, name);
        home.with("ZOOKEEPER_ACL", "creator").with("LOG_LEVEL", "trace")
    };
    let by_file = home("by-file").with("ZOOKEEPER_AUTH_FILE", file.to_str().unwrap());
    let by_variable = home("by-variable").with("ZOOKEEPER_AUTH", &user);
    let wrong = home("wrong").with("ZOOKEEPER_AUTH", &format!("leafd:{SECRET}-not"));
    let without = home("without").with("ZOOKEEPER_ACL", "anyone");
    let homes = [&by_file, &by_variable, &wrong, &without];
    // The first two create the tree.
    let mut daemons = vec![by_file.start(), by_variable.start()];
    let workers = [all.works(&by_file).worker, all.works(&by_variable).worker];
    assert_ne!(workers[0], workers[1]);
    daemons.extend([wrong.start(), without.start()]);
    for home in [&wrong, &without] {
        let text = "no right to read or write the tree (zookeeper.auth, the nodes' ACL)";
        let error = all.is_refused(home, ErrorCode::WorkerUnavailable, text);
        println!("{error}");
        home.log().wait_for(text);
    }
    let authorized = Tree::at(&servers).with_auth(&user);
    let mut nodes = vec!["/snowflake".to_owned()];
    let mut count = 0;
    while let Some(node) = nodes.pop() {
        let acl = authorized.get_acl(&node);
        assert!(is_of_user_alone(&acl), "{node}: {acl:?}");
        nodes.extend(authorized.children(&node).iter().map(|child| format!("{node}/{child}")));
        count += 1;
    }
    // Three nodes for each of the two instances, and at least six shared ones.
    assert!(count >= 6 + 6, "{count}");
    let anybody = Tree::at(&servers).call(async |client| client.list_children("/snowflake").await);
    assert_eq!(anybody, Err(Error::NoAuth));
    for (home, daemon) in homes.into_iter().zip(daemons) {
        let outputs = [&["status"][..], &["status", "--json"], &["worker", "list"]]
            .map(|arguments| leafctl(home, arguments).1)
            .concat();
        assert!(!outputs.contains(SECRET) && !outputs.is_empty(), "{outputs}");
        let ended = daemon.stop();
        // The log includes the ZooKeeper client's own lines.
        let auth = ended.count("sending request: (Auth");
        assert!(auth > 0 || home.socket() == without.socket(), "{ended}");
        assert_eq!(ended.count(SECRET), 0, "{ended}");
    }
    // The ACL "creator" needs a user.
    let servers = ensemble.fresh_chroot();
    let nameless = instance(&folder.path().join("nameless"), &servers, "nameless");
    let nameless = nameless.with("ZOOKEEPER_ACL", "creator");
    let _daemon = nameless.start();
    let text = "\"creator\" needs zookeeper.auth";
    all.is_refused(&nameless, ErrorCode::WorkerUnavailable, text);
    assert!(all.count() > 1000);
}

fn is_of_user_alone(acl: &[Acl]) -> bool {
    let [acl] = acl else { return false };
    let is_user = acl.scheme() == "digest" && acl.id().starts_with("leafd:");
    is_user && acl.permission() == Permission::ALL && *acl.auth_id() != AuthId::anyone()
}

/// A connection to a peer port.
struct Peer {
    stream: TcpStream,
    input: Vec<u8>,
}

impl Peer {
    fn connect(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { stream, input: Vec::new() }
    }

    fn send(&mut self, bytes: &[u8]) {
        // The daemon may have closed the connection already.
        let _ = self.stream.write_all(bytes);
    }

    /// The next answer; none when the daemon has closed the connection.
    fn receive(&mut self) -> Option<Response> {
        loop {
            if let Some((body, rest)) = split_frame(&self.input, MAX_RESPONSE_LEN).unwrap() {
                let response = decode_response(body).unwrap();
                self.input = rest.to_vec();
                return Some(response);
            }
            let mut buffer = [0; 1024];
            match self.stream.read(&mut buffer) {
                Ok(count) if count > 0 => self.input.extend(&buffer[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    panic!("the connection neither answers nor closes")
                }
                _ => return None,
            }
        }
    }

    fn ask(&mut self, id: u64, call: Call<'_>) -> Reply {
        self.send(&frame(id, call));
        let response = self.receive().unwrap();
        assert_eq!(response.id, id);
        response.reply
    }

    fn tells_the_time(&mut self, id: u64) {
        let before = now_ms();
        let reply = self.ask(id, Call::Time);
        let Reply::Time { unix_ms } = reply else { panic!("{reply:?}") };
        assert!((before..=now_ms()).contains(&unix_ms), "{unix_ms} is not after {before}");
    }
}

fn now_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}

#[test]
fn the_peer_port_tells_the_time_and_refuses_everything_else() {
    let servers = Ensemble::shared().fresh_chroot();
    let folder = tempfile::tempdir().unwrap();
    let home = instance(folder.path(), &servers, "a");
    let daemon = home.start();
    Snowflakes::default().works(&home);
    let tree = Tree::at(&servers);
    let live = tree.get("/snowflake/leaf/temporary/a-0000000000").unwrap();
    let live: Value = serde_json::from_slice(&live.data).unwrap();
    let port = u16::try_from(live["port"].as_u64().unwrap()).unwrap();
    let bystanders = Bystanders::of(&home);
    let mut peer = Peer::connect(port);
    peer.send(&hello());
    assert!(matches!(peer.receive().unwrap().reply, Reply::Hello { version: 1, .. }));
    peer.tells_the_time(2);
    let (tag, owner, timeout_ms) = ("orders", "a", 0);
    for call in [
        Call::Snowflake { count: 1, timeout_ms },
        Call::Segment { tag, count: 1, timeout_ms },
        Call::Status,
        Call::TagCreate { tag: "mine", step: 1, first: 1, description: "" },
        Call::WorkerList { from: 0, limit: 1 },
        Call::WorkerRelease { worker: 0, owner },
    ] {
        let reply = peer.ask(7, call.clone());
        let Reply::Error(error) = reply else { panic!("{call:?}: {reply:?}") };
        assert_eq!(error.code(), ErrorCode::Forbidden, "{call:?}: {error}");
    }
    peer.tells_the_time(8);
    // Anything else closes the connection, with or without an error.
    let noise: Vec<u8> = (0..5000).map(|_| fastrand::u8(..)).collect();
    let http = b"GET / HTTP/1.1\r\nHost: leafd\r\n\r\n".to_vec();
    let before_hello = frame(1, Call::Time);
    let long = frame_of(&[7; 300]);
    for garbage in [noise, http, before_hello, long, vec![0xff; 64], vec![0; 64]] {
        let mut peer = Peer::connect(port);
        peer.send(&garbage);
        let first = peer.receive();
        let refused = |response: &Response| matches!(response.reply, Reply::Error(_));
        assert!(first.as_ref().is_none_or(refused), "{garbage:02x?}: {first:?}");
        while peer.receive().is_some() {}
    }
    // A hundred silent connections.
    let crowd: Vec<Peer> = (0..100).map(|_| Peer::connect(port)).collect();
    peer.tells_the_time(9);
    bystanders.are_served();
    bystanders.noticed_nothing();
    drop(crowd);
    let ended = daemon.stop();
    assert_eq!(ended.count("mine"), 0, "{ended}");
}

#[test]
fn leafctl_shows_worker_ids_their_owners_and_the_last_reports() {
    let ensemble = Ensemble::shared();
    let (all, folder) = (Snowflakes::default(), tempfile::tempdir().unwrap());
    let path = ensemble.fresh_path();
    let network = Proxy::to(ensemble.port(0));
    let servers = format!("127.0.0.1:{}{path}", ensemble.port(0));
    let java = JavaLeaf::at(&servers, "leaf", "10.0.0.9", 8080).start().unwrap();
    let near = format!("127.0.0.1:{}{path}", network.port());
    let home = instance(&folder.path().join("near"), &near, "node-7");
    let gone = instance(&folder.path().join("gone"), &servers, "node-8");
    let daemons = [home.start(), gone.start()];
    let (own, other) = (all.works(&home).worker, all.works(&gone).worker);
    let [_daemon, ended] = daemons;
    ended.stop();
    let (code, status) = leafctl(&home, &["status"]);
    println!("{status}");
    let worker = format!("worker {own} by zookeeper, IDs issued ");
    let layout = "layout   41/10/12@1288834974657/1ms, ends 2080-07-10\n";
    let report = "identity node-7, last report ";
    for part in ["snowflake  serving", &worker, layout, report, " ago", "ceiling"] {
        assert!(code == Some(0) && status.contains(part), "{part:?} is not in\n{status}");
    }
    assert!(!status.contains("failed"), "{status}");
    let (code, list) = leafctl(&home, &["worker", "list"]);
    println!("{list}");
    assert_eq!(code, Some(0));
    let mut lines = list.lines();
    let head: Vec<_> = lines.next().unwrap().split_whitespace().collect();
    assert_eq!(head, ["WORKER", "OWNER", "ADDRESS", "STATE", "LAST", "REPORT", "CEILING"]);
    let line = |start: String| {
        let line = list.lines().find(|line| line.trim_start().starts_with(&start));
        line.unwrap_or_else(|| panic!("no {start:?} in\n{list}")).to_owned()
    };
    let rows =
        [line(format!("{} ", java.worker())), line(format!("{own} ")), line(format!("{other} "))];
    for (row, parts) in rows.iter().zip([
        ["10.0.0.9:8080", "java leaf", " ago"],
        ["node-7", "live, this leafd", " ago"],
        ["node-8", "not live", " ago"],
    ]) {
        assert!(parts.iter().all(|part| row.contains(part)), "{parts:?}: {row}");
    }
    // On a busy machine ZooKeeper may not answer leafd in time.
    let mut json = String::new();
    leafd_tests::stores::wait_until("the list", || {
        let (code, printed) = leafctl(&home, &["worker", "list", "--json"]);
        json = printed;
        code == Some(0)
    });
    let json: Value = serde_json::from_str(&json).unwrap();
    let owners: Vec<_> = json.as_array().unwrap().iter().map(|it| it["owner"].clone()).collect();
    assert_eq!(owners.len(), 3, "{json}");
    // Without ZooKeeper, the status says until when IDs last, and there is no list.
    network.cut();
    all.caller(&home).is_cut_off();
    let (_, status) = leafctl(&home, &["status"]);
    println!("{status}");
    for part in ["snowflake  serving", "the registry failed: ", "; IDs until 20"] {
        assert!(status.contains(part), "{part:?} is not in\n{status}");
    }
    let (code, list) = leafctl(&home, &["worker", "list"]);
    assert!(code != Some(0) && list.contains("RegistryUnavailable"), "{code:?} {list}");
    assert_eq!(all.works(&home).worker, own);
    network.pass();
    let began = Instant::now();
    while leafctl(&home, &["worker", "list"]).0 != Some(0) {
        assert!(began.elapsed() < PATIENCE, "{}", home.log());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(all.count() > 1000);
}
