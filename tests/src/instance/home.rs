//! The folder of one server, which is removed when it is dropped or the test process ends.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::unistd::{Pid, User, geteuid};

use crate::cleanup;
use crate::processes::processes_in;

/// Kills every process that works in the data folder, even a stopped one, frees PostgreSQL's System V
/// shared memory, which outlives a killed server, and removes the folder.
const CLEANUP: &str = r#"
trap '' HUP INT TERM
read -r _
while
    pids=$(find -L /proc/[0-9]*/cwd -maxdepth 0 -samefile "$1/data" 2>/dev/null | cut -d/ -f3)
    [ -n "$pids" ]
do
    kill -9 $pids
done
set -- "$1" $(sed -n 7p "$1/data/postmaster.pid")
[ $# != 3 ] || ipcrm -m "$3"
rm -rf "$1"
"#;

/// The folder in which a server keeps everything.
#[derive(Debug)]
pub(crate) struct Home {
    folder: PathBuf,
    account: Option<User>,
    cleanup: Child,
}

impl Home {
    /// Makes a folder. If the tests run as root, it belongs to the system account `account`, since
    /// servers refuse to run as root.
    pub(crate) fn new(account: &str) -> Self {
        let folder = tempfile::Builder::new().prefix("leafd-server-").tempdir();
        // The cleanup removes it. /proc shows working directories without symbolic links.
        let folder = folder.expect("a folder").keep().canonicalize().expect("its path");
        let cleanup = cleanup::start(CLEANUP, [&folder]);
        let account = geteuid().is_root().then(|| {
            let user = User::from_name(account).expect("the accounts of this system");
            user.unwrap_or_else(|| {
                panic!("there is no account {account}: is its server installed?")
            })
        });
        let home = Self { folder, account, cleanup };
        home.own(&home.folder);
        home.make("data");
        home.make("tmp");
        home
    }

    /// Makes a subfolder that only the server can read.
    pub(crate) fn make(&self, name: &str) -> PathBuf {
        let path = self.folder.join(name);
        std::fs::DirBuilder::new().mode(0o700).create(&path).expect("a folder in it");
        self.own(&path);
        path
    }

    fn own(&self, path: &Path) {
        if let Some(user) = &self.account {
            chown(path, Some(user.uid.as_raw()), Some(user.gid.as_raw())).expect("chown");
        }
    }

    /// Gives the account everything in a folder.
    pub(crate) fn own_all(&self, path: &Path) {
        self.own(path);
        if path.is_dir() {
            let entries = std::fs::read_dir(path).expect("a folder").flatten();
            entries.for_each(|entry| self.own_all(&entry.path()));
        }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Writes a file into the data folder that only the server can read.
    pub(crate) fn write(&self, name: &str, content: &str) {
        let path = self.data().join(name);
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(&path);
        file.and_then(|mut file| file.write_all(content.as_bytes())).expect("a file in it");
        self.own(&path);
    }

    /// The server's processes.
    pub(crate) fn processes(&self) -> Vec<Pid> {
        processes_in(&self.data())
    }

    /// Prepares a program to run in this folder, as the account, and with a clean environment, since
    /// servers read settings from it.
    pub(crate) fn settle<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .env_clear()
            .env("PATH", format!("{path}:/usr/sbin:/usr/bin:/sbin:/bin"))
            .env("LC_ALL", "C")
            .env("TMPDIR", self.folder.join("tmp"))
            .current_dir(self.data())
            .stdin(Stdio::null());
        match &self.account {
            // This also drops root's groups.
            Some(user) => command.uid(user.uid.as_raw()).gid(user.gid.as_raw()),
            None => command,
        }
    }

    /// The message for a program that does not start at all.
    pub(crate) fn cannot_start(&self, command: &Command, error: &std::io::Error) -> String {
        let program = command.get_program().display();
        let account = self.account.as_ref().map_or("this user", |user| &user.name);
        let folder = self.folder.display();
        format!("{program} does not start: {error}. Is it installed? Can {account} reach {folder}?")
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        cleanup::finish(&mut self.cleanup);
    }
}

/// Copies the contents of `from`, with owners and modes.
pub(crate) fn copy_folder(from: &Path, to: &Path) {
    let mut command = Command::new("cp");
    command.args(["-a", "--reflink=auto"]).arg(from.join(".")).arg(to);
    let output = command.output().expect("cp");
    assert!(output.status.success(), "{command:?}: {output:?}");
}
