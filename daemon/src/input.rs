//! Reading files that an operator names: the configuration, passwords, certificates. A path may lead to
//! anything, so leafd reads only regular files, with limits on size and time. Otherwise a FIFO or a device
//! could silently block the start for ever, or fill the memory.

use std::fs::{File, FileType, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

use crate::patience::value_within;

/// The largest configuration, in bytes: room for ten thousand rules.
pub(crate) const CONFIGURATION: u64 = 4 << 20;

/// The largest password, in bytes. systemd allows 1 MiB for all credentials together.
pub(crate) const SECRET: u64 = 64 << 10;

/// Time limit for reading: a network file system or the writer of a pipe may hang.
const LIMIT: Duration = Duration::from_secs(10);

/// Paths of descriptors that a process inherits, as in `--config <(command)`.
const DESCRIPTORS: [&str; 3] = ["/dev/fd/", "/proc/self/fd/", "/dev/stdin"];

/// Why leafd does not read a path.
#[derive(Debug, Clone, Copy, thiserror::Error)]
enum Unreadable {
    #[error("it is {0}, and leafd reads regular files only; name a regular file")]
    Kind(&'static str),
    #[error("it is larger than {0} bytes; is it the right file?")]
    Size(u64),
    #[error(
        "reading it took longer than {0:?}; check the file system that it is on, or the program that \
         writes it"
    )]
    Time(Duration),
    #[error(
        "it is a pipe, which leafd can read only once, at its start; name a regular file, or \
         restart leafd"
    )]
    Once,
}

impl From<Unreadable> for io::Error {
    fn from(why: Unreadable) -> Self {
        let kind = match why {
            Unreadable::Kind(_) | Unreadable::Once => ErrorKind::InvalidInput,
            Unreadable::Size(_) => ErrorKind::FileTooLarge,
            Unreadable::Time(_) => ErrorKind::TimedOut,
        };
        Self::new(kind, why)
    }
}

/// The text of a file of at most `most` bytes. Reads a pipe if the path names an inherited descriptor.
///
/// # Errors
/// When the path leads to something else, or the file is too large, not UTF-8, or takes too long.
pub(crate) fn read_text(path: &Path, most: u64) -> io::Result<String> {
    read_text_within(LIMIT, path, most)
}

fn read_text_within(limit: Duration, path: &Path, most: u64) -> io::Result<String> {
    let owned = path.to_owned();
    // A read that hangs stays behind on its own thread.
    let bytes = value_within(limit, move || read(&owned, most));
    let bytes = bytes.unwrap_or_else(|| Err(Unreadable::Time(limit).into()))?;
    String::from_utf8(bytes).map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not UTF-8"))
}

/// Checks that a second read of the same path can succeed. A pipe is empty the second time, and an empty
/// configuration would have no rules.
///
/// # Errors
/// When the path leads to a pipe, to no file, or cannot be examined.
pub(crate) fn can_be_read_again(path: &Path) -> io::Result<()> {
    let metadata = std::fs::metadata(path)?;
    check(path, &metadata)?;
    match metadata.file_type().is_fifo() {
        true => Err(Unreadable::Once.into()),
        false => Ok(()),
    }
}

/// Checks that a library can open the path without hanging: there is a regular file, or nothing.
///
/// # Errors
/// When the path leads to something else.
pub(crate) fn is_file_or_absent(path: &Path) -> io::Result<()> {
    Ok(std::fs::metadata(path).map_or(Ok(()), |metadata| check(path, &metadata))?)
}

fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    // Before opening: to open a device may have an effect, as with a watchdog or a tape.
    check(path, &std::fs::metadata(path)?)?;
    let file = open(path)?;
    // Again, because the path may lead elsewhere by now.
    check(path, &file.metadata()?)?;
    wait_for_data(&file)?;
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(Unreadable::Size(most).into());
    }
    Ok(bytes)
}

/// Opens a file, and does not wait for a writer if a FIFO has taken its place.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
    match options.open(path) {
        // Another process, such as a file server, holds a lease on the file and gives it up soon.
        Err(error) if error.kind() == ErrorKind::WouldBlock => File::open(path),
        outcome => outcome,
    }
}

/// Makes reads from a pipe wait for its writer. Reads from regular files never wait.
fn wait_for_data(file: &File) -> io::Result<()> {
    use nix::fcntl::{FcntlArg, OFlag, fcntl};
    let flags = OFlag::from_bits_retain(fcntl(file, FcntlArg::F_GETFL)?);
    fcntl(file, FcntlArg::F_SETFL(flags - OFlag::O_NONBLOCK))?;
    Ok(())
}

fn check(path: &Path, metadata: &Metadata) -> Result<(), Unreadable> {
    let kind = metadata.file_type();
    let is_null = kind.is_char_device() && metadata.rdev() == libc::makedev(1, 3);
    let is_given = || {
        DESCRIPTORS
            .iter()
            .any(|given| path.as_os_str().as_encoded_bytes().starts_with(given.as_bytes()))
    };
    // Operators use /dev/null as an empty file.
    if kind.is_file() || is_null || (kind.is_fifo() && is_given()) {
        return Ok(());
    }
    Err(Unreadable::Kind(name(kind)))
}

fn name(kind: FileType) -> &'static str {
    match kind {
        kind if kind.is_dir() => "a directory",
        kind if kind.is_fifo() => "a FIFO",
        kind if kind.is_socket() => "a socket",
        kind if kind.is_char_device() || kind.is_block_device() => "a device",
        _ => "no file",
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::net::UnixListener;

    use nix::sys::stat::Mode;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn refusal(path: &Path) -> String {
        read_text_within(LONG, path, 10).unwrap_err().to_string()
    }

    #[test]
    fn only_regular_files_are_read_and_a_fifo_is_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        nix::unistd::mkfifo(&path("fifo"), Mode::S_IRWXU).unwrap();
        let _listener = UnixListener::bind(path("socket")).unwrap();
        std::os::unix::fs::symlink(path("fifo"), path("link")).unwrap();
        for (path, kind) in [
            (path("fifo"), "it is a FIFO,"),
            (path("link"), "it is a FIFO,"),
            (path("socket"), "it is a socket,"),
            (path(""), "it is a directory,"),
            ("/dev/zero".into(), "it is a device,"),
        ] {
            assert!(refusal(&path).contains(kind), "{path:?}: {}", refusal(&path));
            assert!(is_file_or_absent(&path).unwrap_err().to_string().contains(kind));
        }
        assert_eq!(read_text(Path::new("/dev/null"), 10).unwrap(), "");
        assert!(is_file_or_absent(&path("none")).is_ok());
        assert_eq!(read_text(&path("none"), 10).unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn a_file_is_read_up_to_its_limit_and_not_beyond() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "0123456789").unwrap();
        assert_eq!(read_text(&path, 10).unwrap(), "0123456789");
        assert!(is_file_or_absent(&path).is_ok() && can_be_read_again(&path).is_ok());
        std::fs::write(&path, "0123456789a").unwrap();
        assert!(refusal(&path).contains("larger than 10 bytes"));
        // Larger than any memory.
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        assert!(refusal(&path).contains("larger than 10 bytes"));
        std::fs::write(&path, [0xff]).unwrap();
        assert!(refusal(&path).contains("UTF-8"));
    }

    #[test]
    fn an_inherited_pipe_is_read_to_its_end_even_if_it_is_slow() {
        let (reader, mut writer) = io::pipe().unwrap();
        let path = format!("/dev/fd/{}", reader.as_raw_fd());
        let slow = std::thread::spawn(move || {
            for part in ["[worker]\n", "id = 7\n"] {
                std::thread::sleep(Duration::from_millis(20));
                writer.write_all(part.as_bytes()).unwrap();
            }
        });
        let path = Path::new(&path);
        assert_eq!(read_text_within(LONG, path, 100).unwrap(), "[worker]\nid = 7\n");
        slow.join().unwrap();
        assert!(can_be_read_again(path).unwrap_err().to_string().contains("only once"));
    }

    #[test]
    fn a_pipe_whose_writer_hangs_or_never_ends_is_refused() {
        let (reader, mut writer) = io::pipe().unwrap();
        let path = format!("/proc/self/fd/{}", reader.as_raw_fd());
        writer.write_all(b"[worker]\n").unwrap();
        let error = read_text_within(Duration::from_millis(50), Path::new(&path), 100);
        assert_eq!(error.unwrap_err().kind(), ErrorKind::TimedOut);
        let (reader, mut writer) = io::pipe().unwrap();
        let path = format!("/dev/fd/{}", reader.as_raw_fd());
        writer.write_all(b"0123456789abc").unwrap();
        assert!(refusal(Path::new(&path)).contains("larger than 10 bytes"));
    }
}
