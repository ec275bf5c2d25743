//! The listening socket: made with its mode and group before anybody can see it, never in the
//! place of a daemon that lives, and removed only when it is still ours; or the service manager's,
//! which is left as it is.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use nix::unistd::{Gid, Group, Uid, chown};

/// Longest path of a Unix socket that clients can connect to, in bytes (`sun_path` less its NUL).
const LONGEST_PATH: usize = 107;

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Somebody serves there.
    #[error("another daemon serves on {0}; stop it, or choose another socket.path")]
    InUse(PathBuf),
    /// Something else is there.
    #[error("{0} exists and is not a socket; remove it, or choose another socket.path")]
    NotASocket(PathBuf),
    /// It does not fit into an address.
    #[error("the socket path {path} has {len} bytes; the limit is {LONGEST_PATH} (socket.path)")]
    TooLong {
        /// The path.
        path: PathBuf,
        /// Its length.
        len: usize,
    },
    /// Another user could put a socket of theirs in our place.
    #[error("the directory {0} belongs to another user or is writable by others; remove it")]
    Unsafe(PathBuf),
    /// There is no such group.
    #[error("there is no group {0:?} (socket.group)")]
    NoGroup(String),
    /// The operating system says no.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// With what.
        path: PathBuf,
        /// What came back.
        source: io::Error,
    },
}

/// A socket that listens.
#[derive(Debug)]
pub struct Socket {
    /// For the accept loop; non-blocking.
    pub listener: UnixListener,
    /// Its place; none where it has no name that a client could use.
    pub path: Option<PathBuf>,
    owner: Owner,
}

/// Who made the socket, and removes it.
#[derive(Debug)]
enum Owner {
    Leafd { inode: u64, _lock: Flock<File> },
    ServiceManager,
}

impl Socket {
    /// Listens at `path` with the permissions `mode` and the group `group` (a name or a number).
    /// A socket that a killed daemon left behind is replaced.
    ///
    /// # Errors
    /// When somebody serves there already, or the operating system refuses.
    pub fn bind(path: &Path, mode: u32, group: Option<&str>) -> Result<Self, SocketError> {
        let io = |action, path: &Path| {
            let path = path.to_owned();
            move |source| SocketError::Io { action, path, source }
        };
        let len = path.as_os_str().len();
        if len > LONGEST_PATH {
            return Err(SocketError::TooLong { path: path.to_owned(), len });
        }
        let group = group.map(find_group).transpose()?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        prepare_directory(parent)?;
        let lock = lock_beside(path)?;
        check_vacant(path)?;

        // In a directory that nobody else can enter, the socket can be given its mode and group
        // before it takes its place. The directory is reached through its descriptor, since the
        // way through its name could be too long for an address.
        let private = parent.join(format!(".leafd-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&private);
        std::fs::DirBuilder::new().mode(0o700).create(&private).map_err(io("make", &private))?;
        let made = (|| {
            let directory = File::open(&private)?;
            let address = format!("/proc/self/fd/{}/s", directory.as_raw_fd());
            let listener = UnixListener::bind(address)?;
            listener.set_nonblocking(true)?;
            let new = private.join("s");
            std::fs::set_permissions(&new, std::fs::Permissions::from_mode(mode))?;
            if group.is_some() {
                chown(&new, None, group)?;
            }
            let inode = std::fs::symlink_metadata(&new)?.ino();
            std::fs::rename(&new, path)?;
            Ok((listener, inode))
        })();
        let _ = std::fs::remove_dir_all(&private);
        let (listener, inode) = made.map_err(io("make the socket", path))?;
        let owner = Owner::Leafd { inode, _lock: lock };
        Ok(Self { listener, path: Some(path.to_owned()), owner })
    }

    /// The socket that the service manager passes on. It outlives this process, with all who wait
    /// in it to be accepted.
    #[must_use]
    pub fn inherited(listener: UnixListener) -> Self {
        let address = listener.local_addr().ok();
        let path = address.and_then(|address| address.as_pathname().map(Path::to_owned));
        Self { listener, path, owner: Owner::ServiceManager }
    }

    /// Takes the socket out of its place, unless it is the service manager's, or somebody else's
    /// is there by now.
    pub fn remove(&self) {
        let (Owner::Leafd { inode, .. }, Some(path)) = (&self.owner, &self.path) else { return };
        let ours = std::fs::symlink_metadata(path).is_ok_and(|meta| meta.ino() == *inode);
        if ours && let Err(error) = std::fs::remove_file(path) {
            tracing::warn!(path = %path.display(), "cannot remove the socket: {error}");
        }
    }

    /// Whether clients that look at `path` find this socket.
    #[must_use]
    pub fn is_at(&self, path: &Path) -> bool {
        let place = |path: &Path| std::fs::metadata(path).map(|meta| (meta.dev(), meta.ino())).ok();
        self.path.as_deref().is_some_and(|own| {
            own == path || place(own).is_some_and(|own| place(path) == Some(own))
        })
    }
}

fn find_group(name: &str) -> Result<Gid, SocketError> {
    if let Ok(number) = name.parse() {
        return Ok(Gid::from_raw(number));
    }
    let found = Group::from_name(name).ok().flatten();
    found.map(|group| group.gid).ok_or_else(|| SocketError::NoGroup(name.to_owned()))
}

/// Makes the directory where it is missing. One that others can write to must be sticky, as /tmp
/// is, and then it must not be the socket's own: see [`SocketError::Unsafe`].
fn prepare_directory(directory: &Path) -> Result<(), SocketError> {
    let mode = if Uid::effective().is_root() { 0o755 } else { 0o700 };
    let made = std::fs::DirBuilder::new().recursive(true).mode(mode).create(directory);
    made.map_err(|source| SocketError::Io {
        action: "make the directory",
        path: directory.to_owned(),
        source,
    })?;
    let in_tmp = directory.parent() == Some(Path::new("/tmp"));
    if in_tmp {
        let unsafe_directory = || SocketError::Unsafe(directory.to_owned());
        let meta = std::fs::symlink_metadata(directory).map_err(|_| unsafe_directory())?;
        if !meta.is_dir() || meta.uid() != Uid::effective().as_raw() || meta.mode() & 0o022 != 0 {
            return Err(unsafe_directory());
        }
    }
    Ok(())
}

/// Two daemons that start at once must not both find the place vacant.
fn lock_beside(path: &Path) -> Result<Flock<File>, SocketError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let name = PathBuf::from(name);
    let mut options = OpenOptions::new();
    let file = options.create(true).truncate(false).write(true).mode(0o600).open(&name);
    let file =
        file.map_err(|source| SocketError::Io { action: "open", path: name.clone(), source })?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock)
        .map_err(|_| SocketError::InUse(path.to_owned()))
}

fn check_vacant(path: &Path) -> Result<(), SocketError> {
    match std::fs::symlink_metadata(path) {
        Err(_) => Ok(()),
        Ok(meta) if !meta.file_type().is_socket() => Err(SocketError::NotASocket(path.to_owned())),
        // What nobody listens on was left by a daemon that was killed.
        Ok(_) if UnixStream::connect(path).is_ok() => Err(SocketError::InUse(path.to_owned())),
        Ok(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_socket_has_its_mode_from_the_first_moment_on_and_is_removed_in_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.sock");
        let socket = Socket::bind(&path, 0o600, Some("0")).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert!(UnixStream::connect(&path).is_ok());
        socket.remove();
        assert!(!path.exists());
    }

    #[test]
    fn a_living_daemon_is_not_replaced_and_what_a_killed_one_left_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.sock");
        let first = Socket::bind(&path, 0o600, None).unwrap();
        assert!(matches!(Socket::bind(&path, 0o600, None), Err(SocketError::InUse(_))));
        // Another program's listener holds no lock of ours and is left alone as well.
        let other = dir.path().join("o.sock");
        let listener = UnixListener::bind(&other).unwrap();
        assert!(matches!(Socket::bind(&other, 0o600, None), Err(SocketError::InUse(_))));
        drop((first, listener));
        assert!(path.exists(), "a killed daemon leaves its socket");
        let second = Socket::bind(&path, 0o600, None).unwrap();
        assert!(UnixStream::connect(&path).is_ok());
        drop(second);
    }

    #[test]
    fn a_successors_socket_is_not_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.sock");
        let socket = Socket::bind(&path, 0o600, None).unwrap();
        let other = dir.path().join("o.sock");
        let _successor = UnixListener::bind(&other).unwrap();
        std::fs::rename(&other, &path).unwrap();
        socket.remove();
        assert!(path.exists());
    }

    #[test]
    fn the_service_managers_socket_is_known_by_every_name_and_never_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("s"), dir.path().join("l"));
        let socket = Socket::inherited(UnixListener::bind(&path).unwrap());
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(socket.is_at(&path) && socket.is_at(&link));
        assert!(!socket.is_at(&dir.path().join("other")));
        socket.remove();
        assert!(UnixStream::connect(&path).is_ok());
    }

    #[test]
    fn what_cannot_be_a_socket_is_refused_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "precious").unwrap();
        assert!(matches!(Socket::bind(&path, 0o600, None), Err(SocketError::NotASocket(_))));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
        let long = dir.path().join("x".repeat(100));
        assert!(matches!(Socket::bind(&long, 0o600, None), Err(SocketError::TooLong { .. })));
        let group = Socket::bind(&dir.path().join("s"), 0o600, Some("no-such-group"));
        assert!(matches!(group, Err(SocketError::NoGroup(_))));
    }
}
