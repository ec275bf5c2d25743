//! Where a cgroup's directory is, from what `/proc` shows. Pure.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

/// The path of a process in the cgroup v2 hierarchy, from its `/proc/PID/cgroup`; `None` if there is
/// none, or if it is outside of what this process can see.
pub(super) fn of_process(text: &str) -> Option<&str> {
    let path = text.lines().find_map(|line| line.strip_prefix("0::"))?;
    let inside = !Path::new(path).components().any(|part| part == Component::ParentDir);
    (path.starts_with('/') && inside && !path.ends_with(" (deleted)")).then_some(path)
}

/// The directory of the cgroup `path`, from `/proc/self/mountinfo`.
pub(super) fn directory(mountinfo: &str, path: &str) -> Option<PathBuf> {
    mountinfo.lines().find_map(|line| {
        let (mount, filesystem) = line.split_once(" - ")?;
        if filesystem.split(' ').next() != Some("cgroup2") {
            return None;
        }
        let mut fields = mount.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        let below = Path::new(path).strip_prefix(unescaped(root)).ok()?;
        Some(unescaped(point).join(below))
    })
}

/// The path of the cgroup `name` in the cgroup `path`.
pub(super) fn child(path: &str, name: &str) -> String {
    format!("{}/{name}", path.trim_end_matches('/'))
}

/// The kernel writes spaces and the like as `\040`.
fn unescaped(text: &str) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        bytes.extend_from_slice(before.as_bytes());
        let code = after.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(3..).unwrap_or_default();
            }
            None => {
                bytes.push(b'\\');
                rest = after;
            }
        }
    }
    bytes.extend_from_slice(rest.as_bytes());
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw
";

    #[test]
    fn the_second_version_is_found_among_the_first() {
        let text = "9:name=systemd:/a\n4:memory:/b\n0::/system.slice/x.service\n";
        assert_eq!(of_process(text), Some("/system.slice/x.service"));
        assert_eq!(of_process("4:memory:/b\n"), None);
        assert_eq!(
            directory(HYBRID, "/a/b").as_deref(),
            Some(Path::new("/sys/fs/cgroup/unified/a/b"))
        );
        assert_eq!(
            directory(HYBRID, "/").as_deref().map(Path::new),
            Some(Path::new("/sys/fs/cgroup/unified"))
        );
    }

    #[test]
    fn a_cgroup_that_cannot_be_seen_is_none() {
        assert_eq!(of_process("0::/../other\n"), None);
        assert_eq!(of_process("0::/x (deleted)\n"), None);
        assert_eq!(directory("31 23 0:28 / /x rw - tmpfs tmpfs rw\n", "/a"), None);
        let bound = "41 31 0:38 /docker/7 /sys/fs/cgroup rw - cgroup2 cgroup rw\n";
        assert_eq!(directory(bound, "/other"), None);
        assert_eq!(directory(bound, "/docker/7/a").as_deref(), Some(Path::new("/sys/fs/cgroup/a")));
    }

    #[test]
    fn escaped_letters_are_read() {
        assert_eq!(unescaped("/my\\040mount\\134x"), Path::new("/my mount\\x"));
        assert_eq!(unescaped("/odd\\"), Path::new("/odd\\"));
    }

    #[test]
    fn a_child_of_the_root_has_one_slash() {
        assert_eq!(child("/", "x"), "/x");
        assert_eq!(child("/a", "x"), "/a/x");
    }
}
