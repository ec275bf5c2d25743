//! `leafctl worker`: lists the worker IDs of the registry or of a pool, and releases those whose
//! owners are gone.

mod confirm;
mod view;

use std::io::Write;
use std::time::Duration;

use leaf_client::Error;
use leaf_client::blocking::Client;
use leaf_client::wire::{ErrorCode, MAX_WORKERS_PER_PAGE, WorkerState, WorkerStatus};
use leafd::cli::leafctl::{DaemonArgs, WorkerCommand};

use self::view::WorkerView;
use crate::exit::Failure;
use crate::output::Output;
use crate::{ask, connect};

/// Margin on top of the daemon's retry-after.
const SPARE: Duration = Duration::from_millis(500);

/// Executes one command of `leafctl worker`.
///
/// # Errors
/// The daemon's refusals, a release that the operator does not confirm, and `Output`.
pub(crate) fn run<W: Write>(
    daemon: &DaemonArgs,
    command: &WorkerCommand,
    out: &mut Output<W>,
) -> Result<(), Failure> {
    let mut client = connect::prompt(daemon)?;
    match command {
        WorkerCommand::List { pool, json } => {
            let workers = all(|from, limit| list(&mut client, pool.as_deref(), from, limit))?;
            if *json {
                return out.json(&workers.iter().map(WorkerView::from).collect::<Vec<_>>());
            }
            view::print_rows(&workers, out)
        }
        WorkerCommand::Release { worker, owner, pool, json } => {
            let pool = pool.as_deref();
            let status = match owner {
                Some(owner) => release(|| release_one(&mut client, pool, *worker, owner))?,
                None => {
                    let page = |from, limit| list(&mut client, pool, from, limit);
                    let status = one(*worker, page)?;
                    if status.state == WorkerState::Released {
                        status
                    } else {
                        confirm::release(&status, pool, daemon.given_socket(), ask::terminal())?;
                        release(|| release_one(&mut client, pool, *worker, &status.owner))?
                    }
                }
            };
            if *json {
                out.json(&WorkerView::from(&status))
            } else {
                view::lines(&status).try_for_each(|line| out.line(line))
            }
        }
    }
}

/// A page of leafd's own registry, or of a pool.
fn list(
    client: &mut Client,
    pool: Option<&str>,
    from: u64,
    limit: u32,
) -> Result<Vec<WorkerStatus>, Error> {
    match pool {
        Some(pool) => client.pool_list(pool, from, limit),
        None => client.worker_list(from, limit),
    }
}

fn release_one(
    client: &mut Client,
    pool: Option<&str>,
    worker: u64,
    owner: &str,
) -> Result<WorkerStatus, Error> {
    match pool {
        Some(pool) => client.pool_release(pool, worker, owner),
        None => client.worker_release(worker, owner),
    }
}

/// Releases a worker ID. If the daemon has not watched its node for long enough, the first call
/// makes it start, and leafctl retries once when the daemon has watched long enough.
fn release(mut call: impl FnMut() -> Result<WorkerStatus, Error>) -> Result<WorkerStatus, Failure> {
    let wait = match call() {
        Err(Error::Refused(error))
            if error.code() == ErrorCode::WorkerInUse && error.retry_after_ms > 0 =>
        {
            let wait = Duration::from_millis(u64::from(error.retry_after_ms)) + SPARE;
            // This is not a result, so it goes to stderr; ignore a stderr that is closed.
            let line = format!("{error}\nWaiting for {} s.\n", wait.as_secs());
            let _ = std::io::stderr().write_all(line.as_bytes());
            wait
        }
        outcome => return Ok(outcome?),
    };
    std::thread::sleep(wait);
    Ok(call()?)
}

/// Every worker ID, page by page; `page(from, limit)` returns the worker IDs from `from` on.
///
/// # Errors
/// Those of `page`; `Protocol` if the pages do not advance, which would never end.
fn all<E>(
    mut page: impl FnMut(u64, u32) -> Result<Vec<WorkerStatus>, E>,
) -> Result<Vec<WorkerStatus>, Failure>
where
    Failure: From<E>,
{
    let mut workers = Vec::new();
    let mut next = Some(0);
    while let Some(from) = next {
        let more = page(from, MAX_WORKERS_PER_PAGE)?;
        // Only an empty page ends the list: one request more, but no rule about short pages.
        let (Some(first), Some(last)) = (more.first(), more.last()) else { break };
        if first.worker < from || !more.is_sorted_by(|a, b| a.worker < b.worker) {
            return Err(Failure::Protocol(format!(
                "the page of worker IDs from {from} on is not sorted"
            )));
        }
        next = last.worker.checked_add(1);
        workers.extend(more);
    }
    Ok(workers)
}

/// One worker ID, from the page that begins with it.
fn one<E>(
    worker: u64,
    page: impl FnOnce(u64, u32) -> Result<Vec<WorkerStatus>, E>,
) -> Result<WorkerStatus, Failure>
where
    Failure: From<E>,
{
    let found = page(worker, 1)?.into_iter().find(|status| status.worker == worker);
    found.ok_or_else(|| {
        Failure::Usage(format!(
            "there is no worker ID {worker} in the registry; leafctl worker list (with the same --pool, \
             if any) shows them all"
        ))
    })
}

#[cfg(test)]
mod tests {
    use leaf_client::wire::WireError;

    use super::*;

    /// A worker ID whose owner is gone.
    pub(super) fn worker(worker: u64) -> WorkerStatus {
        WorkerStatus {
            worker,
            owner: "10.0.0.7:2182".to_owned(),
            address: "10.0.0.7:2182\x07".to_owned(),
            state: WorkerState::Held,
            live: false,
            own: false,
            reported_unix_ms: 1_600_000_000_000,
            age_ms: 180_000_000,
            ceiling_unix_ms: 1_600_000_003_000,
            limit_unix_ms: Some(1_600_043_200_000),
        }
    }

    #[test]
    fn a_release_that_has_to_wait_is_retried_once() {
        for outcomes in [vec![Some(1), Some(1)], vec![Some(0)], vec![Some(1), None], vec![None]] {
            let mut left = outcomes.clone().into_iter();
            let outcome = release(|| match left.next().unwrap() {
                None => Ok(worker(7)),
                Some(retry_after_ms) => Err(Error::Refused(
                    WireError::new(ErrorCode::WorkerInUse, "in use")
                        .with_retry_after_ms(retry_after_ms),
                )),
            });
            assert_eq!(left.next(), None);
            assert_eq!(outcome.is_ok(), outcomes.last() == Some(&None));
        }
    }

    fn paged(workers: &[u64]) -> Vec<u64> {
        let pages = |from, limit| {
            let page = workers.iter().filter(|worker| **worker >= from).take(limit as usize);
            Ok::<_, Failure>(page.map(|id| worker(*id)).collect())
        };
        all(pages).unwrap().iter().map(|status| status.worker).collect()
    }

    #[test]
    fn all_pages_are_read_even_with_gaps_and_a_full_or_empty_last_page() {
        for count in [0, 1, 99, 100, 101, 200, 1024] {
            let workers: Vec<u64> = (0..count).map(|i| 3 * i + 1).collect();
            assert_eq!(paged(&workers), workers);
        }
        assert_eq!(paged(&[0, u64::MAX]), [0, u64::MAX]);
    }

    #[test]
    fn pages_that_do_not_advance_are_an_error_instead_of_an_endless_loop() {
        for page in [[worker(1), worker(1)], [worker(2), worker(1)], [worker(0), worker(1)]] {
            let failure = all(|_, _| Ok::<_, Failure>(page.to_vec())).unwrap_err();
            assert_eq!(failure.code(), 76);
        }
    }

    #[test]
    fn the_next_worker_id_is_not_mistaken_for_a_missing_one() {
        let page = |from, limit| {
            assert_eq!((from, limit), (7, 1));
            Ok::<_, Failure>(vec![worker(7)])
        };
        assert_eq!(one(7, page).unwrap(), worker(7));
        for page in [vec![worker(8)], vec![]] {
            let failure = one(7, |_, _| Ok::<_, Failure>(page)).unwrap_err();
            assert_eq!(failure.code(), 64);
            assert!(failure.to_string().contains("no worker ID 7"), "{failure}");
        }
    }
}
