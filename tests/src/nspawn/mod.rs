//! A real systemd: a Debian of its own in `systemd-nspawn`, with a private network and leafd's
//! package in it. Its root is shared with all others and overlaid by memory, so that one boots in
//! seconds and leaves nothing.

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

/// How long anything may take before a test gives up. No test measures time by it.
const PATIENCE: Duration = Duration::from_secs(180);

/// A Debian that has booted. Dropping it ends it.
#[derive(Debug)]
pub struct Container {
    keeper: Keeper,
    /// Its process 1, as this host numbers it.
    leader: u32,
}

/// What a command in a container did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// The exit status.
    pub code: Option<i32>,
    /// Standard output and standard error, in this order.
    pub text: String,
}

impl Container {
    /// Boots one without leafd.
    ///
    /// # Panics
    /// When it does not, with what it wrote to its console.
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

    /// Boots one and installs leafd's package.
    ///
    /// # Panics
    /// When either does not go.
    #[must_use]
    pub fn with_leafd() -> Self {
        let container = Self::boot();
        container.install(&Package::build());
        container
    }

    /// Installs a package, or upgrades to it.
    ///
    /// # Panics
    /// When dpkg fails.
    pub fn install(&self, package: &Package) {
        let file = self.bring(package);
        self.ok(&format!("dpkg --install {file}"));
    }

    /// Puts a package where dpkg finds it; returns the path there.
    ///
    /// # Panics
    /// When it cannot be copied.
    pub fn bring(&self, package: &Package) -> String {
        let file = format!("/root/leafd-{}.deb", package.version());
        std::fs::copy(package.path(), self.path(&file)).expect("a copy of the package");
        file
    }

    /// Executes a shell script in it, as root.
    #[must_use]
    pub fn sh(&self, script: &str) -> Ran {
        enter(self.leader, &["sh", "-c", script])
    }

    /// Executes a shell script that succeeds; returns what it wrote.
    ///
    /// # Panics
    /// When it fails.
    pub fn ok(&self, script: &str) -> String {
        let ran = self.sh(script);
        assert_eq!(ran.code, Some(0), "{script}\n{}\n{}", ran.text, self.journal());
        ran.text
    }

    /// Writes a file in it, and the folders above it.
    ///
    /// # Panics
    /// When it cannot.
    pub fn write(&self, path: &str, content: &str) {
        let path = self.path(path);
        let folder = path.parent().expect("a file has a folder");
        std::fs::create_dir_all(folder).expect("a folder in the container");
        std::fs::write(&path, content).expect("a file in the container");
    }

    /// Where this host sees a path of the container.
    #[must_use]
    pub fn path(&self, inside: &str) -> PathBuf {
        format!("/proc/{}/root{inside}", self.leader).into()
    }

    /// How clients on this host reach its leafd, which takes them for root.
    #[must_use]
    pub fn options(&self) -> Options {
        Options::at(self.path("/run/leafd/leafd.sock"))
    }

    /// A property of a unit, as `systemctl show` has it.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn property(&self, unit: &str, name: &str) -> String {
        self.ok(&format!("systemctl show --value --property={name} {unit}")).trim().to_owned()
    }

    /// What `systemctl status` shows; its exit status is not looked at.
    #[must_use]
    pub fn status(&self, unit: &str) -> String {
        self.sh(&format!("systemctl status --no-pager --full --lines=30 {unit}")).text
    }

    /// What leafd and systemd have written about its units.
    #[must_use]
    pub fn journal(&self) -> Log<'_> {
        Log::new(|| {
            self.sh("journalctl --no-pager --output=short-precise --lines=400 \
                     --unit=leafd.service --unit=leafd.socket")
                .text
        })
    }

    /// Waits until something is so.
    ///
    /// # Panics
    /// When it does not come.
    pub fn until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let began = Instant::now();
        while !is_so() {
            assert!(began.elapsed() < PATIENCE, "never: {what}\n{}", self.journal());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until a property of a unit has a value.
    ///
    /// # Panics
    /// When it never has.
    pub fn until_property(&self, unit: &str, name: &str, value: &str) {
        self.until(&format!("{name} of {unit} is {value}"), || self.property(unit, name) == value);
    }

    /// The process of the service in the container's own numbers; 0 when there is none.
    ///
    /// # Panics
    /// When systemd does not tell.
    #[must_use]
    pub fn main_pid(&self) -> u32 {
        self.property("leafd.service", "MainPID").parse().expect("a number")
    }

    /// The folder that the container needs on this host; it goes with it.
    #[must_use]
    pub fn folder(&self) -> &std::path::Path {
        self.keeper.folder()
    }
}

/// Executes a command beside a container's process 1.
fn enter(leader: u32, command: &[&str]) -> Ran {
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
    Ran { code: output.status.code(), text }
}
