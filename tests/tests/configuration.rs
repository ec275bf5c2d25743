//! The configuration. What leafd prints and what is shipped is valid, and leafd refuses wrong values with
//! the key and the value before it changes anything.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use leafd_tests::binaries::workspace;
use leafd_tests::daemon::Home;
use leafd_tests::manual;

/// Runs leafd with only the settings of `home`, and without its default paths. Returns the exit code,
/// standard output and standard error.
fn leafd(home: &Home, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = home.command("leafd");
    command.env_remove("LEAFD_SOCKET").env_remove("LEAFD_STATE_DIR").args(arguments);
    let Output { status, stdout, stderr } = command.output().unwrap();
    let [stdout, stderr] = [stdout, stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    (status.code(), stdout, stderr)
}

fn file(folder: &Path, content: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.join("leafd.toml");
    std::fs::write(&path, content).unwrap();
    path
}

/// Every key of the printed default configuration, as `section.key`.
fn keys(home: &Home) -> BTreeSet<String> {
    let (_, text, _) = leafd(home, &["default-config"]);
    manual::keys_of_file(&text).into_iter().map(|key| key.name).collect()
}

/// For each key a value that it refuses, as written in the file, and a part of the error message.
const WRONG: [(&str, &str, &str); 132] = [
    ("socket.mode", "\"0999\"", "0999"),
    ("socket.mode", "\"rw-rw----\"", "rw-rw----"),
    ("socket.max-connections", "0", "0 is not between 1 and"),
    ("socket.max-connections", "1000001", "1000001"),
    ("socket.max-in-flight", "65537", "65537"),
    ("socket.max-count", "0", "0 is not between 1 and 1000000"),
    ("socket.max-count", "-1", "-1"),
    ("socket.max-request-bytes", "1599", "1599 is not between 1600 and 4096"),
    ("socket.idle-timeout", "\"999ms\"", "999ms"),
    ("socket.request-timeout", "\"99ms\"", "99ms"),
    ("socket.write-timeout", "\"25h\"", "25h is not between 100ms and 24h"),
    ("access.rules", "7", "7"),
    ("access.rules", "[{ name = \"apps\" }]", "rule \"apps\" names nobody"),
    ("access.rules", "[{ users = [\"no-such-user\"] }]", "no-such-user"),
    ("access.rules", "[{ groups = [\"no-such-group\"] }]", "no-such-group"),
    ("access.rules", "[{ users = [1], snowflakes = true }]", "snowflakes"),
    ("quota.ids-per-second", "1000000000001", "1000000000001 is not between 0 and 1000000000000"),
    ("quota.max-connections", "1000001", "1000001 is not between 0 and 1000000"),
    ("quota.tags", "[{ tags = [\"x\"], ids-per-second = 0 }]", "0 is not between 1 and"),
    ("state.machine-id", "\"a\\u0007b\"", "a\\u{7}b"),
    ("store.kind", "\"oracle\"", "oracle"),
    ("store.url", "\"mysql://leaf@db/leaf\"", "store.kind is sqlite"),
    ("store.urls", "[\"mysql://leaf@db/leaf\"]", "only store.kind several uses it"),
    ("store.urls", "[7]", "is not"),
    ("store.division", "\"7\"", "only store.kind several uses it"),
    ("store.password", "\"x\"", "store.kind is sqlite"),
    ("store.tls-verify", "\"perhaps\"", "perhaps"),
    ("store.timeout", "\"5 parsecs\"", "5 parsecs"),
    ("store.password-file", "\"/nonexistent\"", "store.kind is sqlite"),
    ("store.max-connections", "4", "4 is not between 5 and 1000"),
    ("store.missing-hosts", "\"hope\"", "hope"),
    ("store.missing-after", "\"9s\"", "9s is not between 10s and 24h"),
    ("store.missing-margin", "0", "0 is not between 1 and 1000000000000"),
    ("segment.auto-create", "\"maybe\"", "maybe"),
    ("segment.default-step", "0", "0 is not between 1 and 100000000"),
    ("segment.max-step", "1000000001", "1000000001"),
    ("segment.wait", "\"2m\"", "2m is not between 1ms and 1m (segment.max-wait)"),
    ("segment.max-wait", "\"2h\"", "2h"),
    ("segment.max-waiting", "0", "0 is not between"),
    ("segment.max-tags", "0", "0 is not between"),
    ("segment.refresh", "\"99ms\"", "99ms"),
    ("segment.unknown-for", "\"2h\"", "2h"),
    ("segment.retire-after", "\"23h\"", "23h is not between 24h and 87600h; 0s: never"),
    ("snowflake.enabled", "\"perhaps\"", "perhaps"),
    ("snowflake.layout", "\"41/10/13\"", "41/10/13"),
    ("snowflake.fleet", "\"4BE1F0A37C\"", "10 lowercase hexadecimal digits"),
    ("public.key-file", "\"/nonexistent\"", "/nonexistent"),
    ("snowflake.ceiling-ahead", "\"99ms\"", "99ms"),
    ("snowflake.max-lead", "\"2s\"", "2s is not between 0s and 1s"),
    ("snowflake.clock-tolerance", "\"2s\"", "2s is not between 0s and 1s"),
    ("snowflake.start-wait", "\"2m\"", "2m is not between 0s and 1m"),
    ("snowflake.random-start", "4097", "4097"),
    ("worker.registry", "\"guess\"", "guess"),
    ("worker.id", "1024", "1024 is not between 0 and 1023"),
    ("worker.identity", "\"a\\u0007b\"", "a\\u{7}b"),
    ("worker.reclaim-after", "\"19s\"", "19s is not between 20s and"),
    ("worker.fence-after", "\"9s\"", "9s is not between 10s and"),
    ("worker.fence-after", "\"13h\"", "13h is not between 10s and 12h, half of"),
    ("worker.java-leaf", "\"perhaps\"", "perhaps"),
    ("state.unstable-inodes", "\"perhaps\"", "perhaps"),
    ("worker.give-back", "\"perhaps\"", "perhaps"),
    ("worker.max-clock-offset", "\"9ms\"", "9ms is not between 10ms and 1h"),
    ("zookeeper.servers", "\"zk:2181\"", "worker.registry is fixed"),
    ("zookeeper.name", "\"a/b\"", "a/b"),
    ("zookeeper.name", "\"..\"", "\"..\""),
    ("zookeeper.session-timeout", "\"999ms\"", "999ms is not between 1s and 10m"),
    ("zookeeper.timeout", "\"99ms\"", "99ms is not between 100ms and 10s"),
    ("zookeeper.auth", "\"leaf\"", "is not USER:PASSWORD"),
    ("zookeeper.auth", "\"leaf:secret\"", "worker.registry is fixed"),
    ("zookeeper.auth-file", "\"/nonexistent\"", "worker.registry is fixed"),
    ("zookeeper.acl", "\"nobody\"", "nobody"),
    ("zookeeper.acl", "\"world:anyone:x\"", "world:anyone:x"),
    ("database.url", "\"mysql://leaf@db/leaf\"", "worker.registry is fixed"),
    ("database.password", "\"secret\"", "worker.registry is fixed"),
    ("database.password-file", "\"/nonexistent\"", "worker.registry is fixed"),
    ("database.tls-verify", "\"perhaps\"", "perhaps"),
    ("database.path", "\"/nonexistent\"", "worker.registry is fixed"),
    ("database.name", "\"\"", "\"\" is not a name of 1 to 64 characters"),
    ("database.session-timeout", "\"999ms\"", "999ms is not between 1s and 10m"),
    ("database.timeout", "\"99ms\"", "99ms is not between 100ms and 10s"),
    ("etcd.endpoints", "\"https://etcd1\"", "worker.registry is fixed"),
    ("etcd.name", "\"a/b\"", "a/b"),
    ("etcd.user", "\"leaf\"", "worker.registry is fixed"),
    ("etcd.password", "\"secret\"", "etcd.user is not"),
    ("etcd.password-file", "\"/nonexistent\"", "etcd.user is not"),
    ("etcd.ca-file", "\"/nonexistent\"", "worker.registry is fixed"),
    ("etcd.cert-file", "\"/nonexistent\"", "etcd.key-file is not"),
    ("etcd.key-file", "\"/nonexistent\"", "etcd.cert-file is not"),
    ("etcd.session-timeout", "\"999ms\"", "999ms is not between 1s and 10m"),
    ("etcd.timeout", "\"99ms\"", "99ms is not between 100ms and 10s"),
    ("worker-node.url", "\"mysql://leaf@db/uid\"", "worker.registry is fixed"),
    ("worker-node.password", "\"secret\"", "worker.registry is fixed"),
    ("worker-node.password-file", "\"/nonexistent\"", "worker.registry is fixed"),
    ("worker-node.tls-verify", "\"perhaps\"", "perhaps"),
    ("worker-node.table", "\"a b\"", "a b"),
    ("worker-node.timeout", "\"99ms\"", "99ms is not between 100ms and 10s"),
    ("redis.servers", "\"redis:6379\"", "store.kind is not redis"),
    ("redis.sentinel", "\"mymaster\"", "store.kind is not redis"),
    ("redis.database", "65536", "65536 is not between 0 and 65535"),
    ("redis.user", "\"leaf\"", "store.kind is not redis"),
    ("redis.password", "\"secret\"", "store.kind is not redis"),
    ("redis.password-file", "\"/nonexistent\"", "store.kind is not redis"),
    ("redis.sentinel-user", "\"leaf\"", "redis.sentinel is not"),
    ("redis.sentinel-password", "\"secret\"", "redis.sentinel is not"),
    ("redis.sentinel-password-file", "\"/nonexistent\"", "redis.sentinel is not"),
    ("redis.tls", "\"perhaps\"", "perhaps"),
    ("redis.ca-file", "\"/nonexistent\"", "redis.tls is false"),
    ("redis.cert-file", "\"/nonexistent\"", "redis.key-file is not"),
    ("redis.key-file", "\"/nonexistent\"", "redis.cert-file is not"),
    ("redis.key", "\"id\"", "\"id\" has no {tag}"),
    ("redis.own-keys", "\"a:b\"", "\"a:b\" is not a name of 1 to 64 characters"),
    ("redis.margin", "1000001", "1000001 is not between 0 and 1000000"),
    ("lend.pools", "\"default\"", "\"default\" is not NAME:BITS"),
    ("lend.pools", "\"a:10,a:16\"", "names \"a\" twice"),
    ("lend.max-loans", "0", "0 is not between 1 and 10000"),
    ("lend.max-per-user", "10001", "10001 is not between 1 and 10000"),
    ("peer.listen", "\"here\"", "\"here\" is not IP:PORT"),
    ("peer.listen", "\"10.0.0.7\"", "\"10.0.0.7\" is not IP:PORT"),
    ("peer.advertise", "\"0.0.0.0\"", "\"0.0.0.0\" is not IP or IP:PORT"),
    ("http.listen", "\"localhost:8736\"", "\"localhost:8736\" is not IP:PORT"),
    ("http.socket-mode", "\"0999\"", "0999"),
    ("http.hosts", "[\"a:80\"]", "\"a:80\" is not the name of a host"),
    ("http.tokens", "[{ file = 'x', rule = 'gone' }]", "\"gone\" is the name of 0 rules"),
    ("http.leaf-errors", "\"perhaps\"", "perhaps"),
    ("http.max-connections", "3", "3 is not between 4 and 100000"),
    ("http.idle-timeout", "\"999ms\"", "999ms is not between 1s and"),
    ("http.request-timeout", "\"99ms\"", "99ms is not between 100ms and"),
    ("http.write-timeout", "\"99ms\"", "99ms is not between 100ms and"),
    ("http.metrics", "\"friends\"", "friends"),
    ("metrics.tags", "[\"\"]", "no tag can match the pattern"),
    ("log.level", "\"loud\"", "loud"),
    ("log.format", "\"xml\"", "xml"),
];

/// Keys that accept any value, or whose value leafd checks only when it starts.
const FREE: [&str; 6] =
    ["socket.path", "socket.group", "http.socket", "http.socket-group", "state.dir", "store.path"];

#[test]
fn a_wrong_value_of_any_key_in_the_file_is_refused_with_78_and_named_with_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let mut met: BTreeSet<_> = FREE.map(str::to_owned).into();
    let grace = ("shutdown.grace", "\"11m\"", "11m is not between 0s and 10m");
    for (name, value, message) in WRONG.into_iter().chain([grace]) {
        let (section, key) = name.split_once('.').unwrap();
        let path = file(folder.path(), format!("[{section}]\n{key} = {value}\n"));
        let path = path.to_str().unwrap();
        for arguments in [&["--config", path, "check"][..], &["--config", path]] {
            let (code, _, text) = leafd(&home, arguments);
            assert_eq!(code, Some(78), "{name} = {value}: {text}");
            assert!(text.contains(key) && text.contains(message), "{name} = {value}: {text}");
        }
        met.insert(name.to_owned());
    }
    assert_eq!(met, keys(&home), "a key is missing in this test");
}

#[test]
fn a_wrong_value_of_any_key_in_the_environment_is_refused_with_78_and_named_with_its_key() {
    let folder = tempfile::tempdir().unwrap();
    for (name, value, message) in WRONG {
        let variable = name.to_uppercase().replace(['.', '-'], "_");
        let value = value.trim_matches('"').replace("\\u0007", "\u{7}");
        let home = Home::new(folder.path()).with(&variable, &value);
        let (code, _, text) = leafd(&home, &["check"]);
        assert_eq!(code, Some(78), "{variable}={value}: {text}");
        let named = text.contains(name) || text.contains(&variable);
        assert!(named && text.contains(message), "{variable}={value}: {text}");
    }
}

#[test]
fn all_problems_are_reported_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let text = "[socket]\nmax-count = 0\n[worker]\nid = 1024\n[log]\nlevel = \"loud\"\n";
    let path = file(folder.path(), text);
    let arguments = ["--config", path.to_str().unwrap(), "check"];
    let (code, _, text) = leafd(&Home::new(folder.path()), &arguments);
    assert_eq!(code, Some(78), "{text}");
    for part in ["3 mistakes", "socket.max-count: 0", "worker.id: 1024", "log.level: \"loud\""] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn unknown_keys_and_unreadable_files_are_refused_with_78_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    for (content, message) in [
        ("[segment]\ndefault-stepp = 5\n", ":2:1: segment: [segment] has no key default-stepp"),
        ("[segmnt]\n", ":1:2: there is no section [segmnt]; did you mean segment?"),
        ("segment = 5\n", ":1:11: segment: is a section"),
        ("max-count = 5\n", "max-count"),
        ("[socket]\nmax-count = 1\nmax-count = 2\n", "duplicate"),
        ("max count", ":1:"),
    ] {
        let path = file(folder.path(), content);
        let path = path.to_str().unwrap();
        let (code, _, text) = leafd(&home, &["--config", path, "check"]);
        assert_eq!(code, Some(78), "{content}: {text}");
        assert!(text.contains(message) && text.contains(path), "{content}: {text}");
    }
    let garbage = file(folder.path(), b"\xff\xfe\0");
    for path in ["/nonexistent/leafd.toml", "/", garbage.to_str().unwrap()] {
        for arguments in [&["--config", path, "check"][..], &["--config", path], &["check"]] {
            let home = match arguments {
                ["check"] => home.clone().with("CONFIG", path),
                _ => home.clone(),
            };
            let (code, _, text) = leafd(&home, arguments);
            assert_eq!(code, Some(78), "{path}: {text}");
            assert!(text.contains(path), "{path}: {text}");
        }
    }
    for variable in ["WORKER_IDD", "SNOWFLAKE_WORKER", "TIMEOUT"] {
        let (code, _, text) = leafd(&home.clone().with(variable, "7"), &["check"]);
        assert_eq!(code, Some(78), "{text}");
        assert!(text.contains(&format!("LEAFD_{variable}: there is no such key")), "{text}");
    }
}

#[test]
fn a_variable_that_is_not_utf_8_is_refused_by_name_and_not_ignored() {
    use std::os::unix::ffi::OsStrExt;
    let folder = tempfile::tempdir().unwrap();
    let value = std::ffi::OsStr::from_bytes(b"/data/\xff");
    let mut command = Home::new(folder.path()).command("leafd");
    let output = command.arg("check").env("LEAFD_STATE_DIR", value).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(78), "{text}");
    assert!(text.contains("LEAFD_STATE_DIR") && text.contains("/data/"), "{text}");
}

#[test]
fn a_refused_configuration_changes_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(&folder.path().join("home")).with("WORKER_ID", "1024");
    let output = home.command("leafd").output().unwrap();
    assert_eq!(output.status.code(), Some(78));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_path_that_is_not_a_regular_file_ends_the_start_at_once_with_its_name_and_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    // If leafd hung on a path, `timeout` would end it with another exit code.
    let home = Home::new(folder.path()).through(&["timeout", "--signal=KILL", "60"]);
    let database = "mysql://leaf@127.0.0.1:1/leaf";
    let tls = format!("{database}?ssl-mode=REQUIRED&ssl-ca=");
    let store = |home: &Home| home.clone().with("STORE_KIND", "mysql");
    for path in [&fifo, folder.path(), Path::new("/dev/zero")] {
        let path = path.to_str().unwrap();
        let zookeeper = home.clone().with_zookeeper("127.0.0.1:1");
        for (home, key) in [
            (home.clone().with("CONFIG", path), "the configuration"),
            (
                store(&home).with("STORE_URL", database).with("STORE_PASSWORD_FILE", path),
                "password",
            ),
            (store(&home).with("STORE_URL", &format!("{tls}{path}")), "ssl-ca"),
            (zookeeper.with("ZOOKEEPER_AUTH_FILE", path), "zookeeper.auth-file"),
        ] {
            for arguments in [&["check"][..], &[]] {
                let state = folder.path().join("state");
                let home = home.clone().with("STATE_DIR", state.to_str().unwrap());
                let (code, _, text) = leafd(&home, arguments);
                assert_eq!(code, Some(78), "{arguments:?}, {key}: {text}");
                for part in [path, key, "leafd reads regular files only; name a regular file"] {
                    assert!(text.contains(part), "{part:?} is not in {text}");
                }
            }
        }
    }
}

#[test]
fn the_environment_overrides_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), "[worker]\nid = 3\n[socket]\nmax-in-flight = 5\n");
    let home = Home::new(folder.path()).with("CONFIG", path.to_str().unwrap());
    let homes = [(home.clone(), 3), (home.with("WORKER_ID", "7"), 7)];
    for (starts, (home, worker)) in (1..).zip(homes) {
        let folder = tempfile::tempdir().unwrap();
        let home = home.with("STATE_DIR", folder.path().to_str().unwrap());
        let daemon = home.start();
        assert_eq!(daemon.client().status().unwrap().snowflake.worker, Some(worker));
        home.log().wait_times(path.to_str().unwrap(), starts);
        daemon.stop();
    }
}

#[test]
fn the_printed_default_configuration_is_valid_and_starts_leafd() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let (code, text, _) = leafd(&home, &["default-config"]);
    assert_eq!(code, Some(0));
    let path = file(folder.path(), text);
    let path = path.to_str().unwrap();
    let (code, text, error) = leafd(&home, &["check", "--config", path]);
    assert_eq!(code, Some(0), "{error}");
    assert!(text.contains(path), "{text}");
    let daemon = home.with("CONFIG", path).start();
    assert_eq!(daemon.client().next("orders").unwrap(), 1);
    daemon.stop();
}

#[test]
fn leafd_serves_from_a_table_made_with_the_schema_that_it_prints() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let (code, schema, _) = leafd(&home, &["schema", "sqlite"]);
    assert_eq!(code, Some(0));
    std::fs::create_dir_all(home.state()).unwrap();
    let script = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); \
                  c.executescript(sys.stdin.read()); \
                  c.execute(\"INSERT INTO leaf_alloc (biz_tag, max_id, step) \
                             VALUES ('orders', 5001, 20)\"); c.commit()";
    let mut python = Command::new("python3")
        .args(["-c", script, home.state().join("leafd.db").to_str().unwrap()])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    python.stdin.take().unwrap().write_all(schema.as_bytes()).unwrap();
    assert!(python.wait().unwrap().success(), "{schema}");
    let daemon = home.start();
    let mut client = daemon.client();
    assert_eq!(client.next("orders").unwrap(), 5001);
    assert_eq!(client.tag_show("orders").unwrap().row_step, 20);
    assert_eq!(client.next("made on first use").unwrap(), 1);
    daemon.stop();
}

#[test]
fn a_wrong_command_line_is_refused_with_64_and_help_and_version_are_printed() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    for arguments in [&["--bogus"][..], &["bogus"], &["check", "bogus"], &["--config"]] {
        let (code, out, text) = leafd(&home, arguments);
        assert_eq!((code, out.as_str()), (Some(64), ""), "{arguments:?}: {text}");
        assert!(text.contains(arguments.last().unwrap()), "{arguments:?}: {text}");
    }
    for arguments in [&["--help"][..], &["-h"], &["check", "--help"], &["adopt", "-h"]] {
        let (code, out, error) = leafd(&home, arguments);
        assert_eq!((code, error.as_str()), (Some(0), ""), "{arguments:?}");
        assert!(out.contains("--config"), "{arguments:?}: {out}");
    }
    let (code, help, _) = leafd(&home, &["--help"]);
    assert_eq!(code, Some(0));
    for command in ["check", "schema", "default-config", "adopt", "hand-back", "audit"] {
        assert!(help.contains(command), "{command}: {help}");
    }
    for flag in ["--version", "-V"] {
        let (code, out, _) = leafd(&home, &[flag]);
        assert_eq!((code, out), (Some(0), format!("leafd {}\n", env!("CARGO_PKG_VERSION"))));
    }
}

/// TOML files that are not leafd's.
const OTHERS: [&str; 7] = [
    "Cargo.toml",
    "Cross.toml",
    "clippy.toml",
    "deny.toml",
    "rust-toolchain.toml",
    "rustfmt.toml",
    "pyproject.toml",
];

fn shipped(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            if name != "target" && !name.starts_with('.') {
                shipped(&path, found);
            }
        } else if path.extension().is_some_and(|end| end == "toml")
            && !OTHERS.contains(&name.as_str())
        {
            found.push(path);
        }
    }
}

#[test]
fn every_shipped_configuration_is_valid() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let mut found = Vec::new();
    shipped(workspace(), &mut found);
    assert!(!found.is_empty());
    for path in found {
        let (code, _, text) = leafd(&home, &["check", "--config", path.to_str().unwrap()]);
        assert_eq!(code, Some(0), "{}: {text}", path.display());
        println!("{} is valid", path.display());
    }
}

#[test]
fn a_check_without_secrets_ignores_missing_secrets_and_finds_every_other_problem() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let path = folder.path().join("leafd.toml");
    let store = "[store]\nkind = \"mysql\"\nurl = \"mysql://leaf@127.0.0.1/leaf\"\n\
                 password-file = \"/nonexistent/secret\"\n";
    let path_text = path.to_str().unwrap();
    let check = |more: &[&str]| leafd(&home, &[&["check", "--config", path_text], more].concat());
    std::fs::write(&path, store).unwrap();
    assert_eq!(check(&[]).0, Some(78));
    let (code, _, text) = check(&["--without-secrets"]);
    assert_eq!(code, Some(0), "{text}");
    std::fs::write(&path, format!("{store}[worker]\nid = 5000\n")).unwrap();
    assert_eq!(check(&["--without-secrets"]).0, Some(78));
}
