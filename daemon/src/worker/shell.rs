//! The shell around the claim: it executes what the [`Registrar`] asks for, one thing at a time, for
//! as long as leafd runs. It decides nothing.

use std::future::Future;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::claim::instance::{InstanceAddress, RegistryWords};
use super::claim::registrar::{
    IssuerOrder, LifeStart, Registrar, RegistrarSettings, RegistrarTask,
};
use super::claim::step::{ClaimAction, ClaimOutcome, Moment};
use super::claim::write::RegistryWrite;
use super::peers::Verdict;
use super::registry::{ClaimConnection, RegistryError, RegistrySession, reading};
use crate::environment::Environment;
use crate::snowflake::life::Progress;
use crate::state::worker_file::{SharedClaim, WorkerRecord};

/// Longest wait before the clock is read again: it counts suspension, the wait does not.
const NAP: Duration = Duration::from_secs(1);

/// Whoever uses the worker ID that is claimed: it issues IDs, or lends the worker ID.
pub(crate) trait ClaimUser: Send + Sync + 'static {
    /// How far use has come.
    fn progress(&self) -> Progress;

    /// Nothing was issued at or past this, once no more is issued (ms since 1970).
    fn last_ceiling_ms(&self) -> u64;

    /// Keeps `shared` where the next start finds it.
    fn remember(&self, shared: SharedClaim) -> impl Future<Output = Result<(), String>> + Send;

    /// Returns when somebody waits for a report.
    fn report_is_due(&self) -> impl Future<Output = ()> + Send;

    /// Whether the clock agrees with those of the others at these addresses.
    fn compare_clocks(&self, others: Vec<String>) -> impl Future<Output = Verdict> + Send;

    /// Whether the others' clocks matter.
    fn compares_clocks(&self) -> bool;

    /// Whether the worker ID is given back at the end.
    fn gives_back(&self) -> bool;

    /// Follows an order of the registrar.
    fn follow(&mut self, order: IssuerOrder);
}

pub(crate) struct RegistrarShell<U> {
    registrar: Registrar,
    identity: String,
    nonce: String,
    words: RegistryWords,
    user: U,
    environment: Environment,
    connection: ClaimConnection,
    stop: CancellationToken,
}

/// Characters of a name that [`new_nonce`] makes.
pub(crate) const NONCE_CHARS: usize = 32;

/// A name for this life that no other has.
///
/// # Errors
/// When the system has no random bytes.
pub(crate) fn new_nonce(environment: &Environment) -> std::io::Result<String> {
    let mut bytes = [0; 16];
    environment.fill_random(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

impl<U: ClaimUser> RegistrarShell<U> {
    /// One for the instance at `address`, in the life with the name `nonce`. `file` is what is
    /// remembered of earlier lives.
    pub(crate) fn new(
        settings: RegistrarSettings,
        (address, nonce): (InstanceAddress, String),
        file: &WorkerRecord,
        user: U,
        environment: Environment,
        connection: ClaimConnection,
        stop: CancellationToken,
    ) -> Self {
        let start = LifeStart {
            nonce: nonce.clone(),
            boot: environment.boot_id(),
            boot_ms: environment.boot_ms(),
            seed: environment.seed(),
        };
        let (identity, words) = (address.identity.clone(), settings.rules.words);
        let registrar = Registrar::new(settings, address, file, start);
        Self { registrar, identity, nonce, words, user, environment, connection, stop }
    }

    fn now(&self) -> Moment {
        let Progress { clock_ms, ceiling_ms, use_ms, awaited_ms } = self.user.progress();
        let is_stopping = self.registrar.is_stopping();
        let ceiling_ms = if is_stopping { self.user.last_ceiling_ms() } else { ceiling_ms };
        Moment { boot_ms: self.environment.boot_ms(), clock_ms, ceiling_ms, use_ms, awaited_ms }
    }

    /// Claims, reports and claims again, until it is stopped; then takes leave.
    pub(crate) async fn run(mut self) {
        let stop = self.stop.clone();
        loop {
            let now = self.now();
            match self.registrar.next(now) {
                RegistrarTask::Tell(order) => self.user.follow(order),
                RegistrarTask::Remember(shared) => {
                    let outcome = self.user.remember(shared).await;
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
                self.registrar.stop(self.user.gives_back());
            }
        }
    }

    /// Waits until that time (ms since the boot), or until a request needs a report.
    async fn pause(&self, until_ms: u64) {
        let wait = until_ms.saturating_sub(self.environment.boot_ms()).max(1);
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(wait).min(NAP)) => {}
            () = self.user.report_is_due() => {}
        }
    }

    async fn act(&mut self, action: ClaimAction) -> ClaimOutcome {
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

    async fn ask(&self, session: &dyn RegistrySession) -> Result<Verdict, RegistryError> {
        if !self.user.compares_clocks() {
            return Ok(Verdict::NobodyAnswered);
        }
        let others = reading::peers(session, &self.nonce).await?;
        Ok(self.user.compare_clocks(others).await)
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
}

#[cfg(test)]
#[path = "shell_tests.rs"]
mod tests;
