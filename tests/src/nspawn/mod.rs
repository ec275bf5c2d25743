//! A real systemd: a Debian in `systemd-nspawn`, with a private network and leafd's package. All
//! containers share a read-only root and write to memory, so that one boots in seconds and leaves
//! nothing behind.

mod base;
mod keeper;
mod package;

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use leaf_client::Options;

use self::keeper::Keeper;
pub use self::package::Package;
use crate::log::Log;

/// How long a test waits for anything here before it fails. No test measures time with it.
const PATIENCE: Duration = Duration::from_secs(180);

/// A booted container. Dropping it ends it.
#[derive(Debug)]
pub struct Container {
    keeper: Keeper,
    /// The ID of its process 1 on this host.
    leader: u32,
}

/// The result of a command in a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandOutput {
    /// The exit status, unless a signal ended the command.
    pub code: Option<i32>,
    /// Standard output followed by standard error.
    pub text: String,
}

impl Container {
    /// Boots a container without leafd. It needs root.
    #[must_use]
    pub fn boot() -> Self {
        let keeper = Keeper::start(&base::root());
        let began = Instant::now();
        loop {
            if let Some(leader) = keeper.leader() {
                let state = enter(leader, &["systemctl", "is-system-running"]);
                if state.text.trim() == "running" {
                    return Self { keeper, leader };
                }
            }
            let console = keeper.console();
            assert!(began.elapsed() < PATIENCE, "the container does not boot\n{console}");
            assert!(!keeper.has_ended(), "systemd-nspawn has ended\n{console}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Boots a container and installs leafd's package.
    #[must_use]
    pub fn with_leafd() -> Self {
        let container = Self::boot();
        container.install(&Package::build());
        container
    }

    /// Installs a package, or upgrades to it.
    pub fn install(&self, package: &Package) {
        let file = self.bring(package);
        self.ok(&format!("dpkg --install {file}"));
    }

    /// Copies a package into the container and returns its path there.
    pub fn bring(&self, package: &Package) -> String {
        let file = format!("/root/leafd-{}.deb", package.version());
        std::fs::copy(package.path(), self.path(&file)).expect("a copy of the package");
        file
    }

    /// Runs a shell script in the container, as root.
    #[must_use]
    pub fn sh(&self, script: &str) -> CommandOutput {
        enter(self.leader, &["sh", "-c", script])
    }

    /// Runs a shell script that succeeds, and returns what it printed.
    pub fn ok(&self, script: &str) -> String {
        let ran = self.sh(script);
        assert_eq!(ran.code, Some(0), "{script}\n{}\n{}", ran.text, self.journal());
        ran.text
    }

    /// Writes a file in the container, and creates its folder.
    pub fn write(&self, path: &str, content: &str) {
        let path = self.path(path);
        let folder = path.parent().expect("a file has a folder");
        std::fs::create_dir_all(folder).expect("a folder in the container");
        std::fs::write(&path, content).expect("a file in the container");
    }

    /// Where this host finds a path of the container.
    #[must_use]
    pub fn path(&self, inside: &str) -> PathBuf {
        format!("/proc/{}/root{inside}", self.leader).into()
    }

    /// Options for clients on this host. The container's leafd takes them for root.
    #[must_use]
    pub fn options(&self) -> Options {
        Options::at(self.path("/run/leafd/leafd.sock"))
    }

    /// A property of a unit, as `systemctl show` prints it.
    #[must_use]
    pub fn property(&self, unit: &str, name: &str) -> String {
        self.ok(&format!("systemctl show --value --property={name} {unit}")).trim().to_owned()
    }

    /// What `systemctl status` prints, whatever its exit status.
    #[must_use]
    pub fn status(&self, unit: &str) -> String {
        self.sh(&format!("systemctl status --no-pager --full --lines=30 {unit}")).text
    }

    /// What leafd and systemd have logged about leafd's units.
    #[must_use]
    pub fn journal(&self) -> Log<'_> {
        Log::new(|| {
            self.sh("journalctl --no-pager --output=short-precise --lines=400 \
                     --unit=leafd.service --unit=leafd.socket")
                .text
        })
    }

    /// Waits until `is_so` returns true.
    pub fn until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let began = Instant::now();
        while !is_so() {
            assert!(began.elapsed() < PATIENCE, "gave up waiting: {what}\n{}", self.journal());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until a property of a unit has a value.
    pub fn until_property(&self, unit: &str, name: &str, value: &str) {
        self.until(&format!("{name} of {unit} is {value}"), || self.property(unit, name) == value);
    }

    /// The process ID of the service inside the container; 0 if it does not run.
    #[must_use]
    pub fn main_pid(&self) -> u32 {
        self.property("leafd.service", "MainPID").parse().expect("a number")
    }

    /// The folder of the container on this host, which is removed with it.
    #[must_use]
    pub fn folder(&self) -> &std::path::Path {
        self.keeper.folder()
    }
}

/// Runs a command in the namespaces of a container's process 1.
fn enter(leader: u32, command: &[&str]) -> CommandOutput {
    let limit = format!("{}", PATIENCE.as_secs());
    let output = Command::new("nsenter")
        .args(["--all", "--target", &leader.to_string(), "--", "env", "--ignore-environment"])
        .args(["PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "HOME=/root", "TERM=dumb"])
        .args(["DEBIAN_FRONTEND=noninteractive", "timeout", "--kill-after=5", &limit])
        .args(command)
        .stdin(Stdio::null())
        .output()
        .expect("nsenter starts");
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    CommandOutput { code: output.status.code(), text }
}
