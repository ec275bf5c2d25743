//! The Kubernetes manifests of the repository, read with Debian's package `python3-yaml`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::binaries::{command, workspace};

/// The shipped manifests.
pub const SHIPPED: [&str; 2] = ["sidecar.yaml", "daemonset.yaml"];

/// The path of a file in the folder `kubernetes`.
#[must_use]
pub fn path(name: &str) -> PathBuf {
    workspace().join("kubernetes").join(name)
}

/// The objects of a manifest, in order.
#[must_use]
pub fn objects(path: &Path) -> Vec<Value> {
    let script =
        "import json, sys, yaml; json.dump(list(yaml.safe_load_all(sys.stdin)), sys.stdout)";
    let file = std::fs::File::open(path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    let output = Command::new("/usr/bin/python3").args(["-c", script]).stdin(file).output();
    let output = output.expect("python3 starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{path:?} is not YAML, or python3-yaml is not installed\n{errors}"
    );
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// A manifest's file with its lines for HTTP in force, in `folder`.
#[must_use]
pub fn with_http(name: &str, folder: &Path) -> PathBuf {
    let output =
        Command::new(path("with-http")).arg(path(name)).output().expect("with-http starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let file = folder.join(name);
    std::fs::write(&file, output.stdout).expect("the manifest");
    file
}

/// The object with this kind and name.
#[must_use]
pub fn find<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let found = objects.iter().find(|o| o["kind"] == kind && o["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("no {kind} {name}"))
}

/// The pods of the objects: the namespace and the specification of each.
#[must_use]
pub fn pods(objects: &[Value]) -> Vec<(String, Value)> {
    let pods = objects.iter().filter_map(|object| {
        let specification = match object["kind"].as_str()? {
            "Pod" => &object["spec"],
            "Deployment" | "DaemonSet" => &object["spec"]["template"]["spec"],
            _ => return None,
        };
        let namespace = object["metadata"]["namespace"].as_str()?.to_owned();
        Some((namespace, specification.clone()))
    });
    pods.collect()
}

/// All containers of a pod, init containers first.
#[must_use]
pub fn containers(pod: &Value) -> Vec<Value> {
    let of = |key: &str| pod[key].as_array().cloned().unwrap_or_default();
    [of("initContainers"), of("containers")].concat()
}

/// Runs `leafd check` on a configuration whose secrets are in `folder`. Returns the exit code and the
/// output.
#[must_use]
pub fn check(configuration: &str, folder: &Path) -> (Option<i32>, String) {
    let text = configuration.replace(SECRETS, &folder.display().to_string());
    let file = folder.join("leafd.toml");
    std::fs::write(&file, text).expect("the configuration");
    let mut leafd = command("leafd");
    let output = leafd.arg("check").arg("--config").arg(&file).stdin(Stdio::null()).output();
    let output = output.expect("leafd starts");
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

/// Where the manifests mount the Secret.
pub const SECRETS: &str = "/run/secrets/leafd";
