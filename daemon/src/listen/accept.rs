//! Takes connections within bounds. Nothing that goes wrong with one of them, or with the process'
//! descriptors, ends the loop.

use std::io::Write;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::Handle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Service;
use super::admission::Visitor;
use super::connection::Connection;
use super::hello::{no_room, not_let_in};

/// How long to rest when the operating system has no descriptor left.
pub(super) const REST: Duration = Duration::from_millis(50);

/// The same trouble is told once in so long.
const QUIET: Duration = Duration::from_secs(30);

/// Accepts until `stop`, and then has the connections say goodbye; every connection is a task of
/// `tasks` on the runtime `serving`. Itself it needs a runtime with timers.
pub async fn accept(
    listener: AsyncFd<UnixListener>,
    service: Arc<Service>,
    serving: Handle,
    tasks: TaskTracker,
    stop: CancellationToken,
) {
    let watching = tokio::spawn(watch(Arc::clone(&service), stop.clone()));
    // Connections need it to the last, so it ends with the thread that serves.
    let rounds = Arc::clone(&service);
    let mut rounds = serving.spawn(async move { rounds.turns.run().await });
    tokio::select! {
        () = accept_all(&listener, &service, &serving, &tasks, &stop) => {}
        // By a defect. Nobody would be served any more, so this ends the daemon.
        _ = &mut rounds => return,
    }
    service.pulses.stop();
    let _ = watching.await;
}

/// Wakes connections whose time has come.
async fn watch(service: Arc<Service>, stop: CancellationToken) {
    let interval = || {
        let limits = service.terms.get().terms.limits;
        let shortest = limits.idle_timeout.min(limits.request_timeout).min(limits.write_timeout);
        // Precise enough for limits that are there to get rid of somebody.
        (shortest / 4).clamp(Duration::from_millis(25), Duration::from_secs(1))
    };
    service.pulses.clone().watch(interval, stop).await;
}

/// Keeps the log from being filled by whoever connects.
#[derive(Debug, Default)]
pub(super) struct Seldom {
    told: Option<Instant>,
}

impl Seldom {
    /// Whether to tell, which is then taken as done.
    pub(super) fn may_tell(&mut self) -> bool {
        let quiet = self.told.is_some_and(|told| told.elapsed() < QUIET);
        if !quiet {
            self.told = Some(Instant::now());
        }
        !quiet
    }
}

async fn accept_all(
    listener: &AsyncFd<UnixListener>,
    service: &Arc<Service>,
    serving: &Handle,
    tasks: &TaskTracker,
    stop: &CancellationToken,
) {
    let mut log = Seldom::default();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.async_io(Interest::READABLE, UnixListener::accept) => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                if log.may_tell() {
                    tracing::warn!("cannot accept a connection, going on: {error}");
                }
                tokio::time::sleep(REST).await;
                continue;
            }
        };
        let limits = service.terms.get().terms.limits;
        let limit = limits.max_connections;
        if service.pulses.count() >= limit {
            if log.may_tell() {
                tracing::warn!(limit, "refusing connections (socket.max-connections)");
            }
            refuse(service, stream, &no_room(limit, "socket.max-connections"));
            continue;
        }
        let visitor = match Visitor::admit(service, &stream) {
            Ok(visitor) => visitor,
            Err(refused) => {
                refuse(service, stream, &not_let_in(refused));
                continue;
            }
        };
        // Counted from here on.
        let listed = service.pulses.add(Instant::now() + limits.request_timeout);
        let service = Arc::clone(service);
        let serve = async move {
            // In here, since it belongs to the runtime that serves.
            match Connection::new(stream, listed, visitor, service) {
                Ok(connection) => connection.serve().await,
                Err(error) => tracing::warn!("cannot serve a connection: {error}"),
            }
        };
        tasks.spawn_on(serve, serving);
    }
}

fn refuse(service: &Service, mut stream: UnixStream, why: &[u8]) {
    // A new socket has room for it; if not, the close says enough.
    let told = stream.set_nonblocking(true).and_then(|()| stream.write_all(why));
    if told.is_ok() {
        service.lingering.end(stream);
    }
}
