//! What the connections of the HTTP server share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::forms::SnowflakeForms;
use super::limits::HttpLimits;
use super::roster::Roster;
use super::watchers::Watchers;
use super::wrong_tokens::WrongTokens;
use crate::environment::Environment;
use crate::metrics::{HttpFigures, Metrics};
use crate::service::Service;
use crate::tally::Count;
use crate::transport::lifecycle::ThreadProbe;

/// How long the thread of the Unix socket may take to answer a probe.
const PROBE_LIMIT: Duration = Duration::from_secs(2);

/// What every connection works with.
pub(super) struct HttpServer {
    pub(super) service: Arc<Service>,
    pub(super) clock: HttpClock,
    pub(super) roster: Roster,
    pub(super) wrong_tokens: WrongTokens,
    /// Requests and connections that found all connections busy.
    pub(super) busy: Count,
    pub(super) watchers: Watchers,
    /// Cancelled when leafd stops: answers that go on and on end then.
    pub(super) stopping: CancellationToken,
    /// Whether that is so. A load costs less than a look at the token.
    is_stopping: AtomicBool,
    pub(super) snowflakes: SnowflakeForms,
    pub(super) metrics: Arc<Metrics>,
    limits: RwLock<Arc<HttpLimits>>,
    applications: SocketProbe,
}

/// The time since the server's start.
#[derive(Debug, Clone)]
pub(super) struct HttpClock {
    environment: Environment,
    started: Instant,
}

impl HttpClock {
    pub(super) fn now(&self) -> Instant {
        self.environment.now()
    }

    pub(super) fn ms(&self) -> u64 {
        self.ms_at(self.now())
    }

    /// `now` in ms of this clock.
    pub(super) fn ms_at(&self, now: Instant) -> u64 {
        let since = now.saturating_duration_since(self.started);
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    /// `ms` of this clock as an instant.
    pub(super) fn at(&self, ms: u64) -> Instant {
        self.started + Duration::from_millis(ms.min(u64::from(u32::MAX) * 1000))
    }
}

/// Tells whether the thread of the applications' socket works. However many ask, it gets one task at
/// a time.
struct SocketProbe {
    thread: ThreadProbe,
    running: Mutex<Option<Shared<BoxFuture<'static, bool>>>>,
}

impl SocketProbe {
    fn ask(&self) -> Shared<BoxFuture<'static, bool>> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        match running.as_ref().filter(|asked| asked.peek().is_none()) {
            Some(asked) => asked.clone(),
            None => {
                let thread = self.thread.clone();
                let asked = async move { thread.has_run_a_task().await }.boxed().shared();
                running.insert(asked).clone()
            }
        }
    }
}

impl HttpServer {
    pub(super) fn new(
        service: Arc<Service>,
        limits: HttpLimits,
        applications: ThreadProbe,
        snowflakes: SnowflakeForms,
        metrics: Arc<Metrics>,
    ) -> Self {
        let environment = service.environment.clone();
        let started = environment.now();
        Self {
            service,
            clock: HttpClock { environment, started },
            roster: Roster::default(),
            wrong_tokens: WrongTokens::new(started),
            busy: Count::default(),
            watchers: Watchers::default(),
            stopping: CancellationToken::new(),
            is_stopping: AtomicBool::new(false),
            snowflakes,
            metrics,
            limits: RwLock::new(Arc::new(limits)),
            applications: SocketProbe { thread: applications, running: Mutex::default() },
        }
    }

    pub(super) fn limits(&self) -> Arc<HttpLimits> {
        Arc::clone(&self.limits.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// What the server has counted, for the metrics.
    pub(super) fn figures(&self) -> HttpFigures {
        let (usual, reserve) = self.roster.count();
        HttpFigures {
            connections: (usual + reserve) as u64,
            max_connections: self.limits().max_connections as u64,
            refused: [
                ("token", self.wrong_tokens.unknown.get()),
                ("throttled", self.wrong_tokens.throttled.get()),
                ("busy", self.busy.get()),
            ],
        }
    }

    /// Makes the connections end.
    pub(super) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Release);
        self.stopping.cancel();
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    pub(super) fn change_limits(&self, limits: HttpLimits) {
        *self.limits.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(limits);
    }

    /// Whether the thread that serves the applications works. Call this on a thread with timers.
    pub(super) fn applications_are_served(&self) -> impl Future<Output = bool> + Send + use<> {
        let asked = self.applications.ask();
        async move { timeout(PROBE_LIMIT, asked).await.unwrap_or(false) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn many_that_ask_give_the_thread_one_task() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let thread = ThreadProbe::new(runtime.handle());
        let probe = SocketProbe { thread, running: Mutex::default() };
        let asked: Vec<_> = (0..100).map(|_| probe.ask()).collect();
        assert!(asked.iter().all(|one| one.ptr_eq(&asked[0])));
        // The thread does nothing, as if it hung.
        assert!(timeout(PROBE_LIMIT, probe.ask()).await.is_err());
        std::thread::spawn(move || drop(runtime)).join().unwrap();
        assert!(!probe.ask().await, "the thread has ended");
    }
}
