//! Why leafd cannot use a state directory, in words that name the remedy.

use std::io;
use std::path::PathBuf;

use crate::state::advice::Advice;

/// Why leafd cannot use a state directory.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StateError {
    /// Another process has the lock.
    #[error(
        "the state directory {path} is locked by another leafd{}; stop that one, or give this one \
         a directory of its own with state.dir",
        holder.as_ref().map_or(String::new(), |pid| format!(" (process {pid})"))
    )]
    Locked {
        /// The directory.
        path: PathBuf,
        /// The ID of the process that wrote the lock file.
        holder: Option<String>,
    },
    /// The directory belongs to another host, and the configured store could repeat that host's IDs.
    #[error(
        "the state directory {path} is not this host's: {difference}. Two hosts that go on from \
         one state repeat each other's IDs. If the other one never runs again (the disk was moved, \
         the machine was renamed), take the directory over with `leafd adopt`; if this is a copy, \
         give this host a directory of its own with state.dir"
    )]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// How its owner differs from this host.
        difference: String,
    },
    /// leafd did not write this directory: it is a copy, and the configured store would repeat what
    /// was issued since.
    #[error(
        "the state directory {path} was restored from a backup, or copied: {what}. It does not \
         know what was issued since, and its embedded database would lease that again. {advice}"
    )]
    Copied {
        /// The directory.
        path: PathBuf,
        /// What shows that it is a copy.
        what: String,
        /// How to go on.
        advice: Box<Advice>,
    },
    /// leafd cannot adopt the directory until the operator says what was issued.
    #[error("the state directory {path} {why}. {advice}")]
    Unknown {
        /// The directory.
        path: PathBuf,
        /// Why nobody knows what was issued.
        why: &'static str,
        /// How to go on.
        advice: Box<Advice>,
    },
    /// The operating system refuses.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// The verb of the failed operation.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// Turns an error of the operating system into one that says what failed on which path.
pub(super) fn io(
    action: &'static str,
    path: impl Into<PathBuf>,
) -> impl FnOnce(io::Error) -> StateError {
    let path = path.into();
    move |source| StateError::Io { action, path, source }
}
