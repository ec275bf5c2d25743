//! An application and its leafd in one pod, as in kubernetes/sidecar.yaml, with a real database and a
//! real ZooKeeper.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;

use leafd_tests::database::Kind;
use leafd_tests::manifest::{containers, objects, path, pods, with_http};
use leafd_tests::pod::{Application, NameServer, Pod, Podman, apart, servers};
use leafd_tests::{Database, Ensemble};
use serde_json::{Value, json};

/// A pod of the manifest, and what it depends on.
struct Sidecar {
    pod: Pod,
    objects: Vec<Value>,
    /// The path of its tree in ZooKeeper.
    tree: String,
    _database: Database,
}

impl Sidecar {
    /// Runs the manifest with the addresses of the tests' servers, and waits for the startup probe, as
    /// Kubernetes does before it starts the application.
    fn play() -> Self {
        Self::play_file(&path("sidecar.yaml"), |_| ())
    }

    /// The same, with HTTP.
    fn play_with_http() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = with_http("sidecar.yaml", folder.path());
        Self::play_file(&file, servers::serve_http_on_any_port)
    }

    fn play_file(file: &Path, change: fn(&mut [Value])) -> Self {
        let podman = Podman::shared(Path::new(env!("CARGO_BIN_EXE_pod_application")));
        let database = Database::with_tag(Kind::MariaDb, "orders", 1000);
        let ensemble = Ensemble::shared();
        let chroot = ensemble.fresh_path();
        let mut objects = apart(&objects(file));
        change(&mut objects);
        servers::set(&mut objects, &database, &(ensemble.connect_string() + &chroot));
        let pod = Pod::play(podman, &objects);
        let probe = &container(&objects, "leafd")["startupProbe"];
        if probe["httpGet"].is_null() {
            pod.wait_probe("leafd", probe);
        } else {
            pod.wait_http_probe("leafd", probe, &pod.http("leafd", 1));
        }
        Self { pod, objects, tree: chroot + "/snowflake/leaf", _database: database }
    }

    fn application(&self) -> Application<'_> {
        Application::of(&self.pod)
    }

    fn asks(&self, container: &str, arguments: &[&str]) -> String {
        self.pod.does(container, &[&["leafctl"], arguments].concat())
    }
}

fn container(objects: &[Value], name: &str) -> Value {
    let (_, pod) = pods(objects).remove(0);
    containers(&pod).into_iter().find(|container| container["name"] == name).unwrap()
}

#[test]
fn a_sidecar_that_is_killed_again_and_again_fails_no_call_and_repeats_no_id() {
    let sidecar = Sidecar::play();
    sidecar.application().goes_on("the application gets IDs");
    let status: Value =
        serde_json::from_str(&sidecar.asks("leafd", &["status", "--json"])).unwrap();
    let worker = status["snowflake"]["worker"].as_u64().unwrap();
    let liveness = &container(&sidecar.objects, "leafd")["livenessProbe"];
    for round in 1..=5 {
        sidecar.pod.kill("leafd");
        sidecar.application().goes_on(&format!("IDs after kill {round}"));
        sidecar.pod.wait_probe("leafd", liveness);
    }
    let (orders, snowflakes) = sidecar.application().count();
    println!("{orders} orders and {snowflakes} snowflakes, worker {worker}, over 5 kills");
    assert_eq!(sidecar.application().workers(), BTreeSet::from([worker]));
    sidecar.application().noticed_nothing();
    let asked = NameServer::shared().asked();
    assert!(asked.contains("db.example") && asked.contains("zk-0.zk.example"), "{asked:?}");
    assert!(sidecar.pod.state("leafd")["RestartCount"].as_u64() >= Some(5));
    let list: Value =
        serde_json::from_str(&sidecar.asks("leafd", &["worker", "list", "--json"])).unwrap();
    let list = list.as_array().unwrap();
    assert_eq!((list.len(), &list[0]["worker"]), (1, &json!(worker)), "{list:?}");
    assert!(list[0]["owner"].as_str().unwrap().starts_with("orders/orders-"), "{list:?}");
}

#[test]
fn nobody_in_the_pod_has_more_rights_than_the_manifest_says() {
    let sidecar = Sidecar::play();
    for (name, user, groups) in
        [("leafd", "48735", ["48735", "65533"]), ("orders", "10001", ["10001", "65533"])]
    {
        let process = sidecar.pod.process(name);
        for (field, value) in [("Uid", user), ("Gid", user)] {
            assert_eq!(process.status(field), [value; 4].join(" "), "{name}: {field}");
        }
        let status = process.status("Groups");
        let found: BTreeSet<_> = status.split(' ').collect();
        assert_eq!(found, BTreeSet::from(groups), "{name}");
        for field in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert_eq!(process.status(field), "0".repeat(16), "{name}: {field}");
        }
        assert_eq!(process.status("NoNewPrivs"), "1", "{name}");
        assert_eq!(process.status("Seccomp"), "2", "{name}: a filter");
        for folder in ["/", "/usr/bin", "/etc", "/var/lib"] {
            let refused = process.refuses_to_write(folder);
            assert_eq!(refused, Some(ErrorKind::ReadOnlyFilesystem), "{name}: {folder}");
        }
    }
    let (leafd, orders) = (sidecar.pod.process("leafd"), sidecar.pod.process("orders"));
    assert_eq!(leafd.names_in("/usr/bin"), ["leafctl", "leafd"].map(str::to_owned).into());
    assert_eq!(orders.refuses_to_write("/run/leafd"), Some(ErrorKind::ReadOnlyFilesystem));
    assert_eq!(leafd.refuses_to_write("/run/leafd"), None);
    assert!(!orders.path("/var/lib/leafd/owner.properties").exists());
    assert!(leafd.path("/var/lib/leafd/owner.properties").exists());
    assert!(!orders.path("/run/secrets/leafd").exists());
    // Both are in the socket's group, and leafd's own user alone may administer.
    assert_eq!(
        sidecar.asks("leafd", &["tag", "set-step", "orders", "2000", "--json"]).lines().count(),
        1
    );
    let (code, _, errors) =
        sidecar.pod.exec("orders", &["leafctl", "tag", "set-step", "orders", "3000"]);
    assert_eq!(code, Some(64), "{errors}");
    assert!(errors.contains("Forbidden"), "{errors}");
}

#[test]
fn a_sidecar_that_is_stopped_ends_with_0_and_releases_its_worker_id() {
    let sidecar = Sidecar::play();
    sidecar.application().goes_on("the application gets IDs");
    let free = format!("{}/free", sidecar.tree);
    let tree = Ensemble::shared().tree().with_auth("leaf:secret");
    assert_eq!(tree.children(&free), [""; 0]);
    assert_eq!(sidecar.pod.stop("leafd"), Some(0), "{}", sidecar.pod.log("leafd"));
    assert_eq!(tree.children(&free).len(), 1, "{}", sidecar.pod.log("leafd"));
    let (code, _, errors) = sidecar.pod.exec("orders", &["leafctl", "health"]);
    assert_eq!(code, Some(69), "{errors}");
}

#[test]
fn a_sidecar_with_http_answers_probes_prometheus_and_callers_of_java_leaf() {
    let sidecar = Sidecar::play_with_http();
    // Ready, so it has a worker ID.
    let place = sidecar.pod.http("leafd", 1);
    let snowflake: u64 = place.get("/api/snowflake/get/orders").expect(200).text().parse().unwrap();
    assert!(snowflake > 0 && place.leaf_id("orders") > 0);
    assert!(place.get("/metrics").expect(200).text().contains("leafd_build_info"));
    sidecar.application().goes_on("the application gets IDs over the socket");
    sidecar.pod.kill("leafd");
    let liveness = &container(&sidecar.objects, "leafd")["livenessProbe"];
    sidecar.application().goes_on("IDs after a kill");
    let place = sidecar.pod.http("leafd", 2);
    sidecar.pod.wait_http_probe("leafd", liveness, &place);
    assert!(place.leaf_id("orders") > 0);
}
