//! The watchdog: the service manager ends leafd, and starts it again, when it is not petted in
//! time. So it is petted by the loop that watches whether who serves really does.

use std::time::Duration;

use super::Manager;

/// How often the service manager wants to hear from this process (`WATCHDOG_USEC`), if at all.
#[must_use]
pub fn interval_of_environment() -> Option<Duration> {
    sd_notify::watchdog_enabled().filter(|interval| !interval.is_zero())
}

/// Pets every third of `interval`, each time after the thread that serves has run what it was
/// handed: while that hangs, or the runtime that this is called in, nothing is petted. Ends when
/// that thread has ended.
pub async fn run<F>(manager: Manager, has_run_a_task: impl Fn() -> F, interval: Duration)
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
    use crate::transport::unix::serving_thread::ServingThread;

    const PATIENCE: Duration = Duration::from_secs(60);

    async fn petted(listener: &Listener) {
        let began = Instant::now();
        while listener.next().is_none() {
            assert!(began.elapsed() < PATIENCE, "nothing is petted");
            // In the time of the test, which jumps.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn while_the_thread_that_serves_hangs_nothing_is_petted() {
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
        // What was under way before.
        tokio::time::sleep(Duration::from_secs(60)).await;
        while listener.next().is_some() {}
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(listener.next(), None, "petted although nobody serves");

        go_on.send(()).unwrap();
        petted(&listener).await;
        drop(serving);
        petting.await.unwrap();
    }
}
