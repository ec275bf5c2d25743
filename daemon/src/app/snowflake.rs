//! Builds the snowflake side: with the worker ID that the configuration fixes, or with the one that
//! ZooKeeper gives, which may come late.

use std::net::TcpListener;
use std::time::Duration;

use leaf_client::wire::{ErrorCode, WireError};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::failure::Failure;
use super::paths;
use crate::config::acl;
use crate::config::{Config, Ensemble};
use crate::duration::ms;
use crate::environment::Environment;
use crate::safety::{REPORT_MS, UNKNOWN_CEILING_MS, settle_ms};
use crate::snowflake::issuer::{Issuer, Settings as IssuerSettings};
use crate::snowflake::life::Begin;
use crate::snowflake::sequencer::Rules;
use crate::state::dir::WorkerPast;
use crate::state::worker_file::WorkerRecord;
use crate::state::writer::Writer;
use crate::supervise;
use crate::transport::peer::PeerListener;
use crate::worker::admin::Workers;
use crate::worker::registry::fixed::start_at;
use crate::worker::address::{Place, place};
use crate::worker::administration::Registry as ZooKeeper;
use crate::worker::claim::plan::Rules as ClaimRules;
use crate::worker::registrar::{Registrar, Settings, SharedSession, name_of};
use crate::worker::registry::zookeeper::session::Access;

/// How long the search for one's own address may take: names have to be resolved.
const SEARCH: Duration = Duration::from_secs(2);

/// How long ZooKeeper has at the end, however long its calls may take. It is only told what the
/// state directory has already.
const LAST_WORDS: Duration = Duration::from_millis(1500);

/// The snowflake side.
pub(super) struct Snowflake {
    environment: Environment,
    pub(super) issuer: Issuer,
    pub(super) workers: Workers,
    /// The claim and the peer port, which end before the issuer's last word is passed on.
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Snowflake {
    /// Starts it. `past` is what the state directory knows of the worker ID, and `peer` a peer
    /// port that the service manager passes on.
    pub(super) fn start(
        config: &Config,
        environment: Environment,
        past: &WorkerPast,
        peer: Option<TcpListener>,
        writer: Writer,
        fatal: &CancellationToken,
    ) -> Result<Self, Failure> {
        let ensemble = config.ensemble()?;
        if peer.is_some() && (ensemble.is_none() || !config.snowflake.enabled) {
            tracing::warn!(
                "the service manager passes a peer port, which is of use with worker.registry = \
                 \"zookeeper\" alone; it is closed"
            );
        }
        let settings = IssuerSettings {
            registry: if ensemble.is_some() { "zookeeper" } else { "fixed" },
            ceiling_ahead_ms: ms(config.snowflake.ceiling_ahead),
            layout: config.snowflake.layout,
        };
        let file = match past {
            WorkerPast::Known(record) => record.clone(),
            WorkerPast::Lost { .. } if ensemble.is_some() => WorkerRecord {
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
        };
        let layout = config.snowflake.layout;
        let refused = match past {
            // It is known by name, and the registry gives it another worker ID.
            WorkerPast::Lost { .. } if ensemble.is_some() => None,
            past => start_at(past, layout).err(),
        };
        if !config.snowflake.enabled {
            let text = "snowflake IDs are not configured (snowflake.enabled)";
            this.issuer.suspend(WireError::new(ErrorCode::NotConfigured, text), false);
        } else if let Some(why) = refused {
            tracing::error!("no snowflake IDs: {why}");
            this.issuer.suspend(WireError::new(ErrorCode::WorkerUnavailable, why), false);
        } else if let Some(ensemble) = ensemble {
            this.issuer.suspend(not_yet, true);
            this.register(config, ensemble, file, peer, fatal)?;
        } else {
            this.begin_fixed(config, file.ceiling_ms);
        }
        Ok(this)
    }

    fn begin_fixed(&self, config: &Config, start_ms: u64) {
        let worker = config.worker.id;
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

    /// Claims a worker ID in the background, for as long as it takes, and answers the others.
    fn register(
        &mut self,
        config: &Config,
        ensemble: Ensemble,
        file: WorkerRecord,
        peer: Option<TcpListener>,
        fatal: &CancellationToken,
    ) -> Result<(), Failure> {
        let port = self.listen(config, peer, fatal)?;
        let access = access(config, ensemble)?;
        let worker = &config.worker;
        let settings = Settings {
            access,
            rules: ClaimRules {
                reclaim_after_ms: (!worker.java_leaf).then(|| ms(worker.reclaim_after)),
                fence_after_ms: ms(worker.fence_after),
                session_ms: ms(config.zookeeper.session_timeout),
                report_ms: REPORT_MS,
                settle_ms: settle_ms(ms(config.zookeeper.timeout)),
            },
            sequence: rules(config, 0),
            give_back: worker.give_back,
            max_offset_ms: ms(worker.max_clock_offset),
        };
        let (session, environment) = (SharedSession::default(), self.environment.clone());
        let registry = ZooKeeper::new(
            session.clone(),
            settings.access.clone(),
            self.issuer.clone(),
            environment.clone(),
        );
        self.workers = Workers::ZooKeeper(registry);
        let (issuer, stop) = (self.issuer.clone(), self.stop.clone());
        let advertised = config.peer_advertise()?;
        let configured = worker.identity.clone();
        let run = async move {
            let search = async {
                find_place(configured.as_deref(), advertised, port, &settings, &file, &issuer).await
            };
            let place = tokio::select! {
                () = stop.cancelled() => return,
                place = search => place,
            };
            let made =
                Registrar::new(settings, place, &file, issuer.clone(), environment, session, stop);
            match made {
                Ok(registrar) => registrar.run().await,
                Err(error) => {
                    let text = format!("no random bytes from /dev/urandom: {error}");
                    tracing::error!("no snowflake IDs: {text}");
                    issuer.suspend(WireError::new(ErrorCode::WorkerUnavailable, text), false);
                }
            }
        };
        supervise::spawn("registrar", fatal, self.tasks.track_future(run));
        Ok(())
    }

    /// Opens the peer port, unless it is passed on; returns its number, 0 without one.
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

    /// Nothing is issued any more, and disk and registry are told exactly up to where it was.
    pub(super) async fn close(&self) -> Result<(), String> {
        let outcome = self.issuer.close().await;
        self.stop.cancel();
        self.tasks.close();
        if tokio::time::timeout(LAST_WORDS, self.tasks.wait()).await.is_err() {
            tracing::warn!("ZooKeeper was not told of the end: no answer within {LAST_WORDS:?}");
        }
        outcome
    }
}

/// The ensemble, the tree, and the rights there.
pub(super) fn access(config: &Config, ensemble: Ensemble) -> Result<Access, Failure> {
    Ok(Access {
        ensemble,
        name: config.zookeeper.name.clone(),
        auth: paths::zookeeper_auth(config)?,
        acls: acl::parse(&config.zookeeper.acl).map_err(Failure::config)?,
        session_timeout: config.zookeeper.session_timeout,
        timeout: config.zookeeper.timeout,
        layout: config.snowflake.layout.to_string(),
    })
}

/// This instance's place; asked for until it is found, or the worker file tells.
async fn find_place(
    configured: Option<&str>,
    advertised: crate::config::PeerAddress,
    port: u16,
    settings: &Settings,
    file: &WorkerRecord,
    issuer: &Issuer,
) -> Place {
    let ensemble = &settings.access.ensemble;
    let mut was_told = false;
    loop {
        let found = tokio::time::timeout(SEARCH, place(configured, advertised, port, ensemble));
        let why = match found.await {
            Ok(Ok(place)) => return place,
            Ok(Err(why)) => why,
            Err(_) => {
                let names = ensemble.servers.join(",");
                format!("the names in zookeeper.servers are not resolved in time ({names})")
            }
        };
        let remembered = configured.unwrap_or(&file.identity);
        let registry = file.shared.as_ref().map(|shared| shared.registry.as_str());
        let is_ours = registry == Some(name_of(&settings.access).as_str());
        if is_ours && !remembered.is_empty() {
            tracing::warn!("{why}; taking the address of the worker file, {:?}", file.identity);
            return Place::remembered(remembered, port);
        }
        if !std::mem::replace(&mut was_told, true) {
            tracing::error!("no snowflake IDs: {why}");
        }
        let error = WireError::new(ErrorCode::WorkerUnavailable, why).with_retry_after_ms(1000);
        issuer.suspend(error, false);
        tokio::time::sleep(SEARCH / 2).await;
    }
}

fn rules(config: &Config, worker: u64) -> Rules {
    let snowflake = &config.snowflake;
    Rules {
        layout: snowflake.layout,
        worker,
        max_lead_ms: ms(snowflake.max_lead),
        tolerance_ms: ms(snowflake.clock_tolerance),
        start_wait_ms: ms(snowflake.start_wait),
        random_start: snowflake.random_start,
    }
}
