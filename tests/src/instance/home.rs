//! The folder of one server, and the keeper that clears it away: a shell that waits for the end of
//! its input, which comes when the test lets go of it or the test process ends, however it ends.
//! Statics are never dropped and a killed process runs no destructor; a closed pipe is certain.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::unistd::{Pid, User, geteuid};

/// Kills every process that works in the data folder, stopped ones as well, takes PostgreSQL's bit
/// of System V memory away, which outlives a killed server, and removes the folder.
const KEEPER: &str = r#"
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

/// A folder that a server keeps everything in.
#[derive(Debug)]
pub(crate) struct Home {
    folder: PathBuf,
    account: Option<User>,
    keeper: Child,
}

impl Home {
    /// A new one, of the system's account `account` if the tests run as root: no server likes to.
    pub(crate) fn new(account: &str) -> Self {
        let folder = tempfile::Builder::new().prefix("leafd-server-").tempdir();
        // Removed by the keeper. /proc shows working directories without symbolic links.
        let folder = folder.expect("a folder").keep().canonicalize().expect("its path");
        let keeper = Command::new("sh")
            .args(["-c", KEEPER, "keeper"])
            .arg(&folder)
            .process_group(0) // Control-C is for the tests; the keeper has to outlive them.
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let account = geteuid().is_root().then(|| {
            let user = User::from_name(account).expect("the accounts of this system");
            user.unwrap_or_else(|| {
                panic!("there is no account {account}: is its server installed?")
            })
        });
        let home = Self { folder, account, keeper: keeper.expect("sh starts") };
        home.own(&home.folder);
        home.make("data");
        home.make("tmp");
        home
    }

    /// Makes a folder in it that only the server reads.
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

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Puts a file into the data folder that only the server reads.
    pub(crate) fn write(&self, name: &str, content: &str) {
        let path = self.data().join(name);
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(&path);
        file.and_then(|mut file| file.write_all(content.as_bytes())).expect("a file in it");
        self.own(&path);
    }

    /// The processes that work here.
    pub(crate) fn processes(&self) -> Vec<Pid> {
        processes_in(&self.data())
    }

    /// Lets a program run here and nowhere else: with the account, and without the environment,
    /// since servers take settings from it.
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
            // This also leaves root's groups.
            Some(user) => command.uid(user.uid.as_raw()).gid(user.gid.as_raw()),
            None => command,
        }
    }

    /// What may be wrong when a program does not start at all.
    pub(crate) fn cannot_start(&self, command: &Command, error: &std::io::Error) -> String {
        let program = command.get_program().display();
        let account = self.account.as_ref().map_or("this user", |user| &user.name);
        let folder = self.folder.display();
        format!("{program} does not start: {error}. Is it installed? Can {account} reach {folder}?")
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

/// The processes whose working directory is `folder`. Each server works in its own data folder,
/// and so do PostgreSQL's children, even those whose parent is gone.
///
/// # Panics
/// When the system does not tell.
#[must_use]
pub fn processes_in(folder: &Path) -> Vec<Pid> {
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let works_here =
        |pid: &i32| std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|path| path == folder);
    pids.filter(works_here).map(Pid::from_raw).collect()
}

/// Copies what is in `from`, with owners and modes.
pub(crate) fn copy_folder(from: &Path, to: &Path) {
    let mut command = Command::new("cp");
    command.args(["-a", "--reflink=auto"]).arg(from.join(".")).arg(to);
    let output = command.output().expect("cp");
    assert!(output.status.success(), "{command:?}: {output:?}");
}
