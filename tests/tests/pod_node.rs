//! One leafd for a node and an application in another pod, as in kubernetes/daemonset.yaml, with a real
//! database and a real ZooKeeper. A folder stands in for the node.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use leafd_tests::database::Kind;
use leafd_tests::manifest::{containers, objects, path, pods};
use leafd_tests::pod::{Application, NODE, Pod, Podman, apart, servers};
use leafd_tests::{Database, Ensemble};
use serde_json::Value;

/// Moves the host paths of a pod's volumes into the folder `node`.
fn on(node: &Path, object: &mut Value) {
    let volumes = ["/spec/volumes", "/spec/template/spec/volumes"];
    let volumes = volumes.iter().find(|at| object.pointer(at).is_some()).unwrap();
    for volume in object.pointer_mut(volumes).unwrap().as_array_mut().unwrap() {
        if let Some(host) = volume.pointer_mut("/hostPath/path") {
            let there = node.join(host.as_str().unwrap().trim_start_matches('/'));
            std::fs::create_dir_all(there.parent().unwrap()).unwrap();
            *host = there.to_str().unwrap().into();
        }
    }
}

#[test]
fn a_daemon_that_is_replaced_goes_on_with_its_nodes_worker_id_and_fails_no_call() {
    let podman = Podman::shared(Path::new(env!("CARGO_BIN_EXE_pod_application")));
    let database = Database::with_tag(Kind::MariaDb, "orders", 1000);
    let zookeeper = Ensemble::shared().fresh_chroot();
    let node = tempfile::tempdir().unwrap();
    let mut objects = apart(&objects(&path("daemonset.yaml")));
    servers::set(&mut objects, &database, &zookeeper);
    for object in objects.iter_mut().filter(|object| object["spec"].is_object()) {
        on(node.path(), object);
    }
    let (applications, daemon): (Vec<_>, Vec<_>) =
        objects.into_iter().partition(|object| object["kind"] == "Pod");
    std::fs::write(node.path().join("etc/machine-id"), "0123456789abcdef0123456789abcdef\n")
        .unwrap();
    let (_, specification) = pods(&daemon).remove(0);
    let readiness = &containers(&specification)[1]["readinessProbe"];

    let leafd = Pod::play(podman, &daemon);
    leafd.wait_probe("leafd", readiness);
    let orders = Pod::play(podman, &applications);
    let application = Application::of(&orders);
    application.goes_on("the application gets IDs of its node");
    // Like a rollout: the old pod ends before the new one starts.
    assert_eq!(leafd.stop("leafd"), Some(0), "{}", leafd.log("leafd"));
    drop(leafd);
    let leafd = Pod::play(podman, &daemon);
    leafd.wait_probe("leafd", readiness);
    application.goes_on("the application gets IDs of the next one");
    application.noticed_nothing();
    assert_eq!(application.workers().len(), 1, "{}", leafd.log("leafd"));
    println!("{:?} IDs over a replacement of the node's daemon", application.count());

    let list = leafd.does("leafd", &["leafctl", "worker", "list", "--json"]);
    let list: Value = serde_json::from_str(&list).unwrap();
    let owners: Vec<_> = list.as_array().unwrap().iter().map(|one| &one["owner"]).collect();
    assert_eq!(owners, [NODE]);
    let owner =
        std::fs::read_to_string(node.path().join("var/lib/leafd/owner.properties")).unwrap();
    assert!(owner.contains("0123456789abcdef") && owner.contains(NODE), "{owner}");

    for (folder, mode) in [("var/lib/leafd", 0o700), ("run/leafd", 0o755)] {
        let meta = std::fs::metadata(node.path().join(folder)).unwrap();
        assert_eq!(
            (meta.uid(), meta.gid(), meta.mode() & 0o7777),
            (48735, 48735, mode),
            "{folder}"
        );
    }
    for (process, user) in [(leafd.process("leafd"), "48735"), (orders.process("orders"), "10001")]
    {
        assert_eq!(process.status("Uid"), [user; 4].join(" "));
        assert_eq!(process.status("CapBnd"), "0".repeat(16), "{user}");
        assert!(process.status("Groups").split(' ').any(|group| group == "65533"), "{user}");
        assert_eq!(process.refuses_to_write("/"), Some(ErrorKind::ReadOnlyFilesystem), "{user}");
    }
    let refused = orders.process("orders").refuses_to_write("/run/leafd");
    assert_eq!(refused, Some(ErrorKind::ReadOnlyFilesystem));
    assert_eq!(application.workers(), BTreeSet::from([0]), "the first of its tree");
}
