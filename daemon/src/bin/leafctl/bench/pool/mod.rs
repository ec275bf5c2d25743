//! `leafctl bench --pool`: measures a pool of IDs inside this process, and in the same run the additions
//! with which its calls have to compare.

mod blocks;
mod calls;
mod crew;
mod figures;
mod outages;
mod report;
mod trouble;

use std::io::Write;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::AtomicBool;

use leaf_client::Options;
use leaf_client::blocking::Client;
use leaf_client::pool::Pool;
use leafd::cli::leafctl::{BenchArgs, PoolMode};

use self::blocks::BlockVerifier;
use self::crew::Crew;
use self::report::{PoolReport, PoolRun};
use super::plan::{Plan, Target};
use super::trial::{prepare, verdict};
use crate::exit::Failure;
use crate::output::Output;

/// Measures, and prints the report.
///
/// # Errors
/// When leafd refuses the first request; when no ID came; `Duplicates`, after the report, when the
/// uniqueness check failed.
pub(super) fn measure<W: Write>(
    plan: &Plan,
    mode: PoolMode,
    client: Client,
    args: &BenchArgs,
    interrupted: &AtomicBool,
    out: &mut Output<W>,
) -> Result<(), Failure> {
    let check = prepare(client, plan, args.verify)?.map(BlockVerifier::new).map(Mutex::new);
    let threads = usize::try_from(args.threads).unwrap_or(usize::MAX);
    let (listener, mut outages) = outages::channel();
    let builder = match &plan.target {
        Target::Tag(tag) | Target::Tags(tag, _) => Pool::tag(tag),
        Target::Snowflake => Pool::snowflake(),
    };
    let options = Options::at(&plan.socket).timeout(plan.timeout);
    let pool = builder.options(options).on_event(listener).build()?;
    let done = Crew::new(plan, mode, threads, &pool, check.as_ref(), interrupted).run();
    let stats = pool.stats();
    drop(pool);
    // A pool that still leases could make its tag again after the run has deleted it.
    outages.wait_for_end(plan.timeout);
    let (figures, measured) = done?;
    let verifier = check
        .map(|check| check.into_inner().unwrap_or_else(PoisonError::into_inner).into_verifier());
    let run = PoolRun { plan, mode, threads, measured, figures, stats, outages };
    PoolReport::new(&run, verifier.as_ref()).print(args.json, out)?;
    out.finish()?;
    verdict(verifier.as_ref())?;
    match run.no_ids() {
        Some(why) => Err(Failure::Unavailable(format!(
            "leafd at {} gave the pool no ID: {why}",
            plan.socket.display()
        ))),
        None => Ok(()),
    }
}
