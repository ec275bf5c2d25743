//! Where the daemon's socket is. The daemon and its clients share this rule. It depends on which
//! directories exist, never on which socket answers: if an application's daemon is down, it must
//! not silently get IDs from another one.

use std::ffi::OsString;
use std::fs;
#[cfg(any(feature = "async", feature = "blocking"))]
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

#[cfg(any(feature = "async", feature = "blocking"))]
use crate::error::Invalid;

/// The environment variable with the path of the socket, for clients and for a daemon without
/// configuration.
pub const SOCKET_VARIABLE: &str = "LEAFD_SOCKET";

/// The socket of a daemon that runs as a system service.
pub const SYSTEM_SOCKET: &str = "/run/leafd/leafd.sock";

/// Where a client without a configured path looks for the daemon. The first rule that applies wins:
///
/// 1. `$LEAFD_SOCKET`, if set and not empty;
/// 2. for users other than root, `$XDG_RUNTIME_DIR/leafd/leafd.sock` if the directory
///    `$XDG_RUNTIME_DIR/leafd` exists;
/// 3. for users other than root, `/tmp/leafd-<uid>/leafd.sock` if that directory exists, belongs to
///    the user and is not writable by others;
/// 4. `/run/leafd/leafd.sock`.
#[must_use]
pub fn default_socket_path() -> PathBuf {
    client_path(&ProcessEnvironment)
}

/// Where a daemon without configuration creates its socket. The first rule that applies wins:
///
/// 1. `$LEAFD_SOCKET`, if set and not empty;
/// 2. for root, `/run/leafd/leafd.sock`;
/// 3. `$XDG_RUNTIME_DIR/leafd/leafd.sock`, if `XDG_RUNTIME_DIR` is an absolute path;
/// 4. `/tmp/leafd-<uid>/leafd.sock`.
///
/// The daemon creates a missing directory with mode 0700. Clients of the same user then find the
/// socket by [`default_socket_path`].
#[must_use]
pub fn default_socket_path_for_daemon() -> PathBuf {
    daemon_path(&ProcessEnvironment)
}

/// The most bytes of a socket's path. With a zero byte, they fill `sockaddr_un`.
#[cfg(any(feature = "async", feature = "blocking"))]
const MAX_SOCKET_PATH: usize = 107;

/// Whether a socket can have this path. An empty one would be an abstract name that anybody may have.
#[cfg(any(feature = "async", feature = "blocking"))]
pub(crate) fn check_socket_path(path: &Path) -> Result<(), Invalid> {
    let bytes = path.as_os_str().as_bytes();
    match bytes.len() {
        0 => Err(Invalid::EmptySocketPath),
        len if len > MAX_SOCKET_PATH => Err(Invalid::SocketPathTooLong(len)),
        _ if bytes.contains(&0) => Err(Invalid::NulInSocketPath),
        _ => Ok(()),
    }
}

/// What the rule depends on. Tests pass in a fake.
trait Environment {
    /// The value of an environment variable.
    fn variable(&self, name: &str) -> Option<OsString>;
    /// The effective user ID; `None` if it cannot be determined.
    fn uid(&self) -> Option<u32>;
    /// Whether `path` is a directory, possibly through symbolic links.
    fn is_directory(&self, path: &Path) -> bool;
    /// Whether `path` itself is a directory that belongs to `uid` and that nobody else can write
    /// to.
    fn is_private_directory(&self, path: &Path, uid: u32) -> bool;
}

/// The environment of this process.
struct ProcessEnvironment;

impl Environment for ProcessEnvironment {
    fn variable(&self, name: &str) -> Option<OsString> {
        std::env::var_os(name)
    }

    fn uid(&self) -> Option<u32> {
        // This directory belongs to the effective user of the process, even if the files in it
        // belong to root because the process may not be traced.
        fs::metadata("/proc/self").ok().map(|meta| meta.uid())
    }

    fn is_directory(&self, path: &Path) -> bool {
        path.is_dir()
    }

    fn is_private_directory(&self, path: &Path, uid: u32) -> bool {
        // Links are not followed, because anyone can create one in /tmp.
        fs::symlink_metadata(path)
            .is_ok_and(|meta| meta.is_dir() && meta.uid() == uid && meta.mode() & 0o022 == 0)
    }
}

fn client_path(environment: &impl Environment) -> PathBuf {
    if let Some(path) = path_from_variable(environment) {
        return path;
    }
    let uid = environment.uid();
    if uid != Some(0) {
        if let Some(directory) = runtime_directory(environment)
            && environment.is_directory(&directory)
        {
            return socket_in(&directory);
        }
        if let Some(uid) = uid {
            let directory = temporary_directory(uid);
            if environment.is_private_directory(&directory, uid) {
                return socket_in(&directory);
            }
        }
    }
    PathBuf::from(SYSTEM_SOCKET)
}

fn daemon_path(environment: &impl Environment) -> PathBuf {
    if let Some(path) = path_from_variable(environment) {
        return path;
    }
    match (environment.uid(), runtime_directory(environment)) {
        (Some(0), _) | (None, None) => PathBuf::from(SYSTEM_SOCKET),
        (_, Some(directory)) => socket_in(&directory),
        (Some(uid), None) => socket_in(&temporary_directory(uid)),
    }
}

fn path_from_variable(environment: &impl Environment) -> Option<PathBuf> {
    environment.variable(SOCKET_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from)
}

fn runtime_directory(environment: &impl Environment) -> Option<PathBuf> {
    // The XDG specification says to ignore relative paths. An empty path is relative.
    let base = PathBuf::from(environment.variable("XDG_RUNTIME_DIR")?);
    base.is_absolute().then(|| base.join("leafd"))
}

fn temporary_directory(uid: u32) -> PathBuf {
    PathBuf::from(format!("/tmp/leafd-{uid}"))
}

fn socket_in(directory: &Path) -> PathBuf {
    directory.join("leafd.sock")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[derive(Default)]
    struct FakeEnvironment {
        variables: HashMap<&'static str, &'static str>,
        uid: Option<u32>,
        directories: Vec<&'static str>,
        private: Vec<(&'static str, u32)>,
    }

    impl Environment for FakeEnvironment {
        fn variable(&self, name: &str) -> Option<OsString> {
            self.variables.get(name).map(OsString::from)
        }
        fn uid(&self) -> Option<u32> {
            self.uid
        }
        fn is_directory(&self, path: &Path) -> bool {
            self.directories.iter().any(|known| path == Path::new(known))
        }
        fn is_private_directory(&self, path: &Path, uid: u32) -> bool {
            self.private.iter().any(|(known, owner)| path == Path::new(known) && uid == *owner)
        }
    }

    fn user() -> FakeEnvironment {
        FakeEnvironment {
            variables: HashMap::from([("XDG_RUNTIME_DIR", "/run/user/7")]),
            uid: Some(7),
            ..FakeEnvironment::default()
        }
    }

    fn both(environment: &FakeEnvironment) -> (String, String) {
        let text = |path: PathBuf| path.to_str().unwrap().to_owned();
        (text(client_path(environment)), text(daemon_path(environment)))
    }

    #[test]
    fn the_variable_wins_for_every_user_unless_it_is_empty() {
        for uid in [Some(0), Some(7), None] {
            let mut environment = FakeEnvironment { uid, ..user() };
            environment.directories.push("/run/user/7/leafd");
            environment.variables.insert(SOCKET_VARIABLE, "/a/b.sock");
            assert_eq!(both(&environment), ("/a/b.sock".into(), "/a/b.sock".into()));
        }
        let mut environment = FakeEnvironment { uid: Some(0), ..FakeEnvironment::default() };
        environment.variables.insert(SOCKET_VARIABLE, "");
        assert_eq!(both(&environment), (SYSTEM_SOCKET.into(), SYSTEM_SOCKET.into()));
    }

    #[test]
    fn a_client_finds_the_daemon_of_the_same_user() {
        let mut environment = user();
        environment.directories.push("/run/user/7/leafd");
        environment.private.push(("/tmp/leafd-7", 7));
        let socket = "/run/user/7/leafd/leafd.sock";
        assert_eq!(both(&environment), (socket.into(), socket.into()));

        for base in [None, Some(""), Some("relative")] {
            let mut environment = FakeEnvironment { uid: Some(7), ..FakeEnvironment::default() };
            base.map(|base| environment.variables.insert("XDG_RUNTIME_DIR", base));
            environment.private.push(("/tmp/leafd-7", 7));
            let socket = "/tmp/leafd-7/leafd.sock";
            assert_eq!(both(&environment), (socket.into(), socket.into()), "{base:?}");
        }
    }

    #[test]
    fn a_client_without_a_daemon_of_its_user_uses_the_system_service() {
        assert_eq!(client_path(&user()), Path::new(SYSTEM_SOCKET));
        assert_eq!(daemon_path(&user()), Path::new("/run/user/7/leafd/leafd.sock"));
    }

    #[test]
    fn another_users_directory_in_tmp_is_ignored() {
        let mut environment = user();
        environment.private.push(("/tmp/leafd-7", 8));
        assert_eq!(client_path(&environment), Path::new(SYSTEM_SOCKET));
    }

    #[test]
    fn root_ignores_the_directories_of_users() {
        let mut environment = FakeEnvironment { uid: Some(0), ..user() };
        environment.directories.push("/run/user/7/leafd");
        environment.private.push(("/tmp/leafd-0", 0));
        assert_eq!(both(&environment), (SYSTEM_SOCKET.into(), SYSTEM_SOCKET.into()));
    }

    #[test]
    fn a_process_without_a_known_user_ignores_tmp() {
        let environment =
            FakeEnvironment { private: vec![("/tmp/leafd-0", 0)], ..FakeEnvironment::default() };
        assert_eq!(both(&environment), (SYSTEM_SOCKET.into(), SYSTEM_SOCKET.into()));
    }

    #[test]
    fn only_a_private_directory_of_this_user_counts_as_private() {
        use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
        let uid = ProcessEnvironment.uid().unwrap();
        let base = std::env::temp_dir().join(format!("leaf-path-{}", std::process::id()));
        fs::DirBuilder::new().mode(0o700).create(&base).unwrap();
        let link = base.join("link");
        symlink(&base, &link).unwrap();
        assert!(ProcessEnvironment.is_private_directory(&base, uid));
        assert!(!ProcessEnvironment.is_private_directory(&base, uid + 1));
        assert!(
            ProcessEnvironment.is_directory(&link)
                && !ProcessEnvironment.is_private_directory(&link, uid)
        );
        fs::set_permissions(&base, fs::Permissions::from_mode(0o720)).unwrap();
        assert!(!ProcessEnvironment.is_private_directory(&base, uid));
        fs::remove_dir_all(&base).unwrap();
        assert!(!ProcessEnvironment.is_private_directory(&base, uid));
    }
}
