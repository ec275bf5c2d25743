//! A podman that shares nothing with the machine's: it has its storage, locks and settings in a folder
//! of its own, which is removed when the test process ends.

use std::ffi::OsStr;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::{fs, io::Write};

use super::{NameServer, base};
use crate::binaries::{program, workspace};
use crate::cleanup;

/// leafd's image, by its name in the manifests.
pub const LEAFD_IMAGE: &str = "registry.example/leafd:0.1.0";
/// The application's image, by its name in the manifests.
pub const APPLICATION_IMAGE: &str = "registry.example/orders:1.0.0";
/// The image of the container that prepares the directories of a node.
pub const SHELL_IMAGE: &str = "docker.io/library/busybox:1.36";

/// Settings for a machine without systemd and with low limits on files and processes. The default
/// kind of locks would be shared with the machine's podman.
const CONTAINERS: &str = r#"
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
lock_type = "file"
runtime = "runc"
"#;

/// Ends all pods and removes the folder.
const CLEANUP: &str = r#"
trap '' HUP INT TERM
read -r _
"$1/podman" pod rm --force --all --time 0
"$1/podman" rm --force --all --time 0
cut -d' ' -f2 /proc/mounts | grep "^$1/" | sort -r | while read -r mount; do umount -l "$mount"; done
rm -rf "$1"
"#;

/// A podman that has the images of the manifests.
#[derive(Debug)]
pub struct Podman {
    folder: PathBuf,
    /// Cleans up when this process ends.
    _cleanup: Child,
}

impl Podman {
    /// The podman that all tests of this process share. It needs root and Debian's package `podman`.
    /// leafd's image is built as an operator builds it; the application's adds the program
    /// `application` to it.
    pub fn shared(application: &Path) -> &'static Self {
        static SHARED: OnceLock<Podman> = OnceLock::new();
        SHARED.get_or_init(|| {
            let podman = Self::new();
            podman.build_images(application);
            podman
        })
    }

    fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("leafd-pod-").tempdir();
        // The cleanup removes it. /proc shows mounts without symbolic links.
        let folder = folder.expect("a folder").keep().canonicalize().expect("its path");
        let shown = folder.display();
        // It takes the place of a cluster's DNS.
        let names = NameServer::shared().address();
        let containers = format!("[containers]\ndns_servers = [\"{names}\"]\n{CONTAINERS}");
        fs::write(folder.join("containers.conf"), containers).expect("the settings");
        let storage = format!(
            "[storage]\ndriver = \"overlay\"\ngraphroot = \"{shown}/storage\"\nrunroot = \"{shown}/run\"\n"
        );
        fs::write(folder.join("storage.conf"), storage).expect("the settings");
        let script = format!(
            "#!/bin/sh\nexport CONTAINERS_CONF={shown}/containers.conf\n\
             export CONTAINERS_STORAGE_CONF={shown}/storage.conf DISABLE_HC_SYSTEMD=true\n\
             exec podman --tmpdir {shown}/tmp \"$@\"\n"
        );
        let mut options = fs::OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o700).open(folder.join("podman"));
        file.and_then(|mut file| file.write_all(script.as_bytes())).expect("the script");
        let cleanup = cleanup::start(CLEANUP, [&folder]);
        Self { folder, _cleanup: cleanup }
    }

    fn build_images(&self, application: &Path) {
        let base = base::tar();
        let base = base.to_str().expect("a plain path");
        self.run([
            "import",
            "--quiet",
            "--change",
            "ENV PATH=/usr/sbin:/usr/bin",
            base,
            SHELL_IMAGE,
        ]);
        let context = self.folder.join("context");
        fs::create_dir(&context).expect("the context");
        for program in [program("leafd"), program("leafctl"), application.to_owned()] {
            let name = program.file_name().expect("a name");
            let to = context.join(name);
            // Most of a debug build is debug information.
            let status = Command::new("strip").arg("-o").arg(&to).arg(&program).status();
            assert!(status.is_ok_and(|status| status.success()), "strip {program:?}");
            fs::set_permissions(&to, fs::Permissions::from_mode(0o755)).expect("its mode");
        }
        fs::copy(workspace().join("LICENSE"), context.join("LICENSE")).expect("the licence");
        let file = workspace().join("kubernetes/Containerfile");
        let base = format!("BASE={SHELL_IMAGE}");
        let arguments = ["--build-arg", &base, "--build-arg", "PROGRAMS=.", "-t", LEAFD_IMAGE];
        self.build(&file, &arguments, &context);
        let file = self.folder.join("Application");
        let name = application.file_name().and_then(OsStr::to_str).expect("a name");
        let lines = format!("FROM {LEAFD_IMAGE}\nCOPY {name} /usr/bin/\nENTRYPOINT [\"{name}\"]\n");
        fs::write(&file, lines).expect("a file");
        self.build(&file, &["-t", APPLICATION_IMAGE], &context);
    }

    /// Builds an image without fetching anything.
    fn build(&self, file: &Path, arguments: &[&str], context: &Path) {
        let mut all: Vec<&OsStr> = ["build", "--quiet", "--network", "none", "--pull=never", "-f"]
            .map(OsStr::new)
            .to_vec();
        all.push(file.as_os_str());
        all.extend(arguments.iter().map(OsStr::new));
        all.push(context.as_os_str());
        self.run(all);
    }

    /// The folder with all its files.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Runs a podman command that may fail.
    pub fn attempt<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Output {
        let mut command = Command::new(self.folder.join("podman"));
        // Some of podman's helpers depend on the working directory.
        command.args(arguments).stdin(Stdio::null()).current_dir(&self.folder);
        command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
    }

    /// Runs a podman command that succeeds, and returns what it printed.
    pub fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> String {
        let arguments: Vec<_> =
            arguments.into_iter().map(|argument| argument.as_ref().to_owned()).collect();
        let output = self.attempt(&arguments);
        assert!(
            output.status.success(),
            "podman {arguments:?} failed\n{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).expect("text")
    }
}
