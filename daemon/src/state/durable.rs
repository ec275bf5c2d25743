//! Writes that are on disk when they return: the file's data, and its name in the directory.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::unistd::syncfs;

use super::mark::FileMark;

/// Replaces or makes a file: a crash leaves the old content or the new, never a mix. Returns the open
/// file.
///
/// # Errors
/// When any step fails. The old content is then still there.
pub(crate) fn replace(path: &Path, content: &[u8]) -> io::Result<File> {
    replace_marked(path, |_| content)
}

/// Like [`replace`], with content that includes the mark of the new file, so that leafd recognises a
/// copy.
///
/// # Errors
/// When any step fails. The old content is then still there.
pub(crate) fn replace_marked<C: AsRef<[u8]>>(
    path: &Path,
    content: impl FnOnce(FileMark) -> C,
) -> io::Result<File> {
    let new = name_of_new(path);
    let mut file =
        OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&new)?;
    let content = content(FileMark::of(&file.metadata()?));
    file.write_all(content.as_ref())?;
    file.sync_all()?;
    std::fs::rename(&new, path)?;
    sync_parent(path)?;
    Ok(file)
}

/// Puts a new file at `path` that holds only its own mark. A copy of the directory that is written over
/// it later does not match it. The file need not survive a power cut: one that is empty or cut off means
/// nothing. Its length varies with `count`, because `rsync` skips files of equal length that were written
/// in the same second.
///
/// # Errors
/// When the operating system refuses.
pub(crate) fn renew_mark(path: &Path, count: usize) -> io::Result<()> {
    let new = name_of_new(path);
    // A failed attempt may have left one behind.
    let _ = std::fs::remove_file(&new);
    let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&new)?;
    let mark = FileMark::of(&file.metadata()?);
    let padding = ".".repeat(count % 1000);
    file.write_all(format!("{}\n{padding}", mark.write()).as_bytes())?;
    std::fs::rename(&new, path)
}

fn name_of_new(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    name.into()
}

/// Makes the names in the directory of `path` durable.
///
/// # Errors
/// When the directory cannot be opened or synced.
pub(crate) fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

/// Makes the names of a directory and of the directories above it durable, as far as they are on the
/// same file system. This start or one that crashed may have made any of them.
///
/// # Errors
/// When one of them cannot be read or synced.
pub(crate) fn sync_names(directory: &Path) -> io::Result<()> {
    let directory = directory.canonicalize()?;
    let device = directory.metadata()?.dev();
    for path in directory.ancestors() {
        let Some(parent) = path.parent().filter(|parent| is_on(parent, device)) else { break };
        match File::open(parent) {
            Ok(parent) => parent.sync_all()?,
            // leafd may enter this directory but not read it. Syncing the whole file system does too.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Ok(syncfs(File::open(&directory)?)?);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn is_on(path: &Path, device: u64) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.dev() == device)
}

/// Moves a file out of the way under a name that says why, and returns that name. It stays for the
/// operator; leafd never reads it again.
///
/// # Errors
/// When the file cannot be renamed.
pub(crate) fn set_aside(path: &Path, why: &str, now_ms: u64) -> io::Result<PathBuf> {
    let target = name_aside(path, why, now_ms)?;
    std::fs::rename(path, &target)?;
    sync_parent(path)?;
    Ok(target)
}

/// Like [`set_aside`], for a file that is about to be replaced. It stays in its place until then, so a
/// crash in between loses nothing.
///
/// # Errors
/// When the file cannot be linked.
pub(crate) fn keep_aside(path: &Path, why: &str, now_ms: u64) -> io::Result<PathBuf> {
    let target = name_aside(path, why, now_ms)?;
    std::fs::hard_link(path, &target)?;
    sync_parent(path)?;
    Ok(target)
}

/// A name that no file has yet.
fn name_aside(path: &Path, why: &str, now_ms: u64) -> io::Result<PathBuf> {
    let now = now_ms / 1000;
    for attempt in 0..1000_u32 {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{why}-{now}-{attempt}"));
        let target = PathBuf::from(name);
        if !target.try_exists()? {
            return Ok(target);
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "too many files set aside in this second"))
}

/// Removes a file, if it is there, and returns when that is on disk.
///
/// # Errors
/// When the operating system refuses.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path).and_then(|()| sync_parent(path)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacing_leaves_the_new_content_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        replace(&path, b"one").unwrap();
        replace(&path, b"two").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_is_set_aside_keeps_its_content_and_overwrites_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let mut names = Vec::new();
        for content in ["one", "two"] {
            std::fs::write(&path, content).unwrap();
            names.push(set_aside(&path, "damaged", 0).unwrap());
        }
        assert!(!path.exists());
        assert_eq!(std::fs::read_to_string(&names[0]).unwrap(), "one");
        assert_eq!(std::fs::read_to_string(&names[1]).unwrap(), "two");
    }
}
