//! `leafctl` on the command line.

use std::process::Command;
use std::time::{Duration, Instant};

use leafd_tests::daemon::Home;
use serde_json::Value;

fn leafctl(home: &Home, arguments: &[&str]) -> (Option<i32>, String, String) {
    home.run("leafctl", arguments)
}

#[test]
fn the_first_commands_of_the_readme_print_what_it_shows() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let _daemon = home.start();
    let ask = |arguments: &[&str]| {
        let (code, out, errors) = leafctl(&home, arguments);
        assert_eq!((code, errors.as_str()), (Some(0), ""), "{arguments:?}");
        out
    };
    assert_eq!(ask(&["next", "orders"]), "1\n");
    assert_eq!(ask(&["next", "orders"]), "2\n");
    assert_eq!(ask(&["next", "orders", "--count", "5"]), "3\n4\n5\n6\n7\n");
    let id = ask(&["snowflake"]);
    let decoded: Value = serde_json::from_str(&ask(&["decode", id.trim(), "--json"])).unwrap();
    assert_eq!(decoded["worker"], 0, "{decoded}");
    assert_eq!(ask(&["snowflake", "--count", "250000"]).lines().count(), 250_000);
    let status: Value = serde_json::from_str(&ask(&["status", "--json"])).unwrap();
    let tag = &status["tags"][0];
    assert_eq!((&tag["tag"], &tag["position"]), (&Value::from("orders"), &Value::from(8)));
    assert!(ask(&["status"]).contains("orders"));
}

#[test]
fn decode_uses_leafds_layout_or_without_leafd_the_one_in_the_option() {
    let folder = tempfile::tempdir().unwrap();
    let layout = "42/9/12@1704067200000/1ms";
    let home = Home::new(folder.path()).with("SNOWFLAKE_LAYOUT", layout).with("WORKER_ID", "5");
    let daemon = home.start();
    let (_, id, _) = leafctl(&home, &["snowflake"]);
    let json = |arguments: &[&str]| -> (Value, String) {
        let (code, out, errors) = leafctl(&home, arguments);
        assert_eq!(code, Some(0), "{errors}");
        (serde_json::from_str(&out).unwrap(), errors)
    };
    let now = daemon.client().status().unwrap().snowflake.clock_unix_ms;
    let right = |decoded: &Value| {
        let ms = decoded["unix_ms"].as_u64().unwrap();
        decoded["worker"] == 5 && decoded["layout"] == layout && ms.abs_diff(now) < 3_600_000
    };
    let (decoded, errors) = json(&["decode", id.trim(), "--json"]);
    assert!(right(&decoded) && decoded["layout_from"] == "daemon", "{decoded}");
    assert_eq!(errors, "");
    daemon.stop();
    let (decoded, errors) = json(&["decode", id.trim(), "--json"]);
    assert_eq!(decoded["layout_from"], "assumed", "{decoded}");
    assert!(errors.contains("assumed") && errors.contains("--layout"), "{errors}");
    let (decoded, errors) = json(&["decode", id.trim(), "--json", "--layout", layout]);
    assert!(right(&decoded) && decoded["layout_from"] == "option", "{decoded}");
    assert_eq!(errors, "");
}

#[test]
fn leafctl_creates_changes_shows_and_lists_tags() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let _daemon = home.start();
    let create = ["tag", "create", "users", "--step", "500", "--first", "100"];
    assert_eq!(leafctl(&home, &create).0, Some(0));
    let (code, _, errors) = leafctl(&home, &create);
    assert_eq!(code, Some(64));
    assert!(errors.contains("users"), "{errors}");
    assert_eq!(leafctl(&home, &["next", "users"]).1, "100\n");
    assert_eq!(leafctl(&home, &["tag", "set-step", "users", "900"]).0, Some(0));
    let (_, shown, _) = leafctl(&home, &["tag", "show", "users", "--json"]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["row_step"], 900, "{shown}");
    assert!(leafctl(&home, &["tag", "list"]).1.contains("users"));
}

#[test]
fn worker_ids_from_the_configuration_are_neither_listed_nor_released() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let _daemon = home.start();
    for arguments in [
        &["worker", "list"][..],
        &["worker", "list", "--json"],
        &["worker", "release", "0"],
        &["worker", "release", "0", "--owner", "10.0.0.7:2182", "--json"],
    ] {
        let (code, out, errors) = leafctl(&home, arguments);
        assert_eq!((code, out.as_str()), (Some(64), ""), "{arguments:?}: {errors}");
        assert!(errors.contains("NotConfigured") && errors.contains("worker.registry"), "{errors}");
    }
    assert_eq!(leafctl(&home, &["worker", "release"]).0, Some(64));
    let (code, help, _) = leafctl(&home, &["worker", "release", "--help"]);
    assert_eq!(code, Some(0));
    assert!(help.contains("never start again with its state directory"), "{help}");
}

#[test]
fn the_status_estimates_how_long_memory_lasts_under_load_and_not_for_an_unused_tag() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let daemon = home.start();
    let orders = || {
        let (code, out, errors) = leafctl(&home, &["status", "--json"]);
        assert_eq!((code, errors.as_str()), (Some(0), ""));
        let status: Value = serde_json::from_str(&out).unwrap();
        let tag = &status["tags"][0];
        assert_eq!(tag["tag"], "orders", "{status}");
        (tag["remaining"].as_u64().unwrap(), tag["seconds_left"].as_u64())
    };
    let mut client = daemon.client();
    let began = Instant::now();
    // A long pause of the machine between the two calls would make the tag look idle.
    let (remaining, seconds_left) = loop {
        client.next_many("orders", 1000).unwrap();
        let (remaining, seconds_left) = orders();
        if let Some(seconds_left) = seconds_left {
            break (remaining, seconds_left);
        }
        assert!(began.elapsed() < Duration::from_secs(60), "no figure under load");
    };
    println!("{remaining} IDs last {seconds_left} s");
    // The load was at least one ID per second.
    assert!(seconds_left <= remaining, "{seconds_left} s for {remaining} IDs");
    daemon.stop();
    let _daemon = home.start();
    let (remaining, seconds_left) = orders();
    assert!(remaining > 0);
    assert_eq!(seconds_left, None);
    let shown = leafctl(&home, &["tag", "show", "orders"]).1;
    assert!(shown.contains("\nlasts        idle\n"), "{shown}");
}

#[test]
fn the_exit_code_distinguishes_unavailability_from_wrong_use() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let (code, out, errors) = leafctl(&home, &["--timeout", "200ms", "next", "orders"]);
    assert_eq!((code, out.as_str()), (Some(69), ""));
    assert!(errors.contains(home.socket().to_str().unwrap()), "{errors}");
    assert_eq!(leafctl(&home, &["status"]).0, Some(69));
    assert_eq!(leafctl(&home, &["next"]).0, Some(64));
    assert_eq!(leafctl(&home, &["decode", "many"]).0, Some(64));
    let _daemon = home.start();
    let (code, out, errors) = leafctl(&home, &["next", &"x".repeat(129)]);
    assert_eq!((code, out.as_str()), (Some(64), ""));
    assert!(errors.contains("128"), "{errors}");
}

#[test]
fn a_reader_that_closes_the_pipe_ends_leafctl_silently() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let _daemon = home.start();
    let program = leafd_tests::binaries::program("leafctl");
    let line = format!("{} next orders --count 1000000 | head -n 1", program.display());
    let output =
        Command::new("sh").args(["-c", &line]).env("LEAFD_SOCKET", home.socket()).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "1\n");
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

#[test]
fn a_bench_verifies_every_id_and_prints_one_json_object() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let _daemon = home.start();
    for what in [&["--tag", "a"][..], &["--snowflake"], &["--tag", "b", "--count", "100"]] {
        let mut arguments = vec![
            "bench",
            "--connections",
            "3",
            "--in-flight",
            "16",
            "--duration",
            "1s",
            "--verify",
            "--json",
        ];
        arguments.extend(what);
        let (code, out, errors) = leafctl(&home, &arguments);
        assert_eq!(code, Some(0), "{out}{errors}");
        let result: Value = serde_json::from_str(&out).unwrap();
        assert!(result["requests_per_second"].as_f64().unwrap() > 0.0, "{result}");
        assert!(result["ids_per_second"].as_f64().unwrap() > 0.0, "{result}");
        assert!(result["latency_us"]["p99_9"].as_f64().unwrap() > 0.0, "{result}");
        assert_eq!(result["duplicates"], 0, "{result}");
        assert_eq!(result["errors"], 0, "{result}");
        println!("{what:?}: {} IDs verified", result["verified"]);
    }
}

#[test]
fn a_result_that_cannot_be_written_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let _daemon = home.start();
    for (program, arguments) in [
        ("leafctl", &["next", "orders", "--count", "3"][..]),
        ("leafctl", &["status"]),
        ("leafd", &["default-config"]),
    ] {
        for (redirection, why) in [(">&-", "Bad file descriptor"), (">/dev/full", "No space left")]
        {
            let script = format!("exec \"$0\" \"$@\" {redirection}");
            let home = home.clone().through(&["sh", "-c", &script]);
            let output = home.command(program).args(arguments).output().unwrap();
            let errors = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(74), "{arguments:?} {redirection}: {errors}");
            assert!(errors.contains(why), "{arguments:?} {redirection}: {errors}");
        }
        // A reader that closes the pipe is not an error.
        let home =
            home.clone().through(&["bash", "-c", "\"$0\" \"$@\" | exit; exit ${PIPESTATUS[0]}"]);
        let output = home.command(program).args(arguments).output().unwrap();
        assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{output:?}");
    }
}
