//! Pauses between two requests.

use leaf_client::Error;

/// Pause while leafd has lent nothing, if it names none.
const ASK_MS: u64 = 250;
/// Longest pause that leafd's retry-after can bring about.
const LONGEST_MS: u64 = 3000;

/// The pause before the next request after `error`, in ms.
pub(super) fn after(error: &Error) -> u64 {
    let wanted = error
        .retry_after()
        .map_or(ASK_MS, |after| u64::try_from(after.as_millis()).unwrap_or(LONGEST_MS));
    wanted.clamp(ASK_MS, LONGEST_MS)
}
