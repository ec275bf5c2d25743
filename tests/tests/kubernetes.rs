//! The shipped Kubernetes manifests. leafd accepts their configuration, their pods are as confined as
//! promised, and the containers of a pod fit together.

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use leafd_tests::manifest::{
    SECRETS, SHIPPED, check, containers, find, objects, path, pods, with_http,
};
use leafd_tests::manual;
use serde_json::{Value, json};

fn shipped() -> Vec<Value> {
    SHIPPED.iter().flat_map(|name| objects(&path(name))).collect()
}

fn strings(value: &Value) -> BTreeSet<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The fields of this pod that violate Pod Security "restricted", as Kubernetes' documentation lists
/// them.
fn violations(pod: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut must = |holds: bool, what: String| {
        if !holds {
            found.push(what);
        }
    };
    for key in ["hostNetwork", "hostPID", "hostIPC"] {
        must(pod[key].as_bool() != Some(true), key.to_owned());
    }
    for volume in pod["volumes"].as_array().into_iter().flatten() {
        let allowed = ["configMap", "csi", "downwardAPI", "emptyDir", "ephemeral"];
        let more = ["persistentVolumeClaim", "projected", "secret"];
        let kind = volume.as_object().unwrap().keys().find(|key| *key != "name").unwrap().clone();
        must(
            allowed.contains(&kind.as_str()) || more.contains(&kind.as_str()),
            format!("volume {kind}"),
        );
    }
    let of_pod = &pod["securityContext"];
    for container in containers(pod) {
        let name = container["name"].as_str().unwrap();
        let own = &container["securityContext"];
        let either = |key: &str| if own[key].is_null() { &of_pod[key] } else { &own[key] };
        must(either("runAsNonRoot") == &json!(true), format!("{name}: runAsNonRoot"));
        must(either("runAsUser") != &json!(0), format!("{name}: runAsUser"));
        let profile = &either("seccompProfile")["type"];
        must(profile == "RuntimeDefault" || profile == "Localhost", format!("{name}: seccomp"));
        let escalates = &own["allowPrivilegeEscalation"];
        must(escalates == &json!(false), format!("{name}: allowPrivilegeEscalation"));
        must(own["privileged"].as_bool() != Some(true), format!("{name}: privileged"));
        let capabilities = &own["capabilities"];
        must(strings(&capabilities["drop"]).contains("ALL"), format!("{name}: drop"));
        let added = strings(&capabilities["add"]);
        must(added.iter().all(|one| one == "NET_BIND_SERVICE"), format!("{name}: add"));
        for port in container["ports"].as_array().into_iter().flatten() {
            must(port["hostPort"].is_null(), format!("{name}: hostPort"));
        }
    }
    found
}

#[test]
fn the_sidecar_and_its_application_keep_to_pod_security_restricted() {
    let objects = objects(&path("sidecar.yaml"));
    let level = &find(&objects, "Namespace", "orders")["metadata"]["labels"];
    assert_eq!(level["pod-security.kubernetes.io/enforce"], "restricted");
    let pods = pods(&objects);
    assert_eq!(pods.len(), 1);
    for (namespace, pod) in &pods {
        assert_eq!(namespace, "orders");
        assert_eq!(violations(pod), [""; 0]);
    }
}

#[test]
fn the_daemonset_departs_from_restricted_only_where_its_comments_say_so() {
    let objects = objects(&path("daemonset.yaml"));
    let pods = pods(&objects);
    let found: Vec<_> = pods.iter().map(|(name, pod)| (name.as_str(), violations(pod))).collect();
    let directories =
        ["runAsNonRoot", "runAsUser", "add"].map(|what| format!("directories: {what}"));
    let mut daemon = vec!["volume hostPath".to_owned(); 3];
    daemon.extend(directories);
    assert_eq!(found, [("leafd", daemon), ("orders", vec!["volume hostPath".to_owned()])]);
    for namespace in ["leafd", "orders"] {
        let level = &find(&objects, "Namespace", namespace)["metadata"]["labels"];
        assert_eq!(level["pod-security.kubernetes.io/enforce"], "privileged");
    }
}

#[test]
fn a_pod_that_is_less_confined_is_found() {
    let (_, pod) = pods(&objects(&path("sidecar.yaml"))).remove(0);
    let sidecar = "/initContainers/0/securityContext";
    for (at, value, what) in [
        ("/securityContext/runAsNonRoot".to_owned(), json!(false), "runAsNonRoot"),
        ("/securityContext/seccompProfile/type".to_owned(), json!("Unconfined"), "seccomp"),
        ("/volumes/2".to_owned(), json!({"name": "x", "hostPath": {"path": "/"}}), "hostPath"),
        (format!("{sidecar}/runAsUser"), json!(0), "runAsUser"),
        (format!("{sidecar}/allowPrivilegeEscalation"), json!(true), "allowPrivilegeEscalation"),
        (format!("{sidecar}/capabilities"), json!({}), "drop"),
        (format!("{sidecar}/capabilities"), json!({"drop": ["ALL"], "add": ["CHOWN"]}), "add"),
    ] {
        let mut worse = pod.clone();
        *worse.pointer_mut(&at).unwrap() = value;
        let found = violations(&worse);
        assert!(!found.is_empty() && found.iter().all(|one| one.contains(what)), "{at}: {found:?}");
    }
}

#[test]
fn every_container_has_a_read_only_root_and_declares_its_resources() {
    for (_, pod) in pods(&shipped()) {
        assert_eq!(pod["automountServiceAccountToken"], false);
        for container in containers(&pod) {
            let name = &container["name"];
            assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true, "{name}");
            let resources = &container["resources"];
            for amount in ["/requests/cpu", "/requests/memory", "/limits/memory"] {
                assert!(resources.pointer(amount).is_some(), "{name}: {amount}");
            }
        }
    }
}

#[test]
fn applications_are_in_the_sockets_group_and_are_not_leafds_user() {
    for name in SHIPPED {
        let objects = objects(&path(name));
        let configuration = find(&objects, "ConfigMap", "leafd-config");
        let text = configuration["data"]["leafd.toml"].as_str().unwrap();
        let group = text.lines().find_map(|line| line.strip_prefix("group = ")).unwrap();
        let group: u64 = group.trim_matches('"').parse().unwrap();
        let mut users = BTreeSet::new();
        for (_, pod) in pods(&objects) {
            let context = &pod["securityContext"];
            let groups = [&context["fsGroup"], &context["supplementalGroups"][0]];
            assert!(groups.contains(&&json!(group)), "{name}: {context}");
            for container in containers(&pod) {
                users.insert(container["securityContext"]["runAsUser"].as_u64().unwrap());
                let mounts = container["volumeMounts"].as_array().unwrap();
                let socket = mounts.iter().find(|mount| mount["mountPath"] == "/run/leafd");
                let read_only = socket.is_some_and(|mount| mount["readOnly"] == true);
                assert_eq!(read_only, container["name"] == "orders", "{name}: {mounts:?}");
            }
        }
        users.remove(&0);
        // Not 65532, which distroless images use by convention: any process with leafd's user ID may
        // administer it.
        assert_eq!(users, BTreeSet::from([10001, 48735]), "{name}");
    }
}

#[test]
fn leafd_accepts_the_configuration_of_every_config_map() {
    for name in SHIPPED {
        let objects = objects(&path(name));
        let folder = tempfile::tempdir().unwrap();
        let secrets = find(&objects, "Secret", "leafd-secrets")["stringData"].as_object().unwrap();
        for (key, value) in secrets {
            let file = folder.path().join(key);
            std::fs::write(&file, value.as_str().unwrap()).unwrap();
            std::fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        }
        let configurations: Vec<_> = objects.iter().filter(|o| o["kind"] == "ConfigMap").collect();
        assert_eq!(configurations.len(), 1, "{name}");
        let text = configurations[0]["data"]["leafd.toml"].as_str().unwrap();
        assert_eq!(text.matches(SECRETS).count(), secrets.len(), "{name}: a file for each secret");
        let (code, words) = check(text, folder.path());
        assert_eq!(code, Some(0), "{name}: {words}");
        assert!(!words.contains("warning"), "{name}: {words}");
        let (code, words) = check(&text.replace("give-back", "give-bakc"), folder.path());
        assert_eq!(code, Some(78), "{name}: {words}");
        let (secret, _) = secrets.iter().next().unwrap();
        std::fs::remove_file(folder.path().join(secret)).unwrap();
        let (code, words) = check(text, folder.path());
        assert_eq!(code, Some(78), "{name}: {words}");
        assert!(words.contains(secret), "{name}: {words}");
    }
}

#[test]
fn variables_of_leafds_containers_are_keys_of_its_configuration() {
    let default = manual::keys_of_file(leafd::config::DEFAULT).into_iter();
    let mut keys: BTreeSet<_> = default.map(|key| key.variable).collect();
    keys.insert("LEAFD_SOCKET".to_owned());
    assert!(keys.contains("LEAFD_WORKER_IDENTITY"), "{keys:?}");
    let mut set = BTreeSet::new();
    for (_, pod) in pods(&shipped()) {
        for container in containers(&pod) {
            for variable in container["env"].as_array().into_iter().flatten() {
                set.insert(variable["name"].as_str().unwrap().to_owned());
            }
        }
    }
    set.retain(|name| name.starts_with("LEAFD_"));
    assert!(set.contains("LEAFD_WORKER_IDENTITY"), "{set:?}");
    assert!(set.is_subset(&keys), "{set:?}");
}

#[test]
fn with_http_in_force_variable_port_probes_and_annotations_agree() {
    let folder = tempfile::tempdir().unwrap();
    for name in SHIPPED {
        let before = objects(&path(name));
        let objects = objects(&with_http(name, folder.path()));
        // Not the text: nothing else became part of the manifest.
        assert_eq!(before.len(), objects.len(), "{name}");
        let object = objects.iter().find(|object| {
            let pod = &object["spec"]["template"]["spec"];
            containers(pod).iter().any(|container| container["name"] == "leafd")
        });
        let template = &object.unwrap()["spec"]["template"];
        let notes = &template["metadata"]["annotations"];
        assert_eq!(notes["prometheus.io/scrape"], "true", "{name}");
        let all = containers(&template["spec"]);
        let leafd = all.iter().find(|container| container["name"] == "leafd").unwrap();
        let find = |list: &str, name: &str| {
            let list = leafd[list].as_array().unwrap();
            list.iter().find(|one| one["name"] == name).unwrap().clone()
        };
        let listen = find("env", "LEAFD_HTTP_LISTEN")["value"].as_str().unwrap().to_owned();
        let port = find("ports", "leafd-http")["containerPort"].to_string();
        assert_eq!(listen, format!("0.0.0.0:{port}"), "{name}");
        assert_eq!(notes["prometheus.io/port"], port.as_str(), "{name}");
        let mut asked = BTreeSet::new();
        for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
            let get = &leafd[probe]["httpGet"];
            if !get.is_null() {
                assert_eq!(get["port"], "leafd-http", "{name}: {probe}");
                assert!(leafd[probe]["exec"].is_null(), "{name}: {probe}");
                asked.insert(get["path"].as_str().unwrap().to_owned());
            }
        }
        assert_eq!(asked, ["/livez", "/readyz"].map(str::to_owned).into(), "{name}");
    }
}

#[test]
fn with_http_keeps_what_an_operator_has_changed() {
    let folder = tempfile::tempdir().unwrap();
    let (file, changed) = (folder.path().join("of=mine.yaml"), folder.path().join("http.yaml"));
    let text = std::fs::read_to_string(path("sidecar.yaml")).unwrap();
    std::fs::write(&file, text.replace("8736", "9000")).unwrap();
    let output = std::process::Command::new(path("with-http")).arg(&file).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    std::fs::write(&changed, output.stdout).unwrap();
    let (_, pod) = pods(&objects(&changed)).remove(0);
    let leafd = &containers(&pod)[0];
    let has = |list: &str, one: Value| leafd[list].as_array().unwrap().contains(&one);
    assert!(has("env", json!({"name": "LEAFD_HTTP_LISTEN", "value": "0.0.0.0:9000"})), "{leafd}");
    assert!(has("ports", json!({"name": "leafd-http", "containerPort": 9000})), "{leafd}");
}

#[test]
fn with_http_refuses_what_is_no_manifest() {
    let with_http = |arguments: &[&str]| {
        std::process::Command::new(path("with-http")).args(arguments).output().unwrap()
    };
    for arguments in [&[][..], &["no-such.yaml"], &["a.yaml", "b.yaml"]] {
        let output = with_http(arguments);
        assert_eq!(output.status.code(), Some(64), "{arguments:?}");
        let words = String::from_utf8(output.stderr).unwrap();
        assert!(words.starts_with("usage: kubernetes/with-http MANIFEST"), "{words}");
    }
    let readme = path("../README.md");
    let output = with_http(&[readme.to_str().unwrap()]);
    let words = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{words}");
    assert!(words.contains("no comments for HTTP"), "{words}");
}
