//! `leafctl doctor` on one host: each finding about the configuration, the daemon and the host comes
//! from a real situation, and a healthy host has none.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use leafd_tests::daemon::Home;
use leafd_tests::doctor::{examine, examine_with, on_a_sound_host, wait_for};
use leafd_tests::other_user::{OtherUser, open_to_all};
use leafd_tests::terminal::Terminal;
use tempfile::TempDir;

fn home() -> (TempDir, Home) {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    (folder, home)
}

/// A layout whose time field lasts for 398 days, of which `days` are over.
fn layout_after(days: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let epoch = u64::try_from(now.as_millis()).unwrap() - days * 86_400_000;
    format!("35/16/12@{epoch}")
}

#[test]
fn a_healthy_embedded_daemon_has_no_findings() {
    let (_folder, home) = home();
    let _daemon = home.start();
    let examined = examine(&home);
    examined.is_healthy();
    for check in ["configuration", "daemon", "version", "settings", "socket", "clock", "layout"] {
        assert!(examined.has(check, "ok", ""), "{check}: {:#}", examined.report);
    }
    let (_, out, _) = on_a_sound_host(&home).run("leafctl", &["doctor", "--all"]);
    assert!(out.contains("ok    leafd answers"), "{out}");
}

#[test]
fn without_a_daemon_it_checks_what_it_can() {
    let (_folder, home) = home();
    let examined = examine(&home);
    examined.finds("daemon", "bad", "does not run");
    examined.finds("configuration", "ok", "");
    examined.finds("clock", "ok", "");
    assert!(!examined.looked_at("version"));
    home.start().stop();
    let examined = examine(&home);
    examined.finds("daemon", "bad", "leafd.sock");
    examined.finds("state-files", "ok", "state");
}

#[test]
fn a_daemon_that_hangs_hangs_nobody_else() {
    let (_folder, home) = home();
    let daemon = home.start();
    daemon.freeze();
    let examined = examine_with(&home, &["--timeout", "300ms"]);
    examined.finds("daemon", "bad", "does not answer");
    daemon.thaw();
    wait_for(&home, "daemon", "ok", "answers");
}

#[test]
fn a_wrong_configuration_is_found_without_a_start() {
    let (_folder, home) = home();
    let examined = examine(&home.with("WORKER_ID", "999999"));
    examined.finds("configuration", "bad", "(worker.id): 999999");
}

/// Passes connections on to a daemon, and makes its answers say another version.
fn relay(listener: UnixListener, daemon: PathBuf) {
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (client, server) = (client.unwrap(), UnixStream::connect(&daemon).unwrap());
            let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut from, &mut to));
            std::thread::spawn(move || pass_on(server, client));
        }
    });
}

fn pass_on(mut server: UnixStream, mut client: UnixStream) {
    let (own, other) = (env!("CARGO_PKG_VERSION"), another_version());
    let mut buffer = [0; 65_536];
    while let Ok(length @ 1..) = server.read(&mut buffer) {
        let answer = &mut buffer[..length];
        if let Some(at) = answer.windows(own.len()).position(|bytes| bytes == own.as_bytes()) {
            answer[at..at + own.len()].copy_from_slice(other.as_bytes());
        }
        if client.write_all(answer).is_err() {
            return;
        }
    }
}

/// As long as this version.
fn another_version() -> String {
    env!("CARGO_PKG_VERSION").replacen(|first: char| first.is_ascii_digit(), "9", 1)
}

#[test]
fn a_daemon_of_another_version_is_a_warning() {
    let (folder, home) = home();
    let _daemon = home.start();
    let path = folder.path().join("relay.sock");
    relay(UnixListener::bind(&path).unwrap(), home.socket());
    let examined = examine_with(&home, &["--socket", path.to_str().unwrap()]);
    examined.finds("version", "warn", &format!("leafd is {}", another_version()));
}

#[test]
fn settings_that_a_restart_would_change_are_found() {
    let (folder, home) = home();
    let file = folder.path().join("leafd.toml");
    std::fs::write(&file, "[worker]\nid = 7\n").unwrap();
    let path = file.display().to_string();
    let home = home.with("CONFIG", &path);
    let _daemon = home.start();
    examine(&home).finds("settings", "ok", "");
    let other = home.clone().with("WORKER_ID", "8");
    examine(&other).finds("settings", "warn", "worker.id is 8, and leafd has 7");
    // A file's time is what it was set to, so nothing has to wait.
    let later = SystemTime::now() + std::time::Duration::from_secs(60);
    std::fs::File::options().write(true).open(&file).unwrap().set_modified(later).unwrap();
    examine(&home).finds("settings", "note", "was changed after");
}

#[test]
fn state_in_memory_is_bad_with_the_embedded_store() {
    let folder = tempfile::Builder::new().prefix("leafd-doctor-").tempdir_in("/dev/shm").unwrap();
    let home = Home::new(folder.path());
    let _daemon = home.start();
    let examined = examine(&home);
    examined.finds("state-lasts", "bad", "memory (tmpfs)");
    assert_eq!(examined.code, Some(1));
}

#[test]
fn a_disk_that_is_full_or_read_only_is_bad() {
    let (_folder, home) = home();
    let _daemon = home.start();
    for (disk, text) in [("full", "is full"), ("read-only", "read-only")] {
        let home = home.clone().with_variable("HOST_LIES_DISK", disk);
        examine(&home).finds("disk", "bad", text);
    }
}

#[test]
fn a_clock_that_nobody_synchronises_is_a_warning() {
    let (_folder, home) = home();
    let _daemon = home.start();
    let (code, out, _) =
        on_a_sound_host(&home).with_variable("HOST_LIES_CLOCK", "free").run("leafctl", &["doctor"]);
    assert!(out.contains("WARN  the kernel's clock is not synchronised"), "{out}");
    assert!(out.contains("docs/operations/worker-ids.md#clocks"), "{out}");
    // A warning is no failure, unless this machine's disk is worse.
    assert!(code == Some(0) || out.contains("BAD"), "{code:?}\n{out}");
}

#[test]
fn a_layout_that_ends_within_a_year_is_a_warning() {
    let (_folder, home) = home();
    let home = home.with("SNOWFLAKE_LAYOUT", &layout_after(100));
    let _daemon = home.start();
    examine(&home).finds("layout", "warn", "ends in 297 days");
}

#[test]
fn a_layout_that_has_ended_is_bad() {
    let (_folder, home) = home();
    let home = home.with("SNOWFLAKE_LAYOUT", &layout_after(400));
    let _daemon = home.start();
    examine(&home).finds("layout", "bad", "has ended");
}

#[test]
fn too_few_open_files_for_the_connections_are_a_warning() {
    let (_folder, home) = home();
    let _daemon = home.clone().through(&["prlimit", "--nofile=4096:4096"]).start();
    examine(&home).finds("open-files", "warn", "hard limit is 4096");
}

#[test]
fn a_daemon_that_is_nearly_out_of_connections_is_a_warning() {
    let (_folder, home) = home();
    let home = home.with("SOCKET_MAX_CONNECTIONS", "5");
    let daemon = home.start();
    let mut clients: Vec<_> = (0..3).map(|_| daemon.client()).collect();
    for client in &mut clients {
        client.status().unwrap();
    }
    wait_for(&home, "open-files", "warn", "socket.max-connections");
}

#[test]
fn it_says_who_may_connect() {
    let (_folder, home) = home();
    let home = home.with("SOCKET_MODE", "0666");
    let _daemon = home.start();
    examine(&home).finds("socket", "note", "every user of this host may get IDs");
}

#[test]
fn a_socket_that_clients_do_not_look_for_is_a_note() {
    let (folder, home) = home();
    let elsewhere = folder.path().join("other.sock").display().to_string();
    let home = home.with("SOCKET_PATH", &elsewhere);
    let _daemon = home.spawn();
    wait_for(&home, "daemon", "ok", "answers");
    examine(&home).finds("socket", "note", &format!("LEAFD_SOCKET={elsewhere}"));
}

#[test]
fn files_that_a_command_left_behind_as_another_user_are_bad() {
    let (_folder, home) = home();
    home.start().stop();
    chown(home.state(), Some(4242), None).expect("run the tests as root");
    examine(&home).finds("state-files", "bad", "chown -R 4242:");
}

#[test]
fn a_state_directory_that_others_may_write_is_a_warning() {
    let (_folder, home) = home();
    let _daemon = home.start();
    let mode = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(home.state(), mode).unwrap();
    examine(&home).finds("state-files", "warn", "0777");
}

#[test]
fn damaged_snowflake_state_is_bad() {
    let (_folder, home) = home();
    home.start().stop();
    std::fs::write(home.state().join("worker.properties"), "nonsense").unwrap();
    let _daemon = home.start();
    examine(&home).finds("snowflake", "bad", "");
}

#[test]
fn a_failing_store_is_bad() {
    let (_folder, home) = home();
    home.break_store();
    let _daemon = home.start();
    wait_for(&home, "store", "bad", "cannot lease from the store");
}

#[test]
fn another_user_learns_what_it_may_not_see() {
    let (folder, home) = home();
    open_to_all(folder.path());
    let file = folder.path().join("leafd.toml");
    std::fs::write(&file, "").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let _daemon = home.start();
    let user = OtherUser::new(4242, 4242);
    let arguments = ["doctor", "--config", file.to_str().unwrap()];
    let output = user.leafctl(folder.path(), &home.socket(), &arguments);
    let out = String::from_utf8(output.stdout).unwrap();
    for text in ["?     this user may not ask leafd", "?     this user may not read the config"] {
        assert!(out.contains(text), "{out}");
    }
    assert!(out.contains("as root or as leafd's user"), "{out}");
    assert_eq!(output.status.code(), Some(0), "what cannot be seen is not bad\n{out}");
}

/// A host with so much wrong that the report is longer than a screen.
fn sick_home() -> (TempDir, Home) {
    let folder = tempfile::Builder::new().prefix("leafd-doctor-").tempdir_in("/dev/shm").unwrap();
    let home = Home::new(folder.path())
        .with("SNOWFLAKE_LAYOUT", &layout_after(100))
        .with("SOCKET_MODE", "0666")
        .with_variable("HOST_LIES_DISK", "full");
    home.start().stop();
    (folder, home)
}

#[test]
fn a_report_fits_a_terminal_of_80_by_24_with_the_worst_first() {
    let (_folder, home) = sick_home();
    let daemon = home.clone().through(&["prlimit", "--nofile=4096:4096"]).start();
    let home = on_a_sound_host(&home).with_variable("HOST_LIES_CLOCK", "free");
    let mut terminal = Terminal::open(80, 24);
    let mut command = home.command("leafctl");
    command.arg("doctor");
    terminal.run(&command);
    let ended = terminal.wait();
    let screen = ended.screen.join("\n");
    assert!(!terminal.has_wrapped(), "{screen}");
    assert!(ended.screen[0].contains("leafd.sock"), "the heading is still there\n{screen}");
    assert!(ended.screen[1].starts_with("BAD   "), "{screen}");
    assert!(screen.contains("2 bad, 3 warnings, 1 note"), "{screen}");
    assert!(screen.contains("=> "), "{screen}");
    assert_eq!(ended.status.code(), Some(1), "{screen}");
    drop(daemon);
}

#[test]
fn a_large_terminal_shows_every_remedy() {
    let (_folder, home) = sick_home();
    let home = on_a_sound_host(&home);
    let mut terminal = Terminal::open(200, 50);
    let mut command = home.command("leafctl");
    command.arg("doctor");
    terminal.run(&command);
    let ended = terminal.wait();
    let screen = ended.screen.join("\n");
    let findings = screen.lines().filter(|line| {
        ["BAD ", "WARN ", "NOTE ", "? "].iter().any(|level| line.starts_with(level))
    });
    assert_eq!(findings.count(), screen.matches("=> ").count(), "{screen}");
    assert!(!screen.contains("--all explains"), "{screen}");
    assert!(!terminal.has_wrapped(), "{screen}");
}

#[test]
fn a_reader_that_closes_its_pipe_is_no_failure_of_its_own() {
    let (_folder, home) = home();
    let _daemon = home.start();
    let mut doctor = on_a_sound_host(&home).command("leafctl");
    doctor.args(["doctor", "--all"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut doctor = doctor.spawn().unwrap();
    drop(doctor.stdout.take());
    let output = doctor.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!errors.contains("cannot write"), "{errors}");
    assert!(!errors.contains("panic"), "{errors}");
}

#[test]
fn it_writes_nothing_into_the_state_directory() {
    let (_folder, home) = home();
    home.start().stop();
    let before = listing(&home.state());
    assert!(!before.is_empty());
    let _ = examine(&home);
    assert_eq!(listing(&home.state()), before);
}

/// Every file with its size and times.
fn listing(folder: &Path) -> String {
    let mut command = Command::new("find");
    command.arg(folder).args(["-printf", "%p %s %T@ %C@\n"]);
    let output = command.output().expect("find");
    let mut lines: Vec<_> =
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
    lines.sort();
    lines.join("\n")
}
