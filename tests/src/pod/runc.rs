//! One container, run by runc as Docker and Kubernetes have it run: with a root, processes, a network
//! and cgroups of its own. podman would choose the view of the cgroups by the host's version of them.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::{PATIENCE, base};
use crate::binaries::program;
use crate::cleanup;
use crate::log::Log;

/// Runs the container, and removes it and the folder in the end. The exit status appears at once.
const SCRIPT: &str = r#"
trap '' HUP INT TERM
folder=$1 name=$2
{
    runc --root "$folder/runc" run --bundle "$folder" --pid-file "$folder/pid" "$name" \
        </dev/null >"$folder/output" 2>&1
    echo $? >"$folder/status.new"
    mv "$folder/status.new" "$folder/status"
} &
read -r _
until [ -e "$folder/status" ]; do
    runc --root "$folder/runc" delete --force "$name"
    sleep 0.1
done
rm -rf "$folder"
"#;

/// How a container sees cgroups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CgroupView {
    /// Its own as the root, read-only: Docker's and Kubernetes' default with version 2.
    Own,
    /// The same, and its root user can make others below.
    OwnWritable,
    /// As the host sees them, read-only: `docker run --cgroupns host`.
    Host,
}

/// What a container is to run, and where.
#[derive(Debug, Clone, Copy)]
pub struct ContainerSettings<'a> {
    /// Its user and group, without capabilities.
    pub uid: u32,
    /// How it sees cgroups.
    pub cgroups: CgroupView,
    /// A folder of this host that it can only read, and the path there.
    pub reads: (&'a Path, &'a str),
    /// A folder of this host that it can write, and the path there.
    pub writes: (&'a Path, &'a str),
    /// The command, which finds leafctl, a shell and Debian's essential programs.
    pub command: &'a [&'a str],
}

/// A container. Dropping it kills it.
#[derive(Debug)]
pub struct RuncContainer {
    folder: PathBuf,
    keeper: Child,
}

impl ContainerSettings<'_> {
    /// As runc reads it, for a container `name`.
    fn to_json(self, name: &str) -> Value {
        let is_own = self.cgroups != CgroupView::Host;
        let kinds = ["pid", "mount", "network", "ipc", "uts"].into_iter();
        let kinds = kinds.chain(is_own.then_some("cgroup"));
        let namespaces: Vec<_> = kinds.map(|kind| json!({"type": kind})).collect();
        let cgroups = match self.cgroups {
            CgroupView::Own => mount("cgroup2", "/sys/fs/cgroup", "ro"),
            CgroupView::OwnWritable => mount("cgroup2", "/sys/fs/cgroup", "rw"),
            // Outside of a cgroup namespace, another mount would change the options of the host's.
            CgroupView::Host => bind((host_cgroups(), "/sys/fs/cgroup"), "ro"),
        };
        json!({
            "ociVersion": "1.0.2",
            "process": {
                "user": {"uid": self.uid, "gid": self.uid},
                "args": self.command,
                "env": ["PATH=/usr/bin:/bin"],
                "cwd": "/",
                "capabilities": {},
                "noNewPrivileges": true,
            },
            "root": {"path": base::root(), "readonly": true},
            "mounts": [
                mount("proc", "/proc", "rw"),
                mount("tmpfs", "/dev", "rw"),
                mount("tmpfs", "/run", "rw"),
                mount("tmpfs", "/tmp", "rw"),
                mount("sysfs", "/sys", "ro"),
                cgroups,
                bind((&program("leafctl"), "/usr/bin/leafctl"), "ro"),
                bind(self.reads, "ro"),
                bind(self.writes, "rw"),
            ],
            "linux": {"namespaces": namespaces, "cgroupsPath": format!("/{name}")},
        })
    }
}

impl RuncContainer {
    /// Starts a container. It needs root.
    #[must_use]
    pub fn start(settings: ContainerSettings<'_>) -> Self {
        assert!(
            nix::unistd::geteuid().is_root(),
            "a container needs root: run the tests as root, or tests/run --without-pod"
        );
        let folder = tempfile::Builder::new().prefix("leafd-container-").tempdir();
        // The keeper removes it.
        let folder = folder.expect("a folder").keep();
        let name = folder.file_name().and_then(OsStr::to_str).expect("a name");
        let specification = settings.to_json(name).to_string();
        fs::write(folder.join("config.json"), specification).expect("the specification");
        let keeper = cleanup::start(SCRIPT, [folder.as_os_str(), name.as_ref()]);
        Self { folder, keeper }
    }

    /// What its processes have written.
    #[must_use]
    pub fn output(&self) -> Log<'static> {
        Log::file(self.folder.join("output"))
    }

    /// Sends a signal to process 1 of the container, from outside of it, as `docker stop` and
    /// `docker kill` do.
    pub fn signal(&self, signal: Signal) {
        let pid = self.read("pid").parse().expect("a process ID");
        kill(Pid::from_raw(pid), signal)
            .unwrap_or_else(|error| panic!("{error}\n{}", self.output()));
    }

    /// Where this host finds a path of the container, while that runs.
    #[must_use]
    pub fn path(&self, inside: &str) -> PathBuf {
        format!("/proc/{}/root{inside}", self.read("pid")).into()
    }

    /// Whether its process 1 has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.folder.join("status").exists()
    }

    /// Waits until process 1 has ended. Returns its exit status, as `docker run` does, and the output.
    #[must_use]
    pub fn wait(self) -> (i32, String) {
        let status = self.read("status").parse().expect("a status");
        (status, self.output().to_string())
    }

    /// What runc has written to a file, as soon as it has.
    fn read(&self, name: &str) -> String {
        let began = Instant::now();
        loop {
            match fs::read_to_string(self.folder.join(name)) {
                Ok(text) if !text.is_empty() => return text.trim().to_owned(),
                _ => {}
            }
            assert!(began.elapsed() < PATIENCE, "there is no {name}\n{}", self.output());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for RuncContainer {
    fn drop(&mut self) {
        cleanup::finish(&mut self.keeper);
    }
}

/// Where this host has cgroups of version 2: alone, or beside version 1.
fn host_cgroups() -> &'static Path {
    let mounts = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(Path::new);
    let found = mounts.into_iter().find(|mount| mount.join("cgroup.controllers").exists());
    found.expect("cgroups of version 2")
}

fn mount(kind: &str, at: &str, access: &str) -> Value {
    json!({"type": kind, "source": kind, "destination": at, "options": ["nosuid", access]})
}

fn bind((from, at): (&Path, &str), access: &str) -> Value {
    json!({"type": "bind", "source": from, "destination": at, "options": ["bind", access]})
}
