//! `leafctl bench`: measures throughput and latency of a running daemon, or of a pool in this process
//! that the daemon refills, and checks uniqueness.

mod engine;
mod interrupt;
mod plan;
mod pool;
mod report;
mod tags;
mod trial;
mod verify;

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::AtomicBool;

use leaf_client::blocking::Client;
use leafd::cli::leafctl::{BenchArgs, DaemonArgs};

use self::plan::Plan;
use self::report::BenchReport;
use self::tags::TagsBefore;
use self::trial::{prepare, verdict};
use crate::connect;
use crate::exit::Failure;
use crate::output::Output;

/// Measures, and prints the report.
///
/// # Errors
/// When the daemon is unreachable or refuses the first request; when no request was answered;
/// `Duplicates`, after the report, when the uniqueness check failed.
pub(crate) fn run<W: Write>(
    daemon: &DaemonArgs,
    args: &BenchArgs,
    out: &mut Output<W>,
) -> Result<(), Failure> {
    let progress = args.progress || (!args.json && io::stderr().is_terminal());
    let plan = Plan::new(daemon, args, progress);
    let interrupts = interrupt::listen();
    let mut client = connect::prompt(daemon)?;
    let before = TagsBefore::look(&mut client, &plan.target, args.keep);
    let done = match args.pool {
        Some(mode) => pool::measure(&plan, mode, client, args, &interrupts.run, out),
        None => measure(&plan, client, args, &interrupts.run, out),
    };
    let after = before.delete_others(daemon, &plan.target, &interrupts.deletion);
    after.report(&plan.target);
    done
}

fn measure<W: Write>(
    plan: &Plan,
    client: Client,
    args: &BenchArgs,
    stop: &AtomicBool,
    out: &mut Output<W>,
) -> Result<(), Failure> {
    let verifier = prepare(client, plan, args.verify)?;
    let (measured, meter) = engine::run(plan, verifier, stop)?;
    BenchReport::new(plan, measured, &meter).print(args.json, out)?;
    out.finish()?;
    verdict(meter.verifier())?;
    if measured.requests == 0 {
        let why = meter.last_break().unwrap_or("the measurement was too short");
        return Err(Failure::Unavailable(format!(
            "leafd at {} answered no request: {why}",
            plan.socket.display()
        )));
    }
    Ok(())
}
