//! `leafctl version`: leafctl's version and the running daemon's. They differ after an upgrade until
//! leafd restarts.

use std::io::Write;

use leafd::cli::leafctl::DaemonArgs;
use serde::Serialize;

use crate::connect;
use crate::exit::Failure;
use crate::output::{Output, harmless};

/// Both versions, as `--json` prints them.
#[derive(Debug, Serialize)]
struct VersionView {
    leafctl: &'static str,
    /// `null` if leafd does not answer.
    leafd: Option<String>,
    socket: String,
    /// Why leafd does not answer.
    error: Option<String>,
}

/// Prints both versions.
///
/// # Errors
/// `Output`. A daemon that does not answer is no failure: leafctl's own version is still known.
pub(crate) fn run<W: Write>(
    daemon: &DaemonArgs,
    json: bool,
    out: &mut Output<W>,
) -> Result<(), Failure> {
    let asked = connect::at_once(daemon, daemon.timeout()).and_then(|mut client| client.status());
    let (leafd, error) = match asked {
        Ok(status) => (Some(status.version), None),
        Err(error) => (None, Some(error.to_string())),
    };
    let socket = daemon.socket().display().to_string();
    let view = VersionView { leafctl: env!("CARGO_PKG_VERSION"), leafd, socket, error };
    if json { out.json(&view) } else { print(&view, out) }
}

fn print<W: Write>(view: &VersionView, out: &mut Output<W>) -> Result<(), Failure> {
    out.line(format_args!("leafctl {}", view.leafctl))?;
    match (&view.leafd, &view.error) {
        (Some(leafd), _) => {
            out.line(format_args!("leafd   {} ({})", harmless(leafd), harmless(&view.socket)))
        }
        (None, Some(error)) => out.line(format_args!("leafd   unknown: {}", harmless(error))),
        (None, None) => out.line("leafd   unknown"),
    }
}
