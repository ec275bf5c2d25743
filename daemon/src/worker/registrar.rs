//! The shell around the claim: it executes what [`Claimant`] asks for, one thing at a time, and
//! tells the issuer what comes of it, for as long as leafd runs.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leaf_client::wire::{ErrorCode, WireError};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::address::Place;
use super::claim::claimant::Claimant;
use super::claim::plan::{Me, Rules};
use super::registry::zookeeper::session::{Access, CallError, Session};
use super::claim::step::{Action, Effect, Memory, Now, Outcome};
use crate::environment::Environment;
use crate::snowflake::issuer::Issuer;
use crate::snowflake::life::{Begin, Progress};
use crate::snowflake::sequencer;
use crate::state::worker_file::{SharedClaim, Standing, WorkerRecord};
use crate::worker::peers;

/// So many earlier lives are remembered by name.
const MOST_NONCES: usize = 8;

/// The same trouble is told once in so long.
const QUIET: Duration = Duration::from_secs(60);

/// Longest wait before the clock is looked at again: it counts suspension, the wait does not.
const NAP: Duration = Duration::from_secs(1);

/// How long the others have to tell their time.
const ASKING: Duration = Duration::from_secs(2);

/// What the registrar works with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The ensemble and the tree.
    pub access: Access,
    /// The rules of the claim.
    pub rules: Rules,
    /// The rules of the sequence; the worker ID is put in.
    pub sequence: sequencer::Rules,
    /// Whether the worker ID is given back at the end.
    pub give_back: bool,
    /// From how many ms on the clock differs too much from the others'.
    pub max_offset_ms: u64,
}

/// The session of the moment, for who administers.
pub type SharedSession = Arc<Mutex<Option<Session>>>;

/// The registrar.
pub struct Registrar {
    settings: Settings,
    issuer: Issuer,
    environment: Environment,
    claimant: Claimant,
    shared: SharedClaim,
    identity: String,
    nonce: String,
    boot: String,
    session: SharedSession,
    told: Told,
    stop: CancellationToken,
}

/// What was logged last.
#[derive(Default)]
struct Told {
    /// Without its numbers.
    reason: String,
    trouble: Option<Instant>,
}

/// A name for this life that no other has.
///
/// # Errors
/// When the system has no random bytes.
fn new_nonce(environment: &Environment) -> std::io::Result<String> {
    let mut bytes = [0; 16];
    environment.fill_random(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// What the worker file says of a claim in this registry, if it is of this identity.
fn memory_of(
    file: &WorkerRecord,
    settings: &Settings,
    identity: &str,
    environment: &Environment,
) -> Option<Memory> {
    let shared = file.shared.as_ref()?;
    let is_ours = shared.registry == name_of(&settings.access)
        && file.identity == identity
        && file.layout == settings.access.layout;
    let worker =
        file.worker.filter(|worker| is_ours && *worker <= settings.sequence.layout.max_worker())?;
    let reported_boot_ms = match &shared.reported {
        Some((boot, ms)) if *boot == environment.boot_id() => (*ms).min(environment.boot_ms()),
        // Before a boot: the limit in time still holds.
        _ => environment.boot_ms(),
    };
    let (ceiling_ms, limit_ms) = (file.ceiling_ms, shared.limit_ms);
    Some(Memory { worker, ceiling_ms, limit_ms, reported_boot_ms })
}

/// What the worker file calls this registry.
#[must_use]
pub fn name_of(access: &Access) -> String {
    format!("zookeeper {}", access.root())
}

impl Registrar {
    /// One for the instance at `place`. `file` is what the worker file says.
    ///
    /// # Errors
    /// When the system has no random bytes.
    pub fn new(
        settings: Settings,
        place: Place,
        file: &WorkerRecord,
        issuer: Issuer,
        environment: Environment,
        session: SharedSession,
        stop: CancellationToken,
    ) -> std::io::Result<Self> {
        let nonce = new_nonce(&environment)?;
        let memory = memory_of(file, &settings, &place.identity, &environment);
        let registry = name_of(&settings.access);
        let past = file.shared.clone().filter(|shared| shared.registry == registry);
        let past = past.unwrap_or_default();
        let limit_ms = memory.as_ref().map_or(0, |memory| memory.limit_ms);
        let nonces = past.nonces.clone();
        let (reported, standing) = (past.reported, past.standing);
        let shared = SharedClaim { registry, nonces, limit_ms, reported, standing };
        let me = Me {
            identity: place.identity.clone(),
            leaf_ip: place.leaf_ip,
            leaf_port: place.leaf_port,
            peer_ip: place.ip,
            peer_port: place.port,
            nonce: nonce.clone(),
            earlier: past.nonces,
            layout: settings.access.layout.clone(),
            max_worker: settings.sequence.layout.max_worker(),
        };
        // It is about the nodes of the identity that it was written with.
        let of_identity = if file.identity == place.identity { standing } else { Standing::Own };
        let (seed, boot) = (environment.seed(), environment.boot_id());
        let claimant = Claimant::new(me, settings.rules, memory, of_identity, seed);
        Ok(Self {
            settings,
            issuer,
            environment,
            claimant,
            shared,
            identity: place.identity,
            nonce,
            boot,
            session,
            told: Told::default(),
            stop,
        })
    }

    fn now(&self) -> Now {
        let Progress { clock_ms, ceiling_ms, use_ms, awaited_ms } = self.issuer.progress();
        Now { boot_ms: self.environment.boot_ms(), clock_ms, ceiling_ms, use_ms, awaited_ms }
    }

    /// Claims, reports and claims again, until it is stopped; then takes leave.
    pub async fn run(mut self) {
        loop {
            let now = self.now();
            let action = self.claimant.action(now);
            if !self.take_effects().await {
                break;
            }
            let is_write = matches!(action, Action::Commit(_) | Action::Create { .. });
            if is_write && !self.leave_name().await {
                break;
            }
            let outcome = if is_write {
                // Its outcome has to be known before leave is taken.
                Some(self.execute(action).await)
            } else {
                let stop = self.stop.clone();
                tokio::select! {
                    () = stop.cancelled() => None,
                    outcome = self.execute(action) => Some(outcome),
                }
            };
            let Some(outcome) = outcome else { break };
            let now = self.now();
            if let Some(outcome) = outcome {
                self.claimant.done(now, outcome);
            }
            if !self.take_effects().await || self.stop.is_cancelled() {
                break;
            }
        }
        self.leave().await;
    }

    /// The last report, with everything that was issued; or the worker ID is given back.
    async fn leave(&mut self) {
        let give_back = self.settings.give_back;
        // First out of the file: afterwards it may be anybody's.
        if give_back {
            self.shared.limit_ms = 0;
            if let Err(why) = self.issuer.remember(self.shared.clone()).await {
                tracing::error!("the worker ID is not given back, the worker file is not: {why}");
                return;
            }
        }
        let session = self.session().clone();
        let Some(session) = session.filter(Session::is_connected) else { return };
        let mut now = self.now();
        now.ceiling_ms = self.issuer.last_ceiling_ms();
        let Some(ops) = self.claimant.closing(now, give_back) else { return };
        if let Err(error) = session.commit(&ops).await {
            tracing::warn!("ZooKeeper was not told of the end: {error}");
        }
    }

    fn session(&self) -> std::sync::MutexGuard<'_, Option<Session>> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does it; `None` when nothing was to be done.
    async fn execute(&self, action: Action) -> Option<Outcome> {
        if let Action::Pause(until) = action {
            let wait =
                Duration::from_millis(until.saturating_sub(self.environment.boot_ms()).max(1));
            tokio::select! {
                () = tokio::time::sleep(wait.min(NAP)) => {}
                () = self.issuer.report_is_due() => {}
            }
            return None;
        }
        let present = self.session().clone().filter(Session::is_connected);
        let Some(session) = present else {
            return Some(match self.open_session().await {
                Ok(()) => Outcome::NewSession,
                Err(error) => Outcome::Failed(error.to_string()),
            });
        };
        let outcome = match action {
            Action::Look(wanted) => {
                session.look(&wanted).await.map(|view| Outcome::Looked(Box::new(view)))
            }
            Action::Create { prefix, data } => {
                session.create(&prefix, &data).await.map(Outcome::Created)
            }
            Action::Commit(ops) => session.commit(&ops).await.map(|()| Outcome::Committed),
            Action::AskPeers => self.ask(&session).await.map(Outcome::Asked),
            Action::Pause(_) => return None,
        };
        Some(outcome.unwrap_or_else(|error| match error {
            CallError::Conflict => Outcome::Conflict,
            CallError::Failed { .. } => Outcome::Failed(error.to_string()),
        }))
    }

    async fn open_session(&self) -> Result<(), CallError> {
        *self.session() = None;
        let session = Session::open(&self.settings.access, &self.environment).await?;
        tracing::info!(session = %session.id(), timeout = ?session.timeout(), "ZooKeeper session");
        *self.session() = Some(session);
        Ok(())
    }

    async fn ask(&self, session: &Session) -> Result<peers::Verdict, CallError> {
        let others = session.peers(&self.nonce).await?;
        let count = others.len();
        let times = peers::ask_all(others, self.environment.clone(), ASKING).await;
        let verdict = peers::verdict(&times, self.settings.max_offset_ms);
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

    /// Says whether to go on.
    async fn take_effects(&mut self) -> bool {
        for effect in self.claimant.effects() {
            match effect {
                Effect::Serve { worker, start_ms, limit_ms } => {
                    self.serve(worker, start_ms, limit_ms);
                }
                Effect::Reported { limit_ms } => {
                    self.shared.limit_ms = limit_ms;
                    self.shared.standing = Standing::Own;
                    self.shared.reported = Some((self.boot.clone(), self.environment.boot_ms()));
                    self.issuer.reported(limit_ms, self.shared.clone());
                }
                Effect::Stop { why, soon } => self.suspend(why, soon),
                Effect::Lost => {
                    self.suspend("the worker ID is no longer this instance's".to_owned(), true);
                    self.shared.limit_ms = 0;
                    if !self.remember().await {
                        return false;
                    }
                }
                Effect::Contested { why } => {
                    // Callers wait: whoever is told why may rely on its being on disk.
                    let text = "that something else writes this instance's node is being recorded";
                    let error = WireError::new(ErrorCode::WorkerUnavailable, text);
                    self.issuer.suspend(error.with_retry_after_ms(1000), true);
                    self.shared.limit_ms = 0;
                    self.shared.standing = Standing::Contested;
                    if !self.remember().await {
                        return false;
                    }
                    self.suspend(why, false);
                }
                Effect::Trouble(why) => self.trouble(why),
                Effect::Fine => {
                    self.issuer.registration(|registration| registration.error.clear());
                    if self.told.trouble.take().is_some() {
                        tracing::info!("ZooKeeper answers again");
                    }
                }
            }
        }
        true
    }

    fn serve(&mut self, worker: u64, start_ms: u64, limit_ms: u64) {
        self.told.reason.clear();
        self.shared.limit_ms = limit_ms;
        self.shared.standing = Standing::Own;
        let rules = sequencer::Rules { worker, ..self.settings.sequence };
        let (identity, shared) = (self.identity.clone(), Some(self.shared.clone()));
        self.issuer.begin(Begin { rules, start_ms, limit_ms, identity, shared });
        let identity = &self.identity;
        if self.claimant.is_registered() {
            tracing::info!(worker, identity, "worker ID");
        } else {
            tracing::warn!(
                worker,
                identity,
                "worker ID from the worker file, ZooKeeper does not answer; other instances' \
                 clocks are not asked"
            );
        }
    }

    fn suspend(&mut self, why: String, soon: bool) {
        // Numbers in it change at each try: seconds to wait, the difference of clocks.
        let gist = why.replace(|c: char| c.is_ascii_digit(), "");
        if self.told.reason != gist {
            if soon {
                tracing::info!("no snowflake IDs yet: {why}");
            } else {
                tracing::error!("no snowflake IDs: {why}");
            }
            self.told.reason = gist;
        }
        let error = WireError::new(ErrorCode::WorkerUnavailable, why).with_retry_after_ms(1000);
        self.issuer.suspend(error, soon);
    }

    fn trouble(&mut self, why: String) {
        let is_new = self.told.trouble.is_none_or(|told| self.environment.since(told) > QUIET);
        if is_new {
            tracing::warn!("{why}; trying again");
            self.told.trouble = Some(self.environment.now());
        }
        self.issuer.registration(|registration| registration.error = why);
    }

    /// The name of this life has to be on disk before it is in the tree. Not sooner: lives that
    /// never reach ZooKeeper would push those names out that are in the tree. Says whether to go on.
    async fn leave_name(&mut self) -> bool {
        if self.shared.nonces.first() == Some(&self.nonce) {
            return true;
        }
        self.shared.nonces.insert(0, self.nonce.clone());
        self.shared.nonces.truncate(MOST_NONCES);
        self.remember().await
    }

    /// Writes what is known of the claim into the worker file, for as long as it takes. Says
    /// whether to go on.
    async fn remember(&mut self) -> bool {
        loop {
            let Err(why) = self.issuer.remember(self.shared.clone()).await else { return true };
            // Who issues goes on up to its ceiling.
            if !self.claimant.is_serving() {
                self.suspend(format!("the worker file cannot be written: {why}"), false);
            }
            tokio::select! {
                () = self.stop.cancelled() => return false,
                () = tokio::time::sleep(NAP) => {}
            }
        }
    }
}

#[cfg(test)]
#[path = "registrar_tests.rs"]
mod tests;
