//! A preforking server: the parent makes a pool and forks its workers, and each worker takes IDs from
//! it. A worker's pool starts empty, with a connection and a thread of its own, so no ID comes twice.
//!
//! ```sh
//! cargo run --release                                             # leafd, in another terminal
//! cargo run -p leaf-client --features blocking --example preforking
//! ```

#![expect(unsafe_code, reason = "fork")]
#![expect(clippy::print_stdout, reason = "an example")]

use std::error::Error;
use std::process::ExitCode;

use leaf_client::pool::Pool;
use nix::sys::wait::{WaitStatus, wait};
use nix::unistd::{ForkResult, fork};

const WORKERS: usize = 4;
const REQUESTS: usize = 5;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    // Neither connects nor starts a thread yet.
    let orders = Pool::tag("orders").build()?;
    for worker in 0..WORKERS {
        // SAFETY: this process has one thread.
        if let ForkResult::Child = unsafe { fork() }? {
            return Ok(serve(worker, &orders));
        }
    }
    let mut failed = 0;
    for _ in 0..WORKERS {
        failed += usize::from(!matches!(wait()?, WaitStatus::Exited(_, 0)));
    }
    println!("{failed} of {WORKERS} workers failed");
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The life of a worker: a real one would accept connections here.
fn serve(worker: usize, orders: &Pool) -> ExitCode {
    for _ in 0..REQUESTS {
        match orders.next() {
            Ok(id) => println!("worker {worker}: order {id}"),
            Err(error) => {
                eprintln!("worker {worker}: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
