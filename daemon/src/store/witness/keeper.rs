//! What this process knows of the witness table, between the transactions that read it and the task that
//! attends to it. Time limits and the file on disk are here; the rules are in `rules`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use super::memory::WitnessMemory;
use super::messages::{log_visit, names, some_of, told};
use super::rules::{
    self, BEAT, Hold, LeaseBasis, MissingHosts, Raised, Seen, Visit, Visited, all_know, may_lease,
};
use super::silence::SilenceWatch;
use super::table::{FleetRow, HostName, HostRow, Presence, WitnessTable};
use crate::environment::Environment;
use crate::store::BoxFuture;

/// How long a host that joins waits until all others know it. One that does not answer holds it up no longer.
const JOIN_WAIT: Duration = Duration::from_secs(10);

/// How often a host that has confirmed an epoch looks at the whole table to see whether it can be closed. The
/// last one to confirm closes it at once.
const WHOLE_LOOK: Duration = Duration::from_secs(5);

/// Writes down what this host has seen in the table.
pub(crate) trait WitnessRecorder: Send + Sync {
    /// Returns when the record is on disk. `database` tells the database from others.
    fn record(&self, memory: WitnessMemory, database: String) -> BoxFuture<'_, Result<(), String>>;
}

/// What a keeper is made of.
pub(crate) struct KeeperParts {
    /// What people call this host.
    pub(crate) shown: String,
    pub(crate) missing: MissingHosts,
    pub(crate) environment: Environment,
    pub(crate) recorder: Arc<dyn WitnessRecorder>,
    /// What the disk says, and of which database.
    pub(crate) remembered: Option<(WitnessMemory, String)>,
}

/// Whether the database has the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TableFinding {
    Unknown,
    Missing,
    There,
}

struct KeeperState {
    memory: WitnessMemory,
    /// What the disk has of it.
    kept: Option<WitnessMemory>,
    /// The database that the memory is about.
    database: Option<String>,
    finding: TableFinding,
    silence: SilenceWatch,
    raised: Option<Raised>,
    joining_since: Option<Duration>,
    visited: Option<Duration>,
    /// The nonce of the open epoch, and since when this process has seen it open.
    open_since: Option<(u64, Duration)>,
    /// The nonce of the epoch of which the log says who is missing.
    said_missing: Option<u64>,
    has_left: bool,
    looked: Option<WitnessTable>,
}

impl KeeperState {
    /// Says once for each epoch that stays open whom it waits for.
    fn say_missing(&mut self, now: Duration) {
        let Some((nonce, since)) = self.open_since else { return };
        let Some(table) = &self.looked else { return };
        let missing = names(table);
        let is_long = now.saturating_sub(since) >= WHOLE_LOOK;
        if !is_long || missing.is_empty() || self.said_missing == Some(nonce) {
            return;
        }
        self.said_missing = Some(nonce);
        let epoch = table.fleet.as_ref().map_or(0, |fleet| fleet.epoch);
        tracing::warn!(
            epoch,
            missing = some_of(&missing),
            "the epoch is still open: it waits for hosts that have not confirmed it, and nobody leases. Start \
             leafd there, or see `leafctl store accept-loss`"
        );
    }
}

/// What the task that attends to the table does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WitnessNext {
    /// The database has no such table.
    NoTable,
    /// Nothing, for a while.
    Settled,
    /// Look again soon.
    Waiting,
    /// Visit again at once.
    Again,
    /// Move the rows of all tags above what this host knows, say so, and visit again.
    Raise(Raised),
}

/// The part of the table that a lease's transaction reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WitnessFacts {
    pub(crate) fleet: Option<FleetRow>,
    pub(crate) own: Option<HostRow>,
    pub(crate) server: String,
}

/// The epoch, for the status and the metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EpochStatus {
    pub(crate) epoch: u64,
    pub(crate) open: bool,
    /// How many hosts an epoch waits for.
    pub(crate) hosts: usize,
    /// Those that have not confirmed it.
    pub(crate) missing: Vec<String>,
}

/// What a lease may expect, as far as this process knows. Its own transaction decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outlook {
    /// This host has yet to look at the table, to join, or to confirm an epoch.
    Waits,
    /// The table does not stand in the way.
    Leases,
    /// The database does not answer.
    Fails,
}

/// What this process knows of the witness table.
pub(crate) struct WitnessKeeper {
    shown: String,
    missing: MissingHosts,
    environment: Environment,
    recorder: Arc<dyn WitnessRecorder>,
    state: Mutex<KeeperState>,
    /// Visits run one at a time.
    pub(crate) turn: tokio::sync::Mutex<()>,
    /// Something wants the table looked at now.
    attention: Notify,
    outlook: watch::Sender<Outlook>,
}

impl WitnessKeeper {
    /// A keeper that has not seen the table yet.
    ///
    /// # Errors
    /// When the system has no random bytes.
    pub(crate) fn new(parts: KeeperParts) -> std::io::Result<Arc<Self>> {
        let KeeperParts { shown, missing, environment, recorder, remembered } = parts;
        let (memory, database) = match remembered {
            Some((memory, database)) => (memory, Some(database)),
            None => (WitnessMemory::new(HostName::random(&environment)?), None),
        };
        let state = KeeperState {
            kept: None,
            memory,
            database,
            finding: TableFinding::Unknown,
            silence: SilenceWatch::default(),
            raised: None,
            joining_since: None,
            visited: None,
            open_since: None,
            said_missing: None,
            has_left: false,
            looked: None,
        };
        Ok(Arc::new(Self {
            shown,
            missing,
            environment,
            recorder,
            state: Mutex::new(state),
            turn: tokio::sync::Mutex::default(),
            attention: Notify::new(),
            outlook: watch::Sender::new(Outlook::Waits),
        }))
    }

    fn state(&self) -> MutexGuard<'_, KeeperState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Duration {
        Duration::from_millis(self.environment.boot_ms())
    }

    /// This host's name in the table.
    pub(crate) fn me(&self) -> HostName {
        self.state().memory.me
    }

    /// Whether the database has the table; `None` before the first look.
    pub(crate) fn is_there(&self) -> Option<bool> {
        match self.state().finding {
            TableFinding::Unknown => None,
            TableFinding::Missing => Some(false),
            TableFinding::There => Some(true),
        }
    }

    /// The table was found. `database` tells the database from others: what was seen in another one says nothing
    /// about this one. Returns whether the table was not known to be there.
    pub(crate) fn note_there(&self, database: &str) -> bool {
        let mut state = self.state();
        let is_new = state.finding != TableFinding::There;
        state.finding = TableFinding::There;
        if state.database.as_deref().is_some_and(|known| known != database)
            && let Ok(me) = HostName::random(&self.environment)
        {
            state.memory = WitnessMemory::new(me);
            state.raised = None;
        }
        state.database = Some(database.to_owned());
        is_new
    }

    /// The database has no such table.
    ///
    /// # Errors
    /// When this process has seen it there.
    pub(crate) fn note_missing(&self) -> Result<(), String> {
        let mut state = self.state();
        if state.finding == TableFinding::There {
            drop(state);
            self.outlook.send_replace(Outlook::Fails);
            let why = "the table leafd_witness is gone, or the right to it, so leafd cannot know whether \
                       leases were lost. If the database was restored, make the table (`leafd schema`) \
                       before anything else. Only if it was dropped on purpose, restart leafd";
            return Err(why.to_owned());
        }
        let is_new = state.finding != TableFinding::Missing;
        state.finding = TableFinding::Missing;
        let knew_it = state.memory.epoch > 0;
        drop(state);
        if is_new && knew_it {
            tracing::warn!(
                "the table leafd_witness, which this host has seen before, is not there; leafd goes on without \
                 it, so leases that the database loses may repeat IDs"
            );
        }
        if is_new {
            self.outlook.send_replace(Outlook::Leases);
        }
        Ok(())
    }

    /// Whether a transaction that sees this may lease.
    ///
    /// # Errors
    /// Why not, for users.
    pub(crate) fn check(&self, basis: &LeaseBasis, facts: &WitnessFacts) -> Result<(), String> {
        let outcome = may_lease(basis, &seen(facts));
        let text = outcome.map_err(|hold| told(&hold, self.state().looked.as_ref()));
        if text.is_err() {
            self.outlook.send_replace(Outlook::Waits);
            self.attention.notify_one();
        }
        text
    }

    /// Waits until it is known whether leases may be tried, but not for longer than `most`.
    pub(crate) async fn wait(&self, most: Duration) {
        if *self.outlook.borrow() != Outlook::Waits {
            return;
        }
        let mut outlook = self.outlook.subscribe();
        // The sender lives as long as `self`.
        let known = outlook.wait_for(|outlook| *outlook != Outlook::Waits);
        let _ = tokio::time::timeout(most, known).await;
    }

    /// The table could not be looked at.
    pub(crate) fn note_failed(&self) {
        self.outlook.send_replace(Outlook::Fails);
    }

    /// Waits until something wants the table looked at.
    pub(crate) async fn wanted(&self) {
        self.attention.notified().await;
    }

    /// Whether the whole table has to be read and changed, after a look at two rows of it.
    pub(crate) fn needs_visit(&self, facts: &WitnessFacts) -> bool {
        let now = self.now();
        let state = self.state();
        let since = state.visited.map(|visited| now.saturating_sub(visited));
        let Some(since) = since.filter(|since| *since < BEAT) else { return true };
        let roster = facts.fleet.as_ref().map_or(0, |fleet| fleet.roster);
        if facts.own.as_ref().is_none_or(|own| own.roster < roster) {
            return true;
        }
        match may_lease(&LeaseBasis::of(&state.memory), &seen(facts)) {
            Ok(()) => false,
            Err(Hold::Open { epoch }) => {
                let confirmed = facts.own.as_ref().is_some_and(|own| own.confirmed == epoch);
                !confirmed || since >= WHOLE_LOOK
            }
            Err(_) => true,
        }
    }

    /// What a visit makes of the table.
    pub(crate) fn plan(
        &self,
        table: &WitnessTable,
        (server, now_s): (&str, u64),
        leaves: bool,
    ) -> Visited {
        let now = self.now();
        let mut state = self.state();
        let open = table.fleet.as_ref().filter(|fleet| fleet.open);
        state.open_since = open.map(|fleet| {
            let before = state.open_since.filter(|(nonce, _)| *nonce == fleet.nonce);
            before.unwrap_or((fleet.nonce, now))
        });
        let open_for =
            state.open_since.map_or(Duration::ZERO, |(_, since)| now.saturating_sub(since));
        let silent = state.silence.silent(now);
        let visit = Visit {
            shown: &self.shown,
            server,
            nonce: (self.environment.seed() >> 1).max(1),
            now_s,
            raised: state.raised,
            missing: self.missing,
            last_visit: state.visited.map(|visited| now.saturating_sub(visited)),
            open_for,
            silent: &silent,
            leaves,
        };
        rules::visit(&state.memory, table, &visit)
    }

    /// The answer to the commit of a visit is lost, so its row may say this now.
    pub(crate) fn lost_answer(&self, visited: &Visited) {
        let mut state = self.state();
        let tried = visited.table.hosts.get(&state.memory.me).map_or(0, |own| own.beat);
        state.memory.tried = state.memory.tried.max(tried);
    }

    /// What a lease that begins now is compared with: a visit beside it may write the row before the lease's
    /// answer comes.
    pub(crate) fn basis(&self) -> LeaseBasis {
        LeaseBasis::of(&self.state().memory)
    }

    /// This host is about to leave.
    pub(crate) fn leave(&self) {
        let mut state = self.state();
        state.memory.leave();
        state.has_left = true;
    }

    /// Whether this host has said goodbye.
    pub(crate) fn has_left(&self) -> bool {
        self.state().has_left
    }

    /// A visit was committed.
    pub(crate) fn committed(&self, visited: &Visited) {
        let now = self.now();
        let mut state = self.state();
        state.memory.learn(&visited.table);
        state.silence.see(now, &visited.table);
        state.visited = Some(now);
        state.looked = Some(visited.table.clone());
        log_visit(visited);
        state.say_missing(now);
        let own = visited.table.hosts.get(&state.memory.me);
        let own = own.filter(|own| own.presence == Presence::Here);
        let Some(own) = own else {
            state.joining_since = None;
            state.memory.known_as = None;
            return;
        };
        if state.memory.known_as == Some(own.joined) {
            return;
        }
        let since = *state.joining_since.get_or_insert(now);
        let all = all_know(&state.memory, &visited.table);
        if all || now.saturating_sub(since) >= JOIN_WAIT {
            if !all {
                tracing::warn!(
                    "other hosts of the table leafd_witness have not answered for {} s; this host \
                     leases without waiting for them",
                    JOIN_WAIT.as_secs()
                );
            }
            state.memory.known_as = Some(own.joined);
            state.joining_since = None;
        }
    }

    /// Writes down what was seen, if the disk does not have it.
    ///
    /// # Errors
    /// When the disk refuses.
    pub(crate) async fn record(&self) -> Result<(), String> {
        let (memory, database) = {
            let state = self.state();
            (state.memory.clone(), state.database.clone().unwrap_or_default())
        };
        if self.state().kept.as_ref().is_some_and(|kept| !memory.differs_on_disk(kept)) {
            return Ok(());
        }
        let kept = memory.clone();
        self.recorder.record(memory, database).await?;
        let mut state = self.state();
        if (state.memory.epoch, state.memory.nonce, state.memory.roster)
            == (kept.epoch, kept.nonce, kept.roster)
        {
            state.memory.keep();
        }
        state.kept = Some(kept);
        drop(state);
        Ok(())
    }

    /// What to do next, after a look or a visit that saw this.
    pub(crate) fn next(&self, facts: &WitnessFacts) -> WitnessNext {
        let state = self.state();
        let outcome = may_lease(&LeaseBasis::of(&state.memory), &seen(facts));
        let fleet = facts.fleet.as_ref();
        let target = fleet.map(|fleet| Raised { epoch: fleet.epoch, nonce: fleet.nonce });
        let own = facts.own.as_ref();
        let unconfirmed = own
            .zip(fleet)
            .is_some_and(|(own, fleet)| own.presence.is_awaited() && own.confirmed < fleet.epoch);
        let kept = fleet.map_or(0, |fleet| state.memory.kept_roster(fleet.epoch, fleet.nonce));
        let is_unwritten = own.is_some_and(|own| own.roster < kept);
        let next = match (outcome, target) {
            (Ok(()), _) if is_unwritten => WitnessNext::Again,
            (Ok(()), _) => WitnessNext::Settled,
            (Err(Hold::Lost(_)), _) => WitnessNext::Again,
            (Err(_), Some(target)) if unconfirmed && state.raised != Some(target) => {
                WitnessNext::Raise(target)
            }
            (Err(_), Some(_)) if unconfirmed || is_unwritten => WitnessNext::Again,
            (Err(_), _) => WitnessNext::Waiting,
        };
        drop(state);
        let leases = matches!(next, WitnessNext::Settled);
        self.outlook.send_replace(if leases { Outlook::Leases } else { Outlook::Waits });
        next
    }

    /// The rows of all tags are above what this host knows.
    pub(crate) fn raised(&self, target: Raised) {
        self.state().raised = Some(target);
    }

    /// The epoch, if the database has the table and this host has seen it.
    pub(crate) fn status(&self) -> Option<EpochStatus> {
        let state = self.state();
        let table = state.looked.as_ref().filter(|_| state.finding == TableFinding::There)?;
        let fleet = table.fleet.as_ref()?;
        let here = table.hosts.values().filter(|row| row.presence.is_awaited());
        Some(EpochStatus {
            epoch: fleet.epoch,
            open: fleet.open,
            hosts: here.count(),
            missing: if fleet.open { names(table) } else { Vec::new() },
        })
    }
}

fn seen(facts: &WitnessFacts) -> Seen<'_> {
    Seen { fleet: facts.fleet.as_ref(), own: facts.own.as_ref(), server: &facts.server }
}
