//! The Kubernetes manifests of the repository as values: read once, by what Debian has for YAML.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::binaries::{program, workspace};

/// The manifests that are shipped.
pub const SHIPPED: [&str; 2] = ["sidecar.yaml", "daemonset.yaml"];

/// A file of the folder `kubernetes`.
#[must_use]
pub fn path(name: &str) -> PathBuf {
    workspace().join("kubernetes").join(name)
}

/// The objects of a manifest, in order.
///
/// # Panics
/// When it is not YAML, or python3-yaml is not installed.
#[must_use]
pub fn objects(path: &Path) -> Vec<Value> {
    let script =
        "import json, sys, yaml; json.dump(list(yaml.safe_load_all(sys.stdin)), sys.stdout)";
    let file = std::fs::File::open(path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    let output = Command::new("/usr/bin/python3").args(["-c", script]).stdin(file).output();
    let output = output.expect("python3 starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{path:?} is not read, or python3-yaml is missing\n{errors}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The one object of a kind and a name.
///
/// # Panics
/// When there is none.
#[must_use]
pub fn find<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let found = objects.iter().find(|o| o["kind"] == kind && o["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("no {kind} {name}"))
}

/// The pods that the objects make: each one's specification, with the labels' namespace.
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

/// All containers of a pod, those of the start first.
#[must_use]
pub fn containers(pod: &Value) -> Vec<Value> {
    let of = |key: &str| pod[key].as_array().cloned().unwrap_or_default();
    [of("initContainers"), of("containers")].concat()
}

/// What `leafd check` says of a configuration, with the secrets of `folder` in their place: the
/// exit code, and its words.
///
/// # Panics
/// When it does not start.
#[must_use]
pub fn check(configuration: &str, folder: &Path) -> (Option<i32>, String) {
    let text = configuration.replace(SECRETS, &folder.display().to_string());
    let file = folder.join("leafd.toml");
    std::fs::write(&file, text).expect("the configuration");
    let mut command = Command::new(program("leafd"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("LEAFD_")) {
        command.env_remove(name);
    }
    let output = command.arg("check").arg("--config").arg(&file).stdin(Stdio::null()).output();
    let output = output.expect("leafd starts");
    let mut words = output.stdout;
    words.write_all(&output.stderr).expect("memory");
    (output.status.code(), String::from_utf8_lossy(&words).into_owned())
}

/// Where the manifests mount the Secret.
pub const SECRETS: &str = "/run/secrets/leafd";
