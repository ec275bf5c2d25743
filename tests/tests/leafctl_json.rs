//! `leafctl` for programs: results as JSON on stdout, errors as JSON on stderr, and IDs as strings.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

use leafd_tests::daemon::Home;
use serde_json::{Value, json};

/// Runs leafctl and parses everything that it prints: on stdout and on stderr, one JSON value per line.
fn leafctl(home: &Home, arguments: &[&str]) -> (Option<i32>, Vec<Value>, Vec<Value>) {
    let (code, out, errors) = home.run("leafctl", arguments);
    let values = |text: &str| {
        let value = |line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{text}"));
        text.lines().map(value).collect::<Vec<Value>>()
    };
    (code, values(&out), values(&errors))
}

/// The one error that leafctl prints, without its message.
fn failed(home: &Home, arguments: &[&str]) -> (i32, Value) {
    let (code, out, mut errors) = leafctl(home, arguments);
    assert_eq!((out.len(), errors.len()), (0, 1), "{arguments:?}: {out:?} {errors:?}");
    let mut error = errors.remove(0);
    let fields = error.as_object_mut().unwrap();
    let message = fields.remove("message").unwrap();
    assert!(!message.as_str().unwrap().trim().is_empty(), "{arguments:?}");
    (code.unwrap(), error)
}

#[test]
fn ids_are_strings_one_object_per_line() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let daemon = home.start();
    // Above 2^53, where programs that read numbers as floating point would round.
    let first = "9007199254740993";
    assert_eq!(leafctl(&home, &["tag", "create", "orders", "--first", first, "--json"]).0, Some(0));
    let (code, ids, errors) = leafctl(&home, &["next", "orders", "--count", "2", "--json"]);
    assert_eq!((code, errors.len()), (Some(0), 0));
    let expected = |id: &str| json!({ "tag": "orders", "id": id });
    assert_eq!(ids, [expected(first), expected("9007199254740994")]);
    let (code, ids, _) = leafctl(&home, &["snowflake", "-n", "3", "--json"]);
    assert_eq!((code, ids.len()), (Some(0), 3));
    let id = ids[2]["id"].as_str().expect("a string");
    let (code, decoded, _) = leafctl(&home, &["decode", id, "--json"]);
    assert_eq!((code, &decoded[0]["id"]), (Some(0), &ids[2]["id"]));
    assert_eq!(decoded[0]["worker"], 0);
    daemon.stop();
}

#[test]
fn a_health_check_has_a_result_whether_it_passes_or_fails() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let daemon = home.start();
    let healthy = json!({ "ok": true, "checked": "live", "message": "leafd answers" });
    assert_eq!(leafctl(&home, &["health", "--json"]), (Some(0), vec![healthy], vec![]));
    let ready = json!({ "ok": true, "checked": "ready", "message": "leafd is ready" });
    assert_eq!(leafctl(&home, &["health", "--ready", "--json"]), (Some(0), vec![ready], vec![]));
    daemon.stop();
    let (code, out, errors) = leafctl(&home, &["health", "--json"]);
    assert_eq!(
        (code, &out[0]["ok"], &errors[0]["name"]),
        (Some(69), &json!(false), &json!("Unavailable"))
    );
    assert_eq!(out[0]["message"], errors[0]["message"]);
}

#[test]
fn an_error_is_one_json_object_on_stderr_with_leafds_number_name_and_time_to_wait() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with("SEGMENT_WAIT", "100ms");
    home.break_store();
    let daemon = home.start();
    let (code, mut error) = failed(&home, &["next", "orders", "--json"]);
    let wait = error["retry_after_ms"].take();
    assert_eq!(code, 69, "{error}");
    assert!(wait.as_u64().is_some_and(|wait| wait > 0), "{wait} of {error}");
    let fields = json!({
        "code": 302, "name": "StoreUnavailable", "retry_after_ms": null, "exit_status": 69
    });
    assert_eq!(error, fields);
    let own = |name: &str, status: i32| json!({ "code": null, "name": name, "retry_after_ms": null, "exit_status": status });
    // leafctl finds these itself, some of them in the command line.
    for arguments in [
        &["decode", "many", "--json"][..],
        &["next", "--json"],
        &["next", "orders", "--json", "--count", "0"],
        &["next", "orders", "--json", "--yaml"],
        &["frobnicate", "--json"],
    ] {
        assert_eq!(failed(&home, arguments), (64, own("Usage", 64)), "{arguments:?}");
    }
    let (code, error) = failed(&home, &["worker", "list", "--json"]);
    assert_eq!((code, &error["code"], &error["name"]), (64, &json!(207), &json!("NotConfigured")));
    daemon.stop();
    let absent = failed(&home, &["--timeout", "100ms", "snowflake", "--json"]);
    assert_eq!(absent, (69, own("Unavailable", 69)));
    // After `--`, it is a value.
    let (code, _, errors) = home.run("leafctl", &["--timeout", "100ms", "next", "--", "--json"]);
    assert_eq!(code, Some(69));
    assert!(errors.starts_with("leafctl: "), "{errors}");
}

#[test]
fn an_unknown_option_is_not_taken_for_a_value() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    for (program, arguments) in [
        ("leafctl", &["next", "orders", "--yaml"][..]),
        ("leafctl", &["tag", "show", "--wide"]),
        ("leafd", &["check", "--json"]),
        ("leafd", &["audit", "--wide"]),
    ] {
        let (code, out, errors) = home.run(program, arguments);
        assert_eq!((code, out.as_str()), (Some(64), ""), "{errors}");
        assert!(errors.contains("unexpected argument"), "{errors}");
        assert!(!errors.contains("as a value"), "a wrong tip: {errors}");
    }
}

#[test]
fn decode_answers_each_line_of_standard_input_as_it_comes() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let mut command = home.command("leafctl");
    command.args(["decode", "-", "--layout", "leaf", "--json"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    fn answer(reader: &mut impl BufRead) -> Value {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?}"))
    }
    // Each answer comes before the next question is written.
    for (text, sequence) in [("1\n", 1), ("\n\n2\r\n", 2), (" 4095\n", 4095)] {
        stdin.write_all(text.as_bytes()).unwrap();
        assert_eq!(answer(&mut out)["sequence"], sequence);
    }
    stdin.write_all(b"none\n").unwrap();
    let wrong = answer(&mut errors);
    assert_eq!((&wrong["line"], &wrong["name"]), (&json!(6), &json!("Usage")), "{wrong}");
    assert!(wrong["message"].as_str().unwrap().contains("\"none\" is not an ID"), "{wrong}");
    stdin.write_all(b"3").unwrap();
    drop(stdin);
    assert_eq!(answer(&mut out)["sequence"], 3);
    assert_eq!(child.wait().unwrap().code(), Some(64));
    let (mut rest, mut last) = (String::new(), String::new());
    out.read_to_string(&mut rest).unwrap();
    errors.read_to_string(&mut last).unwrap();
    assert_eq!(rest, "");
    assert!(last.contains("1 of 5 lines are not IDs"), "{last}");
}

#[test]
fn decode_reads_a_long_pipe_and_ends_silently_when_its_reader_does() {
    let program = leafd_tests::binaries::program("leafctl");
    let decode = format!("{} decode - --layout leaf", program.display());
    let run = |line: &str| {
        let output = Command::new("bash").args(["-c", line]).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (code, out, errors) = run(&format!("seq 100000 | {decode} --json | wc -l"));
    assert_eq!((code, out.trim(), errors.as_str()), (Some(0), "100000", ""));
    let (_, out, errors) = run(&format!("yes 1 | head -n 1000000 | {decode} | head -n 1"));
    assert_eq!((out.as_str(), errors.as_str()), ("id          1\n", ""));
    // What is not text is no ID either.
    let (code, out, errors) = run(&format!("head -c 100000 /dev/zero | tr '\\0' x | {decode}"));
    assert_eq!((code, out.as_str()), (Some(64), ""));
    assert!(errors.starts_with("leafctl: line 1: ") && errors.len() < 10_000, "{}", errors.len());
}

#[test]
fn version_prints_leafctls_and_leafds_and_without_leafd_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let daemon = home.start();
    let own = env!("CARGO_PKG_VERSION");
    let socket = home.socket().display().to_string();
    let (code, out, errors) = leafctl(&home, &["version", "--json"]);
    let both = json!({ "leafctl": own, "leafd": own, "socket": socket, "error": null });
    assert_eq!((code, out, errors.len()), (Some(0), vec![both], 0));
    let (_, text, _) = home.run("leafctl", &["version"]);
    assert_eq!(text, format!("leafctl {own}\nleafd   {own} ({socket})\n"));
    daemon.stop();
    let (code, out, errors) = leafctl(&home, &["version", "--json"]);
    assert_eq!((code, errors.len()), (Some(0), 0));
    assert_eq!((&out[0]["leafctl"], &out[0]["leafd"]), (&json!(own), &Value::Null));
    assert!(out[0]["error"].as_str().unwrap().contains(&socket), "{}", out[0]);
    let (code, text, _) = home.run("leafctl", &["version"]);
    assert_eq!(code, Some(0));
    assert!(text.starts_with(&format!("leafctl {own}\nleafd   unknown: ")), "{text}");
}
