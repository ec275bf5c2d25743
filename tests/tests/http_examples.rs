//! The examples of the HTTP page, run as a reader would paste them, by bash and curl. Only the addresses
//! and the folder of credentials are those of the test.

use std::path::Path;
use std::process::Command;

use leafd_tests::binaries::workspace;
use leafd_tests::daemon::Home;
use leafd_tests::http::HttpPlace;
use leafd_tests::{manual, openapi};
use serde_json::Value;

fn page() -> String {
    std::fs::read_to_string(workspace().join("docs/operations/http.md")).unwrap()
}

/// The commands of the page's blocks of shell, with the answer that a comment shows behind each.
fn examples(page: &str) -> Vec<(String, Option<String>)> {
    let blocks = manual::blocks(page, "sh");
    let commands = blocks.iter().flat_map(|block| manual::commands(block));
    let commands = commands.map(|command| match command.split_once(" # ") {
        Some((command, answer)) => (command.trim_end().to_owned(), Some(answer.trim().to_owned())),
        None => (command, None),
    });
    commands.collect()
}

/// What curl got: its output, and the method, path, status and content type of the exchange.
#[derive(Debug)]
struct Got {
    body: String,
    method: String,
    path: String,
    status: u16,
    content_type: String,
}

/// Runs a line of shell in `folder`. curl says at the end what it has asked for.
fn run(line: &str, folder: &Path) -> Got {
    let script = format!(
        "curl() {{ command curl --silent --show-error --write-out \
         '\\n%{{method}} %{{url_effective}} %{{http_code}} %{{content_type}}' \"$@\"; }}\n{line}"
    );
    let mut bash = Command::new("bash");
    let output = bash.args(["-euc", &script]).current_dir(folder).output().expect("bash");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {errors}");
    let text = String::from_utf8(output.stdout).unwrap();
    let (body, facts) = text.rsplit_once('\n').unwrap_or_else(|| panic!("{line}: {text}"));
    let mut facts = facts.splitn(4, ' ').map(str::to_owned);
    let mut fact = || facts.next().unwrap_or_else(|| panic!("{line}: {text}"));
    let (method, url) = (fact(), fact());
    let path = url.splitn(4, '/').nth(3).unwrap_or_default();
    let status = fact().parse().unwrap();
    Got { body: body.to_owned(), method, path: format!("/{path}"), status, content_type: fact() }
}

/// Asserts that an answer is the one that a comment shows: exactly, but for the value of a snowflake ID.
fn is_as_shown(got: &Got, shown: &str) {
    let is_snowflake = |text: &str| text.len() >= 18 && text.parse::<u64>().is_ok();
    let is_same = match serde_json::from_str::<Value>(shown) {
        Ok(shown) if shown.is_object() => {
            shown == serde_json::from_str::<Value>(&got.body).unwrap()
        }
        _ if is_snowflake(shown) => is_snowflake(&got.body),
        _ => shown == got.body,
    };
    assert!(is_same, "the page shows {shown}, and leafd answers {got:?}");
}

#[test]
fn every_curl_example_gets_the_answer_that_the_page_shows() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with_time_for_the_disk().with_http().with_http_socket();
    let daemon = home.start();
    let address = HttpPlace::of(&home).address().to_string();
    let socket = home.http_socket();
    let examples = examples(&page());
    let mut shown = 0;
    for (line, answer) in &examples {
        if !line.starts_with("curl ") || line.contains("Bearer") {
            continue;
        }
        let line = line
            .replace("127.0.0.1:8736", &address)
            .replace("/run/leafd/http.sock", socket.to_str().unwrap());
        let got = run(&line, folder.path());
        assert_eq!(got.status, 200, "{line}: {got:?}");
        openapi::check(&got.method, &got.path, got.status, &got.content_type, got.body.as_bytes());
        if let Some(answer) = answer {
            is_as_shown(&got, answer);
            shown += 1;
        }
    }
    assert!(shown >= 3, "only {shown} examples with an answer: {examples:?}");
    daemon.stop();
}

#[test]
fn the_example_of_a_token_makes_one_that_leafd_takes() {
    let folder = tempfile::tempdir().unwrap();
    let credentials = folder.path().join("credentials");
    std::fs::create_dir(&credentials).unwrap();
    let page = page();
    let examples = examples(&page);
    let with = |part: &str| {
        let found = examples.iter().find(|(line, _)| line.contains(part));
        &found.unwrap_or_else(|| panic!("no example with {part}")).0
    };
    let make = with("openssl").replace("/etc/credstore", credentials.to_str().unwrap());
    let made = Command::new("bash").args(["-euc", &make]).status().expect("bash");
    assert!(made.success(), "{make}");
    let rules = manual::blocks(&page, "toml");
    let rules = rules.iter().find(|block| block.contains("[[http.tokens]]")).expect("the rule");
    let config = folder.path().join("leafd.toml");
    std::fs::write(&config, rules).unwrap();
    let home = Home::new(folder.path())
        .with_time_for_the_disk()
        .with_http()
        .with("CONFIG", config.to_str().unwrap())
        .with_variable("CREDENTIALS_DIRECTORY", credentials.to_str().unwrap());
    let daemon = home.start();
    let address = HttpPlace::of(&home).address().to_string();
    let ask = with("Bearer").replace("127.0.0.1:8736", &address);
    let token = credentials.join("http-token-operators");
    let good = run(&ask.replace("cat token", &format!("cat {}", token.display())), folder.path());
    assert_eq!(good.status, 200, "{good:?}");
    openapi::check(&good.method, &good.path, good.status, &good.content_type, good.body.as_bytes());
    let bad = run(&ask.replace("$(cat token)", &"0".repeat(64)), folder.path());
    assert_eq!(bad.status, 401, "{bad:?}");
    daemon.stop();
}

#[test]
fn no_example_of_the_page_is_left_out() {
    let examples = examples(&page());
    let left: Vec<_> = examples
        .iter()
        .map(|(line, _)| line.as_str())
        .filter(|line| !line.starts_with("curl ") && !line.contains("openssl"))
        .collect();
    // This one opens an editor.
    assert_eq!(left, ["systemctl edit leafd.service"]);
}
