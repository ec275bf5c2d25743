//! The start of leafd. It never takes the place of another daemon or file, its socket has the right mode,
//! and its log says how to use it and never delays it.

use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use leaf_client::blocking;
use leafd_tests::daemon::Home;
use leafd_tests::watch::{Bystanders, anonymous_kib, resident_kib};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Gid, Pid};

/// Starts a leafd that ends by itself. Returns its exit code and what it printed as an error.
fn refused(home: &Home) -> (Option<i32>, String) {
    let (code, _, errors) = home.run("leafd", &[]);
    (code, errors)
}

#[test]
fn a_second_daemon_on_the_same_state_is_refused_with_75_and_the_holder_is_named() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let home = Home::new(folder.path());
    let daemon = home.start();
    let others = Bystanders::of(&home);
    let second = Home::new(other.path()).with("STATE_DIR", home.state().to_str().unwrap());
    let (code, text) = refused(&second);
    assert_eq!(code, Some(75), "{text}");
    assert!(text.contains(&format!("process {}", daemon.pid())), "{text}");
    assert!(text.contains(home.state().to_str().unwrap()), "{text}");
    assert!(!second.socket().exists(), "a socket without a daemon is left behind");
    others.noticed_nothing();
    daemon.stop();
}

#[test]
fn a_second_daemon_on_the_same_socket_is_refused_with_75_and_the_first_goes_on() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let home = Home::new(folder.path());
    let daemon = home.start();
    let others = Bystanders::of(&home);
    let second = Home::new(other.path()).with("SOCKET_PATH", home.socket().to_str().unwrap());
    let (code, text) = refused(&second);
    assert_eq!(code, Some(75), "{text}");
    assert!(text.contains(home.socket().to_str().unwrap()), "{text}");
    // New connections and open ones work.
    daemon.client().next("orders").unwrap();
    others.noticed_nothing();
    daemon.stop();
}

#[test]
fn when_several_daemons_start_at_once_on_one_folder_one_serves_and_the_others_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let mut all: Vec<_> = (0..8).map(|_| home.spawn()).collect();
    let mut client = blocking::Client::new(home.options().timeout(Duration::from_secs(30)));
    client.next("orders").unwrap();
    let pid = client.status().unwrap().pid;
    let (serving, refused): (Vec<_>, Vec<_>) = all.drain(..).partition(|one| one.pid() == pid);
    for mut one in refused {
        let ended = one.wait();
        assert_eq!(ended.code(), Some(75), "{ended}");
    }
    client.next("orders").unwrap();
    for one in serving {
        one.stop();
    }
}

#[test]
fn a_socket_that_a_killed_daemon_left_behind_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    home.start().kill();
    let left = std::fs::symlink_metadata(home.socket()).unwrap();
    assert!(left.file_type().is_socket());
    let daemon = home.start();
    daemon.client().next("orders").unwrap();
    assert_ne!(std::fs::symlink_metadata(home.socket()).unwrap().ino(), left.ino());
    daemon.stop();
    assert!(!home.socket().exists());
}

#[test]
fn anything_but_a_socket_at_the_sockets_path_is_refused_with_73_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    std::fs::write(home.socket(), "precious").unwrap();
    let (code, text) = refused(&home);
    assert_eq!(code, Some(73), "{text}");
    assert!(text.contains(home.socket().to_str().unwrap()), "{text}");
    assert_eq!(std::fs::read_to_string(home.socket()).unwrap(), "precious");
    std::fs::remove_file(home.socket()).unwrap();
    std::fs::create_dir(home.socket()).unwrap();
    assert_eq!(refused(&home).0, Some(73));
    std::fs::remove_dir(home.socket()).unwrap();
    // A socket that any other program uses.
    let listener = UnixListener::bind(home.socket()).unwrap();
    assert_eq!(refused(&home).0, Some(75));
    assert!(home.socket().exists());
    drop(listener);
    home.start().stop();
}

#[test]
fn a_socket_path_that_is_too_long_and_a_group_that_does_not_exist_are_refused_with_78() {
    let folder = tempfile::tempdir().unwrap();
    let long = folder.path().join("x".repeat(100));
    let long = long.to_str().unwrap();
    for (key, value) in [("SOCKET_PATH", long), ("SOCKET_GROUP", "no-such-group")] {
        let (code, text) = refused(&Home::new(folder.path()).with(key, value));
        assert_eq!(code, Some(78), "{text}");
        assert!(text.contains(value), "{text}");
    }
}

#[test]
fn the_socket_has_mode_0660_or_the_one_configured_whatever_the_umask_is() {
    let group = Gid::current().to_string();
    let cases =
        [(None, "000"), (None, "077"), (None, "777"), (Some("0600"), "000"), (Some("0666"), "077")];
    for (mode, umask) in cases {
        let folder = tempfile::tempdir().unwrap();
        let script = format!("umask {umask}; exec \"$0\" \"$@\"");
        let home = Home::new(folder.path()).with("SOCKET_GROUP", &group);
        let home = home.through(&["sh", "-c", &script]);
        let home = match mode {
            Some(mode) => home.with("SOCKET_MODE", mode),
            None => home,
        };
        let daemon = home.start();
        let meta = std::fs::metadata(home.socket()).unwrap();
        let expected = u32::from_str_radix(mode.unwrap_or("0660"), 8).unwrap();
        assert_eq!(meta.permissions().mode() & 0o7777, expected, "{mode:?}, umask {umask}");
        assert_eq!(meta.gid(), Gid::current().as_raw());
        // Nobody else may read the state.
        for entry in std::fs::read_dir(home.state()).unwrap() {
            let entry = entry.unwrap();
            let mode = entry.metadata().unwrap().permissions().mode();
            assert!(mode & 0o077 == 0 || umask == "000", "{:?}: {mode:o}", entry.path());
            assert_eq!(mode & 0o600, 0o600, "leafd itself cannot use {:?}", entry.path());
        }
        let state = std::fs::metadata(home.state()).unwrap().permissions().mode();
        assert_eq!(state & 0o777, 0o700);
        daemon.stop();
    }
}

#[test]
fn the_log_names_the_socket_and_a_command_that_works_as_printed() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let daemon = home.start();
    let log = home.log().wait_for("get an ID: ");
    let ready = log.lines().find(|line| line.contains(" ready ")).unwrap();
    assert!(ready.contains(home.socket().to_str().unwrap()), "{ready}");
    assert!(ready.contains(home.state().to_str().unwrap()), "{ready}");
    let command = log.lines().find_map(|line| line.split_once("get an ID: ")).unwrap().1;
    // As in an operator's shell, which has none of leafd's variables.
    let Output { status, stdout, stderr } =
        Command::new("sh").args(["-c", command]).env_remove("LEAFD_SOCKET").output().unwrap();
    assert!(status.success(), "{command}: {}", String::from_utf8_lossy(&stderr));
    assert_eq!(String::from_utf8(stdout).unwrap(), "1\n");
    daemon.stop();
}

#[test]
fn the_log_has_colours_on_a_terminal_unless_no_color_is_set() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let _daemon = home.start();
    let terminal = "import pty, sys; pty.spawn(sys.argv[1:])";
    for (no_color, coloured) in [(None, true), (Some(""), true), (Some("1"), false)] {
        // A second daemon in the same folder logs the reason and ends.
        let home = home.clone().through(&["python3", "-c", terminal]);
        let mut command = home.command("leafd");
        command.env_remove("NO_COLOR").envs(no_color.map(|value| ("NO_COLOR", value)));
        let text = String::from_utf8(command.output().unwrap().stdout).unwrap();
        assert!(text.contains("leafd 0.") && text.contains("another daemon"), "{text}");
        assert_eq!(text.contains('\x1b'), coloured, "NO_COLOR={no_color:?}: {text}");
    }
}

#[test]
fn a_json_log_is_one_object_per_line_from_the_first_to_the_last() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with("LOG_FORMAT", "json").with("LOG_LEVEL", "debug");
    let daemon = home.start();
    daemon.client().next("a \"quoted\" tag\u{2028}").unwrap();
    let ended = daemon.stop();
    let log = ended.log();
    let mut messages = Vec::new();
    for line in log.lines() {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(value["timestamp"].is_string() && value["level"].is_string(), "{line}");
        messages.push(value["message"].as_str().unwrap_or_default().to_owned());
    }
    for expected in ["ready", "stopping", "stopped"] {
        assert!(messages.iter().any(|message| message == expected), "{expected}\n{log}");
    }
}

#[test]
fn leafd_serves_without_a_standard_error() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with("LOG_LEVEL", "trace");
    let home = home.through(&["sh", "-c", "exec \"$0\" \"$@\" 2>&- >&- <&-"]);
    let daemon = home.start();
    Bystanders::of(&home).noticed_nothing();
    daemon.stop();
}

/// A child process that is killed when this is dropped.
struct Guarded(Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn an_unread_log_delays_neither_requests_nor_the_stop() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with("LOG_LEVEL", "trace");
    let child = home.command("leafd").stderr(Stdio::piped()).stdout(Stdio::null()).spawn();
    let mut daemon = Guarded(child.unwrap());
    let others = Bystanders::of(&home);
    let mut client = blocking::Client::new(home.options());
    for number in 0..1000 {
        client.next(&format!("tag {number}")).unwrap();
    }
    others.noticed_nothing();
    let pid = Pid::from_raw(i32::try_from(daemon.0.id()).unwrap());
    kill(pid, Signal::SIGTERM).unwrap();
    let began = Instant::now();
    let status = loop {
        match daemon.0.try_wait().unwrap() {
            Some(status) => break status,
            None => assert!(began.elapsed() < Duration::from_secs(60), "leafd does not end"),
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    assert_eq!(status.code(), Some(0));
    let mut left = Vec::new();
    daemon.0.stderr.take().unwrap().read_to_end(&mut left).unwrap();
    // leafd logged more than a pipe holds, so its last lines are lost.
    let last = String::from_utf8_lossy(&left);
    assert!(!last.contains("INFO stopped"), "{} bytes: the pipe was not full", left.len());
}

#[test]
fn an_idle_daemon_takes_at_most_15_mib_and_with_http_18() {
    for (listen, most_mib) in [("", 15), ("127.0.0.1:0", 18)] {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path()).with("HTTP_LISTEN", listen);
        let daemon = home.start();
        let mut client = daemon.client();
        client.next("orders").unwrap();
        client.snowflake().unwrap();
        let (resident, own) = (resident_kib(&daemon), anonymous_kib(&daemon));
        println!("listen {listen:?}: {resident} KiB resident at rest, {own} of it its own");
        // How much of the program itself is resident depends on the build and on the page cache.
        assert!(own <= 10 * 1024, "{own} KiB");
        // The limit is for release builds only.
        if !cfg!(debug_assertions) {
            assert!(resident <= most_mib * 1024, "{resident} KiB");
        }
        daemon.stop();
    }
}
