//! What a page of somebody else can make a browser do: ask leafd in every way that browsers know, and
//! take no ID.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use leafd_tests::browser::Browser;
use leafd_tests::caller::wait_until;
use leafd_tests::daemon::Home;
use leafd_tests::http::HttpPlace;

/// Asks leafd at `LEAFD` in every way. Each is done when it has an outcome, whatever that is.
const FOREIGN: &str = r#"<!doctype html><title>foreign</title><body><script>
const leafd = "http://LEAFD";
window.open_ways = 0;
const way = (start) => { open_ways += 1; start(() => { open_ways -= 1; }); };
const paths = ["/api/segment/get/orders", "/api/snowflake/get/x"];
for (const path of paths) {
  for (const name of ["img", "script", "iframe", "embed"]) {
    way((done) => {
      const made = document.createElement(name);
      made.onload = made.onerror = done;
      made.src = leafd + path;
      document.body.append(made);
    });
  }
  way((done) => {
    const made = document.createElement("link");
    made.rel = "stylesheet";
    made.onload = made.onerror = done;
    made.href = leafd + path;
    document.head.append(made);
  });
  for (const mode of ["no-cors", "cors"]) {
    way((done) => fetch(leafd + path, { mode }).then(done, done));
  }
}
const posts = ["/v1/segment/orders", "/v1/snowflake", "/v1/tags"];
const document_ = '{"tag":"foreign"}';
for (const path of posts) {
  way((done) => fetch(leafd + path, { method: "POST", mode: "no-cors", body: document_ }).then(done, done));
  way((done) => fetch(leafd + path, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: document_,
  }).then(done, done));
  navigator.sendBeacon(leafd + path, document_);
}
way((done) => fetch(leafd + "/v1/events").then((answer) => { window.leaked = answer.status; done(); }, done));
for (const [method, path] of [["get", paths[0]], ["post", posts[0]]]) {
  way((done) => {
    const frame = document.createElement("iframe");
    frame.name = method;
    document.body.append(frame);
    const form = document.createElement("form");
    form.method = method;
    form.action = leafd + path;
    form.target = method;
    form.enctype = "text/plain";
    document.body.append(form);
    frame.onload = done;
    form.submit();
  });
}
</script>"#;

/// Serves `page` to whoever asks.
fn serve(page: String) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let page = page.clone();
            std::thread::spawn(move || answer(stream, &page));
        }
    });
    address
}

fn answer(mut stream: TcpStream, page: &str) {
    let mut lines = BufReader::new(stream.try_clone().expect("a descriptor")).lines();
    while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n";
    let _ = write!(stream, "{head}Content-Length: {}\r\n\r\n{page}", page.len());
}

#[test]
fn a_foreign_page_takes_no_id_in_any_way_that_a_browser_knows() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with_time_for_the_disk().with_http();
    let daemon = home.start();
    let place = HttpPlace::of(&home);
    let port = place.address().port();
    let foreign = serve(FOREIGN.replace("LEAFD", &place.address().to_string()));
    let browser = Browser::start();
    let mut last = place.leaf_id("orders");
    let issued = |place: &HttpPlace| {
        let status = place.get("/v1/status").expect(200).json();
        (status["snowflake"]["issued"].clone(), status["segments"]["issued"].clone())
    };
    // In the metrics, as the operator sees them.
    let refused = || {
        let metrics = place.get("/metrics").expect(200);
        let counts = metrics.text().lines().filter(|line| {
            line.starts_with("leafd_requests_total{call=\"unknown\"")
                && line.contains("code=\"206\"")
        });
        let counts = counts.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        counts.sum::<f64>()
    };
    // Another port of the same site, another site, and a name that leads to this host.
    for name in ["127.0.0.1", "localhost", "rebound.example"] {
        let (before, asked) = (issued(&place), refused());
        browser.open(&format!("http://{name}:{}/", foreign.port()));
        browser.wait_for("each way has an outcome", "return window.open_ways === 0");
        assert_eq!(browser.run("return window.leaked ?? null"), serde_json::Value::Null);
        assert_eq!(issued(&place), before, "as {name}");
        wait_until(&home, "the requests arrive", || refused() > asked + 10.0);
        // A link.
        browser.run(&format!(
            "location.href = 'http://127.0.0.1:{port}/api/segment/get/orders'; return 1"
        ));
        browser.wait_for(
            "the link leads to a refusal",
            "return document.body.innerText.includes('403')",
        );
        let next = place.leaf_id("orders");
        assert_eq!(next, last + 1, "as {name}");
        last = next;
    }
    // A page whose name was pointed at this host after the browser had loaded it: for the browser,
    // leafd is its own server.
    browser.open(&format!("http://rebound.example:{port}/"));
    browser.wait_for("the name is refused", "return document.body.innerText.includes('421')");
    browser.run(
        "window.found = []; \
         for (const path of ['/api/segment/get/orders', '/v1/events', '/v1/tags', '/v1/status']) \
         fetch(path).then(a => found.push(a.status)); \
         fetch('/v1/segment/orders', {method: 'POST', headers: {'Content-Type': 'application/json'}}) \
         .then(a => found.push(a.status)); return 1",
    );
    browser.wait_for("all answers", "return found.length === 5");
    assert_eq!(browser.run("return found"), serde_json::json!([421, 421, 421, 421, 421]));
    assert_eq!(place.leaf_id("orders"), last + 1);
    // Leaf's route typed into the address bar is the user's own wish.
    browser.open(&format!("http://127.0.0.1:{port}/api/segment/get/orders"));
    browser.wait_for("an ID", &format!("return document.body.innerText === '{}'", last + 2));
    let tags = daemon.client().status().unwrap().segments.tags;
    assert_eq!(tags, 1, "no page has created a tag");
    daemon.stop();
}

#[test]
fn no_page_may_frame_the_page_of_leafd() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with_time_for_the_disk().with_http();
    let daemon = home.start();
    let place = HttpPlace::of(&home);
    for path in ["/", "/cache", "/db", "/page.js", "/page.css"] {
        let answer = place.get(path).expect(200);
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'"), "{policy}");
        assert!(
            policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"),
            "{policy}"
        );
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        let from = "Sec-Fetch-Site: cross-site\r\n";
        let framed = place.connect().ask("GET", path, from);
        framed.expect(403);
    }
    let html = place.get("/").expect(200);
    for outside in ["http:", "https:", "//", "style=", "onclick"] {
        assert!(!html.text().contains(outside), "{outside}");
    }
    daemon.stop();
}
