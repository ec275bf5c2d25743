//! Builds the snowflake side, with a worker ID from the configuration, or with one that a
//! shared registry gives, perhaps later.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use leaf_client::wire::{ErrorCode, WireError};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::failure::Failure;
use super::paths;
use crate::config::Config;
use crate::duration::ms;
use crate::environment::Environment;
use crate::safety::UNKNOWN_CEILING_MS;
#[cfg(feature = "database")]
use crate::safety::settle_row_ms;
use crate::snowflake::issuer::{Issuer, IssuerSettings};
use crate::snowflake::life::Begin;
use crate::snowflake::sequencer::SequencerRules;
use crate::state::dir::WorkerPast;
use crate::state::worker_file::WorkerRecord;
use crate::state::writer::Writer;
use crate::supervise;
use crate::transport::peer::PeerListener;
use crate::worker::address;
use crate::worker::administration::{SharedWorkers, Workers};
#[cfg(feature = "database")]
use crate::worker::assigned::{AssignedRules, AssignedWorker};
use crate::worker::claim::instance::{InstanceAddress, RegistryWords};
use crate::worker::claim::registrar::RegistrarSettings;
use crate::worker::issuing::{IssuingRules, IssuingUser};
use crate::worker::registry::fixed::start_at;
#[cfg(feature = "database")]
use crate::worker::registry::worker_node::{WorkerNodeAccess, messages::NodeRules};
use crate::worker::registry::{
    self, RegistryConnection, SharedRegistry, WorkerRegistry, WorkerSource,
};
use crate::worker::shell::{RegistrarShell, new_nonce};

/// How long the search for this host's address may take, which has to resolve names.
const SEARCH: Duration = Duration::from_secs(2);

/// How long the last calls to the registry may take when leafd stops, whatever their timeout. They
/// only report what the state directory has already.
pub(super) const LAST_WORDS: Duration = Duration::from_millis(1500);

/// The snowflake side.
pub(super) struct Snowflake {
    environment: Environment,
    pub(super) issuer: Issuer,
    pub(super) workers: Workers,
    /// The registrar and the peer port.
    tasks: TaskTracker,
    stop: CancellationToken,
    /// How messages speak of the shared registry, if there is one.
    words: Option<RegistryWords>,
}

impl Snowflake {
    /// Starts the snowflake side. `past` is what the state directory knows about the worker ID, and
    /// `peer` a peer port that the service manager has passed.
    pub(super) fn start(
        config: &Config,
        environment: Environment,
        past: &WorkerPast,
        peer: Option<TcpListener>,
        writer: Writer,
        fatal: &CancellationToken,
    ) -> Result<Self, Failure> {
        let is_shared = config.worker.registry.is_shared();
        if peer.is_some() && !(config.worker.registry.has_claims() && config.snowflake.enabled) {
            tracing::warn!(
                "the service manager passes a peer port, which is of use with a shared \
                 worker.registry alone; it is closed"
            );
        }
        let settings = IssuerSettings {
            registry: config.worker.registry.name(),
            ceiling_ahead_ms: ms(config.snowflake.ceiling_ahead),
            layout: config.snowflake.layout,
        };
        let file = match past {
            WorkerPast::Known(record) => record.clone(),
            WorkerPast::Lost { .. } if is_shared => WorkerRecord {
                ceiling_ms: environment.unix_ms() + UNKNOWN_CEILING_MS,
                ..WorkerRecord::fresh()
            },
            WorkerPast::Lost { .. } => WorkerRecord::fresh(),
        };
        let not_yet =
            WireError::new(ErrorCode::WorkerUnavailable, "the worker ID is not known yet");
        let issuer = Issuer::start(
            settings,
            not_yet.clone(),
            file.clone(),
            environment.clone(),
            writer,
            fatal,
        );
        let mut this = Self {
            issuer,
            environment,
            workers: Workers::Fixed,
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            words: None,
        };
        let layout = config.snowflake.layout;
        let refused = match past {
            // The registry knows the instance by its name, and gives it another worker ID.
            WorkerPast::Lost { .. } if is_shared => None,
            past => start_at(past, layout).err(),
        };
        if !config.snowflake.enabled {
            let text = "snowflake IDs are not configured (snowflake.enabled)";
            this.issuer.suspend(WireError::new(ErrorCode::NotConfigured, text), false);
        } else if let Some(why) = refused {
            let error = ErrorCode::WorkerUnavailable;
            tracing::error!(%error, "no snowflake IDs: {why}");
            this.issuer.suspend(WireError::new(error, why), false);
        } else {
            let credentials = paths::credentials();
            let source = registry::open(config, credentials.as_deref(), &this.environment);
            match source.map_err(Failure::config)? {
                WorkerSource::Fixed(worker) => this.begin_fixed(config, worker, file.ceiling_ms),
                WorkerSource::Shared(shared) => {
                    this.issuer.suspend(not_yet, true);
                    this.register(config, shared, file, peer, fatal)?;
                }
                #[cfg(feature = "database")]
                WorkerSource::Assigned(access) => {
                    this.issuer.suspend(not_yet, true);
                    this.take_row(config, access, &file, fatal)?;
                }
            }
        }
        Ok(this)
    }

    fn begin_fixed(&self, config: &Config, worker: u64, start_ms: u64) {
        if worker == 0 {
            tracing::warn!(
                "snowflake worker ID 0, fixed: right for one host only; number your hosts with \
                 worker.id"
            );
        }
        let rules = rules(config, worker);
        self.issuer.begin(Begin {
            rules,
            start_ms,
            limit_ms: u64::MAX,
            identity: config.worker.identity.clone().unwrap_or_default(),
            shared: None,
        });
    }

    /// Takes a row of Baidu's table in the background, however long it takes.
    #[cfg(feature = "database")]
    fn take_row(
        &self,
        config: &Config,
        access: WorkerNodeAccess,
        file: &WorkerRecord,
        fatal: &CancellationToken,
    ) -> Result<(), Failure> {
        let sequence = rules(config, 0);
        let rows = NodeRules {
            max_worker: sequence.layout.max_worker(),
            settle_ms: settle_row_ms(ms(access.timeout)),
            fence_after_ms: ms(config.worker.fence_after),
        };
        let host = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
        let identity = config.worker.identity.clone().or(host).unwrap_or_default();
        let nonce = new_nonce(&self.environment)
            .map_err(|error| Failure::system("no random bytes from /dev/urandom", &error))?;
        let rules = AssignedRules { rows, sequence, identity };
        let (issuer, environment) = (self.issuer.clone(), self.environment.clone());
        let worker = AssignedWorker::new(rules, access, nonce, file, issuer, environment);
        let run = worker.run(self.stop.clone());
        supervise::spawn("worker node", fatal, self.tasks.track_future(run));
        Ok(())
    }

    /// Claims a worker ID in the background, however long it takes, and tells other instances the
    /// time.
    fn register(
        &mut self,
        config: &Config,
        shared: SharedRegistry,
        file: WorkerRecord,
        peer: Option<TcpListener>,
        fatal: &CancellationToken,
    ) -> Result<(), Failure> {
        let port = self.listen(config, peer, fatal)?;
        let SharedRegistry { registry, rules: claim } = shared;
        let worker = &config.worker;
        let sequence = rules(config, 0);
        let settings = RegistrarSettings {
            registry: registry.name(),
            rules: claim,
            layout: sequence.layout.to_string(),
            max_worker: sequence.layout.max_worker(),
        };
        let issuing = IssuingRules {
            sequence,
            max_offset_ms: ms(worker.max_clock_offset),
            give_back: worker.give_back,
        };
        self.words = Some(registry.words());
        let connection = RegistryConnection::new(registry);
        let (issuer, environment) = (self.issuer.clone(), self.environment.clone());
        let of_issuer = issuer.clone();
        let is_own = move |worker, name: &str| {
            let own = of_issuer.status();
            own.worker == Some(worker) && own.identity == name
        };
        let workers = SharedWorkers::new(connection.clone(), Arc::new(is_own), environment.clone());
        self.workers = Workers::Shared(workers);
        let stop = self.stop.clone();
        let advertised = config.peer_advertise()?;
        let configured = worker.identity.clone();
        let run = async move {
            let search = async {
                let registry = connection.registry();
                find_address(configured.as_deref(), advertised, port, registry, &file, &issuer)
                    .await
            };
            let Some(address) = stop.run_until_cancelled(search).await else { return };
            let nonce = match new_nonce(&environment) {
                Ok(nonce) => nonce,
                Err(error) => {
                    let text = format!("no random bytes from /dev/urandom: {error}");
                    let code = ErrorCode::WorkerUnavailable;
                    tracing::error!(error = %code, "no snowflake IDs: {text}");
                    return issuer.suspend(WireError::new(code, text), false);
                }
            };
            let words = claim.words;
            let identity = address.identity.clone();
            let user = IssuingUser::new(issuing, identity, words, issuer, environment.clone());
            let (named, connection) = ((address, nonce), connection.for_claim());
            RegistrarShell::new(settings, named, &file, user, environment, connection, stop)
                .run()
                .await;
        };
        supervise::spawn("registrar", fatal, self.tasks.track_future(run));
        Ok(())
    }

    /// Opens the peer port, or uses the `inherited` one. Returns its number, or 0 if there is none.
    fn listen(
        &self,
        config: &Config,
        inherited: Option<TcpListener>,
        fatal: &CancellationToken,
    ) -> Result<u16, Failure> {
        let (listener, what) = match (inherited, config.peer_listen()?) {
            (Some(socket), _) => {
                (PeerListener::inherited(socket), "on the peer port that is passed on".to_owned())
            }
            (None, Some(address)) => {
                (PeerListener::bind(address), format!("on {address} (peer.listen)"))
            }
            (None, None) => return Ok(0),
        };
        let cannot = |error| Failure::system(&format!("cannot listen {what}"), &error);
        let listener = listener.map_err(cannot)?;
        let port = listener.local_addr().map_err(cannot)?.port();
        let serve = listener.serve(self.environment.clone(), self.stop.clone());
        supervise::spawn("peers", fatal, self.tasks.track_future(serve));
        Ok(port)
    }

    /// Stops issuing, and reports to disk and registry exactly how far it got.
    pub(super) async fn close(&self) -> Result<(), String> {
        let outcome = self.issuer.close().await;
        self.stop.cancel();
        self.tasks.close();
        let ended = tokio::time::timeout(LAST_WORDS, self.tasks.wait()).await;
        if let (Err(_), Some(words)) = (ended, self.words) {
            let text = (words.not_told_of_the_end)(&format!("no answer within {LAST_WORDS:?}"));
            tracing::warn!("{text}");
        }
        outcome
    }
}

/// Looks for this instance's address until it finds it, or takes the one in the worker file.
async fn find_address(
    configured: Option<&str>,
    advertised: crate::config::PeerAddress,
    port: u16,
    registry: &dyn WorkerRegistry,
    file: &WorkerRecord,
    issuer: &Issuer,
) -> InstanceAddress {
    let (servers, words) = (registry.servers(), registry.words());
    let mut was_told = false;
    loop {
        let search = address::find(configured, advertised, port, servers, &words);
        let why = match tokio::time::timeout(SEARCH, search).await {
            Ok(Ok(address)) => return address,
            Ok(Err(why)) => why,
            Err(_) => {
                let (key, names) = (words.servers_key, servers.join(","));
                format!("the names in {key} are not resolved in time ({names})")
            }
        };
        let remembered = configured.unwrap_or(&file.identity);
        let claimed_in = file.shared.as_ref().map(|shared| shared.registry.as_str());
        let is_ours = claimed_in == Some(registry.name().as_str());
        if is_ours && !remembered.is_empty() {
            tracing::warn!("{why}; taking the address of the worker file, {:?}", file.identity);
            return InstanceAddress::remembered(remembered, port);
        }
        let code = ErrorCode::WorkerUnavailable;
        if !std::mem::replace(&mut was_told, true) {
            tracing::error!(error = %code, "no snowflake IDs: {why}");
        }
        let error = WireError::new(code, why).with_retry_after_ms(1000);
        issuer.suspend(error, false);
        tokio::time::sleep(SEARCH / 2).await;
    }
}

fn rules(config: &Config, worker: u64) -> SequencerRules {
    let snowflake = &config.snowflake;
    SequencerRules {
        layout: snowflake.layout,
        worker,
        max_lead_ms: ms(snowflake.max_lead),
        tolerance_ms: ms(snowflake.clock_tolerance),
        start_wait_ms: ms(snowflake.start_wait),
        random_start: snowflake.random_start,
    }
}
