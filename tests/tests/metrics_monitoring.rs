//! What `monitoring/` ships: alerts that Prometheus accepts and that fire when they should, each with an
//! entry in the runbook, and a dashboard of which every query has an answer.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use leafd::metrics::FAMILIES;
use leafd_tests::binaries::workspace;
use leafd_tests::caller::wait_until;
use leafd_tests::daemon::{Daemon, Home};
use leafd_tests::faketime::FakeTime;
use leafd_tests::manifest::objects;
use leafd_tests::prometheus::Prometheus;
use leafd_tests::scrape::{address, get};
use leafd_tests::{manual, openapi, zookeeper};
use serde_json::Value;

fn file(name: &str) -> PathBuf {
    workspace().join("monitoring").join(name)
}

fn promtool(arguments: &[&str], input: Stdio) -> (bool, String) {
    let mut command = Command::new("promtool");
    command.args(arguments).current_dir(file("")).stdin(input);
    let output = command.output().expect("install Debian's package prometheus");
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

fn alerts() -> Vec<Value> {
    let rules = objects(&file("alerts.yaml")).remove(0);
    let groups = rules["groups"].as_array().unwrap().clone();
    groups.iter().flat_map(|group| group["rules"].as_array().unwrap().clone()).collect()
}

/// The names of metrics in a query.
fn metrics_in(query: &str) -> BTreeSet<&str> {
    let is_part = |char: char| char.is_ascii_alphanumeric() || char == '_';
    query.split(|char| !is_part(char)).filter(|word| word.starts_with("leafd_")).collect()
}

fn known(name: &str) -> bool {
    let stem = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
    let is = |name: &str| FAMILIES.iter().any(|family| family.name() == name);
    is(name) || stem.is_some_and(is)
}

#[test]
fn prometheus_accepts_the_alerts_and_they_fire_when_they_should() {
    for arguments in
        [&["check", "rules", "alerts.yaml"][..], &["test", "rules", "alerts.test.yaml"]]
    {
        let (good, text) = promtool(arguments, Stdio::null());
        assert!(good, "{arguments:?}: {text}");
    }
}

#[test]
fn every_alert_has_a_severity_an_entry_in_the_runbook_and_a_test() {
    let runbook = std::fs::read_to_string(workspace().join("docs/operations/runbook.md")).unwrap();
    let entries = manual::entries(&runbook, "Alerts");
    let tests = std::fs::read_to_string(file("alerts.test.yaml")).unwrap();
    let alerts = alerts();
    let names: Vec<_> = alerts.iter().map(|alert| alert["alert"].as_str().unwrap()).collect();
    assert_eq!(entries, names, "the entries of the runbook, in the order of the alerts");
    for alert in &alerts {
        let name = alert["alert"].as_str().unwrap();
        let severity = alert["labels"]["severity"].as_str().unwrap();
        assert!(["warning", "critical"].contains(&severity), "{name}: {severity}");
        let link = format!("docs/operations/runbook.md#{}", name.to_lowercase());
        assert_eq!(alert["annotations"]["runbook_url"], link.as_str());
        for key in ["summary", "description"] {
            assert!(alert["annotations"][key].as_str().is_some_and(|text| text.len() > 10));
        }
        assert!(tests.contains(&format!("{{alertname=\"{name}\"}}")), "{name} never fires");
        for metric in metrics_in(alert["expr"].as_str().unwrap()) {
            assert!(known(metric), "{name}: there is no {metric}");
        }
    }
}

#[test]
fn promtool_finds_no_fault_with_what_leafd_serves() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path())
        .with("HTTP_LISTEN", "127.0.0.1:0")
        .with("METRICS_TAGS", "[\"*\"]")
        .with_time_for_the_disk();
    let daemon = home.start();
    daemon.client().next("orders").unwrap();
    let text = folder.path().join("metrics");
    std::fs::write(&text, get(address(&home, 1), "/metrics", "text/plain").body).unwrap();
    let input = std::fs::File::open(&text).unwrap();
    let (good, said) = promtool(&["check", "metrics"], input.into());
    assert!(good && said.trim().is_empty(), "{said}");
}

/// The panels of the dashboard.
fn panels() -> Vec<Value> {
    let text = std::fs::read_to_string(file("dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    dashboard["panels"].as_array().unwrap().clone()
}

/// The queries of a panel.
fn queries(panel: &Value) -> Vec<&str> {
    let targets = panel["targets"].as_array().into_iter().flatten();
    targets.map(|target| target["expr"].as_str().unwrap()).collect()
}

/// Grafana's own schema is a program; this one has the part of it that the dashboard uses.
fn schema() -> Value {
    serde_json::from_str(include_str!("../src/dashboard_schema.json")).unwrap()
}

/// Asserts that a dashboard fits the schema. `oneOf` does not say what is wrong, so each panel is
/// compared with the schema of its own type first.
fn fits_the_schema(dashboard: &Value) -> Result<(), String> {
    let schema = schema();
    let kinds = schema["properties"]["panels"]["items"]["oneOf"].as_array().unwrap();
    for panel in dashboard["panels"].as_array().into_iter().flatten() {
        let of_kind = |kind: &&Value| kind["properties"]["type"]["enum"][0] == panel["type"];
        let kind = kinds.iter().find(of_kind).ok_or(format!("no such panel: {panel}"))?;
        openapi::fits(kind, panel, &panel["title"].to_string())?;
    }
    openapi::fits(&schema, dashboard, "#")
}

#[test]
fn a_dashboard_with_a_mistake_does_not_fit_the_schema() {
    let text = std::fs::read_to_string(file("dashboard.json")).unwrap();
    for (right, wrong) in [
        ("\"gridPos\"", "\"gridpos\""),
        ("\"refId\": \"A\"", "\"refId\": \"\""),
        ("\"type\": \"timeseries\"", "\"type\": \"graph\""),
        ("\"unit\": \"s\"", "\"unit\": \"seconds\""),
        ("\"schemaVersion\": 38", "\"schemaVersion\": \"38\""),
        ("\"uid\": \"${datasource}\"", "\"uid\": \"prometheus\""),
    ] {
        assert!(text.contains(right), "{right}");
        let dashboard = serde_json::from_str(&text.replacen(right, wrong, 1)).unwrap();
        assert!(fits_the_schema(&dashboard).is_err(), "{wrong}");
    }
}

#[test]
fn the_dashboard_has_the_structure_that_grafana_expects() {
    let text = std::fs::read_to_string(file("dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    fits_the_schema(&dashboard).unwrap_or_else(|why| panic!("{why}"));
    assert_eq!((&dashboard["title"], &dashboard["uid"]), (&"leafd".into(), &"leafd".into()));
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let names: Vec<_> = variables.iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["datasource", "instance", "tag"]);
    let (mut ids, mut taken) = (BTreeSet::new(), BTreeSet::new());
    for panel in &panels() {
        let title = panel["title"].as_str().unwrap();
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}: its ID is there twice");
        let place = |key: &str| panel["gridPos"][key].as_u64().unwrap();
        assert!(place("x") + place("w") <= 24, "{title} is too wide");
        for x in place("x")..place("x") + place("w") {
            for y in place("y")..place("y") + place("h") {
                assert!(taken.insert((x, y)), "{title} lies over another panel");
            }
        }
        for metric in queries(panel).into_iter().flat_map(metrics_in) {
            assert!(known(metric), "{title}: there is no {metric}");
        }
    }
}

/// Two daemons of one tree, of which the second has compared its clock with the first. Both had two
/// tags two days ago.
fn fleet(folder: &std::path::Path, servers: &str) -> Vec<(Daemon, SocketAddr)> {
    let name = |number: u8| folder.join(number.to_string());
    (1..3_u8)
        .map(|number| {
            std::fs::create_dir_all(name(number)).unwrap();
            let clock = FakeTime::new(&name(number));
            let ip = format!("127.{}.{}.{number}", fastrand::u8(1..250), fastrand::u8(..));
            let home = Home::new(&name(number))
                .with_clock(&clock)
                .with("HTTP_LISTEN", "127.0.0.1:0")
                .with("METRICS_TAGS", "[\"*\"]")
                .with_time_for_the_disk();
            clock.set_offset_ms(-2 * 86_400_000);
            let daemon = home.clone().with("SNOWFLAKE_ENABLED", "false").start();
            daemon.client().next("orders").unwrap();
            daemon.stop();
            clock.set_offset_ms(0);
            let home = home
                .with_zookeeper(servers)
                .with_peer(&format!("{ip}:8735"))
                .with("PEER_ADVERTISE", &ip);
            let daemon = home.start();
            wait_until(&home, "snowflake IDs", || daemon.client().snowflake().is_ok());
            let address = address(&home, 2);
            (daemon, address)
        })
        .collect()
}

#[test]
fn every_query_of_the_dashboard_and_of_the_alerts_has_an_answer_from_a_real_prometheus() {
    let folder = tempfile::tempdir().unwrap();
    let ensemble = zookeeper::Ensemble::shared();
    let fleet = fleet(folder.path(), &ensemble.fresh_chroot());
    let addresses: Vec<_> = fleet.iter().map(|(_, address)| *address).collect();
    let prometheus = Prometheus::start(folder.path(), &addresses);
    let home = fleet[0].0.home();
    let is_up = || prometheus.query("sum(up{job=\"leafd\"})").unwrap();
    wait_until(home, "scrapes", || is_up().iter().any(|sum| sum["value"][1] == "2"));
    let mut asked = 0;
    // New tags have to wait for a lease, and the state directory is written.
    let mut use_it = || {
        asked += 1;
        for (daemon, _) in &fleet {
            daemon.client().next_many("orders", 700).unwrap();
            daemon.client().next(&format!("new-{asked}")).unwrap();
            daemon.client().snowflake().unwrap();
        }
    };
    let mut checked = 0;
    for panel in &panels() {
        for query in queries(panel) {
            let query = query
                .replace("$__rate_interval", "1m")
                .replace("$instance", ".*")
                .replace("$tag", ".*");
            wait_until(home, &format!("an answer to {query}"), || {
                use_it();
                let answer =
                    prometheus.query(&query).unwrap_or_else(|why| panic!("{query}: {why}"));
                answer.iter().any(|one| one["value"][1].as_str().is_some_and(|it| it != "NaN"))
            });
            checked += 1;
        }
    }
    assert!(checked > 30, "only {checked} queries");
    for alert in alerts() {
        let query = alert["expr"].as_str().unwrap();
        let firing = prometheus.query(query).unwrap_or_else(|why| panic!("{query}: {why}"));
        let may_fire = ["LeafdSecondsLeftLow", "LeafdTagReachesLimit", "LeafdRestarts"];
        let name = alert["alert"].as_str().unwrap();
        assert!(firing.is_empty() || may_fire.contains(&name), "{name}: {firing:?}");
    }
}
