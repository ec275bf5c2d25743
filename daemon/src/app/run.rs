//! Runs the daemon until leafd is told to stop.

use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;

use tokio::io::Interest;
use tokio::signal::unix::Signal;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::build::{Daemon, build};
use super::failure::Failure;
use super::ready::say_ready;
use super::reload::{Reloader, terms};
use super::stop::{Accepting, stop};
use super::{paths, signals};
use crate::clock::Clock;
use crate::config::{Config, Loaded};
use crate::log;
use crate::manager::{Manager, report, watchdog, words};
use crate::service::Service;
use crate::service::terms::Terms;
use crate::transport::inherited::Inherited;
use crate::transport::unix::accept::accept;
use crate::transport::unix::serving::Serving;
use crate::transport::unix::socket::Socket;
use crate::transport::unix::watched::watched;

/// Builds, serves, and stops.
pub(super) async fn run(
    path: Option<&Path>,
    loaded: &Loaded,
    inherited: Inherited,
    manager: &Manager,
    log: log::Handle,
) -> Result<(), Failure> {
    let config = &loaded.config;
    let (mut ending, hang_up) = signals::listen()?;
    let terms = terms(config)?;
    let socket = listen(config, inherited.local)?;
    let daemon = match build(config, inherited.peer).await {
        Ok(daemon) => daemon,
        Err(failure) => {
            socket.remove();
            return Err(failure);
        }
    };
    let serving = Serving::start(&daemon.fatal)
        .map_err(|error| Failure::system("cannot start a thread", &error))?;
    let service = Arc::new(serve_from(&daemon, terms));
    let reloader = Reloader::new(path, loaded, log, &service, &daemon.segments);
    let mut accepting = begin_to_accept(socket, &service, &serving)?;
    let probe = serving.probe();
    if !probe.has_run_a_task().await {
        return Err(Failure::software("the thread that serves does not run"));
    }
    say_ready(accepting.socket.path.as_deref(), daemon.state.path(), config);
    manager.ready(&words::status(&service.status()));
    let reporting =
        manager.is_there().then(|| tokio::spawn(report(manager.clone(), Arc::clone(&service))));
    // The watchdog runs to the very end, because stopping may hang as well.
    if let Some(interval) = watchdog::interval_of_environment() {
        let probe = move || {
            let probe = probe.clone();
            async move { probe.has_run_a_task().await }
        };
        tokio::spawn(watchdog::run(manager.clone(), probe, interval));
    }
    let reloading = tokio::spawn(reload_when_asked(reloader, hang_up, manager.clone()));
    let broken = tokio::select! {
        () = ending.received() => false,
        () = daemon.fatal.cancelled() => true,
        _ = &mut accepting.task => true,
    };
    reloading.abort();
    if broken {
        // Do not rely on a clean stop after a defect; the state on disk is right at any moment.
        accepting.socket.remove();
        return Err(Failure::software("ended by a defect, see the log; start leafd again"));
    }
    tracing::info!("stopping");
    if let Some(reporting) = reporting {
        reporting.abort();
    }
    manager.stopping("Stopping: requests under way are answered, and the state is written");
    stop(daemon, accepting, config.shutdown.grace).await?;
    tracing::info!("stopped");
    Ok(())
}

/// The socket that the service manager has passed, or else leafd's own.
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

/// The service that answers every caller.
fn serve_from(daemon: &Daemon, terms: Terms) -> Service {
    Service::new(
        daemon.segments.clone(),
        daemon.snowflake.issuer.clone(),
        daemon.snowflake.workers.clone(),
        Clock::system(),
        terms,
        daemon.state.path().display().to_string(),
    )
}

fn begin_to_accept(
    socket: Socket,
    service: &Arc<Service>,
    serving: &Serving,
) -> Result<Accepting, Failure> {
    let listener = socket.listener.try_clone();
    let listener = listener
        .and_then(|listener| watched(listener, Interest::READABLE))
        .map_err(|error| Failure::system("cannot listen", &error))?;
    let (connections, stop) = (TaskTracker::new(), CancellationToken::new());
    let task = tokio::spawn(accept(
        listener,
        Arc::clone(service),
        serving.handle().clone(),
        connections.clone(),
        stop.clone(),
    ));
    Ok(Accepting { socket, task, connections, stop })
}

async fn reload_when_asked(mut reloader: Reloader, mut hang_up: Signal, manager: Manager) {
    while hang_up.recv().await.is_some() {
        reloader.reload(&manager).await;
    }
}
