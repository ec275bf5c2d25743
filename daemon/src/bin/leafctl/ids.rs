//! `leafctl next` and `leafctl snowflake`: IDs on stdout, one per line and nothing else. A quota makes
//! leafctl wait: it prints all IDs, or says how many it printed before it failed.

use std::io::{self, Write};
use std::thread;
use std::time::Duration;

use leaf_client::Error;
use leaf_client::wire::{ErrorCode, WireError};
use leafd::duration::rough;

use crate::exit::Failure;
use crate::output::{Output, grouped, harmless};

/// Most IDs per request, until the daemon's refusal names a lower limit.
const MAX_PER_REQUEST: u32 = 100_000;

/// Shortest pause before a retry, if the daemon names none.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);

/// How leafctl waits for a quota, and tells the operator.
pub(crate) trait Waiting {
    /// Tells the operator why the IDs take longer. Called once.
    fn tell(&mut self, why: &str);

    /// Lets this much time pass.
    fn pause(&mut self, time: Duration);
}

/// Waits in real time, and writes to stderr.
pub(crate) struct AtTheTerminal;

impl Waiting for AtTheTerminal {
    fn tell(&mut self, why: &str) {
        // A failing stderr is no reason to lose the IDs.
        let _ = writeln!(io::stderr(), "leafctl: {why}");
    }

    fn pause(&mut self, time: Duration) {
        thread::sleep(time);
    }
}

/// Prints `count` IDs, in as many requests as it takes. While a quota refuses them, it waits as long
/// as the daemon asks, and up to `patience` until IDs come again.
///
/// # Errors
/// The errors of `ask`, and `Output`. IDs received before the error are printed, and the error says
/// how many.
pub(crate) fn print<W: Write, I: IntoIterator<Item = u64>>(
    count: u64,
    patience: Duration,
    out: &mut Output<W>,
    waiting: &mut impl Waiting,
    mut ask: impl FnMut(u32) -> Result<I, Error>,
) -> Result<(), Failure> {
    let mut missing = count;
    let mut limit = MAX_PER_REQUEST;
    let (mut told, mut waited) = (false, Duration::ZERO);
    while missing > 0 {
        let part = u32::try_from(missing).unwrap_or(u32::MAX).min(limit);
        match ask(part) {
            Ok(ids) => {
                ids.into_iter().try_for_each(|id| out.id(id))?;
                missing -= u64::from(part);
                waited = Duration::ZERO;
            }
            Err(Error::Refused(refusal)) if refusal.code() == ErrorCode::QuotaExceeded => {
                let pause = Duration::from_millis(refusal.retry_after_ms.into());
                let pause = pause.max(SHORTEST_PAUSE);
                if waited + pause > patience {
                    return Err(failed(over_quota(&refusal), count, missing));
                }
                // Whoever interrupts the wait keeps what has come so far.
                out.finish()?;
                if !std::mem::replace(&mut told, true) {
                    waiting.tell(&slow(&refusal, count, missing));
                }
                waiting.pause(pause);
                waited += pause;
            }
            Err(error) => match lower_limit(&error, part) {
                Some(lower) => limit = lower,
                None => return Err(failed(error.into(), count, missing)),
            },
        }
    }
    Ok(())
}

/// The daemon's limit, if it refused `part` IDs because of it.
fn lower_limit(error: &Error, part: u32) -> Option<u32> {
    match error {
        Error::Refused(refusal) if refusal.code() == ErrorCode::BadCount => {
            u32::try_from(refusal.detail).ok().filter(|limit| (1..part).contains(limit))
        }
        _ => None,
    }
}

fn slow(refusal: &WireError, count: u64, missing: u64) -> String {
    let seconds = missing.div_ceil(refusal.detail.max(1));
    format!(
        "{}; retry after {} ms: waiting for {} of {} IDs, about {} at {} per second",
        harmless(&refusal.to_string()),
        refusal.retry_after_ms,
        grouped(missing),
        grouped(count),
        rough(seconds.saturating_mul(1000)),
        grouped(refusal.detail),
    )
}

fn over_quota(refusal: &WireError) -> Failure {
    let text = format!(
        "leafd refused: {}; retry after {} ms, or wait longer with --timeout",
        harmless(&refusal.to_string()),
        refusal.retry_after_ms,
    );
    Failure::Refused { text, error: refusal.clone() }
}

/// The failure, with what has been printed before it.
fn failed(failure: Failure, count: u64, missing: u64) -> Failure {
    if missing == count {
        return failure;
    }
    let printed = grouped(count - missing);
    failure.after(&format!("printed {printed} of {} IDs, then:", grouped(count)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the operator was told, and how long leafctl waited.
    #[derive(Debug, Default)]
    struct Told {
        lines: Vec<String>,
        waited: Duration,
    }

    impl Waiting for Told {
        fn tell(&mut self, why: &str) {
            self.lines.push(why.to_owned());
        }

        fn pause(&mut self, time: Duration) {
            self.waited += time;
        }
    }

    /// Prints IDs from 1 on under a quota of five per second, of which `others` takes a part in
    /// every second.
    fn under_quota(count: u64, others: u32) -> (Result<(), Failure>, String, Told) {
        let (mut bytes, mut next, mut room) = (Vec::new(), 1, 5);
        let (mut told, mut out) = (Told::default(), Output::to(&mut bytes));
        let result = print(count, Duration::from_secs(5), &mut out, &mut told, |n| {
            if n > 5 {
                let refusal = WireError::new(ErrorCode::BadCount, "").with_detail(5);
                return Err(Error::Refused(refusal));
            }
            if n > room {
                room = 5 - others;
                let refusal = WireError::new(ErrorCode::QuotaExceeded, "no more for uid 7");
                return Err(Error::Refused(refusal.with_detail(5).with_retry_after_ms(800)));
            }
            room -= n;
            let first = next;
            next += u64::from(n);
            Ok(first..next)
        });
        out.finish().unwrap();
        drop(out);
        (result, String::from_utf8(bytes).unwrap(), told)
    }

    #[test]
    fn a_quota_makes_leafctl_wait_and_say_why_once() {
        let (result, printed, told) = under_quota(6, 0);
        assert!(result.is_ok());
        assert_eq!(printed, "1\n2\n3\n4\n5\n6\n");
        assert_eq!(told.waited, Duration::from_millis(800));
        let said = "312 QuotaExceeded: no more for uid 7; retry after 800 ms: waiting for 1 of 6 \
                    IDs, about 1 s at 5 per second";
        assert_eq!(told.lines, [said]);
        let (result, printed, told) = under_quota(50, 0);
        assert!(result.is_ok());
        assert_eq!((printed.lines().count(), told.lines.len()), (50, 1));
    }

    #[test]
    fn without_ids_for_too_long_the_error_says_how_many_were_printed() {
        let (result, printed, told) = under_quota(10, 1);
        assert_eq!(printed, "1\n2\n3\n4\n5\n");
        assert_eq!(told.waited, Duration::from_millis(4800));
        let failure = result.unwrap_err();
        assert_eq!(failure.code(), 69);
        let text = failure.to_string();
        for part in ["printed 5 of 10 IDs, then: ", "312 QuotaExceeded", "retry after 800 ms"] {
            assert!(text.contains(part), "{text}");
        }
    }

    /// Prints IDs from 1 on, as a daemon with this limit issues them; returns the output and the
    /// size of each request.
    fn printed(count: u64, limit: u32, fail_at: u64) -> (Result<(), Failure>, Vec<u8>, Vec<u32>) {
        let (mut bytes, mut asked, mut next) = (Vec::new(), Vec::new(), 1);
        let mut out = Output::to(&mut bytes);
        let result = print(count, Duration::ZERO, &mut out, &mut Told::default(), |n| {
            asked.push(n);
            if n > limit {
                let refusal = WireError::new(ErrorCode::BadCount, "").with_detail(limit.into());
                return Err(Error::Refused(refusal));
            }
            if next >= fail_at {
                return Err(Error::Refused(WireError::new(ErrorCode::StoreUnavailable, "")));
            }
            let first = next;
            next += u64::from(n);
            Ok(first..next)
        });
        out.finish().unwrap();
        drop(out);
        (result, bytes, asked)
    }

    #[test]
    fn a_large_count_is_split_into_requests_of_the_largest_size() {
        let (result, bytes, asked) = printed(250_000, 100_000, u64::MAX);
        assert!(result.is_ok());
        assert_eq!(asked, [100_000, 100_000, 50_000]);
        assert!(bytes.starts_with(b"1\n2\n") && bytes.ends_with(b"\n250000\n"));
        assert_eq!(bytes.iter().filter(|byte| **byte == b'\n').count(), 250_000);
    }

    #[test]
    fn leafctl_follows_a_daemons_lower_limit() {
        let (result, bytes, asked) = printed(5, 2, u64::MAX);
        assert!(result.is_ok());
        assert_eq!((asked, bytes), (vec![5, 2, 2, 1], b"1\n2\n3\n4\n5\n".to_vec()));
        let (result, _, asked) = printed(5, 0, u64::MAX);
        assert_eq!((result.unwrap_err().code(), asked), (64, vec![5]));
    }

    #[test]
    fn ids_received_before_an_error_are_printed() {
        let (result, bytes, _) = printed(200_001, 100_000, 100_001);
        assert_eq!(result.unwrap_err().code(), 69);
        assert!(bytes.ends_with(b"\n100000\n"));
    }
}
