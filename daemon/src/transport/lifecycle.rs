//! What `app` needs from every transport: to reload it, to watch its thread, and to stop it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use tokio::runtime::Handle;

use crate::config::Config;

/// A transport that serves. Starting one is up to each transport: what it needs differs.
pub(crate) trait Transport: Send + Sync {
    /// Watches the thread that serves.
    fn probe(&self) -> ThreadProbe;

    /// The keys that [`Self::reload`] puts in force, and sections, which end in a dot.
    fn reloaded_keys(&self) -> &'static [&'static str];

    /// Puts the limits of `config`, which was checked, in force for open connections as well. The
    /// policy of the service changes right after this.
    fn reload(&self, config: &Config);

    /// Removes what clients find the transport by, so that one that reconnects meets the successor.
    fn withdraw(&self);

    /// Accepts no more connections, lets those that are open answer what is in flight, and waits for
    /// them, at most for `grace`.
    fn stop(&self, grace: Duration) -> BoxFuture<'_, ()>;
}

/// All transports that serve. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Transports(Arc<[Box<dyn Transport>]>);

impl Transports {
    pub(crate) fn new(transports: Vec<Box<dyn Transport>>) -> Self {
        Self(transports.into())
    }

    pub(crate) fn probe(&self) -> TransportsProbe {
        TransportsProbe(self.0.iter().map(|transport| transport.probe()).collect())
    }

    pub(crate) fn reloaded_keys(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().flat_map(|transport| transport.reloaded_keys()).copied()
    }

    pub(crate) fn reload(&self, config: &Config) {
        self.0.iter().for_each(|transport| transport.reload(config));
    }

    pub(crate) fn withdraw(&self) {
        self.0.iter().for_each(|transport| transport.withdraw());
    }

    /// Stops all of them at the same time.
    pub(crate) async fn stop(&self, grace: Duration) {
        join_all(self.0.iter().map(|transport| transport.stop(grace))).await;
    }
}

/// Tells whether the thread behind a runtime still works. Does not keep the transport alive.
#[derive(Debug, Clone)]
pub(crate) struct ThreadProbe(Handle);

impl ThreadProbe {
    pub(crate) fn new(handle: &Handle) -> Self {
        Self(handle.clone())
    }

    /// Hands the thread a task and waits until it has run, however long that takes. Returns false
    /// if the thread has ended.
    pub(crate) async fn has_run_a_task(&self) -> bool {
        self.0.spawn(async {}).await.is_ok()
    }
}

/// Tells whether the threads of all transports still work.
#[derive(Debug, Clone)]
pub(crate) struct TransportsProbe(Vec<ThreadProbe>);

impl TransportsProbe {
    /// As [`ThreadProbe::has_run_a_task`], for each of them.
    pub(crate) async fn have_run_a_task(&self) -> bool {
        join_all(self.0.iter().map(ThreadProbe::has_run_a_task)).await.into_iter().all(|ran| ran)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::FutureExt;
    use tokio::time::Instant;

    use super::*;

    /// Takes the whole grace to stop, and counts what it is told.
    struct SlowTransport {
        keys: &'static [&'static str],
        reloads: Arc<AtomicUsize>,
        withdrawn: Arc<AtomicUsize>,
    }

    impl Transport for SlowTransport {
        fn probe(&self) -> ThreadProbe {
            ThreadProbe::new(&Handle::current())
        }

        fn reloaded_keys(&self) -> &'static [&'static str] {
            self.keys
        }

        fn reload(&self, _: &Config) {
            self.reloads.fetch_add(1, Ordering::Relaxed);
        }

        fn withdraw(&self) {
            self.withdrawn.fetch_add(1, Ordering::Relaxed);
        }

        fn stop(&self, grace: Duration) -> BoxFuture<'_, ()> {
            tokio::time::sleep(grace).boxed()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn every_transport_is_reloaded_and_withdrawn_and_all_stop_within_one_grace() {
        let (reloads, withdrawn) = (Arc::default(), Arc::default());
        let slow = |keys| -> Box<dyn Transport> {
            let (reloads, withdrawn) = (Arc::clone(&reloads), Arc::clone(&withdrawn));
            Box::new(SlowTransport { keys, reloads, withdrawn })
        };
        let transports = Transports::new(vec![slow(&["one.", "two.a"]), slow(&["three.b"])]);
        assert_eq!(transports.reloaded_keys().collect::<Vec<_>>(), ["one.", "two.a", "three.b"]);
        assert!(transports.probe().have_run_a_task().await);
        transports.reload(&toml::from_str("").unwrap());
        transports.withdraw();
        assert_eq!((reloads.load(Ordering::Relaxed), withdrawn.load(Ordering::Relaxed)), (2, 2));
        let (began, grace) = (Instant::now(), Duration::from_secs(5));
        transports.stop(grace).await;
        assert_eq!(began.elapsed(), grace);
    }

    #[test]
    fn a_probe_tells_that_a_thread_has_ended() {
        let runtime = || tokio::runtime::Builder::new_current_thread().build().unwrap();
        let ended = runtime();
        let probe = TransportsProbe(vec![ThreadProbe::new(ended.handle())]);
        drop(ended);
        assert!(!runtime().block_on(probe.have_run_a_task()));
    }
}
