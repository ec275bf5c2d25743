//! Whether leafd answers and, if not, since when. No IO.

use leafd::duration::rough;
use leafd::rfc3339::rfc3339;

use super::poller::Reading;
use crate::exit::Failure;
use crate::output::harmless;

/// What came of the questions so far.
#[derive(Debug, Default)]
pub(crate) struct Contact {
    /// When leafctl last asked, in milliseconds since 1970.
    asked_ms: Option<u64>,
    outage: Option<Outage>,
}

#[derive(Debug)]
struct Outage {
    since_ms: u64,
    why: String,
}

impl Contact {
    /// Notes what came of one question, and returns the answer, if there is one.
    ///
    /// # Errors
    /// The failure, if asking again cannot help.
    pub(crate) fn note<T>(&mut self, reading: Reading<T>) -> Result<Option<T>, Failure> {
        let at_ms = reading.at_ms;
        self.asked_ms = Some(at_ms);
        match reading.result {
            Ok(answer) => {
                self.outage = None;
                Ok(Some(answer))
            }
            Err(Failure::Unavailable(why)) => {
                // The remedy below the first line is for an operator who has just begun.
                let why = why.lines().next().unwrap_or_default().to_owned();
                let since_ms = self.outage.as_ref().map_or(at_ms, |outage| outage.since_ms);
                self.outage = Some(Outage { since_ms, why });
                Ok(None)
            }
            Err(failure) => Err(failure),
        }
    }

    /// When leafctl last asked, to the second; none if it has not.
    pub(crate) fn asked(&self) -> Option<String> {
        self.asked_ms.map(second)
    }

    /// Why leafd did not answer the last question; none if it did.
    pub(crate) fn why_not(&self) -> Option<&str> {
        self.outage.as_ref().map(|outage| outage.why.as_str())
    }

    /// Since when leafd does not answer, and why; none if it does.
    pub(crate) fn unreachable(&self) -> Option<String> {
        let outage = self.outage.as_ref()?;
        let lasted = self.asked_ms.unwrap_or_default().saturating_sub(outage.since_ms);
        Some(format!(
            "leafd is unreachable since {} ({}): {}",
            second(outage.since_ms),
            rough(lasted / 1000 * 1000),
            harmless(&outage.why),
        ))
    }
}

/// A moment, in milliseconds since 1970, to the second.
pub(crate) fn second(unix_ms: u64) -> String {
    let moment = rfc3339(unix_ms);
    moment.split_once('.').map_or(moment.clone(), |(second, _)| format!("{second}Z"))
}
