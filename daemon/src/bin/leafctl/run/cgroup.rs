//! The cgroup of the command, if leafctl can make one: it names all processes that may use the worker
//! ID, to leafd as well, and the kernel kills them all at once.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::cgroup_path::{child, directory, of_process};

/// Where the command runs.
#[derive(Debug)]
pub(super) enum CommandGroup {
    /// In a cgroup of its own.
    Made(MadeCgroup),
    /// In leafctl's cgroup.
    Shared {
        /// As in `/proc/PID/cgroup`.
        path: String,
        inode: u64,
    },
    /// In none that means anything.
    None,
}

/// A cgroup that leafctl made. It is removed when this is dropped.
#[derive(Debug)]
pub(super) struct MadeCgroup {
    directory: PathBuf,
    path: String,
    inode: u64,
}

impl CommandGroup {
    /// Makes a cgroup `name` below leafctl's, if the command can join it, as `can_join` finds out.
    pub(super) fn make(name: &str, can_join: impl FnOnce(&MadeCgroup) -> bool) -> Self {
        let text = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let Some(path) = of_process(&text) else { return Self::None };
        let Some(directory) = directory(&mounts, path) else { return Self::None };
        if let Ok(made) = MadeCgroup::make(directory.join(name), child(path, name))
            && can_join(&made)
        {
            return Self::Made(made);
        }
        match fs::metadata(&directory) {
            // The root has every process of the host: it would never be empty.
            Ok(found) if path != "/" => Self::Shared { path: path.to_owned(), inode: found.ino() },
            _ => Self::None,
        }
    }

    /// Its path and inode, for leafd.
    pub(super) fn name(&self) -> (String, u64) {
        match self {
            Self::Made(made) => (made.path.clone(), made.inode),
            Self::Shared { path, inode } => (path.clone(), *inode),
            Self::None => (String::new(), 0),
        }
    }

    /// The cgroup that has no process but those of the command.
    pub(super) fn made(&self) -> Option<&MadeCgroup> {
        match self {
            Self::Made(made) => Some(made),
            Self::Shared { .. } | Self::None => None,
        }
    }
}

impl MadeCgroup {
    fn make(directory: PathBuf, path: String) -> io::Result<Self> {
        fs::create_dir(&directory)?;
        // From here on, dropping it removes the directory.
        let mut made = Self { directory, path, inode: 0 };
        made.inode = fs::metadata(&made.directory)?.ino();
        Ok(made)
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Whether no process is in it or below it. If that cannot be read, it is not known to be empty.
    pub(super) fn is_empty(&self) -> bool {
        match fs::read_to_string(self.directory.join("cgroup.events")) {
            Ok(text) => text.lines().any(|line| line == "populated 0"),
            // Only an empty one can be removed, for example by what the command ran.
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    }

    /// The processes in it and below it.
    pub(super) fn pids(&self) -> Vec<i32> {
        let mut pids = Vec::new();
        let mut directories = vec![self.directory.clone()];
        while let Some(directory) = directories.pop() {
            let text = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
            pids.extend(text.lines().filter_map(|line| line.parse::<i32>().ok()));
            directories.extend(folders(&directory));
        }
        pids
    }

    /// Kills every process in it and below it at once.
    pub(super) fn kill(&self) {
        // Linux before 5.14 does not have this file: then the processes are killed one by one.
        let file = fs::OpenOptions::new().write(true).open(self.directory.join("cgroup.kill"));
        let _ = file.and_then(|mut file| io::Write::write_all(&mut file, b"1"));
    }
}

impl Drop for MadeCgroup {
    fn drop(&mut self) {
        remove(&self.directory);
    }
}

/// Removes a cgroup and those below it, if they are empty.
fn remove(directory: &Path) {
    folders(directory).iter().for_each(|below| remove(below));
    let _ = fs::remove_dir(directory);
}

fn folders(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.map(|entry| entry.path()).collect()
}
