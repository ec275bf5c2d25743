//! The thread that calls leafd. A daemon that hangs delays this thread alone, never the one that
//! enforces the deadline.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use leaf_client::blocking::Client;
use leaf_client::wire::{ErrorCode, HeldLoan, WorkerLoan};
use leaf_client::{Error, Options};
use leafd::cli::leafctl::DaemonArgs;
use nix::sys::eventfd::{EfdFlags, EventFd};

use super::hold::KnownLoan;
use super::moment::Moment;

/// Longest timeout of one call.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The errors after which leafd does not know the loan.
const NOT_HEARD: [ErrorCode; 2] = [ErrorCode::WrongOwner, ErrorCode::ShuttingDown];

/// Who borrows.
#[derive(Debug)]
pub(super) struct Borrower {
    pub(super) pool: String,
    /// Unique among all borrowers of this leafd.
    pub(super) name: String,
    /// Path and inode of the cgroup.
    pub(super) cgroup: (String, u64),
}

/// An answer of leafd.
#[derive(Debug)]
pub(super) enum Answer {
    /// To a request that was sent at this time, by the clock that counts suspension, or later.
    Loan {
        sent_boot_ms: u64,
        result: Result<WorkerLoan, Error>,
    },
    Returned(Result<WorkerLoan, Error>),
}

#[derive(Debug)]
enum Request {
    Borrow(Option<KnownLoan>),
    Return { ceiling_unix_ms: u64, announces: bool },
}

/// The main thread's end.
#[derive(Debug)]
pub(super) struct Lender {
    requests: Sender<Request>,
    answers: Receiver<Answer>,
    wake: Arc<EventFd>,
}

impl Lender {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system refuses it.
    pub(super) fn start(daemon: &DaemonArgs, borrower: Borrower) -> io::Result<Self> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let wake = Arc::new(EventFd::from_flags(flags)?);
        let (requests, asked) = channel();
        let (answer, answers) = channel();
        let timeout = daemon.timeout().min(TIMEOUT);
        let client = Client::new(Options::at(daemon.socket()).timeout(timeout));
        let waker = Arc::clone(&wake);
        let work = move || serve(client, &borrower, &asked, &answer, &waker);
        thread::Builder::new().name("lender".to_owned()).spawn(work)?;
        Ok(Self { requests, answers, wake })
    }

    pub(super) fn borrow(&self, known: Option<KnownLoan>) {
        // The thread lives as long as this end.
        let _ = self.requests.send(Request::Borrow(known));
    }

    pub(super) fn give_back(&self, ceiling_unix_ms: u64, announces: bool) {
        let _ = self.requests.send(Request::Return { ceiling_unix_ms, announces });
    }

    /// The next answer, without waiting for it.
    pub(super) fn next(&self) -> Option<Answer> {
        let _ = self.wake.read();
        self.answers.try_recv().ok()
    }

    /// Readable when there is an answer.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

/// Tells leafd of the loan, in case it has restarted since it heard of it last.
///
/// # Errors
/// When leafd has not answered, or has lent the worker ID to another.
fn announce(client: &mut Client, borrower: &Borrower, loan: &WorkerLoan) -> Result<(), Error> {
    let held = HeldLoan {
        worker: loan.worker,
        claim: &loan.claim,
        limit_unix_ms: loan.limit_unix_ms,
        left_ms: 1,
    };
    let cgroup = (borrower.cgroup.0.as_str(), borrower.cgroup.1);
    match client.worker_borrow(&borrower.pool, &borrower.name, cgroup, Some(held)) {
        Err(error) if error.code().is_none_or(|code| NOT_HEARD.contains(&code)) => Err(error),
        // It knows the loan, also if the registry has not confirmed it.
        _ => Ok(()),
    }
}

fn serve(
    mut client: Client,
    borrower: &Borrower,
    asked: &Receiver<Request>,
    answer: &Sender<Answer>,
    wake: &EventFd,
) {
    let (pool, name) = (borrower.pool.as_str(), borrower.name.as_str());
    let mut last = None;
    let mut has_sent_return = false;
    let cgroup = (borrower.cgroup.0.as_str(), borrower.cgroup.1);
    for request in asked {
        let sent_boot_ms = Moment::now().boot_ms;
        let said = match request {
            Request::Borrow(known) => {
                let held = known.as_ref().map(|known| HeldLoan {
                    worker: known.worker,
                    claim: &known.claim,
                    limit_unix_ms: known.limit_unix_ms,
                    left_ms: known.left_ms,
                });
                let result = client.worker_borrow(pool, name, cgroup, held);
                last = result.as_ref().ok().cloned().or(last);
                Answer::Loan { sent_boot_ms, result }
            }
            Request::Return { ceiling_unix_ms, announces } => {
                // Only before the first return: after it, the worker ID may be another's, whatever became of
                // the answer.
                let announced = match &last {
                    Some(loan) if announces && !has_sent_return => {
                        announce(&mut client, borrower, loan)
                    }
                    _ => Ok(()),
                };
                Answer::Returned(announced.and_then(|()| {
                    has_sent_return = true;
                    client.worker_return(pool, name, ceiling_unix_ms)
                }))
            }
        };
        if answer.send(said).is_err() {
            return;
        }
        // It fails only if the counter is full, and then the main thread wakes anyway.
        let _ = wake.write(1);
    }
}
