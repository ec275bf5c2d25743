//! The daemon's process and the host's open files, from `/proc`.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::doctor::facts::ProcessFacts;

/// The process, if it is leafd: the daemon may count processes in another namespace.
pub(super) fn look(pid: u32) -> Option<ProcessFacts> {
    at(&PathBuf::from(format!("/proc/{pid}")))
}

fn at(process: &Path) -> Option<ProcessFacts> {
    let name = std::fs::read_to_string(process.join("comm")).ok()?;
    if name.trim() != "leafd" {
        return None;
    }
    let limits = std::fs::read_to_string(process.join("limits")).ok()?;
    let open = std::fs::read_dir(process.join("fd")).ok();
    Some(ProcessFacts {
        uid: std::fs::metadata(process).ok()?.uid(),
        most_files: hard_limit_of_files(&limits)?,
        open_files: open.map(|open| open.count() as u64),
    })
}

/// `Max open files  1024  524288  files`: the second number; `Some(None)` if it is `unlimited`.
fn hard_limit_of_files(limits: &str) -> Option<Option<u64>> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_whitespace().nth(1)? {
        "unlimited" => Some(None),
        number => number.parse().ok().map(Some),
    }
}

/// The open files of all processes, and their limit.
pub(super) fn all_files() -> Option<(u64, u64)> {
    of_file_nr(&std::fs::read_to_string("/proc/sys/fs/file-nr").ok()?)
}

/// `ALLOCATED FREE LIMIT`
fn of_file_nr(text: &str) -> Option<(u64, u64)> {
    let mut numbers = text.split_whitespace().map(str::parse);
    let (allocated, _, most) = (numbers.next()?.ok()?, numbers.next()?, numbers.next()?.ok()?);
    Some((allocated, most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_as_the_kernel_writes_them() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
                      Max open files            1024                 524288               files\n";
        assert_eq!(hard_limit_of_files(limits), Some(Some(524_288)));
        assert_eq!(hard_limit_of_files("Max open files  unlimited unlimited files"), Some(None));
        assert_eq!(hard_limit_of_files(""), None);
        assert_eq!(of_file_nr("2944\t0\t9223372036854775807\n"), Some((2944, i64::MAX as u64)));
        assert_eq!(of_file_nr("x"), None);
    }

    #[test]
    fn a_process_that_is_not_leafd_is_not_taken_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        write("comm", "bash\n");
        write("limits", "Max open files  10 20 files\n");
        assert_eq!(at(dir.path()), None);
        write("comm", "leafd\n");
        assert_eq!(at(dir.path()).unwrap().most_files, Some(20));
        assert_eq!(at(Path::new("/nonexistent")), None);
    }
}
