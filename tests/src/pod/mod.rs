//! Pods of the shipped manifests, run by podman, and single containers, run by runc alone. Dropping one
//! ends it, and so does the end of the test process.

mod adapt;
mod application;
mod base;
mod confined;
mod names;
mod podman;
mod runc;
pub mod servers;

use std::ffi::OsStr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::http::HttpPlace;
use crate::log::Log;

pub use application::Application;
pub use confined::ContainerProcess;
pub use names::NameServer;
pub use podman::Podman;
pub use runc::{CgroupView, ContainerSettings, RuncContainer};

/// How long a test waits for anything here before it fails. No test measures time with it.
const PATIENCE: Duration = Duration::from_secs(120);

/// The name of the node that all pods run on.
pub const NODE: &str = "node-1";

/// Renames the objects of a manifest so that no other pod of this test process has their names.
#[must_use]
pub fn apart(objects: &[Value]) -> Vec<Value> {
    static NUMBER: AtomicU32 = AtomicU32::new(1);
    adapt::apart(objects, NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// A running pod. Dropping it ends it and leaves what it stored on the node.
#[derive(Debug)]
pub struct Pod {
    podman: &'static Podman,
    name: String,
}

impl Pod {
    /// Runs the one pod of a manifest's objects.
    #[must_use]
    pub fn play(podman: &'static Podman, objects: &[Value]) -> Self {
        let name = objects.iter().find_map(|object| {
            let name = object["metadata"]["name"].as_str()?;
            match object["kind"].as_str()? {
                "Deployment" => Some(format!("{name}-pod-0")),
                "Pod" | "DaemonSet" => Some(name.to_owned()),
                _ => None,
            }
        });
        let name = name.expect("a pod");
        // JSON is valid YAML.
        let documents = adapt::to_podman(objects, &name, NODE);
        let text: String = documents.iter().map(|object| format!("---\n{object}\n")).collect();
        let file = podman.folder().join(format!("{name}.yaml"));
        std::fs::write(&file, text).expect("the manifest");
        // The servers of the tests listen on the loopback interface.
        let pod = Self { podman, name };
        podman.run([
            OsStr::new("play"),
            OsStr::new("kube"),
            OsStr::new("--network=host"),
            file.as_os_str(),
        ]);
        pod
    }

    /// Runs a command in a container, as Kubernetes does for a probe. Returns its exit code, standard
    /// output and standard error.
    #[must_use]
    pub fn exec(&self, container: &str, command: &[&str]) -> (Option<i32>, String, String) {
        let container = self.container(container);
        let output = self.podman.attempt([&["exec", container.as_str()], command].concat());
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    }

    /// Runs a command that succeeds, and returns what it printed.
    #[must_use]
    pub fn does(&self, container: &str, command: &[&str]) -> String {
        let (code, out, errors) = self.exec(container, command);
        assert_eq!(code, Some(0), "{command:?}\n{out}{errors}\n{}", self.log(container));
        out
    }

    /// Where a container serves HTTP after it has started this many times, as its log says.
    #[must_use]
    pub fn http(&self, container: &str, starts: usize) -> HttpPlace {
        HttpPlace::in_log(&self.log(container), starts)
    }

    /// Waits until a probe by HTTP succeeds. `probe` is its description in the manifest.
    pub fn wait_http_probe(&self, container: &str, probe: &Value, place: &HttpPlace) {
        let path = probe["httpGet"]["path"].as_str().expect("a path");
        self.wait_until(container, path, || {
            place.try_connect().is_ok_and(|mut client| client.get(path).status == 200)
        });
    }

    /// Waits until a probe that is a command succeeds. `probe` is its description in the manifest.
    pub fn wait_probe(&self, container: &str, probe: &Value) {
        let command = probe["exec"]["command"].as_array().expect("a command");
        let command: Vec<_> = command.iter().filter_map(Value::as_str).collect();
        self.wait_until(container, &format!("{command:?}"), || {
            self.exec(container, &command).0 == Some(0)
        });
    }

    /// What `podman inspect` says about a container.
    #[must_use]
    pub fn state(&self, container: &str) -> Value {
        let text = self.podman.run(["inspect", &self.container(container)]);
        let mut containers: Vec<Value> = serde_json::from_str(&text).expect("JSON");
        containers.remove(0)
    }

    /// The main process of a running container.
    #[must_use]
    pub fn process(&self, container: &str) -> ContainerProcess {
        let pid = self.state(container)["State"]["Pid"].as_u64().filter(|pid| *pid > 0);
        ContainerProcess::of(pid.unwrap_or_else(|| panic!("{container}: {}", self.log(container))))
    }

    /// Kills a container's process, as the kernel does when memory is short, and waits until podman
    /// has restarted it.
    pub fn kill(&self, container: &str) {
        let before = self.process(container).pid();
        kill(Pid::from_raw(before.cast_signed()), Signal::SIGKILL).expect("it runs");
        self.wait_until(container, "another process", || {
            let state = &self.state(container)["State"];
            let pid = state["Pid"].as_u64().unwrap_or_default();
            state["Running"] == true && pid != 0 && pid != u64::from(before)
        });
    }

    /// Stops a container with SIGTERM, as Kubernetes does, and returns its exit code.
    #[must_use]
    pub fn stop(&self, container: &str) -> Option<i64> {
        self.podman.run(["stop", "--time", "60", &self.container(container)]);
        self.state(container)["State"]["ExitCode"].as_i64()
    }

    /// All that a container has logged since it was created.
    #[must_use]
    pub fn log<'a>(&'a self, container: &'a str) -> Log<'a> {
        Log::new(|| self.output(container))
    }

    fn output(&self, container: &str) -> String {
        let output = self.podman.attempt(["logs", &self.container(container)]);
        [output.stdout, output.stderr]
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .concat()
    }

    /// Waits until `holds` returns true. The message of a failure has the log of `container`.
    pub fn wait_until(&self, container: &str, what: &str, mut holds: impl FnMut() -> bool) {
        let began = Instant::now();
        while !holds() {
            assert!(began.elapsed() < PATIENCE, "gave up waiting: {what}\n{}", self.log(container));
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn container(&self, name: &str) -> String {
        format!("{}-{name}", self.name)
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        self.podman.attempt(["pod", "rm", "--force", "--time", "0", &self.name]);
    }
}
