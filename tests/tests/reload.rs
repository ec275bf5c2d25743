//! Reloads by SIGHUP. Keys that need no restart change, also for open connections, and no connection
//! ends. A wrong configuration changes nothing.

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use leaf_client::wire::{Call, ErrorCode, Reply, Response, WireError};
use leafd_tests::daemon::Home;
use leafd_tests::load::Load;
use leafd_tests::other_user::{OtherUser, UserConnection, open_to_all};
use leafd_tests::raw::{Raw, frame, hello, segment};
use leafd_tests::{Daemon, PATIENCE, UniqueIds};
use nix::sys::signal::Signal;

const THEIRS: u32 = 61_003;

/// A daemon with a configuration file that a test changes.
struct ReloadHost {
    home: Home,
    daemon: Daemon,
    file: std::path::PathBuf,
    reloads: usize,
    /// How often each log line was awaited so far.
    waits: HashMap<String, usize>,
}

impl ReloadHost {
    fn start(folder: &Path, text: &str) -> Self {
        open_to_all(folder);
        let file = folder.join("leafd.toml");
        std::fs::write(&file, text).unwrap();
        let home = Home::new(folder).with("CONFIG", file.to_str().unwrap());
        let home = home.with("SOCKET_MODE", "0666");
        let daemon = home.start();
        Self { home, daemon, file, reloads: 0, waits: HashMap::new() }
    }

    /// Reloads with this configuration, and waits until the daemon has logged `line` once more.
    fn reload_logged(&mut self, text: &str, line: &str) {
        std::fs::write(&self.file, text).unwrap();
        self.daemon.send(Signal::SIGHUP);
        let times = self.waits.entry(line.to_owned()).or_default();
        *times += 1;
        self.home.log().wait_times(line, *times);
        self.reloads += 1;
    }

    fn reload(&mut self, text: &str) {
        self.reload_logged(text, "configuration reloaded");
    }

    fn refuses(&mut self, text: &str, why: &str) {
        self.reload_logged(text, "not reloaded, nothing has changed");
        self.home.log().wait_for(why);
    }

    fn connect(&self) -> Raw {
        Raw::greeted(&self.home.socket())
    }

    fn let_in(&self) -> UserConnection {
        OtherUser::new(THEIRS, THEIRS).let_in(&self.home.socket())
    }
}

fn outcome(reply: Reply) -> Result<(), WireError> {
    match reply {
        Reply::Ids { .. } | Reply::Tags(_) => Ok(()),
        Reply::Error(error) => Err(error),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn refused(reply: Reply, code: ErrorCode) -> WireError {
    let error = outcome(reply).unwrap_err();
    assert_eq!(error.code(), code, "{error}");
    error
}

#[test]
fn new_rules_apply_to_open_connections_and_end_none_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let rules = |tags: &str| format!("[[access.rules]]\nusers = [{THEIRS}]\ntags = {tags}\n");
    let mut host = ReloadHost::start(folder.path(), &rules("['orders']"));
    let mut theirs = host.let_in();
    assert_eq!(outcome(theirs.raw.ask(2, segment("orders", 1))), Ok(()));
    refused(theirs.raw.ask(3, segment("bills", 1)), ErrorCode::Forbidden);
    host.reload(&rules("['bills']"));
    refused(theirs.raw.ask(4, segment("orders", 1)), ErrorCode::Forbidden);
    assert_eq!(outcome(theirs.raw.ask(5, segment("bills", 1))), Ok(()));
    refused(theirs.raw.ask(6, Call::TagShow { tag: "bills" }), ErrorCode::Forbidden);
    host.reload(&format!("{}administer = true\n", rules("['*']")));
    assert_eq!(outcome(theirs.raw.ask(7, segment("orders", 1))), Ok(()));
    assert_eq!(outcome(theirs.raw.ask(8, Call::TagShow { tag: "bills" })), Ok(()));
    host.home.log().wait_for("configuration reloaded: access.rules;");
}

#[test]
fn a_user_whom_no_rule_names_any_more_is_refused_at_its_next_call_and_disconnected() {
    let folder = tempfile::tempdir().unwrap();
    let mut host = ReloadHost::start(folder.path(), "");
    let mut theirs = host.let_in();
    let mut root = host.connect();
    assert_eq!(outcome(theirs.raw.ask(2, segment("orders", 1))), Ok(()));
    host.reload("[[access.rules]]\nname = 'apps'\nusers = [1]\n");
    let error = refused(theirs.raw.ask(3, segment("orders", 1)), ErrorCode::Forbidden);
    assert!(error.message.contains("may not connect: no rule names"), "{error}");
    assert_eq!(theirs.raw.receive(), None, "the connection is closed");
    assert_eq!(outcome(root.ask(2, segment("orders", 1))), Ok(()), "root needs no rule");
    let (_, answer) = OtherUser::new(THEIRS, THEIRS).greets(&host.home.socket());
    refused(answer.reply, ErrorCode::Forbidden);
    host.reload("");
    assert_eq!(outcome(host.let_in().raw.ask(2, segment("orders", 1))), Ok(()));
}

#[test]
fn a_reload_changes_quotas_and_limits() {
    let folder = tempfile::tempdir().unwrap();
    let mut host = ReloadHost::start(folder.path(), "");
    let mut raw = host.connect();
    assert_eq!(outcome(raw.ask(2, segment("orders", 500))), Ok(()));
    host.reload("[quota]\nids-per-second = 100\ntags = [{ tags = ['b*'], ids-per-second = 5 }]\n");
    assert_eq!(refused(raw.ask(3, segment("orders", 500)), ErrorCode::BadCount).detail, 100);
    assert_eq!(refused(raw.ask(4, segment("bills", 6)), ErrorCode::BadCount).detail, 5);
    host.reload("[quota]\nmax-connections = 1\n[socket]\nmax-count = 10\n");
    // An open connection keeps the limit that its handshake announced.
    assert_eq!(outcome(raw.ask(5, segment("orders", 500))), Ok(()));
    let mut second = Raw::connect(&host.home.socket());
    second.is_closed_with(&hello(), ErrorCode::TooManyConnections);
    host.reload("[socket]\nmax-count = 10\n");
    let mut second = Raw::connect(&host.home.socket());
    second.send(&hello());
    match second.receive() {
        Some(Response { reply: Reply::Hello { max_count, .. }, .. }) => assert_eq!(max_count, 10),
        other => panic!("{other:?}"),
    }
    assert_eq!(refused(second.ask(2, segment("orders", 11)), ErrorCode::BadCount).detail, 10);
    host.reload("[socket]\nmax-connections = 2\n");
    let mut third = Raw::connect(&host.home.socket());
    third.is_closed_with(&hello(), ErrorCode::TooManyConnections);
    host.reload("[socket]\nidle-timeout = '1s'\n");
    // The new timeout applies to a connection after its next request.
    assert!(matches!(second.ask(3, Call::Time), Reply::Time { .. }));
    assert_eq!(second.receive(), None, "an idle connection is closed");
}

#[test]
fn a_reload_reads_the_list_of_tags_again() {
    let folder = tempfile::tempdir().unwrap();
    let config = "[segment]\nauto-create = false\nunknown-for = '1h'\nrefresh = '1h'\n";
    let mut host = ReloadHost::start(folder.path(), config);
    let mut raw = host.connect();
    refused(raw.ask(2, segment("orders", 1)), ErrorCode::UnknownTag);
    host.home.sql(
        "INSERT INTO leaf_alloc (biz_tag, max_id, step, description) \
                   VALUES ('orders', 1, 100, '')",
    );
    refused(raw.ask(3, segment("orders", 1)), ErrorCode::UnknownTag);
    host.reload(config);
    let began = Instant::now();
    for id in 4.. {
        match outcome(raw.ask(id, segment("orders", 1))) {
            Ok(()) => break,
            Err(error) => assert_eq!(error.code(), ErrorCode::UnknownTag, "{error}"),
        }
        assert!(began.elapsed() < PATIENCE, "{}", host.home.log());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_wrong_configuration_changes_nothing_and_keys_that_need_a_restart_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let right = "[quota]\nids-per-second = 100\n";
    let mut host = ReloadHost::start(folder.path(), right);
    let mut raw = host.connect();
    let mut limit_is_100 = |id| {
        assert_eq!(refused(raw.ask(id, segment("orders", 101)), ErrorCode::BadCount).detail, 100);
    };
    limit_is_100(2);
    host.refuses("[quota]\nids-per-second = 50\n[socket]\nmax-count = 0\n", "socket.max-count: 0");
    limit_is_100(3);
    host.refuses("[quota\n", "leafd.toml:1:");
    host.refuses("[quota]\nids-per-secund = 50\n", "ids-per-secund");
    host.refuses("[[access.rules]]\nusers = ['no-such-user']\n", "no-such-user");
    limit_is_100(4);
    host.reload(&format!("{right}[worker]\nid = 7\n[store]\ntimeout = '3s'\n"));
    host.home.log().wait_for("applied only at the next start: store.timeout, worker.id");
    host.home.log().wait_for("configuration reloaded: no key has changed");
    limit_is_100(5);
    std::fs::remove_file(&host.file).unwrap();
    host.daemon.send(Signal::SIGHUP);
    host.home.log().wait_for("cannot read the configuration");
    limit_is_100(6);
    host.daemon.stop();
}

#[test]
fn many_reloads_under_load_fail_no_call() {
    let folder = tempfile::tempdir().unwrap();
    let mut host = ReloadHost::start(folder.path(), "");
    let seen = UniqueIds::default();
    let load = Load::start(&host.home.options(), &seen, &["orders", "bills", "snowflake"], 100);
    for round in 0..100 {
        host.reload(&format!("[[access.rules]]\nname = 'round {round}'\nusers = [{round}]\n"));
    }
    assert_eq!(host.reloads, 100);
    assert!(load.served().iter().all(|calls| *calls > 0));
    assert_eq!(load.finish_with_names(), Default::default(), "{}", host.home.log());
}

#[test]
fn a_reload_while_requests_wait_leaves_them_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let mut host = ReloadHost::start(folder.path(), "");
    let mut raw = host.connect();
    assert_eq!(outcome(raw.ask(2, segment("orders", 1))), Ok(()));
    // More IDs than one lease has, so the request waits and is answered after the reload.
    raw.send(&frame(3, Call::Segment { tag: "orders", count: 100_000, timeout_ms: 60_000 }));
    raw.send(&frame(4, Call::Snowflake { count: 100_000, timeout_ms: 60_000 }));
    host.reload("[quota]\nids-per-second = 1000000\n");
    for _ in 0..2 {
        let answer = raw.receive().unwrap();
        assert!(matches!(answer.reply, Reply::Ids { .. }), "{answer:?}");
    }
}

#[test]
fn a_reload_changes_the_log_level() {
    let folder = tempfile::tempdir().unwrap();
    let mut host = ReloadHost::start(folder.path(), "[log]\nlevel = 'error'\n");
    std::fs::write(&host.file, "[log]\nlevel = 'debug'\n").unwrap();
    host.daemon.send(Signal::SIGHUP);
    let before = host.home.log().wait_for("configuration reloaded: log.level;");
    let infos = before.matches(" INFO ").count();
    assert!(infos <= 1 && !before.contains("get an ID"), "{before}");
    assert_eq!(outcome(host.connect().ask(2, segment("orders", 1))), Ok(()));
    host.home.log().wait_for("DEBUG leafd::segment::lease: leased a range");
    host.refuses("[log]\nlevel = 'loud'\n", "\"loud\" is not a level");
}

/// A kernel lease on a file. It makes anybody who opens the file wait, like a file server that hangs.
struct Lease(Child);

/// Prints a line when a process tries to open the file, and does not give the lease back. The kernel
/// breaks it after 45 s.
const LEASE: &str = "
import fcntl, os, signal, sys
signal.signal(signal.SIGIO, lambda *_: os.write(1, b'wanted\\n'))
file = os.open(sys.argv[1], os.O_RDWR)
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
os.write(1, b'held\\n')
sys.stdin.read()
";

impl Lease {
    fn on(file: &Path) -> Self {
        let mut python = Command::new("python3");
        let python = python.args(["-c", LEASE]).arg(file);
        let mut lease = Self(python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
        lease.prints("held\n");
        lease
    }

    fn prints(&mut self, text: &str) {
        let mut said = vec![0; text.len()];
        self.0.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
        assert_eq!(String::from_utf8(said).unwrap(), text);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_configuration_file_that_hangs_delays_neither_requests_nor_the_stop() {
    let folder = tempfile::tempdir().unwrap();
    let mut host = ReloadHost::start(folder.path(), "");
    let mut lease = Lease::on(&host.file);
    host.daemon.send(Signal::SIGHUP);
    lease.prints("wanted\n");
    let client = &mut host.daemon.client();
    assert_eq!(client.next("orders").unwrap(), 1);
    // The main thread answers this. It also runs the timers, waits for the store and pets the watchdog.
    client.status().unwrap();
    host.home.log().wait_for("reading it took longer than 10s");
    drop(lease);
    host.reload("[socket]\nmax-count = 7\n");
    let mut lease = Lease::on(&host.file);
    host.daemon.send(Signal::SIGHUP);
    lease.prints("wanted\n");
    host.daemon.send(Signal::SIGTERM);
    let ended = host.daemon.wait();
    assert_eq!(ended.code(), Some(0), "{ended}");
}

#[test]
fn a_reload_of_anything_but_a_regular_file_is_refused_and_the_next_reload_works() {
    let folder = tempfile::tempdir().unwrap();
    let right = "[quota]\nids-per-second = 100\n";
    let mut host = ReloadHost::start(folder.path(), right);
    let mut raw = host.connect();
    let path = host.file.clone();
    let (fifo, socket) = (folder.path().join("fifo"), folder.path().join("socket"));
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let huge = folder.path().join("huge");
    std::fs::File::create(&huge).unwrap().set_len(1 << 40).unwrap();
    for (id, (there, why)) in (2..).zip([
        (fifo.as_path(), "it is a FIFO, and leafd reads regular files only"),
        (&socket, "it is a socket, and leafd reads regular files only"),
        (folder.path(), "it is a directory, and leafd reads regular files only"),
        (Path::new("/dev/zero"), "it is a device, and leafd reads regular files only"),
        (&huge, "it is larger than 4194304 bytes"),
    ]) {
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(there, &path).unwrap();
        host.daemon.send(Signal::SIGHUP);
        let line = format!(
            "not reloaded, nothing has changed: cannot read the configuration {}: {why}",
            path.display()
        );
        host.home.log().wait_for(&line);
        assert_eq!(refused(raw.ask(id, segment("orders", 101)), ErrorCode::BadCount).detail, 100);
        std::fs::remove_file(&path).unwrap();
        host.reload(right);
    }
    host.reload("[quota]\nids-per-second = 50\n");
    assert_eq!(refused(raw.ask(9, segment("orders", 101)), ErrorCode::BadCount).detail, 50);
    host.daemon.stop();
}

#[test]
fn a_configuration_from_a_pipe_is_read_at_the_start_and_a_reload_does_not_take_it_for_empty() {
    let folder = tempfile::tempdir().unwrap();
    let substituted = "exec \"$0\" \"$@\" --config <(sleep 0.1; echo '[quota]'; sleep 0.1; echo \
                       'ids-per-second = 100')";
    let home = Home::new(folder.path()).through(&["bash", "-c", substituted]);
    let daemon = home.start();
    let mut raw = Raw::greeted(&home.socket());
    for id in 2..4 {
        assert_eq!(refused(raw.ask(id, segment("orders", 101)), ErrorCode::BadCount).detail, 100);
        daemon.send(Signal::SIGHUP);
        home.log().wait_times("it is a pipe, which leafd can read only once", id as usize - 1);
    }
    daemon.stop();
}
