//! A borrower of a worker ID, as `leafctl run` is one, by the calls of the protocol.

use std::time::{Duration, Instant};

use leaf_client::wire::{ErrorCode, HeldLoan, WireError, WorkerLoan};
use leaf_client::{Error, blocking};

use crate::PATIENCE;
use crate::daemon::Home;

/// A borrower, and what it was told last.
#[derive(Debug)]
pub struct Borrower {
    home: Home,
    pool: String,
    name: String,
    client: Option<blocking::Client>,
    held: Option<(WorkerLoan, Instant)>,
}

impl Borrower {
    /// One at the daemons of `home`, which has not asked yet.
    #[must_use]
    pub fn of(home: &Home, pool: &str) -> Self {
        let name = format!("{:032x}", fastrand::u128(..));
        let (home, pool) = (home.clone(), pool.to_owned());
        Self { home, pool, name, client: None, held: None }
    }

    /// From now on, says that it had this worker ID by a claim that `like` could have had.
    pub fn pretends(&mut self, worker: u64, like: &WorkerLoan) {
        let (place, _) = like.claim.rsplit_once('/').expect("host and user");
        let claim = format!("{place}/{:032x}", fastrand::u128(..));
        self.held = Some((WorkerLoan { worker, claim, ..like.clone() }, Instant::now()));
    }

    /// Asks once, over a connection of its own.
    pub fn ask(&mut self) -> Result<WorkerLoan, Error> {
        let client = match &mut self.client {
            Some(client) => client,
            None => self.client.insert(blocking::Client::connect(self.home.options())?),
        };
        let asked = Instant::now();
        let held = self.held.as_ref().map(|(loan, at)| HeldLoan {
            worker: loan.worker,
            claim: &loan.claim,
            limit_unix_ms: loan.limit_unix_ms,
            left_ms: loan.left_ms.saturating_sub(ms(at.elapsed())),
        });
        let loan = client.worker_borrow(&self.pool, &self.name, ("", 0), held)?;
        self.held = Some((loan.clone(), asked));
        Ok(loan)
    }

    /// Asks until a worker ID is lent.
    pub fn borrows(&mut self) -> WorkerLoan {
        let began = Instant::now();
        loop {
            match self.ask() {
                Ok(loan) => return loan,
                Err(error) => {
                    let log = self.home.log();
                    assert!(began.elapsed() < PATIENCE, "no worker ID: {error}\n{log}");
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
        }
    }

    /// Asks until it is refused with this error.
    pub fn is_refused(&mut self, code: ErrorCode) -> WireError {
        let began = Instant::now();
        loop {
            let answer = self.ask();
            if let Err(Error::Refused(error)) = &answer
                && error.code() == code
            {
                return error.clone();
            }
            let log = self.home.log();
            assert!(began.elapsed() < PATIENCE, "not {code}: {answer:?}\n{log}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Returns the worker ID, used up to `ceiling_ms` (ms since 1970).
    pub fn returns(&mut self, ceiling_ms: u64) -> WorkerLoan {
        let client = self.client.as_mut().expect("it has asked");
        let returned = client.worker_return(&self.pool, &self.name, ceiling_ms);
        self.held = None;
        returned.unwrap_or_else(|error| panic!("{error}\n{}", self.home.log()))
    }

    /// Ends the connection without a word.
    pub fn disconnects(&mut self) {
        self.client = None;
    }

    /// Goes on at the daemons of another home.
    pub fn moves_to(&mut self, home: &Home) {
        (self.client, self.home) = (None, home.clone());
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
