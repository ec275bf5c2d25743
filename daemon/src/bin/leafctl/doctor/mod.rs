//! `leafctl doctor`: asks the daemon, has the host, the store and the registry looked at, and prints
//! what the checks found.

mod report;

use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use leaf_client::blocking::Client;
use leaf_client::wire::{ErrorCode, TagStatus};
use leaf_client::{Error, Options};
use leafd::app::Examination;
use leafd::cli::leafctl::{DaemonArgs, DoctorArgs};
use leafd::doctor::{DaemonFacts, Level, examine};
use nix::errno::Errno;

use self::report::{Report, Window};
use crate::connect;
use crate::exit::Failure;
use crate::output::Output;

/// Tags in use that are looked at.
const MOST_TAGS: usize = 1000;

/// Tags per call.
const PAGE: u32 = 100;

/// Examines this host.
///
/// # Errors
/// When something is bad, or the report cannot be written.
pub(crate) fn run<W: Write>(
    daemon: &DaemonArgs,
    args: &DoctorArgs,
    out: &mut Output<W>,
) -> Result<(), Failure> {
    let examination = Examination::begin(args.config.as_deref(), daemon.timeout());
    let socket = socket(daemon, &examination);
    let source = examination.source().to_owned();
    let facts = examination.facts(&socket, ask(&socket, daemon.timeout()));
    let findings = examine(&facts);
    let report = Report { source: &source, socket: &socket, findings: &findings };
    if args.json {
        report.print_json(out)?;
    } else {
        report.print(Window::of_stdout(), args.all, out)?;
    }
    match report.count(Level::Bad) {
        0 => Ok(()),
        _ => Err(Failure::Sick),
    }
}

/// The socket that the command line or the configuration names, or where clients look.
fn socket(daemon: &DaemonArgs, examination: &Examination) -> PathBuf {
    let given = daemon.given_socket().map(Path::to_owned);
    given.or_else(|| examination.configured_socket()).unwrap_or_else(|| daemon.socket())
}

/// Asks the daemon for its status and its tags.
fn ask(socket: &Path, timeout: Duration) -> DaemonFacts {
    match connect::dial(socket) {
        // EAGAIN: the queue of new connections is full, so a daemon is listening.
        Ok(_) | Err(Errno::EAGAIN) => {}
        Err(error) => return unreachable(socket, &io::Error::from(error)),
    }
    let status = || {
        let mut client = Client::connect(Options::at(socket).timeout(timeout))?;
        let status = client.status()?;
        Ok((client, status))
    };
    match status() {
        Ok((mut client, status)) => {
            DaemonFacts::Up { status: Box::new(status), tags: tags(&mut client) }
        }
        Err(Error::Refused(error)) if error.code() == ErrorCode::Forbidden => {
            DaemonFacts::Closed(error.to_string())
        }
        // It took the connection and said nothing.
        Err(Error::Unavailable { source, .. }) => {
            DaemonFacts::Silent(format!("{}: {source}.", socket.display()))
        }
        Err(error) => DaemonFacts::Silent(error.to_string()),
    }
}

fn unreachable(socket: &Path, error: &io::Error) -> DaemonFacts {
    let why = format!("{}: {error}.", socket.display());
    match error.kind() {
        ErrorKind::PermissionDenied => DaemonFacts::Closed(why),
        _ => DaemonFacts::Down(why),
    }
}

/// The tags in use; an older daemon lists all tags of its store instead.
fn tags(client: &mut Client) -> Result<Vec<TagStatus>, String> {
    let mut tags: Vec<TagStatus> = Vec::new();
    loop {
        let after = tags.last().map_or(String::new(), |tag| tag.tag.clone());
        let page = client.tags_used(&after, PAGE).map_err(|error| error.to_string())?;
        let is_last = page.len() < PAGE as usize;
        tags.extend(page);
        if is_last || tags.len() >= MOST_TAGS {
            return Ok(tags);
        }
    }
}
