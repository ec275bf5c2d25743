//! The watchdog: if leafd does not pet it in time, the service manager restarts leafd. leafd
//! therefore pets it only after it has checked that the serving thread works.

use std::time::Duration;

use super::Manager;

/// How often the service manager expects this process to pet the watchdog (`WATCHDOG_USEC`), if it
/// does.
#[must_use]
pub(crate) fn interval_of_environment() -> Option<Duration> {
    sd_notify::watchdog_enabled().filter(|interval| !interval.is_zero())
}

/// Pets the watchdog every third of `interval`, each time after the serving thread has run a task.
/// If that thread hangs, or the runtime that runs this, the watchdog is not petted. Returns when
/// the serving thread has ended.
pub(crate) async fn run<F>(manager: Manager, has_run_a_task: impl Fn() -> F, interval: Duration)
where
    F: Future<Output = bool>,
{
    while has_run_a_task().await {
        manager.pet();
        tokio::time::sleep(interval / 3).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Instant;

    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::manager::tests::Listener;
    use crate::transport::lifecycle::ThreadProbe;
    use crate::transport::serving_thread::ServingThread;

    const PATIENCE: Duration = Duration::from_secs(60);

    async fn petted(listener: &Listener) {
        let began = Instant::now();
        while listener.next().is_none() {
            assert!(began.elapsed() < PATIENCE, "the watchdog is not petted");
            // The test's paused clock jumps over this.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn while_the_serving_thread_hangs_the_watchdog_is_not_petted() {
        let serving = ServingThread::start(&CancellationToken::new()).unwrap();
        let (listener, manager) = Listener::new();
        let probe = ThreadProbe::new(serving.handle());
        let has_run_a_task = move || {
            let probe = probe.clone();
            async move { probe.has_run_a_task().await }
        };
        let petting = tokio::spawn(run(manager, has_run_a_task, Duration::from_secs(10)));
        petted(&listener).await;
        petted(&listener).await;

        let (has_begun, begun) = mpsc::channel();
        let (go_on, wait) = mpsc::channel::<()>();
        serving.handle().spawn(async move {
            has_begun.send(()).unwrap();
            let _ = wait.recv();
        });
        begun.recv_timeout(PATIENCE).unwrap();
        // Discard what was in flight before.
        tokio::time::sleep(Duration::from_secs(60)).await;
        while listener.next().is_some() {}
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(listener.next(), None, "petted although the serving thread hangs");

        go_on.send(()).unwrap();
        petted(&listener).await;
        drop(serving);
        petting.await.unwrap();
    }
}
