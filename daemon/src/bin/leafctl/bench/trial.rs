//! What every kind of run begins and ends with: a first request, so that a run that cannot work fails
//! at once, and the verdict on the IDs.

use std::time::{Duration, Instant};

use leaf_client::blocking::Client;
use leaf_client::wire::ErrorCode;
use leaf_client::{Error, Layout};

use super::plan::{Plan, Target};
use super::verify::Verifier;
use crate::exit::Failure;

/// How far behind the newest snowflake ID another may be before it counts as wrong. Timestamps
/// never go back, so this only has to cover answers in flight.
const SNOWFLAKE_WINDOW_MS: u64 = 60_000;

/// Tries the request with the ordinary client, so that one that cannot work fails at once with a full
/// error. Returns the uniqueness check, if `verify` asks for it.
pub(super) fn prepare(
    mut client: Client,
    plan: &Plan,
    verify: bool,
) -> Result<Option<Verifier>, Failure> {
    try_request(&mut client, plan)?;
    if !verify {
        return Ok(None);
    }
    Ok(Some(match &plan.target {
        // The command line rejects --verify with --tags: different tags may issue equal IDs.
        Target::Tag(_) | Target::Tags(..) => Verifier::unordered(),
        Target::Snowflake => Verifier::rising(window(&client.status()?.snowflake.layout)?),
    }))
}

/// Takes the IDs of one request. A quota that the run before has used up is worth the wait.
fn try_request(client: &mut Client, plan: &Plan) -> Result<(), Failure> {
    let deadline = Instant::now() + plan.timeout;
    let tag = plan.target.first_tag();
    loop {
        let taken = match &tag {
            Some(tag) => client.next_many(tag, plan.count),
            None => client.snowflake_many(plan.count),
        };
        match taken {
            Ok(_) => return Ok(()),
            Err(Error::Refused(refusal)) if refusal.code() == ErrorCode::QuotaExceeded => {
                let wait = Duration::from_millis(refusal.retry_after_ms.max(1).into());
                if deadline.saturating_duration_since(Instant::now()) < wait {
                    return Err(Error::Refused(refusal).into());
                }
                std::thread::sleep(wait);
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// The window of the check, as a number of IDs in this layout.
fn window(layout: &str) -> Result<u64, Failure> {
    let layout: Layout = layout
        .parse()
        .map_err(|error| Failure::Protocol(format!("cannot parse leafd's layout: {error}")))?;
    let ids_per_unit = (layout.max_worker() + 1).saturating_mul(layout.max_sequence() + 1);
    // At least one whole unit: a layout's unit may be longer than the window.
    let units = (SNOWFLAKE_WINDOW_MS / layout.unit_ms()).max(1);
    Ok(ids_per_unit.saturating_mul(units))
}

/// Fails if the check found an ID twice.
///
/// # Errors
/// `Duplicates`, with the first of them.
pub(super) fn verdict(verifier: Option<&Verifier>) -> Result<(), Failure> {
    let Some(verifier) = verifier else { return Ok(()) };
    let (duplicates, too_old) = (verifier.duplicates(), verifier.too_old());
    if duplicates + too_old == 0 {
        return Ok(());
    }
    let examples: Vec<String> = verifier.examples().iter().map(ToString::to_string).collect();
    let mut text = format!("{duplicates} IDs came twice");
    if too_old > 0 {
        text.push_str(&format!(", {too_old} are too far below the newest to be new"));
    }
    Err(Failure::Duplicates(format!("{text}; the first ones: {}", examples.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_is_a_minute_of_ids_in_any_layout() {
        assert_eq!(window("41/10/12@1288834974657/1ms").unwrap(), 60_000 << 22);
        assert_eq!(window("baidu").unwrap(), 60 << 35);
        assert_eq!(window("?").unwrap_err().code(), 76);
    }

    #[test]
    fn the_error_names_the_duplicates_and_the_exit_status_is_1() {
        let mut verifier = Verifier::rising(100);
        verifier.add(1, 500);
        assert!(verdict(Some(&verifier)).is_ok());
        verifier.add(490, 3);
        verifier.add(7, 1);
        let failure = verdict(Some(&verifier)).unwrap_err();
        let text = failure.to_string();
        assert_eq!(failure.code(), 1);
        assert!(text.contains("3 IDs came twice, 1 are too far below"), "{text}");
        assert!(text.ends_with("490 to 492, 7"), "{text}");
    }
}
