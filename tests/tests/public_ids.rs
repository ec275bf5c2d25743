//! Public IDs that leafd makes (`[public]`): who may encode, who may decode, and how keys change while leafd runs.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use leaf_client::wire::{Call, ErrorCode, Reply};
use leafd_tests::Daemon;
use leafd_tests::daemon::Home;
use leafd_tests::http::HttpPlace;
use leafd_tests::openapi;
use leafd_tests::other_user::{OtherUser, open_to_all};
use leafd_tests::raw::Raw;
use nix::sys::signal::Signal;
use serde_json::Value;

/// An application, and an operator at a support desk.
const APP: u32 = 61_301;
const DESK: u32 = 61_302;

const RULES: &str = "[{ name = 'desk', users = [61302], tags = ['orders'], snowflake = false, \
                     decode-public = true }, { name = 'all', users = ['*'] }]";

fn write_keys(path: &Path, text: &str, mode: u32) {
    // A file that is replaced as an operator would.
    let new = path.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::set_permissions(&new, Permissions::from_mode(mode)).unwrap();
    std::fs::rename(&new, path).unwrap();
}

fn key(id: char, byte: &str) -> String {
    format!("{id} {}1f\n", byte.repeat(31))
}

/// A home whose daemon has one key, and the file with it.
fn home(folder: &Path) -> (Home, std::path::PathBuf) {
    open_to_all(folder);
    let keys = folder.join("public-keys");
    write_keys(&keys, &key('0', "2a"), 0o600);
    let home = Home::new(folder)
        .with_time_for_the_disk()
        .with_http()
        .with("SOCKET_MODE", "0666")
        .with("PUBLIC_KEY_FILE", keys.to_str().unwrap());
    (home, keys)
}

fn leafctl(home: &Home, arguments: &[&str]) -> String {
    let (code, out, errors) = home.run("leafctl", arguments);
    assert_eq!(code, Some(0), "{arguments:?}: {errors}");
    out
}

/// Asks as root, on the Unix socket of HTTP.
fn curl(socket: &Path, method: &str, path: &str, status: u16) -> Value {
    let mut command = Command::new("curl");
    command.args(["--silent", "--write-out", "\\n%{http_code}", "--request", method]);
    command.args(["--header", "Content-Type: application/json", "--unix-socket"]).arg(socket);
    let output = command.arg(format!("http://localhost{path}")).output().expect("curl");
    let text = String::from_utf8(output.stdout).unwrap();
    let (body, code) = text.rsplit_once('\n').unwrap();
    assert_eq!(code, status.to_string(), "{path}: {body}");
    openapi::check(method, path, status, content_type(status), body.as_bytes());
    serde_json::from_str(body).unwrap()
}

const fn content_type(status: u16) -> &'static str {
    if status < 400 { "application/json" } else { "application/problem+json" }
}

fn reload(daemon: &Daemon, line: &str, times: usize) {
    daemon.send(Signal::SIGHUP);
    daemon.home().log().wait_times(line, times);
}

#[test]
fn leafd_and_a_key_file_make_and_read_the_same_public_ids() {
    let folder = tempfile::tempdir().unwrap();
    let (home, keys) = home(folder.path());
    let daemon = home.start();
    let keys = keys.to_str().unwrap();
    let mut client = daemon.client();
    for tag in ["orders", "größe", ""] {
        let ids = [0, 17, (1 << 53) + 1, i64::MAX as u64];
        let texts = client.public_encode(tag, &ids).unwrap();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        assert_eq!(client.public_decode(tag, &texts).unwrap(), ids, "{tag}");
        for (text, id) in texts.iter().zip(ids) {
            let mut arguments = vec!["decode", "--json", "--as", "public", "--keys", keys, text];
            arguments.extend(if tag.is_empty() { vec![] } else { vec!["--tag", tag] });
            let out: Value = serde_json::from_str(&leafctl(&home, &arguments)).unwrap();
            assert_eq!(out["id"], id.to_string(), "{tag} {text}");
        }
    }
    // Without a key file, leafctl has leafd do it.
    let text = leafctl(&home, &["next", "orders", "-n", "2", "--as", "ord_public"]);
    let texts: Vec<&str> = text.lines().collect();
    for (text, id) in texts.iter().zip([1, 2]) {
        assert!(text.starts_with("ord_0") && text.len() == 19, "{text}");
        for with in [&[][..], &["--keys", keys][..]] {
            let decode = ["decode", "--as", "ord_public", "--tag", "orders", text];
            let out = leafctl(&home, &[&decode[..], with].concat());
            assert!(
                out.starts_with(&format!("id          {id}\nform        ord_public\n")),
                "{out}"
            );
        }
    }
    let snowflake = leafctl(&home, &["snowflake", "--as", "public", "--json"]);
    let snowflake: Value = serde_json::from_str(&snowflake).unwrap();
    let text = snowflake["text"].as_str().unwrap();
    let out = leafctl(&home, &["decode", "--as", "public", "--json", text]);
    let out: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&out["id"], &out["worker"]), (&snowflake["id"], &Value::from(0)));
    let (code, out, errors) = home.run("leafctl", &["decode", "--as", "public", "not-one"]);
    assert_eq!((code, out.as_str()), (Some(64), ""), "{errors}");
    assert!(errors.contains("\"not-one\": character 2 is 'o': write 0"), "{errors}");
    daemon.stop();
}

#[test]
fn a_caller_that_may_get_ids_may_encode_them_and_decodes_only_by_a_rule_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let (home, _) = home(folder.path());
    let home = home.with("ACCESS_RULES", RULES);
    let daemon = home.start();
    let (app, desk) = (OtherUser::new(APP, APP), OtherUser::new(DESK, DESK));
    let run = |user: &OtherUser, arguments: &[&str]| {
        let output = user.leafctl(folder.path(), &home.socket(), arguments);
        let text = |bytes| String::from_utf8(bytes).unwrap().trim_end().to_owned();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (code, order, errors) = run(&app, &["next", "orders", "--as", "public"]);
    assert_eq!(code, Some(0), "{errors}");
    let (_, bill, _) = run(&app, &["next", "bills", "--as", "public"]);
    let decode = |tag| ["decode", "--as", "public", "--layout", "leaf", "--tag", tag];
    let (code, out, errors) = run(&app, &[&decode("orders")[..], &[&order]].concat());
    assert_eq!((code, out.as_str()), (Some(64), ""));
    assert!(errors.contains("206 Forbidden") && errors.contains("decode public IDs"), "{errors}");
    let (code, out, errors) = run(&desk, &[&decode("orders")[..], &[&order]].concat());
    assert_eq!(code, Some(0), "{errors}");
    assert!(out.starts_with("id          1\n"), "{out}");
    // Of other tags and of snowflake IDs the desk learns nothing.
    let (code, _, errors) = run(&desk, &[&decode("bills")[..], &[&bill]].concat());
    assert_eq!(code, Some(64), "{errors}");
    let snowflake = ["decode", "--as", "public", "--layout", "leaf", &order];
    assert_eq!(run(&desk, &snowflake).0, Some(64));
    assert_eq!(run(&desk, &["next", "bills", "--as", "public"]).0, Some(64));
    let ended = daemon.stop();
    let refused = ended.log().lines().filter(|line| line.contains("public-decode refused"));
    assert!(refused.clone().any(|line| line.contains("61301") && line.contains("orders")));
    assert!(refused.clone().any(|line| line.contains("61302")));
}

#[test]
fn a_quota_counts_each_public_id_as_an_id_so_numbers_are_not_found_by_trying_all() {
    let folder = tempfile::tempdir().unwrap();
    let (home, _) = home(folder.path());
    let daemon = home.clone().with("QUOTA_IDS_PER_SECOND", "40").start();
    let mut raw = Raw::greeted(&daemon.home().socket());
    let ids: Vec<u64> = (0..32).collect();
    let mut encode = || raw.ask(1, Call::PublicEncode { tag: "orders", ids: ids.clone() });
    let Reply::PublicIds(texts) = encode() else { panic!("the first list is within the quota") };
    // A slow machine gets some more lists through.
    let refused = (0..1000).map(|_| encode()).find(|reply| !matches!(reply, Reply::PublicIds(_)));
    let Some(Reply::Error(error)) = refused else { panic!("{refused:?}") };
    assert_eq!((error.code(), error.detail), (ErrorCode::QuotaExceeded, 40), "{error}");
    // Reading has its own rule.
    let public_ids = texts.iter().map(String::as_str).collect();
    let read = raw.ask(1, Call::PublicDecode { tag: "orders", public_ids });
    assert_eq!(read, Reply::PublicNumbers(ids.clone()));
    daemon.stop();
    // A quota of tags counts those of tags alone: snowflake IDs have none.
    let quota = "[{ tags = ['*'], ids-per-second = 40 }]";
    let daemon = home.with("QUOTA_IDS_PER_SECOND", "0").with("QUOTA_TAGS", quota).start();
    let mut raw = Raw::greeted(&daemon.home().socket());
    let mut encode = |tag| raw.ask(1, Call::PublicEncode { tag, ids: ids.clone() });
    assert!((0..100).all(|_| matches!(encode(""), Reply::PublicIds(_))));
    let refused =
        (0..1000).map(|_| encode("orders")).find(|reply| matches!(reply, Reply::Error(_)));
    let Some(Reply::Error(error)) = refused else { panic!("{refused:?}") };
    assert_eq!(error.code(), ErrorCode::QuotaExceeded, "{error}");
    daemon.stop();
}

#[test]
fn a_reload_puts_new_keys_in_force_and_a_wrong_file_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (home, keys) = home(folder.path());
    let daemon = home.start();
    let mut client = daemon.client();
    let old = client.public_encode("orders", &[17]).unwrap().concat();
    let both = format!("{}{}", key('1', "7b"), key('0', "2a"));
    write_keys(&keys, &both, 0o600);
    reload(&daemon, "configuration reloaded", 1);
    let new = client.public_encode("orders", &[17]).unwrap().concat();
    assert!(old.starts_with('0') && new.starts_with('1'), "{old} {new}");
    assert_eq!(client.public_decode("orders", &[&old, &new]).unwrap(), [17, 17]);
    for (text, mode, told) in [
        (both.as_str(), 0o644, "others than its owner can read"),
        ("1 7b7b\n", 0o600, "line 1"),
        ("", 0o600, "public-keys"),
    ] {
        write_keys(&keys, text, mode);
        daemon.send(Signal::SIGHUP);
        daemon.home().log().wait_for(told);
        assert_eq!(client.public_encode("orders", &[17]).unwrap().concat(), new, "{told}");
        let (code, _, errors) = home.run("leafd", &["check"]);
        assert_eq!(code, Some(78), "{errors}");
        assert!(errors.contains(told) && errors.contains("public.key-file"), "{errors}");
        assert!(!errors.contains("7b7b"), "{errors}");
    }
    // The old key is taken out of use.
    write_keys(&keys, &key('1', "7b"), 0o600);
    reload(&daemon, "configuration reloaded", 2);
    let error = client.public_decode("orders", &[&new, &old]).unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::BadPublicId), "{error}");
    assert!(error.to_string().contains("element 1"), "{error}");
    daemon.stop();
    write_keys(&keys, "nonsense\n", 0o600);
    let ended = home.spawn().wait();
    assert_eq!(ended.code(), Some(78), "{}", ended.log());
}

#[test]
fn http_gives_public_ids_and_reads_them_for_those_who_may() {
    let folder = tempfile::tempdir().unwrap();
    let (home, _) = home(folder.path());
    let home = home.with_http_socket();
    let rules = "[{ name = 'web', http = true }, { name = 'all', users = ['*'] }]";
    let daemon = home.with("ACCESS_RULES", rules).start();
    let place = HttpPlace::of(daemon.home());
    let ids = place.send("POST", "/v1/segment/orders?count=2&as=ord_public", "").expect(200).json();
    let (first, second) = (ids["ids"][0].as_str().unwrap(), ids["ids"][1].as_str().unwrap());
    let mut client = daemon.client();
    let bare = [first, second].map(|text| text.strip_prefix("ord_").unwrap());
    assert_eq!(client.public_decode("orders", &bare).unwrap(), [1, 2]);
    let plain = place.get("/api/segment/get/orders?as=public").expect(200).text().to_owned();
    assert_eq!(client.public_decode("orders", &[&plain]).unwrap(), [3]);
    let path = format!("/v1/decode/{first}?as=ord_public&tag=orders");
    let problem = place.get(&path).expect(403).json();
    assert!(problem["detail"].as_str().unwrap().contains("decode public IDs"), "{problem}");
    // Root may, on the socket of HTTP.
    let socket = daemon.home().http_socket();
    let read = curl(&socket, "GET", &path, 200);
    assert_eq!((&read["id"], &read["form"]), (&Value::from("1"), &Value::from("ord_public")));
    assert!(read.get("worker").is_none(), "an ID of a tag has no parts: {read}");
    let snowflake = curl(&socket, "POST", "/v1/snowflake?as=public", 200);
    let text = snowflake["ids"][0].as_str().unwrap();
    let read = curl(&socket, "GET", &format!("/v1/decode/{text}?as=public"), 200);
    assert_eq!(read["worker"], 0, "{read}");
    for (path, said) in [
        (format!("/v1/decode/{first}?as=x_public&tag=orders"), "the prefix is not"),
        ("/v1/decode/ord_05?as=ord_public".to_owned(), "2 characters instead of 15"),
        (format!("/v1/decode/{first}?tag=orders"), "tag goes with as=public"),
        ("/v1/decode/17?as=hex".to_owned(), "there is no form"),
        ("/v1/decode/17?as=base62".to_owned(), "17"),
    ] {
        let problem = curl(&socket, "GET", &path, 400);
        assert!(problem["detail"].as_str().unwrap().contains(said), "{path}: {problem}");
    }
    let read = curl(&socket, "GET", "/v1/decode/10000000000?as=base62", 200);
    assert_eq!(read["id"], "839299365868340224");
    daemon.stop();
}

#[test]
fn without_keys_nothing_is_issued_for_a_public_id() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let daemon = home.start();
    let mut client = daemon.client();
    let error = client.public_encode("orders", &[17]).unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::NotConfigured), "{error}");
    let error = client.public_decode("orders", &["05bgxcf99zvqqq6"]).unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::NotConfigured), "{error}");
    let (code, out, errors) = home.run("leafctl", &["next", "orders", "--as", "public"]);
    assert!(code != Some(0) && out.is_empty(), "{out}");
    assert!(errors.contains("--keys") && errors.contains("public.key-file"), "{errors}");
    assert_eq!(client.next("orders").unwrap(), 1);
    daemon.stop();
}
