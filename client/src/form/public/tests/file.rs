//! Key files: who may read them, and which files are refused.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::super::*;

const LINE: &str = "0 c0ffee11c0ffee12c0ffee13c0ffee14c0ffee15c0ffee16c0ffee17c0ffee18\n";

/// A folder of the test's own, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let name = format!("leaf-client-{test}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, content: impl AsRef<[u8]>, mode: u32) -> PathBuf {
        let path = self.0.join("keys");
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

fn error(path: &Path) -> String {
    let error = KeyRing::read(path).unwrap_err();
    assert!(!format!("{error:?} {error}").contains("c0ffee"), "{error:?}");
    error.to_string().replace(path.to_str().unwrap(), "PATH")
}

#[test]
fn only_the_owner_and_the_group_may_read_a_key_file() {
    let folder = Folder::new("key-file-modes");
    for mode in 0o400..=0o777 {
        let path = folder.file(LINE, mode);
        let others_write_or_read = mode & 0o026 != 0;
        match KeyRing::read(&path) {
            Ok(ring) => {
                assert!(!others_write_or_read, "{mode:o} is accepted");
                assert_eq!(ring.key_ids().len(), 1);
            }
            Err(_) => {
                assert!(others_write_or_read, "{mode:o} is refused: {}", error(&path));
                let message = "others than its owner can read or change the key file PATH (mode";
                let remedy = format!("{message} {mode:04o}): chmod g-w,o-rw PATH");
                assert_eq!(error(&path), remedy);
            }
        }
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    }
}

#[test]
fn what_is_no_key_file_is_refused_with_its_path() {
    let folder = Folder::new("key-file-contents");
    let missing = folder.0.join("missing");
    assert!(error(&missing).starts_with("the key file PATH cannot be read: No such file"));
    assert_eq!(error(&folder.0), "the key file PATH is no regular file");
    let path = folder.file(b"0 \xFF\xFE", 0o600);
    assert_eq!(error(&path), "the key file PATH is not UTF-8: is it the right file?");
    let path = folder.file("#".repeat(64 * 1024 + 1), 0o600);
    assert_eq!(error(&path), "the key file PATH is larger than 65536 bytes: is it the right file?");
    let path = folder.file(format!("# old\n{}", &LINE[2..]), 0o600);
    assert!(error(&path).starts_with("the key file PATH: line 2: a line has two words"));
    let largest = format!("{LINE}{}", "#".repeat(64 * 1024 - LINE.len()));
    assert!(KeyRing::read(&folder.file(largest, 0o600)).is_ok());
}

#[test]
fn a_pipe_is_refused_and_not_waited_for() {
    let folder = Folder::new("key-file-pipe");
    let path = folder.0.join("pipe");
    let (base, mode) = (rustix::fs::CWD, rustix::fs::Mode::from_bits_truncate(0o600));
    rustix::fs::mknodat(base, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    assert_eq!(error(&path), "the key file PATH is no regular file");
}
