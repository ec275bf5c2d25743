//! The shell around the claim: it executes what the [`Registrar`] asks for, one thing at a time, for
//! as long as leafd runs. It decides nothing.

use std::time::Duration;

use leaf_client::wire::{ErrorCode, WireError};
use tokio_util::sync::CancellationToken;

use super::claim::instance::{InstanceAddress, RegistryWords};
use super::claim::registrar::{
    IssuerOrder, LifeStart, Registrar, RegistrarSettings, RegistrarTask,
};
use super::claim::step::{ClaimAction, ClaimOutcome, Moment};
use super::claim::write::RegistryWrite;
use super::peers;
use super::registrar_log::RegistrarLog;
use super::registry::{RegistryConnection, RegistryError, RegistrySession, reading};
use crate::environment::Environment;
use crate::snowflake::issuer::Issuer;
use crate::snowflake::life::{Begin, Progress};
use crate::snowflake::sequencer;
use crate::state::worker_file::WorkerRecord;

/// Longest wait before the clock is read again: it counts suspension, the wait does not.
const NAP: Duration = Duration::from_secs(1);

/// How long the other instances have to tell their time.
const ASKING: Duration = Duration::from_secs(2);

#[derive(Debug, Clone)]
pub(crate) struct ShellSettings {
    pub(crate) registrar: RegistrarSettings,
    /// The rules of the sequence; the worker ID is put in.
    pub(crate) sequence: sequencer::SequencerRules,
    /// From how many ms on the clock differs too much from the others'.
    pub(crate) max_offset_ms: u64,
}

pub(crate) struct RegistrarShell {
    registrar: Registrar,
    sequence: sequencer::SequencerRules,
    max_offset_ms: u64,
    identity: String,
    nonce: String,
    words: RegistryWords,
    issuer: Issuer,
    environment: Environment,
    connection: RegistryConnection,
    log: RegistrarLog,
    stop: CancellationToken,
}

/// A name for this life that no other has.
fn new_nonce(environment: &Environment) -> std::io::Result<String> {
    let mut bytes = [0; 16];
    environment.fill_random(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

impl RegistrarShell {
    /// One for the instance at `address`. `file` is what the worker file says.
    ///
    /// # Errors
    /// When the system has no random bytes.
    pub(crate) fn new(
        settings: ShellSettings,
        address: InstanceAddress,
        file: &WorkerRecord,
        issuer: Issuer,
        environment: Environment,
        connection: RegistryConnection,
        stop: CancellationToken,
    ) -> std::io::Result<Self> {
        let nonce = new_nonce(&environment)?;
        let start = LifeStart {
            nonce: nonce.clone(),
            boot: environment.boot_id(),
            boot_ms: environment.boot_ms(),
            seed: environment.seed(),
        };
        let ShellSettings { registrar, sequence, max_offset_ms } = settings;
        let (identity, words) = (address.identity.clone(), registrar.rules.words);
        Ok(Self {
            registrar: Registrar::new(registrar, address, file, start),
            sequence,
            max_offset_ms,
            log: RegistrarLog::new(identity.clone(), words, environment.clone()),
            identity,
            nonce,
            words,
            issuer,
            environment,
            connection,
            stop,
        })
    }

    fn now(&self) -> Moment {
        let Progress { clock_ms, ceiling_ms, use_ms, awaited_ms } = self.issuer.progress();
        let is_stopping = self.registrar.is_stopping();
        let ceiling_ms = if is_stopping { self.issuer.last_ceiling_ms() } else { ceiling_ms };
        Moment { boot_ms: self.environment.boot_ms(), clock_ms, ceiling_ms, use_ms, awaited_ms }
    }

    /// Claims, reports and claims again, until it is stopped; then takes leave.
    pub(crate) async fn run(mut self) {
        let stop = self.stop.clone();
        loop {
            let now = self.now();
            match self.registrar.next(now) {
                RegistrarTask::Tell(order) => self.tell(order),
                RegistrarTask::Remember(shared) => {
                    let outcome = self.issuer.remember(shared).await;
                    self.registrar.remembered(outcome);
                }
                RegistrarTask::Rest => {
                    stop.run_until_cancelled(tokio::time::sleep(NAP)).await;
                }
                RegistrarTask::Act(ClaimAction::Pause(until)) => {
                    stop.run_until_cancelled(self.pause(until)).await;
                }
                RegistrarTask::Act(action) => {
                    let outcome = if action.is_write() {
                        // Its outcome has to be known before the last report.
                        Some(self.act(action).await)
                    } else {
                        stop.run_until_cancelled(self.act(action)).await
                    };
                    if let Some(outcome) = outcome {
                        let now = self.now();
                        self.registrar.done(now, outcome);
                    }
                }
                RegistrarTask::Leave(writes) => self.leave(&writes).await,
                RegistrarTask::End => return,
            }
            if stop.is_cancelled() {
                self.registrar.stop();
            }
        }
    }

    /// Waits until that time (ms since the boot), or until a request needs a report.
    async fn pause(&self, until_ms: u64) {
        let wait = until_ms.saturating_sub(self.environment.boot_ms()).max(1);
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(wait).min(NAP)) => {}
            () = self.issuer.report_is_due() => {}
        }
    }

    async fn act(&self, action: ClaimAction) -> ClaimOutcome {
        let outcome = match self.connection.session() {
            Some(session) => self.call(&*session, action).await,
            None => self.connection.renew().await.map(|()| ClaimOutcome::NewSession),
        };
        outcome.unwrap_or_else(|error| match error {
            RegistryError::Conflict => ClaimOutcome::Conflict,
            RegistryError::Failed(why) => ClaimOutcome::Failed(why),
        })
    }

    async fn call(
        &self,
        session: &dyn RegistrySession,
        action: ClaimAction,
    ) -> Result<ClaimOutcome, RegistryError> {
        Ok(match action {
            ClaimAction::Look(wanted) => {
                let mut random = self.environment.random();
                let view = reading::look(session, &wanted, &mut random).await?;
                ClaimOutcome::Looked(Box::new(view))
            }
            ClaimAction::Create(leaf) => {
                ClaimOutcome::Created(session.create(&self.identity, &leaf).await?)
            }
            ClaimAction::Commit(writes) => {
                session.commit(&writes).await?;
                ClaimOutcome::Committed
            }
            ClaimAction::AskPeers => ClaimOutcome::Asked(self.ask(session).await?),
            ClaimAction::Pause(until_ms) => {
                // It needs no session: `run` waits without one.
                return Err(RegistryError::Failed(format!("asked to wait until {until_ms}")));
            }
        })
    }

    async fn ask(&self, session: &dyn RegistrySession) -> Result<peers::Verdict, RegistryError> {
        let others = reading::peers(session, &self.nonce).await?;
        let count = others.len();
        let times = peers::ask_all(others, self.environment.clone(), ASKING).await;
        let verdict = peers::verdict(&times, self.max_offset_ms);
        let answered = u32::try_from(times.len()).unwrap_or(u32::MAX);
        let offset_ms = peers::mean_offset_ms(&times);
        self.issuer.registration(|registration| {
            (registration.offset_ms, registration.peers) = (offset_ms, answered);
        });
        if count > 0 && answered == 0 {
            tracing::warn!(
                instances = count,
                "no other instance has told its time, so this clock is not compared"
            );
        } else {
            tracing::info!(
                instances = count,
                answered,
                offset_ms,
                "asked the others for their time"
            );
        }
        Ok(verdict)
    }

    async fn leave(&self, writes: &[RegistryWrite]) {
        let outcome = match self.connection.session() {
            Some(session) => session.commit(writes).await,
            None => Err(RegistryError::Failed("it cannot be reached at present".to_owned())),
        };
        if let Err(error) = outcome {
            let text = (self.words.not_told_of_the_end)(&error.to_string());
            tracing::warn!("{text}");
        }
    }

    fn tell(&mut self, order: IssuerOrder) {
        self.log.write(&order);
        let unavailable = |why: String| {
            WireError::new(ErrorCode::WorkerUnavailable, why).with_retry_after_ms(1000)
        };
        match order {
            IssuerOrder::Begin { worker, start_ms, limit_ms, shared, .. } => {
                let rules = sequencer::SequencerRules { worker, ..self.sequence };
                let (identity, shared) = (self.identity.clone(), Some(shared));
                self.issuer.begin(Begin { rules, start_ms, limit_ms, identity, shared });
            }
            IssuerOrder::Reported { limit_ms, shared } => self.issuer.reported(limit_ms, shared),
            IssuerOrder::Suspend { why, soon } => self.issuer.suspend(unavailable(why), soon),
            IssuerOrder::Hold { why } => self.issuer.suspend(unavailable(why.to_owned()), true),
            IssuerOrder::Trouble(why) => self.issuer.registration(|it| it.error = why),
            IssuerOrder::Fine => self.issuer.registration(|it| it.error.clear()),
            IssuerOrder::NotGivenBack(_) => {}
        }
    }
}

#[cfg(test)]
#[path = "shell_tests.rs"]
mod tests;
