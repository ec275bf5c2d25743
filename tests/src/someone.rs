//! Another user of this machine, who connects to leafd. Tests that need one run as root.

use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use leaf_client::wire::Response;
use nix::unistd::Uid;

use crate::binaries::program;
use crate::raw::{Raw, hello};

/// A user, known by numbers, which need not be in any list of users.
#[derive(Debug, Clone)]
pub struct Someone {
    /// The user ID.
    pub uid: u32,
    /// The group ID.
    pub gid: u32,
    /// Further groups.
    pub groups: Vec<u32>,
}

/// A connection of somebody else. Dropping it closes it.
#[derive(Debug)]
pub struct Theirs {
    /// The connection.
    pub raw: Raw,
    relay: Child,
}

impl Drop for Theirs {
    fn drop(&mut self) {
        let _ = self.relay.kill();
        let _ = self.relay.wait();
    }
}

/// Connects as whoever runs it, and passes bytes on between the connection and its standard input,
/// which is a socket.
const RELAY: &str = r"
import socket, sys, threading
ours = socket.socket(fileno=0)
theirs = socket.socket(socket.AF_UNIX)
theirs.connect(sys.argv[1])
def pass_on(source, sink):
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # What the other direction still has is passed on.
threading.Thread(target=pass_on, args=(ours, theirs), daemon=True).start()
pass_on(theirs, ours)
";

impl Someone {
    /// A user with one group.
    ///
    /// # Panics
    /// When the test does not run as root.
    #[must_use]
    pub fn new(uid: u32, gid: u32) -> Self {
        assert!(
            Uid::effective().is_root(),
            "only root can be somebody else; run the tests as root"
        );
        Self { uid, gid, groups: Vec::new() }
    }

    /// The same with further groups.
    #[must_use]
    pub fn in_groups(mut self, groups: &[u32]) -> Self {
        self.groups = groups.to_vec();
        self
    }

    /// A command that runs as this user. What is to be run follows as its arguments.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &self.uid.to_string(), "--regid", &self.gid.to_string()]);
        if self.groups.is_empty() {
            command.arg("--clear-groups");
        } else {
            let groups: Vec<_> = self.groups.iter().map(u32::to_string).collect();
            command.args(["--groups", &groups.join(",")]);
        }
        command.args(["--inh-caps", "-all", "--no-new-privs"]);
        command
    }

    /// Connects to `path` and says nothing.
    ///
    /// # Panics
    /// When there is no program to connect with.
    #[must_use]
    pub fn connect(&self, path: &Path) -> Theirs {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        let relay = self
            .command()
            .args(["/usr/bin/python3", "-c", RELAY])
            .arg(path)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .spawn()
            .expect("setpriv and python3");
        Theirs { raw: Raw::over(ours), relay }
    }

    /// Connects to `path`, says hello, and returns what is said to that.
    ///
    /// # Panics
    /// When nothing is.
    #[must_use]
    pub fn greets(&self, path: &Path) -> (Theirs, Response) {
        let mut theirs = self.connect(path);
        theirs.raw.send(&hello());
        let answer = theirs.raw.receive().expect("an answer to the hello");
        (theirs, answer)
    }

    /// Runs leafctl, from a copy in `folder` that everybody can read.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn leafctl(&self, folder: &Path, socket: &Path, arguments: &[&str]) -> Output {
        let leafctl = readable_copy("leafctl", folder);
        let mut command = self.command();
        command.arg(leafctl).arg("--socket").arg(socket).args(arguments);
        command.stdin(Stdio::null()).output().expect("leafctl")
    }
}

/// Lets everybody into `folder`.
///
/// # Panics
/// When that fails.
pub fn open_to_all(folder: &Path) {
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder, mode).expect("chmod");
}

/// A copy of a program that other users can run, wherever the workspace is.
fn readable_copy(name: &str, folder: &Path) -> PathBuf {
    let copy = folder.join(name);
    if !copy.exists() {
        std::fs::copy(program(name), &copy).expect("a copy");
        open_to_all(&copy);
    }
    copy
}
