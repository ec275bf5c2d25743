//! `leafd hand-back`: hands the node of a stopped leafd back to Java Leaf, and waits until Java
//! Leaf may start. `worker::registry::zookeeper::hand_back` decides what to write and how long to
//! wait.

use std::path::Path;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::adopt::is_ours;
use super::failure::Failure;
use super::owner::owner;
use super::store::inodes;
use super::{load, paths, print};
use crate::config::{Config, Loaded};
use crate::environment::Environment;
use crate::safety::UNKNOWN_CEILING_MS;
use crate::state::dir::{ForeignPolicy, StateContents, StateDir, WorkerPast};
use crate::state::worker_file::{SharedClaim, Standing, WorkerRecord};
use crate::state::writer::Writer;
use crate::worker::address::javas_address;
use crate::worker::claim::name::NodeName;
use crate::worker::claim::view::Wanted;
use crate::worker::registry::zookeeper::hand_back::{Giver, HandOver, hand_over};
use crate::worker::registry::zookeeper::{ZooKeeperAccess, ZooKeeperSession};
use crate::worker::registry::{RegistryError, RegistrySession, reading};

/// Interval between two looks at the clocks.
const LOOK: Duration = Duration::from_millis(500);

/// Interval between lines that say how long it still takes.
const PROGRESS: Duration = Duration::from_secs(10);

/// Hands the node back; with `undo`, lets leafd use it again.
///
/// # Errors
/// When leafd runs on the state directory, another leafd has the node, or the disk or ZooKeeper
/// fails.
pub fn hand_back(path: Option<&Path>, undo: bool) -> Result<(), Failure> {
    let (Loaded { config, .. }, _) = load(path)?;
    let Some(ensemble) = config.ensemble()? else {
        return Err(Failure::config(
            "there is no node to hand back: worker.registry is not \"zookeeper\"",
        ));
    };
    let access = ZooKeeperAccess::new(&config, ensemble, paths::credentials().as_deref())
        .map_err(Failure::config)?;
    let directory = paths::state_dir(&config);
    is_ours(&directory)?;
    let state = StateDir::lock(&directory, &Environment::system())?.with_inodes(inodes(&config));
    let here = owner(&config, &config.store_location()?);
    let contents = state.open(&here, ForeignPolicy::Refuse)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::system("cannot start", &error))?;
    let mut giving = Giving::new(&config, access, &state, contents)?;
    let outcome =
        runtime.block_on(async { if undo { giving.undo().await } else { giving.run().await } });
    runtime.shutdown_background();
    outcome
}

/// One execution of the command.
struct Giving {
    access: ZooKeeperAccess,
    identity: String,
    layout: String,
    file: WorkerRecord,
    writer: Writer,
    environment: Environment,
}

impl Giving {
    fn new(
        config: &Config,
        access: ZooKeeperAccess,
        state: &StateDir,
        contents: StateContents,
    ) -> Result<Self, Failure> {
        let StateContents { journal, worker, generation, warnings, .. } = contents;
        for warning in warnings {
            print(&format!("{}: {warning}\n", state.path().display()))?;
        }
        let environment = Environment::system();
        let file = match worker {
            WorkerPast::Known(record) => record,
            WorkerPast::Lost { .. } => WorkerRecord {
                ceiling_ms: environment.unix_ms() + UNKNOWN_CEILING_MS,
                ..WorkerRecord::fresh()
            },
        };
        let identity = config.worker.identity.clone().unwrap_or_else(|| file.identity.clone());
        if javas_address(&identity).is_none() {
            return Err(Failure::config(format!(
                "Java Leaf finds its node by its IP:PORT, and the identity {identity:?} is none; set \
                 worker.identity to the address of the Java Leaf that shall have the node"
            )));
        }
        let fatal = CancellationToken::new();
        let writer = Writer::start(&environment, state.place(), generation, journal, &fatal)
            .map_err(|error| Failure::system("cannot start a thread", &error))?;
        let layout = config.snowflake.layout.to_string();
        Ok(Self { access, identity, layout, file, writer, environment })
    }

    async fn undo(&mut self) -> Result<(), Failure> {
        let standing = self.file.shared.as_ref().map(|shared| shared.standing);
        if standing != Some(Standing::HandedBack) {
            return print("nothing to undo: no node was handed back from this state directory\n");
        }
        self.remember(self.file.worker, Standing::Own).await?;
        print(
            "leafd claims its worker ID again at its next start, as soon as it reaches ZooKeeper and \
             nothing else writes its node\n",
        )
    }

    async fn run(&mut self) -> Result<(), Failure> {
        let session = ZooKeeperSession::open(&self.access, &self.environment)
            .await
            .map_err(|error| self.later(&error))?;
        let hand_over = self.look(&session).await?;
        // Record this before the tree changes: from here on leafd does not use the worker ID,
        // whatever happens.
        let (name, ops, until_ms) = match hand_over {
            HandOver::NoNode { until_ms } => {
                self.remember(self.file.worker, Standing::HandedBack).await?;
                self.wait(&session, until_ms).await?;
                let (identity, root) = (&self.identity, self.access.root());
                print(&format!(
                    "the tree {root} has no node of {identity}: Java Leaf gets a new worker ID there\n"
                ))?;
                return self
                    .tell_what_to_check(&format!("the node of {identity} below {root}/forever"));
            }
            HandOver::IsJavas { name, until_ms } => {
                self.remember(Some(name.sequence()), Standing::Contested).await?;
                self.wait(&session, until_ms).await?;
                print(&format!("{name} was written by Java Leaf last, and is its own\n"))?;
                return self.tell_what_to_check(&self.place_of(&name));
            }
            HandOver::After { name, ops, until_ms } => (name, ops, until_ms),
        };
        self.remember(Some(name.sequence()), Standing::HandedBack).await?;
        print("leafd does not use its worker ID any more, whoever starts it\n")?;
        if !ops.is_empty() {
            session.commit(&ops).await.map_err(|error| self.later(&error))?;
        }
        self.wait(&session, until_ms).await?;
        // Somebody may have started a leafd or a Java Leaf meanwhile.
        match self.look(&session).await? {
            HandOver::After { until_ms: again, .. } if again <= until_ms => {}
            HandOver::IsJavas { .. } => {}
            HandOver::After { .. } | HandOver::NoNode { .. } => {
                return Err(self.later(&RegistryError::Conflict));
            }
        }
        let worker = name.sequence();
        print(&format!(
            "{name} is handed back: Java Leaf may start, and has worker ID {worker}\n"
        ))?;
        self.tell_what_to_check(&self.place_of(&name))
    }

    async fn look(&self, session: &ZooKeeperSession) -> Result<HandOver, Failure> {
        let wanted = Wanted { identity: self.identity.clone(), sequence: None, survey: false };
        let mut random = self.environment.random();
        let view = reading::look(session, &wanted, &mut random).await;
        let view = view.map_err(|error| self.later(&error))?;
        let registry = self.access.registry_name();
        let shared = self.file.shared.as_ref().filter(|shared| shared.registry == registry);
        let nonces = shared.map_or(&[][..], |shared| &shared.nonces);
        let giver = Giver { identity: &self.identity, nonces, ceiling_ms: self.file.ceiling_ms };
        hand_over(&giver, &view).map_err(Failure::config)
    }

    /// Records in the worker file that leafd must not issue on the strength of that file alone.
    async fn remember(&mut self, worker: Option<u64>, standing: Standing) -> Result<(), Failure> {
        let registry = self.access.registry_name();
        let past = self.file.shared.take().filter(|shared| shared.registry == registry);
        let past = past.unwrap_or_default();
        self.file.shared = Some(SharedClaim { registry, limit_ms: 0, standing, ..past });
        self.file.worker = worker;
        self.file.identity.clone_from(&self.identity);
        if self.file.layout.is_empty() {
            self.file.layout.clone_from(&self.layout);
        }
        let written = self.writer.worker(self.file.clone()).await;
        written.map_err(|error| Failure::state("the worker file cannot be written", &error))
    }

    /// Waits until this host's clock and ZooKeeper's have passed `until_ms`. The recorded time
    /// cannot be lowered, because Java Leaf compares it only with its own clock.
    async fn wait(&self, session: &ZooKeeperSession, until_ms: u64) -> Result<(), Failure> {
        let mut told: Option<Instant> = None;
        loop {
            let clock = session.clock().await.map_err(|error| self.later(&error))?;
            let now_ms = clock.now_ms.min(self.environment.unix_ms());
            let Some(left_ms) = until_ms.checked_sub(now_ms) else { return Ok(()) };
            if told.is_none_or(|told| self.environment.since(told) > PROGRESS) {
                told = Some(self.environment.now());
                let left = left_ms.div_ceil(1000).max(1);
                print(&format!(
                    "the time of the last IDs is {left} s ahead: Java Leaf would repeat them, or \
                     refuse that time, start from its file and never write its node. Waiting; do \
                     not start it yet\n"
                ))?;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    fn place_of(&self, name: &NodeName) -> String {
        format!("{}/forever/{name}", self.access.root())
    }

    fn tell_what_to_check(&self, node: &str) -> Result<(), Failure> {
        let port = javas_address(&self.identity).map_or("PORT", |(_, port)| port);
        print(&format!(
            "Before Java Leaf starts: keep leafd's units disabled, and remove the folder leafconf/{port} \
             below Java Leaf's temporary folder (the folder, not only the file in it).\n\
             After it has started: see that the timestamp in {node} advances every 3 s. If it does \
             not, stop Java Leaf at once: it runs on its file, and nobody can see it.\n"
        ))
    }

    fn later(&self, error: &RegistryError) -> Failure {
        Failure::not_now(format!(
            "{error}. The node is not handed back yet, so do not start Java Leaf; run this again"
        ))
    }
}
