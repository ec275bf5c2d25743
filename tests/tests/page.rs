//! The page in a real browser: live, searchable, legible at every width, by keyboard and by screen
//! reader.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use leafd_tests::browser::{Browser, ENTER, TAB, axe};
use leafd_tests::daemon::Home;
use leafd_tests::http::HttpPlace;
use serde_json::Value;

const LIVE: &str = "return document.querySelector('#link').classList.contains('up')";

fn home(folder: &Path) -> Home {
    Home::new(folder).with_time_for_the_disk().with_http()
}

fn url(home: &Home, path: &str) -> String {
    format!("http://{}{path}", HttpPlace::of(home).address())
}

/// The body of a function that tells whether the text of a cell of a tag fits a condition on `text`.
fn cell(tag: &str, label: &str, condition: &str) -> String {
    format!(
        "const row = [...document.querySelectorAll('#tag-rows tr')].find(r => r.dataset.key === '{tag}'); \
         if (!row) return false; \
         const text = row.querySelector('td[data-label=\"{label}\"]').textContent.replace(/\\D/g, ''); \
         return {condition};"
    )
}

/// Asks for IDs of a tag, one at a time, until the flag is set.
fn load(
    home: &Home,
    tag: &'static str,
    pause: std::time::Duration,
) -> (Arc<AtomicBool>, std::thread::JoinHandle<()>) {
    let stop = Arc::new(AtomicBool::new(false));
    let (stopped, options) = (Arc::clone(&stop), home.options());
    let load = std::thread::spawn(move || {
        let mut client = leaf_client::blocking::Client::new(options);
        while !stopped.load(Ordering::Relaxed) {
            client.next(tag).unwrap();
            std::thread::sleep(pause);
        }
    });
    (stop, load)
}

#[test]
fn the_page_shows_ids_as_they_move_and_decodes_one() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path());
    let daemon = home.start();
    let mut client = daemon.client();
    let first = client.next("orders").unwrap();
    let browser = Browser::start();
    browser.open(&url(&home, "/"));
    browser.wait_for("the page is live", LIVE);
    let position = first + 1;
    let shows = cell("orders", "Position", &format!("text === '{position}'"));
    browser.wait_for("the position", &shows);
    // Under load, it moves while somebody looks.
    let (stop, load) = load(&home, "orders", std::time::Duration::ZERO);
    let moved = cell("orders", "Position", &format!("Number(text) > {position}"));
    browser.wait_for("the position moves", &moved);
    let before: u64 =
        browser.run(&cell("orders", "Position", "Number(text)")).as_u64().expect("a position");
    let again = cell("orders", "Position", &format!("Number(text) > {before}"));
    browser.wait_for("the position moves again", &again);
    let rate = cell("orders", "IDs/s", "Number(text) > 0");
    browser.wait_for("a rate", &rate);
    stop.store(true, Ordering::Relaxed);
    load.join().unwrap();

    let id = client.snowflake().unwrap();
    browser.run("document.querySelector('#decode-id').focus(); return 1");
    browser.keys(&format!("{id}{ENTER}"));
    let decoded = HttpPlace::of(&home).get(&format!("/v1/decode/{id}")).expect(200).json();
    let time = decoded["time"].as_str().unwrap();
    let shown =
        format!("return document.querySelector('#decode-parts').textContent.includes('{time}')");
    browser.wait_for("the time of the ID", &shown);
    browser.keys(&format!("9999{ENTER}"));
    let refused = "return document.querySelector('#decode-parts .bad') !== null";
    browser.wait_for("what is no ID is refused", refused);
}

#[test]
fn the_page_says_since_when_leafd_is_away_and_goes_on_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let home =
        Home::new(folder.path()).with_time_for_the_disk().with("HTTP_LISTEN", &address.to_string());
    let daemon = home.start();
    daemon.client().next("orders").unwrap();
    let browser = Browser::start();
    // As Java Leaf's page.
    browser.open(&format!("http://{address}/cache"));
    browser.wait_for("the page is live", LIVE);
    daemon.kill();
    let away = "return document.querySelector('#link').textContent.includes('away since 20')";
    browser.wait_for("leafd is away", away);
    assert!(browser.text("#tag-rows").contains("orders"), "the last known tags stay");
    let daemon = home.start();
    browser.wait_for("the page is live again", LIVE);
    let id = daemon.client().next("after").unwrap();
    let shows = cell("after", "Position", &format!("text === '{}'", id + 1));
    browser.wait_for("a new tag", &shows);
    daemon.stop();
    browser.wait_for("leafd is away after a clean stop too", away);
}

#[test]
fn ten_thousand_tags_are_searched_sorted_and_paged() {
    const TAGS: u64 = 10_000;
    // In memory: 10,000 leases on a disk would take minutes.
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let home = home(folder.path());
    let daemon = home.start();
    let workers: Vec<_> = (0..8)
        .map(|lane| {
            let options = home.options().timeout(std::time::Duration::from_secs(60));
            std::thread::spawn(move || {
                let mut client = leaf_client::blocking::Client::new(options);
                for tag in (lane..TAGS).step_by(8) {
                    client.next(&format!("tag-{tag:05}")).unwrap();
                }
            })
        })
        .collect();
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    let ids: u32 = 100;
    daemon.client().next_many("tag-04321", ids).unwrap();

    // On pages far behind the first one, a tag runs out first, and the leases of another fail.
    let (stop, load) = load(&home, "tag-04321", std::time::Duration::from_millis(10));
    home.sql("UPDATE leaf_alloc SET step = -1 WHERE biz_tag = 'tag-07777'");
    let _ = daemon.client().next_many("tag-07777", 100_000);

    let browser = Browser::start();
    browser.open(&url(&home, "/"));
    let count = |text: &str| {
        format!(
            "return document.querySelector('#count').textContent.replace(/\\u202f/g, '') === '{text}'"
        )
    };
    browser.wait_for("all tags", &count("10000 tags, page 1 of 200"));
    let first = |tag: &str| {
        format!("return document.querySelector('#tag-rows tr')?.dataset.key === '{tag}'")
    };
    browser.wait_for("the first tag", &first("tag-00000"));
    browser.run("document.querySelector('#next').click(); return 1");
    browser.wait_for("the second page", &first("tag-00050"));
    let failing = "return document.querySelector('#failing').textContent === '1 tag failing'";
    browser.wait_for("a tag that fails is counted", failing);
    browser.run("document.querySelector('#failing').click(); return 1");
    browser.wait_for("it comes first", &first("tag-07777"));
    let lowest = "return document.querySelector('#lowest').textContent.includes('tag-04321')";
    browser.wait_for("the tag that runs out first is named", lowest);
    browser.run("document.querySelector('#lowest').click(); return 1");
    browser.wait_for("it comes first as well", &first("tag-04321"));
    browser.run(
        "document.querySelector('#sort').value = 'issued'; \
         const direction = document.querySelector('#direction'); direction.value = 'true'; \
         direction.dispatchEvent(new Event('change')); return 1",
    );
    browser.wait_for("the tag with the most IDs", &first("tag-04321"));
    browser.run("document.querySelector('#search').focus(); return 1");
    browser.keys("AG-0999");
    browser.wait_for("a search", &count("10 tags, page 1 of 1"));
    browser.keys("x");
    browser.wait_for("no tag", "return !document.querySelector('#no-tags').hidden");
    // A reload keeps the search, which is in the address.
    browser.run("location.reload(); return 1");
    browser.wait_for(
        "the search again",
        "return document.querySelector('#search').value === 'AG-0999x'",
    );
    browser.wait_for("its outcome", &count("0 tags, page 1 of 1"));
    stop.store(true, Ordering::Relaxed);
    load.join().unwrap();
    // leafd goes on issuing at once.
    assert_eq!(daemon.client().next_many("tag-00000", 1).unwrap().len(), 1);
}

#[test]
fn it_is_legible_from_320_to_2560_pixels_by_keyboard_and_for_axe_in_dark_and_light() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path());
    let daemon = home.start();
    let mut client = daemon.client();
    for tag in
        ["orders", "bills", &"a-long-name-".repeat(10), "Rechnungen.Österreich", "<b>tag</b>"]
    {
        client.next_many(tag, 321).unwrap();
    }
    // The next lease fails, so that the page shows an error.
    home.sql("UPDATE leaf_alloc SET step = -1 WHERE biz_tag = 'orders'");
    let _ = client.next_many("orders", 100_000);
    let browser = Browser::start();
    browser.open(&url(&home, "/"));
    browser.wait_for("the page is live", LIVE);
    browser.wait_for("tags", "return document.querySelectorAll('#tag-rows tr').length === 5");
    assert_eq!(browser.run("return document.querySelectorAll('b').length"), 0, "text is text");
    let script = axe();
    for dark in [false, true] {
        browser.set_dark(dark);
        for width in [320, 768, 1280, 2560] {
            browser.set_width(width);
            browser.wait_for("the width", &format!("return innerWidth === {width}"));
            let wide = browser.run(
                "const wide = [...document.querySelectorAll('body *')].filter(e => \
                 !e.closest('pre, thead, .skip') && e.getBoundingClientRect().right > \
                 document.documentElement.clientWidth + 1); \
                 const root = document.documentElement; \
                 return [root.scrollWidth > root.clientWidth, ...wide.map(e => e.outerHTML)]",
            );
            assert_eq!(wide, serde_json::json!([false]), "something is wider than {width} pixels");
            let theme = if dark { "dark" } else { "light" };
            let picture = browser.save_picture(&format!("{theme}-{width}"));
            assert!(picture.metadata().unwrap().len() > 10_000, "{}", picture.display());
            browser.run(&format!("{script}; return 1"));
            browser.run(
                "window.found = null; \
                 axe.run().then(r => { window.found = r.violations.map(v => \
                 [v.id, v.help, v.nodes.map(n => n.html)]); }); return 1",
            );
            browser.wait_for("axe is done", "return window.found !== null");
            let found = browser.run("return window.found");
            assert_eq!(found, Value::Array(Vec::new()), "{theme}, {width} pixels");
        }
    }
    tab_reaches_everything(&browser);
    daemon.stop();
}

fn tab_reaches_everything(browser: &Browser) {
    browser.run("document.activeElement.blur(); return 1");
    // With one page of tags, the buttons that turn it are disabled.
    let worst = browser.run(
        "return [...document.querySelectorAll('.worst button')].filter(b => !b.hidden).map(b => b.id)",
    );
    let worst: Vec<String> = serde_json::from_value(worst).unwrap();
    assert!(worst.contains(&"failing".to_owned()), "{worst:?}");
    let usual = ["decode-id", "Decode", "search", "sort", "direction", "limit"];
    let worst = worst.iter().map(String::as_str);
    let expected = ["Skip to the tags"].into_iter().chain(worst).chain(usual);
    for control in expected {
        browser.keys(TAB);
        let at = browser.run(
            "const e = document.activeElement; const s = getComputedStyle(e); \
             return [e.id || e.textContent, s.outlineStyle !== 'none' && s.outlineWidth !== '0px']",
        );
        assert_eq!(at, serde_json::json!([control, true]), "the control, and a visible focus");
    }
}

#[test]
fn without_a_rule_it_says_what_to_configure_and_a_token_opens_it() {
    const TOKEN: &str = "0123456789abcdef0123456789abcdef";
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, TOKEN).unwrap();
    std::fs::set_permissions(&token, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let rules = "[{ name = \"web\", http = true }, { name = \"viewers\", page = true }]";
    let tokens = format!("[{{ rule = \"viewers\", file = {:?} }}]", token.to_str().unwrap());
    let home = home(folder.path()).with("ACCESS_RULES", rules).with("HTTP_TOKENS", &tokens);
    let daemon = home.start();
    daemon.client().next("secret-tag").unwrap();
    let browser = Browser::start();
    browser.open(&url(&home, "/"));
    let refused = "return !document.querySelector('#refused').hidden";
    browser.wait_for("the refusal", refused);
    let text = browser.run("return document.body.innerText");
    let text = text.as_str().unwrap();
    assert!(text.contains("rule \"web\" does not allow it"), "{text}");
    assert!(text.contains("page = true") && !text.contains("secret-tag"), "{text}");
    browser.save_picture("refused");
    // IDs are decoded for everybody.
    let id = daemon.client().snowflake().unwrap();
    browser.run("document.querySelector('#decode-id').focus(); return 1");
    browser.keys(&format!("{id}{ENTER}"));
    let decoded = "return document.querySelector('#decode-parts').textContent.includes('Worker')";
    browser.wait_for("a decoded ID", decoded);
    let show = |token: &str| {
        browser.run("document.querySelector('#token').focus(); return 1");
        browser.keys(&format!("{token}{ENTER}"));
    };
    show("not-one-of-leafds-tokens-whatever");
    let unknown = "return document.querySelector('#refused-rule').hidden \
                   && !document.querySelector('#token-form').hidden";
    browser.wait_for("an unknown token is refused", unknown);
    show(TOKEN);
    browser.wait_for("the page is live", LIVE);
    browser.wait_for("the tag", &cell("secret-tag", "Position", "text !== ''"));
    assert_eq!(browser.run("return document.querySelector('#refused').hidden"), true);
    daemon.stop();
}
