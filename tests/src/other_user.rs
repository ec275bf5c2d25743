//! Another user of this machine who connects to leafd. Tests that use it need root.

use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use leaf_client::wire::{Reply, Response};
use nix::unistd::Uid;

use crate::binaries::program;
use crate::raw::{Raw, hello};

/// A user, given by IDs that need not have names.
#[derive(Debug, Clone)]
pub struct OtherUser {
    /// The user ID.
    pub uid: u32,
    /// The group ID.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
}

/// A connection of another user. Dropping it closes it.
#[derive(Debug)]
pub struct UserConnection {
    /// The connection.
    pub raw: Raw,
    relay: Child,
}

impl Drop for UserConnection {
    fn drop(&mut self) {
        let _ = self.relay.kill();
        let _ = self.relay.wait();
    }
}

/// Connects to the path in its argument, and relays between the connection and its standard input,
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
        pass  # The other direction goes on until its own end.
threading.Thread(target=pass_on, args=(ours, theirs), daemon=True).start()
pass_on(theirs, ours)
";

impl OtherUser {
    /// A user with a primary group only.
    #[must_use]
    pub fn new(uid: u32, gid: u32) -> Self {
        assert!(
            Uid::effective().is_root(),
            "only root can act as another user: run the tests as root"
        );
        Self { uid, gid, groups: Vec::new() }
    }

    /// Adds supplementary groups.
    #[must_use]
    pub fn in_groups(mut self, groups: &[u32]) -> Self {
        self.groups = groups.to_vec();
        self
    }

    /// A command that runs its arguments as this user.
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

    /// Connects to the socket at `path` and sends nothing.
    #[must_use]
    pub fn connect(&self, path: &Path) -> UserConnection {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        let relay = self
            .command()
            .args(["/usr/bin/python3", "-c", RELAY])
            .arg(path)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .spawn()
            .expect("setpriv and python3");
        UserConnection { raw: Raw::over(ours), relay }
    }

    /// Connects to the socket at `path`, sends a hello, and returns the answer.
    #[must_use]
    pub fn greets(&self, path: &Path) -> (UserConnection, Response) {
        let mut theirs = self.connect(path);
        theirs.raw.send(&hello());
        let answer = theirs.raw.receive().expect("an answer to the hello");
        (theirs, answer)
    }

    /// Connects to the socket at `path`, and asserts that the handshake succeeds.
    #[must_use]
    pub fn let_in(&self, path: &Path) -> UserConnection {
        let (theirs, answer) = self.greets(path);
        assert!(matches!(answer.reply, Reply::Hello { .. }), "{answer:?}");
        theirs
    }

    /// Runs leafctl from a copy in `folder` that everybody can read.
    #[must_use]
    pub fn leafctl(&self, folder: &Path, socket: &Path, arguments: &[&str]) -> Output {
        let leafctl = readable_copy("leafctl", folder);
        let mut command = self.command();
        command.arg(leafctl).arg("--socket").arg(socket).args(arguments);
        command.stdin(Stdio::null()).output().expect("leafctl")
    }
}

/// Makes `folder` readable for everybody.
pub fn open_to_all(folder: &Path) {
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder, mode).expect("chmod");
}

/// Copies a program to `folder`, since other users may not be able to read the workspace.
fn readable_copy(name: &str, folder: &Path) -> PathBuf {
    let copy = folder.join(name);
    if !copy.exists() {
        std::fs::copy(program(name), &copy).expect("a copy");
        open_to_all(&copy);
    }
    copy
}
