//! Runs the daemon until leafd is told to stop.

use std::io;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;

use tokio::signal::unix::Signal;

use super::build::{Daemon, build};
use super::descriptors::{http_descriptors, other_descriptors};
use super::failure::Failure;
use super::http::HttpPlaces;
use super::ready::say_ready;
use super::reload::{Reloader, policy};
use super::stop::stop;
use super::{http, paths, signals};
use crate::config::{Config, Loaded};
use crate::environment::Environment;
use crate::forecast::Forecasts;
use crate::log;
use crate::manager::{Manager, report, watchdog, words};
use crate::metrics::{Metrics, MetricsSources};
use crate::service::policy::Policy;
use crate::service::{Service, ServiceRooms};
use crate::transport::http::transport::{HttpSockets, HttpTransport};
use crate::transport::inherited::{Inherited, LOCAL, PEER};
use crate::transport::lifecycle::{Transport, Transports};
use crate::transport::unix::socket::{SOCKET_KEYS, Socket};
use crate::transport::unix::transport::UnixTransport;

/// Builds, serves, and stops.
pub(super) async fn run(
    path: Option<&Path>,
    loaded: &Loaded,
    mut inherited: Inherited,
    manager: &Manager,
    log: log::Handle,
    environment: Environment,
) -> Result<(), Failure> {
    let config = &loaded.config;
    let (mut ending, hang_up) = signals::listen()?;
    let policy = policy(config)?;
    let socket = listen(config, inherited.take_unix(&LOCAL))?;
    let built = match http::listen(config, &mut inherited) {
        Ok(http) => build(config, inherited.take_tcp(&PEER), &environment)
            .await
            .inspect_err(|_| http.remove())
            .map(|daemon| (daemon, http)),
        Err(failure) => Err(failure),
    };
    let (daemon, http) = built.inspect_err(|_| socket.remove())?;
    let http_places = HttpPlaces::of(&http, config, &policy.access);
    let service = Arc::new(serve_from(&daemon, config, environment, policy));
    let socket_path = socket.path.clone();
    let transports = serve(socket, http, config, &service, &daemon)?;
    let reloader = Reloader::new(path, loaded, log, &service, &daemon.segments, &transports);
    let probe = transports.probe();
    if !probe.have_run_a_task().await {
        return Err(Failure::software("the thread that serves does not run"));
    }
    say_ready(socket_path.as_deref(), daemon.state.path(), config);
    http_places.tell(config);
    manager.ready(&words::status(&service.status()));
    let reporting =
        manager.is_there().then(|| tokio::spawn(report(manager.clone(), Arc::clone(&service))));
    // The watchdog runs to the very end, because stopping may hang as well.
    if let Some(interval) = watchdog::interval_of_environment() {
        let probe = move || {
            let probe = probe.clone();
            async move { probe.have_run_a_task().await }
        };
        tokio::spawn(watchdog::run(manager.clone(), probe, interval));
    }
    let reloading = tokio::spawn(reload_when_asked(reloader, hang_up, manager.clone()));
    let broken = tokio::select! {
        () = ending.received() => false,
        () = daemon.fatal.cancelled() => true,
    };
    reloading.abort();
    // Once it has ended, nothing else holds the transports, so they end with this function.
    let _ = reloading.await;
    if broken {
        // Do not rely on a clean stop after a defect; the state on disk is right at any moment.
        transports.withdraw();
        return Err(Failure::software("ended by a defect, see the log; start leafd again"));
    }
    tracing::info!("stopping");
    if let Some(reporting) = reporting {
        reporting.abort();
    }
    manager.stopping("Stopping: requests under way are answered, and the state is written");
    stop(daemon, &transports, config.shutdown.grace).await?;
    tracing::info!("stopped");
    Ok(())
}

/// The socket that the service manager has passed, or else leafd's own.
fn listen(config: &Config, inherited: Option<UnixListener>) -> Result<Socket, Failure> {
    let Some(listener) = inherited else {
        let (mode, group) = (config.socket.mode, config.socket.group.as_deref());
        return Ok(Socket::bind(&paths::socket(config), mode, group, SOCKET_KEYS)?);
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

/// The service that answers every caller.
fn serve_from(
    daemon: &Daemon,
    config: &Config,
    environment: Environment,
    policy: Policy,
) -> Service {
    let snowflake = &config.snowflake;
    let layout_end_ms = snowflake.enabled.then(|| snowflake.layout.end_ms());
    let rooms = ServiceRooms {
        segments: daemon.segments.clone(),
        issuer: daemon.snowflake.issuer.clone(),
        workers: daemon.snowflake.workers.clone(),
        lending: daemon.lending.clone(),
        forecasts: Forecasts::new(daemon.rates.rates(), environment.clone(), layout_end_ms),
    };
    Service::new(rooms, environment, policy, daemon.state.path().display().to_string())
}

/// Starts every transport.
fn serve(
    socket: Socket,
    http: HttpSockets,
    config: &Config,
    service: &Arc<Service>,
    daemon: &Daemon,
) -> Result<Transports, Failure> {
    let others = other_descriptors(config);
    let beside = others + http_descriptors(config, http.is_on());
    let unix = UnixTransport::start(socket, config, beside, service, &daemon.fatal);
    let unix = transport("the Unix socket", unix)?;
    let applications = unix.probe();
    let mut transports = vec![unix];
    if http.is_on() {
        let (metrics, fatal) = (metrics_of(daemon, service, config), &daemon.fatal);
        let http =
            HttpTransport::start(http, config, others, service, applications, metrics, fatal);
        transports.push(transport("HTTP", http)?);
    }
    Ok(Transports::new(transports))
}

fn metrics_of(daemon: &Daemon, service: &Arc<Service>, config: &Config) -> Metrics {
    let (snowflake, worker) = (&config.snowflake, &config.worker);
    let sources = MetricsSources {
        service: Arc::clone(service),
        segments: daemon.segments.clone(),
        issuer: daemon.snowflake.issuer.clone(),
        writes: Arc::clone(&daemon.writes),
        environment: service.environment.clone(),
        layout: snowflake.enabled.then_some(snowflake.layout),
        fence_after: worker.registry.has_claims().then_some(worker.fence_after),
        starts: daemon.starts,
    };
    Metrics::new(sources, daemon.rates.rates())
}

/// A transport that has started. `name` is for the error.
fn transport(
    name: &str,
    started: io::Result<impl Transport + 'static>,
) -> Result<Box<dyn Transport>, Failure> {
    let started = started
        .map_err(|error| Failure::system(&format!("cannot start to serve {name}"), &error))?;
    Ok(Box::new(started))
}

async fn reload_when_asked(mut reloader: Reloader, mut hang_up: Signal, manager: Manager) {
    while hang_up.recv().await.is_some() {
        reloader.reload(&manager).await;
    }
}
