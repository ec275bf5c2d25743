//! The status of snowflake IDs.

use leaf_client::wire::{ErrorCode, SnowflakeState, SnowflakeStatus};

use super::super::life::IssuerPhase;
use super::super::refusal::refusal;
use super::super::sequencer::{Sequencer, StopReason};
use super::{Issuer, IssuerState};

impl Issuer {
    pub(crate) fn status(&self) -> SnowflakeStatus {
        let guard = self.lock();
        let clock_ms = self.0.environment.unix_ms();
        let state = &*guard;
        let registration = &state.registration;
        let mut status = SnowflakeStatus {
            state: SnowflakeState::Serving,
            worker: None,
            registry: self.0.settings.registry.to_owned(),
            layout: self.0.settings.layout.to_string(),
            ceiling_unix_ms: 0,
            last_unix_ms: 0,
            clock_unix_ms: clock_ms,
            issued: state.issued,
            identity: state.file.identity.clone(),
            last_report_ms_ago: registration
                .reported
                .map(|then| self.0.environment.since(then))
                .map(|ago| u64::try_from(ago.as_millis()).unwrap_or(u64::MAX)),
            registry_error: registration.error.clone(),
            limit_unix_ms: state.file.shared.as_ref().map(|shared| shared.limit_ms),
            clock_offset_ms: registration.offset_ms,
            peers: registration.peers,
        };
        match &state.phase {
            IssuerPhase::On { sequencer, worker } => {
                status.worker = Some(*worker);
                status.ceiling_unix_ms = sequencer.ceiling_ms();
                status.last_unix_ms =
                    if state.issued > 0 { sequencer.last_ms().unwrap_or(0) } else { 0 };
                status.state = self.serving_state(state, sequencer, clock_ms);
            }
            IssuerPhase::Soon(error) => {
                status.state = SnowflakeState::Starting { reason: error.to_string() };
            }
            IssuerPhase::Off(error) => {
                status.state = SnowflakeState::Refused { reason: error.to_string() };
            }
        }
        status
    }

    fn serving_state(
        &self,
        state: &IssuerState,
        sequencer: &Sequencer,
        clock_ms: u64,
    ) -> SnowflakeState {
        let refused = |reason| SnowflakeState::Refused { reason };
        match sequencer.refusal(clock_ms) {
            Some(StopReason::Until(at_ms)) => {
                SnowflakeState::ClockBehind { behind_ms: at_ms.saturating_sub(clock_ms) }
            }
            Some(StopReason::ClockBackwards { behind_ms }) => {
                SnowflakeState::ClockBehind { behind_ms }
            }
            // The next request causes a report, and is served after it.
            Some(StopReason::Fenced) if state.registration.error.is_empty() => {
                SnowflakeState::Serving
            }
            Some(stop) => {
                let disk_error = state.disk_error.as_deref();
                refused(refusal(stop, &self.0.settings.layout, clock_ms, disk_error).to_string())
            }
            None => match &state.disk_error {
                Some(why) => {
                    let code = ErrorCode::StateUnavailable;
                    refused(format!("{code}: the worker file cannot be written: {why}"))
                }
                None => SnowflakeState::Serving,
            },
        }
    }
}
