//! Who may what by HTTP: rules, tokens, quotas, and what a browser may not do for a foreign page.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use leafd_tests::daemon::Home;
use leafd_tests::http::{HttpAnswer, HttpPlace};
use leafd_tests::other_user::{OtherUser, open_to_all};
use nix::sys::signal::Signal;
use serde_json::Value;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const UNKNOWN: u32 = 61_235;

fn home(folder: &Path, rules: &str) -> Home {
    open_to_all(folder);
    let home = Home::new(folder).with_time_for_the_disk().with_http().with_http_socket();
    home.with("ACCESS_RULES", rules)
}

/// Writes a token that only leafd's user can read.
fn token_file(folder: &Path, name: &str, token: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, format!("{token}\n")).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    path.to_str().unwrap().to_owned()
}

/// What a caller may do: IDs of two tags, snowflake IDs, status, administration.
fn may(ask: impl Fn(&str, &str) -> HttpAnswer) -> [u16; 5] {
    [
        ask("GET", "/api/segment/get/orders").status,
        ask("POST", "/v1/segment/bills").status,
        ask("POST", "/v1/snowflake").status,
        ask("GET", "/v1/status").status,
        ask("GET", "/v1/tags").status,
    ]
}

fn by(place: &HttpPlace) -> impl Fn(&str, &str) -> HttpAnswer {
    move |method, path| match method {
        "GET" => place.get(path),
        _ => place.send(method, path, ""),
    }
}

fn with_token<'a>(place: &'a HttpPlace, token: &str) -> impl Fn(&str, &str) -> HttpAnswer + 'a {
    let token = token.to_owned();
    move |method, path| {
        let mut client = place.connect().with_token(&token);
        match method {
            "GET" => client.get(path),
            _ => client.send(method, path, ""),
        }
    }
}

/// What another user of this host may do on the Unix socket.
fn as_user<'a>(user: &'a OtherUser, socket: &'a Path) -> impl Fn(&str, &str) -> HttpAnswer + 'a {
    move |method, path| {
        let mut command: Command = user.command();
        command.args(["curl", "--silent", "--include", "--request", method]);
        command.args(["--header", "Content-Type: application/json", "--unix-socket"]).arg(socket);
        let output = command.arg(format!("http://localhost{path}")).output().expect("curl");
        let text = String::from_utf8(output.stdout).unwrap();
        let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.unwrap_or_else(|| panic!("{text} {:?}", output.stderr));
        HttpAnswer { status, headers: Vec::new(), body: text.into_bytes() }
    }
}

#[test]
fn without_rules_whoever_connects_gets_ids_and_only_root_administers() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path(), "[]");
    let daemon = home.start();
    assert_eq!(may(by(&HttpPlace::of(&home))), [200, 200, 200, 200, 403]);
    let socket = home.http_socket();
    let user = OtherUser::new(UNKNOWN, UNKNOWN);
    assert_eq!(may(as_user(&user, &socket)), [200, 200, 200, 200, 403]);
    assert_eq!(may(by(&HttpPlace::Socket(socket))), [200, 200, 200, 200, 200]);
    daemon.stop();
}

#[test]
fn with_rules_only_one_with_http_grants_callers_by_tcp_anything() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path(), "[{ users = ['*'], administer = true }]");
    let daemon = home.start();
    let place = HttpPlace::of(&home);
    assert_eq!(may(by(&place)), [403; 5]);
    let refused = place.get("/api/segment/get/orders").expect_error(403, "Forbidden").json();
    assert!(refused["detail"].as_str().unwrap().contains("no rule has http = true"), "{refused}");
    // Health is for everybody, under any name.
    for path in ["/livez", "/readyz"] {
        let mut probe = place.connect().with_headers("Host: kubelet.example\r\n");
        probe.get(path).expect(200);
    }
    // SECURITY.md, http.md and the manifests say so.
    for open in [
        "/metrics",
        "/openapi.json",
        "/v1/decode/1",
        "/decodeSnowflakeId?snowflakeId=1",
        "/",
        "/cache",
        "/db",
        "/page.css",
        "/page.js",
    ] {
        let answer = place.get(open);
        assert_eq!(answer.status, 200, "{open}: {answer:?}");
    }
    for closed in ["/api/snowflake/get/x", "/v1/events", "/v1/workers"] {
        place.get(closed).expect_error(403, "Forbidden");
    }
    let socket = home.http_socket();
    let user = OtherUser::new(UNKNOWN, UNKNOWN);
    assert_eq!(may(as_user(&user, &socket)), [200, 200, 200, 200, 200]);
    daemon.stop();
}

#[test]
fn the_start_names_a_request_that_works_under_the_rules() {
    let id = "name = 'web', http = true";
    for (rules, hint) in [
        ("[]", "/api/segment/get/orders"),
        ("[{ users = ['*'] }]", "/livez"),
        (&format!("[{{ {id} }}]"), "/api/segment/get/orders"),
        (&format!("[{{ {id}, tags = ['bills'] }}]"), "/api/snowflake/get/x"),
        (&format!("[{{ {id}, tags = ['bills'], snowflake = false }}]"), "/livez"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let home = home(folder.path(), rules);
        let daemon = home.start();
        let place = HttpPlace::of(&home);
        let expected = format!("try: curl http://{}{hint}", place.address());
        assert!(home.log().wait_for("try: curl").contains(&expected), "{rules}: {}", home.log());
        place.get(hint).expect(200);
        daemon.stop();
    }
}

#[test]
fn a_rule_with_http_grants_its_tags_and_a_token_what_its_own_rule_grants() {
    let folder = tempfile::tempdir().unwrap();
    let file = token_file(folder.path(), "token", TOKEN);
    let home = home(
        folder.path(),
        "[{ name = 'web', http = true, tags = ['orders'], snowflake = false }, \
         { name = 'operators', tags = ['bills'], administer = true }]",
    );
    let home = home.with("HTTP_TOKENS", &format!("[{{ file = '{file}', rule = 'operators' }}]"));
    let daemon = home.start();
    let place = HttpPlace::of(&home);
    assert_eq!(may(by(&place)), [200, 403, 403, 200, 403]);
    assert_eq!(may(with_token(&place, TOKEN)), [403, 200, 200, 200, 200]);
    // A request without the token is nobody's again, on the same connection as well.
    let mut client = place.connect();
    for (shows, status) in [(false, 403), (true, 200), (false, 403), (true, 200)] {
        let token = format!("Authorization: bearer {TOKEN}\r\n");
        let answer = client.ask("GET", "/v1/tags", if shows { &token } else { "" });
        assert_eq!(answer.status, status);
    }
    // The token counts on the Unix socket as well: root shows that it acts as somebody else.
    let local = HttpPlace::Socket(home.http_socket());
    assert_eq!(may(with_token(&local, TOKEN)), [403, 200, 200, 200, 200]);
    let user = OtherUser::new(UNKNOWN, UNKNOWN);
    assert_eq!(may(as_user(&user, &home.http_socket())), [403; 5]);
    daemon.stop();
}

#[test]
fn the_audit_names_the_address_of_a_caller_by_tcp_and_the_user_of_one_on_the_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let file = token_file(folder.path(), "token", TOKEN);
    let home = home(folder.path(), "[{ name = 'operators', administer = true }]")
        .with("HTTP_TOKENS", &format!("[{{ file = '{file}', rule = 'operators' }}]"))
        .with("LOG_FORMAT", "json");
    let daemon = home.start();
    let place = HttpPlace::of(&home);
    let local = HttpPlace::Socket(home.http_socket());
    let delete = |place: &HttpPlace, token: Option<&str>| {
        let client = place.connect();
        let mut client = match token {
            Some(token) => client.with_token(token),
            None => client,
        };
        client.send("DELETE", "/v1/tags/orders", "").status
    };
    let asked = [
        delete(&place, None),
        delete(&place, Some(TOKEN)),
        delete(&local, None),
        delete(&local, Some(TOKEN)),
    ];
    assert_eq!(asked, [403, 404, 404, 404]);
    // What HTTP refuses by itself leaves no line, as monitor.md says.
    assert_eq!(delete(&place, Some("wrong")), 401);
    let foreign =
        place.connect().with_headers("Host: localhost\r\nOrigin: http://evil.example\r\n");
    for (mut client, status) in [(foreign, 403), (place.connect().with_token(TOKEN), 400)] {
        assert_eq!(client.send("POST", "/v1/tags", "[]").status, status);
    }
    let ended = daemon.stop();
    let lines = ended.log().lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let lines: Vec<_> = lines.filter(|line| line["target"] == "audit").collect();
    assert_eq!(lines.len(), 4, "{ended}");
    for (nth, (by_tcp, rule)) in
        [(true, None), (true, Some("operators")), (false, None), (false, Some("operators"))]
            .into_iter()
            .enumerate()
    {
        let line = &lines[nth];
        assert_eq!((&line["transport"], &line["action"]), (&"http".into(), &"tag-delete".into()));
        assert_eq!(line["rule"].as_str(), rule, "{line}");
        let address = line["address"].as_str().unwrap_or_default();
        assert_eq!(address.starts_with("127.0.0.1:"), by_tcp, "{line}");
        assert_eq!(line["uid"].as_u64(), (!by_tcp).then_some(0), "{line}");
    }
}

#[test]
fn wrong_tokens_are_refused_by_the_thousand_and_lock_nobody_out() {
    let folder = tempfile::tempdir().unwrap();
    let file = token_file(folder.path(), "token", TOKEN);
    let home = home(folder.path(), "[{ name = 'operators', administer = true }]")
        .with("HTTP_TOKENS", &format!("[{{ file = '{file}', rule = 'operators' }}]"));
    let daemon = home.start();
    let place = HttpPlace::of(&home);
    let mut limited = 0;
    for number in 0..1000 {
        let wrong = [&TOKEN[..31], "", "x", &format!("{TOKEN}{number}")][number % 4].to_owned();
        let answer = place.connect().with_token(&wrong).get("/v1/status");
        match answer.status {
            401 => assert_eq!(answer.header("www-authenticate"), Some("Bearer")),
            _ => {
                answer.expect(429);
                limited += 1;
            }
        }
        if number % 100 == 0 {
            place.connect().with_token(TOKEN).get("/v1/status").expect(200);
        }
    }
    assert!(limited > 0, "a thousand wrong tokens were not limited");
    for other in ["Basic bGVhZjpsZWFm", "Bearer", TOKEN, "Bearer  "] {
        let answer =
            place.connect().ask("GET", "/v1/status", &format!("Authorization: {other}\r\n"));
        assert!([401, 429].contains(&answer.status), "{other}: {answer:?}");
    }
    place.connect().with_token(TOKEN).get("/v1/tags").expect(200);
    let ended = daemon.stop();
    assert!(ended.count("tokens are not in http.tokens") <= 2, "{ended}");
    assert!(!ended.log().contains(TOKEN), "a token is in the log");
}

#[test]
fn a_reload_changes_rules_tokens_and_names_for_open_connections() {
    let folder = tempfile::tempdir().unwrap();
    let file = token_file(folder.path(), "token", TOKEN);
    let path = folder.path().join("leafd.toml");
    let write = |text: &str| std::fs::write(&path, text).unwrap();
    let token = format!("[[http.tokens]]\nfile = {file:?}\nrule = \"a\"\n");
    write("[[access.rules]]\nhttp = true\n");
    let home = Home::new(folder.path()).with_http().with("CONFIG", path.to_str().unwrap());
    let daemon = home.start();
    let place = HttpPlace::of(&home);
    let mut open = place.connect();
    open.get("/api/segment/get/orders").expect(200);
    let mut bearer = place.connect().with_token(TOKEN);
    assert_eq!(bearer.get("/v1/status").status, 401);
    write(&format!("[http]\nhosts = [\"leafd.example\"]\n{token}[[access.rules]]\nname = \"a\"\n"));
    daemon.send(Signal::SIGHUP);
    home.log().wait_for("configuration reloaded");
    open.get("/api/segment/get/orders").expect_error(403, "Forbidden");
    let mut bearer = place.connect().with_token(TOKEN);
    bearer.get("/api/segment/get/orders").expect(200);
    let named = format!("Host: leafd.example:80\r\nAuthorization: Bearer {TOKEN}\r\n");
    place.connect().with_headers(&named).get("/v1/status").expect(200);
    // Another token in the file counts from the next reload on.
    let other = TOKEN.replace('0', "9");
    token_file(folder.path(), "token", &other);
    daemon.send(Signal::SIGHUP);
    home.log().wait_times("configuration reloaded", 2);
    assert_eq!(place.connect().with_token(TOKEN).get("/v1/status").status, 401);
    place.connect().with_token(&other).get("/v1/status").expect(200);
    assert_eq!(bearer.try_ask("GET", "/v1/status", "\r\n").unwrap().status, 401);
    // A file that shows its token to others changes nothing.
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
    daemon.send(Signal::SIGHUP);
    home.log().wait_for("not reloaded, nothing has changed");
    place.connect().with_token(&other).get("/v1/status").expect(200);
    daemon.stop();
    let (code, _, text) = home.run("leafd", &["check"]);
    assert_eq!(code, Some(78), "{text}");
    assert!(text.contains("can be read by others"), "{text}");
}

#[test]
fn quotas_count_for_all_callers_by_http_together_and_apart_from_users() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path(), "[]").with("QUOTA_IDS_PER_SECOND", "50");
    let daemon = home.start();
    let place = HttpPlace::of(&home);
    place.send("POST", "/v1/segment/orders?count=51", "").expect_error(400, "BadCount");
    let mut refused = None;
    for _ in 0..1000 {
        let answer = place.send("POST", "/v1/segment/orders?count=50", "");
        if answer.status != 200 {
            refused = Some(answer);
            break;
        }
    }
    let refused = refused.expect("a refusal").expect_error(429, "QuotaExceeded").json();
    assert!((1..=1000).contains(&refused["retry_after_ms"].as_u64().unwrap()), "{refused}");
    assert_eq!(daemon.client().next("orders").unwrap() % 50, 1, "a user has a quota of its own");
    daemon.stop();
}

#[test]
fn a_foreign_page_a_foreign_name_and_a_form_take_no_id() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path(), "[]");
    let daemon = home.start();
    let place = HttpPlace::of(&home);
    assert_eq!(place.leaf_id("orders"), 1);
    let host = "Host: localhost\r\n";
    for (headers, status) in [
        (format!("{host}Origin: http://evil.example\r\n"), 403),
        (format!("{host}Origin: null\r\n"), 403),
        (format!("{host}Sec-Fetch-Site: cross-site\r\nSec-Fetch-Dest: image\r\n"), 403),
        (format!("{host}Sec-Fetch-Site: same-site\r\n"), 403),
        ("Host: evil.example\r\n".to_owned(), 421),
        ("Host: 127.0.0.1.evil.example\r\n".to_owned(), 421),
        (format!("{host}Host: localhost\r\n"), 400),
        (String::new(), 400),
    ] {
        for place in [&place, &HttpPlace::Socket(home.http_socket())] {
            let mut client = place.connect().with_headers(&headers);
            client.get("/api/segment/get/orders").expect(status);
            let mut client = place.connect().with_headers(&headers);
            client.send("POST", "/v1/segment/orders", "").expect(status);
        }
    }
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"] {
        let headers = format!("Content-Type: {kind}\r\nContent-Length: 0\r\n");
        place.connect().ask("POST", "/v1/segment/orders", &headers).expect(415);
    }
    place.connect().ask("POST", "/v1/segment/orders", "Content-Length: 0\r\n").expect(415);
    let gzip = "Content-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: 0\r\n";
    place.connect().ask("POST", "/v1/segment/orders", gzip).expect(415);
    // The method is wrong whatever the body is.
    place.connect().ask("DELETE", "/v1/segment/orders", "Content-Length: 0\r\n").expect(405);
    // leafd's own page may ask.
    let own = "Origin: http://localhost\r\nSec-Fetch-Site: same-origin\r\n";
    let own = place.connect().ask("GET", "/api/segment/get/orders", own).expect(200);
    assert_eq!(own.text(), "2", "no request above took an ID");
    daemon.stop();
}
