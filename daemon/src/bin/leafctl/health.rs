//! `leafctl health`: for probes, which see an exit status and one line. It judges by the daemon's
//! status alone, which leafd answers from memory; no probe reaches the store or the registry.

use std::io::Write;
use std::time::{Duration, Instant};

use leaf_client::Error;
use leaf_client::blocking::Client;
use leaf_client::wire::{DaemonStatus, ErrorCode};

use crate::connect;
use crate::exit::Failure;
use crate::output::{Output, harmless};
use leafd::cli::leafctl::DaemonArgs;
use leafd::readiness;
use serde::Serialize;

/// Deadline for asking whether snowflake IDs are turned off. leafd answers that from memory at
/// once; any longer wait means that they are enabled.
const TURNED_OFF: Duration = Duration::from_millis(200);

/// The result as JSON.
#[derive(Serialize)]
struct HealthView<'a> {
    /// Whether leafctl exits with 0.
    ok: bool,
    /// What was checked: `live`, or `ready` with `--ready`.
    checked: &'static str,
    message: &'a str,
}

/// Checks that the daemon answers and, with `ready`, that it can issue IDs; prints the result.
///
/// # Errors
/// The reason why it does not, or cannot. In JSON, the reason is also the result.
pub(crate) fn run<W: Write>(
    daemon: &DaemonArgs,
    ready: bool,
    json: bool,
    out: &mut Output<W>,
) -> Result<(), Failure> {
    let verdict = check(daemon, ready);
    if json {
        let checked = if ready { "ready" } else { "live" };
        let message = verdict.as_ref().map_or_else(ToString::to_string, Clone::clone);
        out.json(&HealthView { ok: verdict.is_ok(), checked, message: &message })?;
        return verdict.map(drop);
    }
    out.line(verdict?)
}

/// What to tell the prober.
fn check(daemon: &DaemonArgs, ready: bool) -> Result<String, Failure> {
    let began = Instant::now();
    let timeout = daemon.probe_timeout();
    let mut client = match connect::at_once(daemon, timeout) {
        // Other clients hold every connection. If a liveness probe failed for that, they could have
        // leafd killed.
        Err(Error::Refused(error)) if !ready && error.code() == ErrorCode::TooManyConnections => {
            return Ok("leafd answers, but has no room for more connections".to_owned());
        }
        client => client?,
    };
    if !ready {
        return Ok("leafd answers".to_owned());
    }
    // One deadline for everything that the probe asks.
    let left = || timeout.saturating_sub(began.elapsed()).max(Duration::from_millis(1));
    client.set_timeout(left());
    let status = client.status()?;
    client.set_timeout(left().min(TURNED_OFF));
    if let Some(reason) = unready(&status, || are_snowflakes_offered(&mut client)) {
        return Err(Failure::Unavailable(format!("leafd is not ready: {reason}")));
    }
    Ok(match status.segments.store_error.as_str() {
        "" => "leafd is ready".to_owned(),
        // The store's failure alone does not make it unready.
        error => format!("leafd is ready, from memory: the store fails: {}", harmless(error)),
    })
}

/// Whether snowflake IDs are enabled. The status has only the refusal's text; the error has a
/// number.
fn are_snowflakes_offered(client: &mut Client) -> bool {
    let asked = client.snowflake();
    !matches!(asked, Err(Error::Refused(error)) if error.code() == ErrorCode::NotConfigured)
}

/// As [`leafd::readiness::unready`], in characters that are harmless on a terminal.
fn unready(status: &DaemonStatus, offered: impl FnOnce() -> bool) -> Option<String> {
    readiness::unready(status, offered).map(|reason| harmless(&reason))
}

#[cfg(test)]
mod tests {
    use leaf_client::wire::SnowflakeState;

    use super::*;
    use crate::status::tests::status;

    fn verdict(status: &DaemonStatus) -> Option<String> {
        unready(status, || true)
    }

    #[test]
    fn a_failing_store_leaves_leafd_ready_while_it_serves_from_memory() {
        let mut status = status(SnowflakeState::Serving);
        status.segments.store_error = "Connection refused\x1b".to_owned();
        assert_eq!(verdict(&status), None);
        status.segments.waiting = 2;
        let reason = verdict(&status).expect("a reason");
        assert!(reason.contains("2 now: Connection refused\\u{1b}"), "{reason}");
        status.segments.store_error.clear();
        assert_eq!(verdict(&status), None, "a lease in flight is no failure");
    }

    #[test]
    fn a_host_without_snowflake_ids_is_unready_and_says_why() {
        let reason = "x\x1b".to_owned();
        for (state, said) in [
            (SnowflakeState::Starting { reason: reason.clone() }, "x\\u{1b}"),
            (SnowflakeState::Refused { reason }, "x\\u{1b}"),
            (SnowflakeState::ClockBehind { behind_ms: 80 }, "80 ms behind"),
        ] {
            let found = verdict(&status(state)).expect("a reason");
            assert!(found.contains("no snowflake IDs") && found.contains(said), "{found}");
        }
    }

    #[test]
    fn a_host_with_snowflake_ids_turned_off_is_ready_without_them() {
        let refused = SnowflakeState::Refused { reason: "not configured".to_owned() };
        assert_eq!(unready(&status(refused), || false), None);
        // A state that passes by itself needs no further question.
        let starting = SnowflakeState::Starting { reason: String::new() };
        assert!(unready(&status(starting), || panic!("asked")).is_some());
    }

    #[test]
    fn a_host_past_its_limit_is_unready_while_the_registry_is_unreachable() {
        let mut status = status(SnowflakeState::Serving);
        status.snowflake.registry_error = "Connection refused".to_owned();
        status.snowflake.limit_unix_ms = Some(status.snowflake.clock_unix_ms + 1);
        assert_eq!(verdict(&status), None);
        status.snowflake.limit_unix_ms = Some(status.snowflake.clock_unix_ms);
        let reason = verdict(&status).expect("a reason");
        assert!(reason.contains("ended at 2020-09-13T12:26:40.000Z"), "{reason}");
        status.snowflake.registry_error.clear();
        assert_eq!(verdict(&status), None, "the next request triggers a report");
    }
}
