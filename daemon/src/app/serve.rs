//! `leafd` itself: build everything in order, serve, and stop in the reverse order.

use std::collections::HashMap;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::io::Interest;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::failure::Failure;
use super::reload::{Reloader, terms};
use super::snowflake::Snowflake;
use super::{found, hint, load, paths};
use crate::clock::Clock;
use crate::config::{Config, Loaded, Registry as RegistryKind};
use crate::ids::BizTag;
use crate::log;
use crate::manager::{Manager, report, watchdog, words};
use crate::secret::Secret;
use crate::segment::elsewhere::{InState, give_up, report_other};
use crate::segment::service::{Segments, Settings as SegmentSettings};
use crate::service::Service;
use crate::state::dir::{Contents, ForeignPolicy, StateDir};
use crate::state::journal::TagRecord;
use crate::state::lease_log::LeaseLog;
use crate::state::mark::Inodes;
use crate::state::owner::Owner;
use crate::state::writer::Writer;
use crate::store::{
    self, Address, Embedded, Guard, IfMissing, Limits as StoreLimits, Location, Shared, Source,
    Store, Unusable, may_be_another,
};
use crate::transport::inherited::Inherited;
use crate::transport::peer;
use crate::transport::unix::accept::accept;
use crate::transport::unix::linger::MAX_LINGERING;
use crate::transport::unix::serving::Serving;
use crate::transport::unix::socket::Socket;
use crate::transport::unix::watched::watched;
use crate::worker::peers::MAX_AT_ONCE;

/// Descriptors that are not connections: files, sockets, the event queue, and what the writing of
/// state needs for a moment.
const OTHER_DESCRIPTORS: u64 = 64;

/// How long the last writes may take at the stop.
const LAST_WRITE: Duration = Duration::from_secs(2);

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// When it cannot start, or cannot stop in good order.
pub fn serve(path: Option<&Path>) -> Result<(), Failure> {
    // Before anything else is opened.
    let inherited = Inherited::take();
    let manager = Manager::of_environment();
    let outcome =
        inherited.map_err(Into::into).and_then(|inherited| start(path, inherited, &manager));
    match &outcome {
        Ok(()) => manager.status("Stopped"),
        Err(failure) => manager.failed(failure.message()),
    }
    outcome
}

fn start(path: Option<&Path>, inherited: Inherited, manager: &Manager) -> Result<(), Failure> {
    // At a reload as well: that it has gone does not mean that there are no rules any more.
    let path = found(path);
    let (loaded, from) = load(path)?;
    let config = &loaded.config;
    // Dropped last, so that the last lines are written.
    let (log, _log) = log::start(&config.log)
        .map_err(|error| Failure::software(&format!("the log does not start: {error}")))?;
    tracing::info!(config = from, "leafd {}", env!("CARGO_PKG_VERSION"));
    let now_ms = Clock::system().now_ms();
    if let Some(why) = config.no_snowflakes_at(now_ms) {
        tracing::error!("no snowflake IDs: {why}");
    }
    for warning in config.warnings(now_ms) {
        tracing::warn!("{warning}");
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::system("cannot start", &error))?;
    let outcome = runtime.block_on(run(path, &loaded, inherited, manager, log));
    // A name that is being resolved has a thread of its own, which nobody can stop.
    runtime.shutdown_background();
    outcome
}

/// What runs, from the inside out.
struct Daemon {
    segments: Segments,
    snowflake: Snowflake,
    /// A task has broken down that leafd cannot do without.
    fatal: CancellationToken,
    state: StateDir,
}

async fn run(
    path: Option<&Path>,
    loaded: &Loaded,
    inherited: Inherited,
    manager: &Manager,
    log: log::Handle,
) -> Result<(), Failure> {
    let config = &loaded.config;
    // Before anything is worth stopping in good order.
    let mut terminate = signal(SignalKind::terminate())
        .map_err(|error| Failure::system("cannot listen for SIGTERM", &error))?;
    let mut interrupt = signal(SignalKind::interrupt())
        .map_err(|error| Failure::system("cannot listen for SIGINT", &error))?;
    let mut hang_up = signal(SignalKind::hangup())
        .map_err(|error| Failure::system("cannot listen for SIGHUP", &error))?;
    // Scripts for other daemons send these, and their default is to kill. Once somebody has listened
    // for a signal, it has no effect any more.
    for unused in [SignalKind::user_defined1(), SignalKind::user_defined2()] {
        drop(signal(unused).map_err(|error| Failure::system("cannot ignore SIGUSR1", &error))?);
    }
    let terms = terms(config)?;
    let socket = listen(config, inherited.local)?;
    let daemon = match build(config, inherited.peer).await {
        Ok(daemon) => daemon,
        Err(failure) => {
            socket.remove();
            return Err(failure);
        }
    };
    let listener = socket.listener.try_clone();
    let listener = listener
        .and_then(|listener| watched(listener, Interest::READABLE))
        .map_err(|error| Failure::system("cannot listen", &error))?;
    let serving = Serving::start(&daemon.fatal)
        .map_err(|error| Failure::system("cannot start a thread", &error))?;
    let service = Arc::new(Service::new(
        daemon.segments.clone(),
        daemon.snowflake.issuer.clone(),
        daemon.snowflake.workers.clone(),
        Clock::system(),
        terms,
        daemon.state.path().display().to_string(),
    ));
    let mut reloader = Reloader::new(path, loaded, log, &service, &daemon.segments);
    let stop = CancellationToken::new();
    let connections = TaskTracker::new();
    let mut accepting = tokio::spawn(accept(
        listener,
        Arc::clone(&service),
        serving.handle().clone(),
        connections.clone(),
        stop.clone(),
    ));
    let probe = serving.probe();
    if !probe.has_run_a_task().await {
        return Err(Failure::software("the thread that serves does not run"));
    }
    say_ready(socket.path.as_deref(), daemon.state.path(), config);
    manager.ready(&words::status(&service.status()));
    let reporting =
        manager.is_there().then(|| tokio::spawn(report(manager.clone(), Arc::clone(&service))));
    // To the very end, which may hang as well.
    if let Some(interval) = watchdog::interval_of_environment() {
        tokio::spawn(watchdog::run(manager.clone(), probe, interval));
    }

    let reloading = tokio::spawn({
        let manager = manager.clone();
        async move {
            while hang_up.recv().await.is_some() {
                reloader.reload(&manager).await;
            }
        }
    });

    let broken = tokio::select! {
        _ = terminate.recv() => false,
        _ = interrupt.recv() => false,
        () = daemon.fatal.cancelled() => true,
        // It goes on until it is told to stop, unless it panics.
        _ = &mut accepting => true,
    };
    reloading.abort();
    if broken {
        // The state on disk is right at any moment; an orderly end cannot be relied on.
        socket.remove();
        return Err(Failure::software("ended by a defect, see the log; start leafd again"));
    }
    tracing::info!("stopping");
    if let Some(reporting) = reporting {
        reporting.abort();
    }
    manager.stopping("Stopping: requests under way are answered, and the state is written");
    let orderly = async {
        // First out of the way, so that whoever connects again meets the successor.
        socket.remove();
        stop.cancel();
        let _ = accepting.await;
        connections.close();
        if tokio::time::timeout(config.shutdown.grace, connections.wait()).await.is_err() {
            tracing::warn!(open = connections.len(), "connections did not end in time");
        }
        let segments = daemon.segments.close(config.shutdown.grace).await;
        let snowflake = daemon.snowflake.close().await;
        segments.and(snowflake)
    };
    // A disk or a store that hangs must not hold up the end.
    let limit = config.shutdown.grace * 2 + LAST_WRITE;
    let outcome = tokio::time::timeout(limit, orderly).await;
    let outcome = outcome.unwrap_or_else(|_| Err("the disk or the store has not answered".into()));
    outcome.map_err(|error| {
        Failure::state("the last state could not be written; nothing will be repeated", &error)
    })?;
    tracing::info!("stopped");
    Ok(())
}

/// The service manager's socket, or one of our own.
fn listen(config: &Config, inherited: Option<UnixListener>) -> Result<Socket, Failure> {
    let Some(listener) = inherited else {
        let (mode, group) = (config.socket.mode, config.socket.group.as_deref());
        return Ok(Socket::bind(&paths::socket(config), mode, group)?);
    };
    let socket = Socket::inherited(listener);
    if let Some(path) = config.socket.path.as_ref().filter(|path| !socket.is_at(path)) {
        tracing::warn!(
            socket = %socket.path.as_deref().unwrap_or(Path::new("one without a path")).display(),
            "the service manager passes a socket, and socket.path, {}, is not used; change \
             ListenStream= of the socket unit",
            path.display()
        );
    }
    Ok(socket)
}

async fn build(config: &Config, peer: Option<TcpListener>) -> Result<Daemon, Failure> {
    let state = StateDir::lock(&paths::state_dir(config))?.with_inodes(inodes(config));
    // Before the directory is touched: a wrong configuration changes nothing.
    let location = config.store_location()?;
    paths::check_certificates(&location)?;
    let password = paths::store_password(config)?;
    let here = owner(config, &location);
    if here.is_anonymous() {
        tracing::warn!(
            "this machine has no ID, so a copy of its state directory would not be recognised; \
             set state.machine-id or worker.identity"
        );
    }
    let Contents { journal, journal_is_whole, worker, generation, base, warnings, notes } =
        state.open(&here, foreign_policy(config, &location))?;
    for warning in warnings {
        tracing::error!("state directory {}: {warning}", state.path().display());
    }
    for note in notes {
        tracing::info!("state directory {}: {note}", state.path().display());
    }
    warn_of_blind_spots(config, &state)?;
    let mut remembered = journal.tags().clone();
    // Only who knows all that was ever leased knows that it was nothing.
    let nothing_leased = journal_is_whole && remembered.is_empty() && base == 0;
    let fatal = CancellationToken::new();
    let writer = Writer::start(state.place(), generation, journal, &fatal)
        .map_err(|error| Failure::system("cannot start a thread", &error))?;
    writer.log_leases_to(LeaseLog::new(state.path(), &here.machine, &here.identity, &here.store));
    let recorded = state.database(&here.store)?;
    if recorded.is_none() && !nothing_leased {
        tracing::error!("database.properties is damaged; the IDs that were left are given up");
        give_up(&mut remembered, &writer).await.map_err(not_given_up)?;
    }
    // Where nothing was leased, any database will do.
    let recorded = recorded.filter(|_| !nothing_leased).unwrap_or_default();
    let recorder = InState { writer: writer.clone(), place: here.store.clone() };
    let guard = Guard::new(recorded, Arc::new(recorder));
    let is_embedded = location.is_embedded();
    let source = source(config, location, password, nothing_leased);
    let store = store::open(source, Arc::clone(&guard))
        .map_err(|error| Failure::config(format!("the store: {error}")))?;
    if is_embedded {
        if guard.recorded().identity.is_none() {
            forget_origin(&paths::database(config), &mut remembered, &writer).await?;
        }
        look_at(&*store, &guard, &paths::database(config), &mut remembered, &writer).await?;
    }
    let segments =
        Segments::start(segment_settings(config, base), store, writer.clone(), &remembered, &fatal);
    let snowflake = Snowflake::start(config, &worker, peer, writer, &fatal)?;
    Ok(Daemon { segments, snowflake, fatal, state })
}

/// Nobody recorded which embedded database the ranges come from, as with state of leafd 0.1.0: they
/// are given up before the one that is there now is recorded. Where there is none, nobody else can
/// have them.
async fn forget_origin(
    path: &Path,
    remembered: &mut HashMap<BizTag, TagRecord>,
    writer: &Writer,
) -> Result<(), Failure> {
    let is_there = std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() > 0);
    if !is_there || remembered.values().all(|record| record.left.total() == 0) {
        return Ok(());
    }
    let dropped = give_up(remembered, writer).await.map_err(not_given_up)?;
    tracing::info!(
        dropped,
        "nobody recorded which database the leased ranges come from, as in state of earlier versions; they \
         are given up once, and tags go on above them"
    );
    Ok(())
}

/// Looks at the embedded database before anything that was leased is issued: those IDs may be
/// another one's.
async fn look_at(
    store: &dyn Store,
    guard: &Guard,
    path: &Path,
    remembered: &mut HashMap<BizTag, TagRecord>,
    writer: &Writer,
) -> Result<(), Failure> {
    let Err(error) = store.probe().await else { return Ok(()) };
    match guard.unusable() {
        Some(why @ Unusable::Copied { .. }) => {
            Err(Failure::config(format!("the store, {}: {why}", store.describe())))
        }
        Some(why @ Unusable::Other { .. }) => {
            let dropped = give_up(remembered, writer).await.map_err(not_given_up)?;
            report_other(&why, dropped);
            guard.use_other().await.map_err(not_given_up)
        }
        None if may_be_another(path, guard.recorded().file) => {
            let dropped = give_up(remembered, writer).await.map_err(not_given_up)?;
            tracing::error!(
                dropped,
                "{} is another file than the recorded one, and cannot be opened; the IDs that \
                 were left are given up: {error}",
                path.display()
            );
            Ok(())
        }
        // What was leased is served without it.
        Some(Unusable::Lost { .. } | Unusable::Swapped { .. } | Unusable::NotRecorded(_))
        | None => Ok(()),
    }
}

fn not_given_up(error: String) -> Failure {
    Failure::state("what was left of another database's IDs cannot be given up", &error)
}

/// Whose state this is when it is this host's.
pub(super) fn owner(config: &Config, store: &Location) -> Owner {
    let identity = config.worker.identity.as_deref().unwrap_or_default();
    let shared = store.address().map(Address::identity);
    Owner::here(config.state.machine_id.as_deref(), identity, shared.as_deref())
}

/// An embedded store is copied together with the directory; a shared one knows of the host that
/// the directory comes from. Of a worker ID that is fixed nobody knows.
fn foreign_policy(config: &Config, store: &Location) -> ForeignPolicy {
    if store.is_embedded() {
        return ForeignPolicy::Refuse;
    }
    let fixed_worker = match config.worker.registry {
        RegistryKind::Fixed => config.snowflake.enabled.then_some(config.worker.id),
        RegistryKind::ZooKeeper => None,
    };
    ForeignPolicy::SetAside { fixed_worker }
}

/// Where ranges come from.
fn source(
    config: &Config,
    location: Location,
    password: Option<Secret>,
    nothing_leased: bool,
) -> Source {
    let Location::Shared(address) = location else {
        let if_missing = if nothing_leased { IfMissing::Create } else { IfMissing::Refuse };
        return Source::Embedded(embedded(config, if_missing));
    };
    let limits =
        StoreLimits { timeout: config.store.timeout, connections: config.store.max_connections };
    Source::Shared(Shared { address, password, limits })
}

/// Where the embedded store is.
pub(super) fn embedded(config: &Config, if_missing: IfMissing) -> Embedded {
    Embedded {
        path: paths::database(config),
        timeout: config.store.timeout,
        if_missing,
        inodes: inodes(config),
    }
}

/// What tells a restored or copied state directory, or a file in it.
pub(super) fn inodes(config: &Config) -> Inodes {
    if config.state.unstable_inodes { Inodes::Unstable } else { Inodes::Stable }
}

/// Says what is not noticed any more where inode numbers do not count.
fn warn_of_blind_spots(config: &Config, state: &StateDir) -> Result<(), Failure> {
    if config.state.unstable_inodes && !state.has_time()? {
        tracing::warn!(
            "state.unstable-inodes is set, and the file system of {} does not know when files were \
             made: a state directory that is restored or copied is not noticed, and repeats IDs",
            state.path().display()
        );
    }
    Ok(())
}

fn segment_settings(config: &Config, base: u64) -> SegmentSettings {
    let segment = &config.segment;
    SegmentSettings {
        base,
        rules: crate::segment::terms::Rules {
            max_step: segment.max_step,
            max_waiting: segment.max_waiting,
            // What is made on first use is never unknown.
            absent_for: if config.makes_tags() { Duration::ZERO } else { segment.unknown_for },
        },
        auto_create: config.makes_tags(),
        default_step: segment.default_step,
        max_tags: segment.max_tags,
        refresh: segment.refresh,
        store_calls: config.store.max_connections,
    }
}

pub(super) fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// What is needed besides the connections of the socket.
fn other_descriptors(config: &Config) -> u64 {
    let peers = match config.worker.registry {
        RegistryKind::Fixed => 0,
        RegistryKind::ZooKeeper => peer::MAX_CONNECTIONS + MAX_AT_ONCE,
    };
    OTHER_DESCRIPTORS + MAX_LINGERING as u64 + peers as u64
}

/// Every connection needs a descriptor, and the usual soft limit is 1024. Returns how many of
/// socket.max-connections there is room for, so that they never take what the state on disk needs.
pub(super) fn room_for(config: &Config) -> usize {
    let (connections, others) = (config.socket.max_connections, other_descriptors(config));
    let wanted = connections as u64 + others;
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return connections };
    let raised = wanted.min(hard);
    let limit = match soft >= wanted {
        false if setrlimit(Resource::RLIMIT_NOFILE, raised, hard).is_ok() => raised,
        _ => soft,
    };
    let room = limit - others.min(limit / 2);
    let room = usize::try_from(room).unwrap_or(usize::MAX).min(connections);
    if room < connections {
        tracing::warn!(
            connections = room,
            wanted = connections,
            "the limit of open files, {limit}, allows fewer connections than socket.max-connections"
        );
    }
    room
}

fn say_ready(socket: Option<&Path>, state: &Path, config: &Config) {
    let Some(socket) = socket else {
        tracing::info!(state = %state.display(), "ready, on a socket without a path");
        return;
    };
    let search: Vec<_> = std::env::var_os("PATH").iter().flat_map(std::env::split_paths).collect();
    let program = std::env::current_exe().ok();
    // A variable of ours says nothing about the shell of whoever reads the log.
    let ours = std::env::var_os(leaf_client::SOCKET_VARIABLE).is_some();
    let clients_look_at = (!ours).then(leaf_client::default_socket_path);
    let (what, call) = hint::first_call(config);
    let clients_look_at = clients_look_at.as_deref();
    let command = hint::first_command(socket, clients_look_at, &search, program.as_deref(), call);
    tracing::info!(socket = %socket.display(), state = %state.display(), "ready");
    tracing::info!("{what}: {command}");
}
