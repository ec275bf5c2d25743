//! IDs in other forms, from leafctl and over HTTP, as the programs see them that store and parse them.

use std::collections::HashSet;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use leaf_client::form::{FleetId, Snowflakes};
use leaf_client::{LAYOUT_PRESETS, Layout};
use leafd_tests::Database;
use leafd_tests::binaries::python_with_packages;
use leafd_tests::daemon::Home;
use leafd_tests::database::Kind;
use leafd_tests::http::HttpPlace;
use serde_json::Value;

const FLEET: &str = "4be1f0a37c";

/// What leafctl prints; it has to succeed and to complain about nothing.
fn ask(home: &Home, arguments: &[&str]) -> String {
    let (code, out, errors) = home.run("leafctl", arguments);
    assert_eq!((code, errors.as_str()), (Some(0), ""), "{arguments:?}");
    out
}

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

/// What Python prints about these texts.
fn python(program: &str, texts: &[String]) -> Vec<String> {
    let output =
        Command::new(python_with_packages()).args(["-c", program]).args(texts).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    lines(&String::from_utf8(output.stdout).unwrap())
}

fn decoded(home: &Home, text: &str) -> Value {
    let (code, out, errors) = home.run("leafctl", &["decode", "--json", "--", text]);
    assert_eq!(code, Some(0), "{errors}");
    serde_json::from_str(&out).unwrap()
}

#[test]
fn every_form_that_leafctl_prints_is_read_back_to_the_next_id() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let daemon = home.start();
    for (next, form) in ["decimal", "base62", "base36", "crockford32", "padded", "padded8"]
        .into_iter()
        .flat_map(|form| [form.to_owned(), format!("ord_{form}")])
        .enumerate()
    {
        let text = ask(&home, &["next", "orders", "--as", &form]);
        let id = (next + 1).to_string();
        let (code, out, errors) =
            home.run("leafctl", &["decode", text.trim(), "--json", "--as", &form]);
        assert_eq!(code, Some(0), "{form}: {errors}");
        assert!(out.starts_with(&format!("{{\"id\":\"{id}\"")), "{form} {text}: {out}");
    }
    let json = ask(&home, &["next", "orders", "--as", "base62", "--json"]);
    assert_eq!(json, "{\"tag\":\"orders\",\"id\":\"13\",\"text\":\"0000000000D\"}\n");
    let (code, out, errors) = home.run("leafctl", &["next", "orders", "--as", "uuid7"]);
    assert_eq!((code, out.as_str()), (Some(64), ""));
    assert!(errors.contains("there is uuid5"), "{errors}");
    assert_eq!(ask(&home, &["next", "orders"]), "14\n", "a refused form costs no ID");
    daemon.stop();
}

#[test]
fn a_public_id_is_read_back_by_its_key_and_tag_alone() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let daemon = home.start();
    let keys = folder.path().join("public-keys");
    let old = format!("0 {}1f\n", "2a".repeat(31));
    std::fs::write(&keys, &old).unwrap();
    std::fs::set_permissions(&keys, Permissions::from_mode(0o600)).unwrap();
    let keys = keys.to_str().unwrap();
    let next = ["next", "orders", "-n", "2", "--as", "ord_public", "--keys", keys];
    let texts = lines(&ask(&home, &next));
    let read = |text: &str, tag: &str| {
        let arguments = ["decode", "--json", "--keys", keys, "--tag", tag, "--", text];
        let (code, out, errors) = home.run("leafctl", &arguments);
        assert_eq!(code, Some(0), "{errors}");
        serde_json::from_str::<Value>(&out).unwrap()
    };
    for (text, id) in texts.iter().zip(["1", "2"]) {
        let one = read(text, "orders");
        assert_eq!((&one["id"], &one["form"]), (&Value::from(id), &Value::from("ord_public")));
        assert_ne!(read(text, "invoices")["id"], id, "it is another number of another tag");
    }
    // Another key encodes from now on, and the old one still decodes.
    std::fs::write(keys, format!("1 {}2e\n{old}", "7b".repeat(31))).unwrap();
    assert!(ask(&home, &next).starts_with("ord_1"));
    assert_eq!(read(&texts[1], "orders")["id"], "2");
    std::fs::set_permissions(keys, Permissions::from_mode(0o644)).unwrap();
    let (code, out, errors) = home.run("leafctl", &next);
    assert_eq!((code, out.as_str()), (Some(64), ""));
    assert!(errors.contains("others than its owner can read"), "{errors}");
    assert_eq!(ask(&home, &["next", "orders"]), "5\n", "a refused key file costs no ID");
    daemon.stop();
}

#[test]
fn numbers_of_a_day_come_from_the_tag_of_that_day() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let daemon = home.start();
    let texts = lines(&ask(&home, &["next", "invoices", "-n", "3", "--as", "dated@+08:00"]));
    let (day, first) = texts[0].split_once('-').unwrap();
    assert_eq!((day.len(), first), (8, "000001"));
    let tags = daemon.client().tags_used("", 10).unwrap();
    assert_eq!(
        tags.iter().map(|tag| tag.tag.clone()).collect::<Vec<_>>(),
        [format!("invoices-{day}")]
    );
    let read = decoded(&home, &texts[2]);
    assert_eq!((&read["id"], &read["day"]), (&Value::from("3"), &Value::from(day)));
    assert_eq!(read.get("time"), None, "a number of a tag has no parts");
    daemon.stop();
}

#[test]
fn uuids_and_object_ids_are_what_python_and_bson_read() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with("WORKER_ID", "513");
    let daemon = home.start();
    let before = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let before = i64::try_from(before).unwrap();
    let of =
        |form: &str| lines(&ask(&home, &["snowflake", "-n", "3", "--as", form, "--fleet", FLEET]));
    let [seven, one, eight, object] = ["uuid7", "uuid1", "uuid8", "objectid"].map(of);
    let versions = "import sys, uuid\n\
                    for text in sys.argv[1:]:\n    \
                        one = uuid.UUID(text); assert str(one) == text\n    \
                        print(one.version, one.variant == uuid.RFC_4122)";
    for (texts, version) in [(&seven, 7), (&one, 1), (&eight, 8)] {
        assert_eq!(python(versions, texts), vec![format!("{version} True"); 3]);
    }
    let ms_of_7 = "import sys, uuid\nfor text in sys.argv[1:]: print(uuid.UUID(text).int >> 80)";
    let ms_of_1 = "import sys, uuid\n\
                   for text in sys.argv[1:]: print((uuid.UUID(text).time - 0x01b21dd213814000) // 10000)";
    let ms_of_object = "import sys, bson\n\
                        for text in sys.argv[1:]:\n    \
                            one = bson.ObjectId(text); assert str(one) == text\n    \
                            print(int(one.generation_time.timestamp()) * 1000)";
    for (program, texts) in [(ms_of_7, &seven), (ms_of_1, &one), (ms_of_object, &object)] {
        for ms in python(program, texts) {
            let ms: i64 = ms.parse().unwrap();
            assert!((-1000..60_000).contains(&(ms - before)), "{ms} after {before}");
        }
    }
    for texts in [&seven, &one, &eight, &object] {
        let ids: Vec<_> = texts.iter().map(|text| decoded(&home, text)).collect();
        assert!(ids.iter().all(|id| id["worker"] == 513), "{ids:?}");
        assert_eq!(ids.iter().map(|id| id["id"].to_string()).collect::<HashSet<_>>().len(), 3);
    }
    let hashes = lines(&ask(&home, &["next", "a/b", "-n", "2", "--as", "uuid5", "--fleet", FLEET]));
    let same = "import sys, uuid\n\
                space = uuid.UUID('6c656166-642d-575d-a31b-5e0c8f419726')\n\
                for id in (1, 2): print(uuid.uuid5(space, f'4be1f0a37c/a/b/{id}'))";
    assert_eq!(python(same, &[]), hashes);
    let (code, _, errors) = home.run("leafctl", &["decode", &seven[0], "--fleet", "0000000001"]);
    assert!(code == Some(64) && errors.contains("another installation"), "{errors}");
    let (code, out, errors) = home.run("leafctl", &["snowflake", "--as", "uuid7"]);
    assert_eq!((code, out.as_str()), (Some(64), ""));
    assert!(errors.contains("LEAFD_FLEET; choose one for the whole installation"), "{errors}");
    daemon.stop();
}

#[test]
fn a_database_of_uuids_keeps_the_order_of_the_snowflakes() {
    let database = Database::shared(Kind::Postgres).fresh();
    database.sql("CREATE TABLE seen (place int, seven uuid, eight uuid)");
    for (name, layout) in LAYOUT_PRESETS {
        let snowflakes = Snowflakes::new(layout, FLEET.parse::<FleetId>().unwrap());
        database.sql("DELETE FROM seen");
        for (place, id) in rising(&layout).into_iter().enumerate() {
            let (seven, eight) = (snowflakes.uuid7(id).unwrap(), snowflakes.uuid8(id).unwrap());
            database.sql(&format!("INSERT INTO seen VALUES ({place}, '{seven}', '{eight}')"));
        }
        for column in ["seven", "eight"] {
            let rows = database.query(&format!("SELECT place FROM seen ORDER BY {column}"));
            let places: Vec<_> = rows.into_iter().map(|row| row[0].clone().unwrap()).collect();
            let expected: Vec<_> = (0..places.len()).map(|place| place.to_string()).collect();
            assert_eq!(places, expected, "{name} by {column}");
            assert!(places.len() > 20);
        }
    }
}

/// Snowflakes of a layout that rise, with times, workers and sequences at their limits.
fn rising(layout: &Layout) -> Vec<u64> {
    let mut ids = Vec::new();
    for time in [0, 1, layout.max_time() / 2, layout.max_time()] {
        for worker in [0, 1, layout.max_worker()] {
            for sequence in [0, 1, layout.max_sequence()] {
                ids.extend(layout.compose(time, worker, sequence));
            }
        }
    }
    ids.sort_unstable();
    ids
}

#[test]
fn both_http_apis_answer_in_the_form_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with_http().with("SNOWFLAKE_FLEET", FLEET);
    let daemon = home.start();
    let place = HttpPlace::of(daemon.home());
    let ids = |path: &str| place.send("POST", path, "").expect(200).json()["ids"].clone();
    assert_eq!(
        ids("/v1/segment/orders?count=2&as=ord_padded4"),
        serde_json::json!(["ord_0001", "ord_0002"])
    );
    assert_eq!(place.get("/api/segment/get/orders?as=base36").expect(200).text(), "0000000000003");
    let uuid = ids("/v1/snowflake?as=uuid7")[0].as_str().unwrap().to_owned();
    let leaf = place.get("/api/snowflake/get/x?as=objectid").expect(200).text().to_owned();
    for (text, form) in [(&uuid, "uuid7"), (&leaf, "objectid")] {
        let parts = place.get(&format!("/v1/decode/{text}")).expect(200).json();
        assert_eq!((&parts["form"], &parts["worker"]), (&Value::from(form), &Value::from(0)));
        assert_eq!(parts["id"], decoded(&home, text)["id"]);
    }
    let dated = ids("/v1/segment/invoices?as=dated@%2B08:00")[0].as_str().unwrap().to_owned();
    let again = ids("/v1/segment/invoices?as=dated@+08:00")[0].as_str().unwrap().to_owned();
    assert!(dated.ends_with("-000001") && again.ends_with('2'), "{dated} {again}");
    let parts = place.get(&format!("/v1/decode/{dated}")).expect(200).json();
    assert_eq!((&parts["id"], &parts["day"]), (&Value::from("1"), &Value::from(&dated[..8])));
    for (path, said) in [
        ("/v1/segment/orders?as=hex", "there is no form"),
        ("/v1/segment/orders?as=uuid7", "there is uuid5"),
        ("/v1/segment/orders?as=dated@8", "time zone"),
        ("/v1/segment/orders?as=public", "the operator sets it with public.key-file"),
        ("/v1/snowflake?as=dated@UTC", "needs an ID of a tag"),
    ] {
        let problem = place.send("POST", path, "").expect(400).json();
        assert!(problem["detail"].as_str().unwrap().contains(said), "{path}: {problem}");
    }
    place.get("/api/segment/get/orders?as=hex").expect(400);
    place.get("/v1/decode/0000000000-").expect(400);
    assert_eq!(ids("/v1/segment/orders")[0], "4", "a refused form costs no ID");
    daemon.stop();
}

#[test]
fn snowflakes_of_the_layouts_with_other_orders_and_lengths_are_unique_and_decode() {
    for (name, layout) in LAYOUT_PRESETS.into_iter().filter(|(name, _)| *name != "baidu") {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path()).with("SNOWFLAKE_LAYOUT", name).with("WORKER_ID", "21");
        let daemon = home.start();
        let mut client = daemon.client();
        let mut seen = HashSet::new();
        for count in [1, 300, 3000] {
            for id in client.snowflake_many(count).unwrap() {
                assert!(seen.insert(id), "{name}: {id} twice");
                let parts = layout.decode(id).unwrap();
                assert_eq!(parts.worker, 21, "{name}");
            }
        }
        daemon.stop();
    }
}
