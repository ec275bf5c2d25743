//! A daemon that lends worker IDs as a test says, and remembers what it was asked.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use leaf_client::wire::{
    Call, ErrorCode, MAX_REQUEST_LEN, Reply, Response, VERSION, WireError, WorkerLoan,
    decode_request, encode_response, split_frame,
};

/// The name of the claim that [`LendingDaemon`] lends.
pub const CLAIM: &str = "claim-1";

/// What the daemon answers, and what it was asked.
#[derive(Debug)]
pub struct Lending {
    /// The loan of every answer.
    pub loan: WorkerLoan,
    /// The error of every answer instead.
    pub refusal: Option<WireError>,
    /// Whether it answers nothing.
    pub is_silent: bool,
    /// The requests to lend, oldest first.
    pub asked: Vec<AskedLoan>,
    /// The ceilings of the returns.
    pub returned: Vec<u64>,
}

/// A request to lend a worker ID.
#[derive(Debug, Clone)]
pub struct AskedLoan {
    /// The pool.
    pub pool: String,
    /// The name of the borrower.
    pub borrower: String,
    /// Path and inode of the cgroup.
    pub cgroup: (String, u64),
    /// Worker ID and claim that the borrower has.
    pub held: Option<(u64, String)>,
}

/// A daemon that does nothing but lend.
#[derive(Debug, Clone)]
pub struct LendingDaemon {
    state: Arc<Mutex<Lending>>,
}

impl LendingDaemon {
    /// Listens at `socket`, and lends worker ID 513 for `left_ms`.
    ///
    /// # Panics
    /// If it cannot listen there.
    #[must_use]
    pub fn start(socket: &Path, left_ms: u64) -> Self {
        let loan = WorkerLoan {
            worker: 513,
            bits: 10,
            claim: CLAIM.to_owned(),
            start_unix_ms: 0,
            limit_unix_ms: u64::MAX,
            left_ms,
        };
        let (asked, returned) = (Vec::new(), Vec::new());
        let state = Lending { loan, refusal: None, is_silent: false, asked, returned };
        let this = Self { state: Arc::new(Mutex::new(state)) };
        let listener = UnixListener::bind(socket).expect("the socket");
        let served = this.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let served = served.clone();
                thread::spawn(move || served.serve(stream));
            }
        });
        this
    }

    /// What it answers, to change it, and what it was asked.
    pub fn state(&self) -> MutexGuard<'_, Lending> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the state is as `is` says, a minute at most.
    ///
    /// # Panics
    /// If it does not become so.
    pub fn wait_until(&self, mut is: impl FnMut(&Lending) -> bool) {
        for _ in 0..6000 {
            if is(&self.state()) {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("it did not come to that: {:?}", self.state());
    }

    fn serve(&self, mut stream: UnixStream) {
        let (mut received, mut chunk) = (Vec::new(), [0; 4096]);
        while let Ok(len @ 1..) = stream.read(&mut chunk) {
            received.extend_from_slice(&chunk[..len]);
            while let Ok(Some((body, rest))) = split_frame(&received, MAX_REQUEST_LEN) {
                let request = decode_request(body).expect("a request");
                let (id, left) = (request.id, rest.len());
                if let Some(reply) = self.reply(&request.call) {
                    let mut out = Vec::new();
                    encode_response(&Response { id, reply }, &mut out);
                    // A client that is gone reads no more.
                    let _ = stream.write_all(&out);
                }
                received.drain(..received.len() - left);
            }
        }
    }

    fn reply(&self, call: &Call<'_>) -> Option<Reply> {
        let mut state = self.state();
        match call {
            Call::Hello { .. } => {
                return Some(Reply::Hello { version: VERSION, max_count: 1, max_in_flight: 1 });
            }
            Call::WorkerBorrow { pool, borrower, cgroup, cgroup_inode, held } => {
                state.asked.push(AskedLoan {
                    pool: (*pool).to_owned(),
                    borrower: (*borrower).to_owned(),
                    cgroup: ((*cgroup).to_owned(), *cgroup_inode),
                    held: held.map(|held| (held.worker, held.claim.to_owned())),
                });
            }
            Call::WorkerReturn { ceiling_unix_ms, .. } => state.returned.push(*ceiling_unix_ms),
            other => {
                let error = WireError::new(ErrorCode::UnknownCall, format!("{other:?}"));
                return Some(Reply::Error(error));
            }
        }
        if state.is_silent {
            return None;
        }
        Some(match &state.refusal {
            Some(error) => Reply::Error(error.clone()),
            None => Reply::Loan(state.loan.clone()),
        })
    }
}
