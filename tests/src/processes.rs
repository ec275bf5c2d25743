//! What `/proc` says about processes: which work in a folder, and which have stopped or ended.

use std::path::Path;

use nix::unistd::Pid;

/// The processes whose working directory is `folder`. Each server works in its own data folder, and
/// so do PostgreSQL's children, even orphaned ones.
#[must_use]
pub fn processes_in(folder: &Path) -> Vec<Pid> {
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let works_here =
        |pid: &i32| std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|path| path == folder);
    pids.filter(works_here).map(Pid::from_raw).collect()
}

/// Whether a process has ended. It may still be a zombie: reaping it is up to its parent.
#[must_use]
pub fn has_ended(pid: Pid) -> bool {
    is_in_state(&Path::new("/proc").join(pid.to_string()), &['Z'])
}

/// Whether a process or thread, given by its folder in `/proc`, is stopped or has ended.
pub fn is_stopped(folder: &Path) -> bool {
    is_in_state(folder, &['T', 'Z', 'X'])
}

/// Whether it has one of these states, or is gone altogether.
fn is_in_state(folder: &Path, states: &[char]) -> bool {
    // The format is "pid (name) state …", and the name may contain any character.
    let stat = std::fs::read_to_string(folder.join("stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(states))
}
