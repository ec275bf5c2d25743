//! The listening socket. leafd gives it its mode and group before anybody can see it, never takes the
//! path of a running daemon, and removes only its own. It leaves the service manager's socket as it
//! is.

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

/// Why leafd cannot listen.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SocketError {
    #[error("another daemon serves on {path}; stop it, or choose another {key}")]
    InUse { path: PathBuf, key: &'static str },
    #[error("{path} exists and is not a socket; remove it, or choose another {key}")]
    NotASocket { path: PathBuf, key: &'static str },
    /// The path does not fit into a socket address.
    #[error("the socket path {path} has {len} bytes; the limit is {LONGEST_PATH} ({key})")]
    TooLong { path: PathBuf, len: usize, key: &'static str },
    /// Another user could replace the socket with one of their own.
    #[error("the directory {0} belongs to another user or is writable by others; remove it")]
    Unsafe(PathBuf),
    #[error("there is no group {group:?} ({key})")]
    NoGroup { group: String, key: &'static str },
    #[error("cannot {action} {path}: {source}")]
    Io { action: &'static str, path: PathBuf, source: io::Error },
}

/// The keys that say where a socket is and who may connect, for messages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SocketKeys {
    pub(crate) path: &'static str,
    pub(crate) group: &'static str,
}

/// The keys of the applications' socket.
pub(crate) const SOCKET_KEYS: SocketKeys =
    SocketKeys { path: "socket.path", group: "socket.group" };

/// A Unix socket that listens.
#[derive(Debug)]
pub(crate) struct Socket {
    /// Non-blocking.
    pub(in crate::transport) listener: UnixListener,
    /// Where clients find it. An inherited socket may have no path.
    pub(crate) path: Option<PathBuf>,
    owner: SocketOwner,
}

/// Who made the socket and removes it.
#[derive(Debug)]
enum SocketOwner {
    Leafd { inode: u64, _lock: Flock<File> },
    ServiceManager,
}

impl Socket {
    /// Listens at `path` with the permissions `mode` and the group `group` (a name or a number).
    /// Replaces a socket that a killed daemon left behind. Messages name the `keys`.
    ///
    /// # Errors
    /// When another daemon serves there, or the operating system refuses.
    pub(crate) fn bind(
        path: &Path,
        mode: u32,
        group: Option<&str>,
        keys: SocketKeys,
    ) -> Result<Self, SocketError> {
        let io = |action, path: &Path| {
            let path = path.to_owned();
            move |source| SocketError::Io { action, path, source }
        };
        let len = path.as_os_str().len();
        if len > LONGEST_PATH {
            return Err(SocketError::TooLong { path: path.to_owned(), len, key: keys.path });
        }
        let group = group.map(|group| find_group(group, keys.group)).transpose()?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        prepare_directory(parent)?;
        let lock = lock_beside(path, keys.path)?;
        check_free(path, keys.path)?;

        // Nobody else can enter this directory, so the socket gets its mode and group here, before
        // it is moved to its path. leafd binds through the directory's descriptor, since the name
        // could be too long for a socket address.
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
        let owner = SocketOwner::Leafd { inode, _lock: lock };
        Ok(Self { listener, path: Some(path.to_owned()), owner })
    }

    /// The service manager's socket. It outlives this process, and so do the connections in its
    /// backlog.
    pub(crate) fn inherited(listener: UnixListener) -> Self {
        let address = listener.local_addr().ok();
        let path = address.and_then(|address| address.as_pathname().map(Path::to_owned));
        Self { listener, path, owner: SocketOwner::ServiceManager }
    }

    /// Removes the socket from its path, unless it is the service manager's or another daemon's has
    /// replaced it.
    pub(crate) fn remove(&self) {
        let (SocketOwner::Leafd { inode, .. }, Some(path)) = (&self.owner, &self.path) else {
            return;
        };
        let ours = std::fs::symlink_metadata(path).is_ok_and(|meta| meta.ino() == *inode);
        if ours && let Err(error) = std::fs::remove_file(path) {
            tracing::warn!(path = %path.display(), "cannot remove the socket: {error}");
        }
    }

    /// Whether clients that connect to `path` reach this socket.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        let place = |path: &Path| std::fs::metadata(path).map(|meta| (meta.dev(), meta.ino())).ok();
        self.path.as_deref().is_some_and(|own| {
            own == path || place(own).is_some_and(|own| place(path) == Some(own))
        })
    }
}

fn find_group(name: &str, key: &'static str) -> Result<Gid, SocketError> {
    if let Ok(number) = name.parse() {
        return Ok(Gid::from_raw(number));
    }
    let found = Group::from_name(name).ok().flatten();
    found.map(|group| group.gid).ok_or_else(|| SocketError::NoGroup { group: name.to_owned(), key })
}

/// Makes the directory if it is missing. Anybody can make a directory in /tmp before leafd does, so
/// there it must belong to leafd's user and be writable by nobody else.
fn prepare_directory(directory: &Path) -> Result<(), SocketError> {
    let mode = if Uid::effective().is_root() { 0o755 } else { 0o700 };
    let made = std::fs::DirBuilder::new().recursive(true).mode(mode).create(directory);
    made.map_err(|source| SocketError::Io {
        action: "make the directory",
        path: directory.to_owned(),
        source,
    })?;
    if directory.parent() == Some(Path::new("/tmp")) {
        let unsafe_directory = || SocketError::Unsafe(directory.to_owned());
        let meta = std::fs::symlink_metadata(directory).map_err(|_| unsafe_directory())?;
        if !meta.is_dir() || meta.uid() != Uid::effective().as_raw() || meta.mode() & 0o022 != 0 {
            return Err(unsafe_directory());
        }
    }
    Ok(())
}

/// Locks the path: two daemons that start at once must not both find it free.
fn lock_beside(path: &Path, key: &'static str) -> Result<Flock<File>, SocketError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let name = PathBuf::from(name);
    let mut options = OpenOptions::new();
    let file = options.create(true).truncate(false).write(true).mode(0o600).open(&name);
    let file =
        file.map_err(|source| SocketError::Io { action: "open", path: name.clone(), source })?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock)
        .map_err(|_| SocketError::InUse { path: path.to_owned(), key })
}

fn check_free(path: &Path, key: &'static str) -> Result<(), SocketError> {
    let owned = || path.to_owned();
    match std::fs::symlink_metadata(path) {
        Err(_) => Ok(()),
        Ok(meta) if !meta.file_type().is_socket() => {
            Err(SocketError::NotASocket { path: owned(), key })
        }
        // A socket that nobody listens on was left by a killed daemon.
        Ok(_) if UnixStream::connect(path).is_ok() => {
            Err(SocketError::InUse { path: owned(), key })
        }
        Ok(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_socket_has_its_mode_and_is_removed_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.sock");
        let socket = Socket::bind(&path, 0o600, Some("0"), SOCKET_KEYS).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert!(UnixStream::connect(&path).is_ok());
        socket.remove();
        assert!(!path.exists());
    }

    #[test]
    fn the_socket_of_a_killed_daemon_is_replaced_and_that_of_a_running_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.sock");
        let first = Socket::bind(&path, 0o600, None, SOCKET_KEYS).unwrap();
        assert!(matches!(
            Socket::bind(&path, 0o600, None, SOCKET_KEYS),
            Err(SocketError::InUse { .. })
        ));
        // Another program's listener holds no lock, and is not replaced either.
        let other = dir.path().join("o.sock");
        let listener = UnixListener::bind(&other).unwrap();
        assert!(matches!(
            Socket::bind(&other, 0o600, None, SOCKET_KEYS),
            Err(SocketError::InUse { .. })
        ));
        drop((first, listener));
        assert!(path.exists(), "a killed daemon leaves its socket");
        let second = Socket::bind(&path, 0o600, None, SOCKET_KEYS).unwrap();
        assert!(UnixStream::connect(&path).is_ok());
        drop(second);
    }

    #[test]
    fn a_successors_socket_is_not_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.sock");
        let socket = Socket::bind(&path, 0o600, None, SOCKET_KEYS).unwrap();
        let other = dir.path().join("o.sock");
        let _successor = UnixListener::bind(&other).unwrap();
        std::fs::rename(&other, &path).unwrap();
        socket.remove();
        assert!(path.exists());
    }

    #[test]
    fn the_service_managers_socket_is_recognised_by_every_path_and_never_removed() {
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
    fn a_path_that_cannot_be_the_socket_is_refused_and_left_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "precious").unwrap();
        assert!(matches!(
            Socket::bind(&path, 0o600, None, SOCKET_KEYS),
            Err(SocketError::NotASocket { .. })
        ));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
        let long = dir.path().join("x".repeat(100));
        assert!(matches!(
            Socket::bind(&long, 0o600, None, SOCKET_KEYS),
            Err(SocketError::TooLong { .. })
        ));
        let group = Socket::bind(&dir.path().join("s"), 0o600, Some("no-such-group"), SOCKET_KEYS);
        assert!(matches!(group, Err(SocketError::NoGroup { .. })));
    }
}
