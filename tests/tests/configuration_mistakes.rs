//! What leafd says about mistakes in its configuration: all of them at once, each with its place and a
//! remedy, the same at a start, at a reload and in `leafd check`, and never with a secret.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use leafd_tests::daemon::Home;
use nix::sys::signal::Signal;

fn file(folder: &Path, content: &str) -> PathBuf {
    let path = folder.join("leafd.toml");
    std::fs::write(&path, content).unwrap();
    path
}

/// A home whose configuration is this file.
fn home(folder: &Path, content: &str) -> Home {
    Home::new(folder).with("CONFIG", file(folder, content).to_str().unwrap())
}

/// Runs `leafd check`, which must refuse, and returns what it says.
fn refusal(home: &Home) -> String {
    let (code, out, text) = home.run("leafd", &["check"]);
    assert_eq!((code, out.as_str()), (Some(78), ""), "{text}");
    text
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

const MISTAKES: &str = "\
[socket]
idle-timeout = 10
max-cuont = 5
[worker]
fence-after = \"13h\"
id = 1024
[state]
unstable-inodes = \"yes\"
[log]
level = info
";

/// What leafd says about each, after the name of the file.
const SAID: [&str; 6] = [
    ":2:16: socket.idle-timeout: 10 is not a duration: it has no unit; write \"10s\"",
    ":3:1: socket: [socket] has no key max-cuont; did you mean max-count?",
    ":5:15: worker.fence-after: 13h is not between 10s and 12h, half of worker.reclaim-after (24h): a \
     host has to stop issuing long before another may take over its worker ID",
    ":6:6: worker.id: 1024 is not between 0 and 1023",
    ":8:19: state.unstable-inodes: \"yes\" is not true or false: these have no quotes; write true",
    ":10:9: log.level: \"info\" lacks quotes; write \"info\"",
];

#[test]
fn a_start_and_a_check_tell_every_mistake_of_the_file_and_the_environment_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path(), MISTAKES)
        .with("WORKER_IDD", "7")
        .with("SOCKET_WRITE_TIMEOUT", "10")
        .with("SOCKET_MAX_COUNT", "0");
    let text = refusal(&home);
    let path = folder.path().join("leafd.toml");
    assert!(text.contains("the configuration has 9 mistakes:"), "{text}");
    for said in SAID {
        let said = format!("  {}{said}", path.display());
        assert!(text.contains(&said), "{said}: {text}");
    }
    for said in [
        "  LEAFD_WORKER_IDD: there is no such key; did you mean LEAFD_WORKER_ID?",
        "  LEAFD_SOCKET_WRITE_TIMEOUT (socket.write-timeout): \"10\" is not a duration; write 10s",
        "  LEAFD_SOCKET_MAX_COUNT (socket.max-count): 0 is not between 1 and 1000000",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    let (code, _, at_start) = home.run("leafd", &[]);
    assert_eq!((code, at_start), (Some(78), text));
}

#[test]
fn a_reload_tells_every_mistake_and_keeps_the_old_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path(), "[socket]\nmax-count = 5\n");
    let daemon = home.start();
    file(folder.path(), MISTAKES);
    daemon.send(Signal::SIGHUP);
    home.log().wait_for("not reloaded, nothing has changed");
    for said in SAID {
        home.log().wait_for(said);
    }
    let mut client = daemon.client();
    assert_eq!(client.next_many("orders", 5).unwrap().len(), 5);
    assert!(client.next_many("orders", 6).is_err(), "the old limit still holds");
    daemon.stop();
}

#[test]
fn a_password_that_is_not_encoded_in_the_url_is_refused_with_how_to_write_it_and_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    for (kind, url, encoded) in [
        ("mysql", "mysql://leaf:hunt#er2@127.0.0.1/leaf", "'#', which"),
        ("postgres", "postgres://leaf:123#456@127.0.0.1/leaf", "write it as %23"),
        ("postgres", "postgres://leaf:hunt/er2@127.0.0.1/leaf", "write it as %2F"),
        ("mysql", "mysql://leaf:123?hunter2=x@127.0.0.1/leaf", "write it as %3F"),
    ] {
        let toml = format!("[store]\nkind = \"{kind}\"\nurl = \"{url}\"\n");
        let by_file = refusal(&home(folder.path(), &toml));
        assert!(by_file.contains(":3:7: store.url: "), "{by_file}");
        let by_variable =
            refusal(&Home::new(folder.path()).with("STORE_KIND", kind).with("STORE_URL", url));
        assert!(by_variable.contains("LEAFD_STORE_URL (store.url): "), "{by_variable}");
        for text in [by_file, by_variable] {
            assert!(text.contains(encoded), "{url}: {text}");
            for part in ["hunt", "er2", "123", "456"] {
                assert!(!text.contains(part), "{url}: {text}");
            }
        }
    }
}

#[test]
fn no_mistake_shows_a_secret() {
    let folder = tempfile::tempdir().unwrap();
    for toml in [
        "[store]\npassword = hunter2",
        "[store]\npassword = [\"hunter2\"]",
        "[store]\npasswort = \"hunter2\"",
        "[store]\nurl = { uri = \"mysql://leaf:hunter2@db/leaf\" }",
        "[stor]\npassword = \"hunter2\"",
        "store = \"mysql://leaf:hunter2@db/leaf\"",
        "[zookeeper]\nauth = \"hunter2\"",
        "[zookeeper]\nauth = 'hunter2",
        "[peer]\nlisten = [\"mysql://leaf:hunter2@db/leaf\"]",
        "[socket]\nidle-timeout = \"mysql://leaf:hunter2@db/leaf\"",
    ] {
        let text = refusal(&home(folder.path(), toml));
        assert!(!text.contains("hunter2"), "{toml}: {text}");
        assert!(text.contains("leafd.toml:"), "{toml}: {text}");
    }
    for variable in ["STORE_PASSWORT", "ZOOKEEPER_AUTH", "STORE_URL"] {
        let text = refusal(&Home::new(folder.path()).with(variable, "hunter2"));
        assert!(!text.contains("hunter2") && text.contains(variable), "{text}");
    }
}

#[test]
fn every_unknown_name_and_unreadable_secret_is_told_with_the_other_mistakes() {
    let folder = tempfile::tempdir().unwrap();
    let text = refusal(&home(
        folder.path(),
        "[access]\nrules = [\n  { users = [\"no-such-user\"] },\n  { groups = [\"no-such-group\"] },\n]\n\
         [store]\nkind = \"mysql\"\nurl = \"mysql://leaf@127.0.0.1/leaf\"\n\
         password-file = \"/nonexistent/secret\"\n[worker]\nid = 5000\n",
    ));
    for said in [
        ":3:3: access.rules: rule 1 names the user \"no-such-user\"",
        ":4:3: access.rules: rule 2 names the group \"no-such-group\"",
        ":9:17: store.password-file: cannot read",
        ":11:6: worker.id: 5000",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
}

#[test]
fn a_relative_path_and_a_secret_that_others_can_read_give_a_warning_at_the_start_and_in_a_check() {
    let folder = tempfile::tempdir().unwrap();
    set_mode(folder.path(), 0o755);
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "leaf:hunter2").unwrap();
    let toml = format!(
        "[socket]\npath = \"../../{}/s\"\n[worker]\nregistry = \"zookeeper\"\n\
         [zookeeper]\nservers = \"127.0.0.1:1\"\nauth-file = {secret:?}\n",
        folder.path().display()
    );
    let home = home(folder.path(), &toml).with("PEER_LISTEN", "127.0.0.1:0");
    let home = home.with("WORKER_IDENTITY", "a").with("PEER_LISTEN_PORT", "8735");
    let relative = "socket.path \"../../";
    let readable =
        format!("zookeeper.auth-file: every user of this host can read {}", secret.display());
    let ignored = "LEAFD_PEER_LISTEN_PORT sets no key";
    for (mode, is_open) in [(0o644, true), (0o640, false)] {
        set_mode(&secret, mode);
        let (code, text, error) = home.run("leafd", &["check"]);
        assert_eq!(code, Some(0), "{error}");
        assert!(text.contains(relative) && text.contains(ignored), "{text}");
        assert_eq!(text.contains(&readable), is_open, "{text}");
        assert!(!text.contains("hunter2"), "{text}");
    }
    set_mode(&secret, 0o644);
    let mut command = home.command("leafd");
    let log = std::fs::File::create(folder.path().join("log")).unwrap();
    let mut leafd = command.current_dir(folder.path()).stderr(log).spawn().unwrap();
    for warning in [relative, &readable, ignored] {
        home.log().wait_for(warning);
    }
    leafd.kill().unwrap();
    leafd.wait().unwrap();
}

#[test]
fn an_epoch_may_be_a_date() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with("SNOWFLAKE_LAYOUT", "28/22/13@2026-01-01/1000ms");
    let daemon = home.start();
    let layout = daemon.client().status().unwrap().snowflake.layout;
    assert_eq!(layout, "28/22/13@1767225600000/1000ms");
    daemon.stop();
    let text = refusal(&Home::new(folder.path()).with("SNOWFLAKE_LAYOUT", "baidu@2026-02-30"));
    assert!(text.contains("an epoch is a date in UTC, or milliseconds since 1970"), "{text}");
}
