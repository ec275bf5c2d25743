//! Runs essential tasks. If one of them panics, which only a defect can cause, leafd exits and the
//! service manager restarts it. That costs a window of IDs; going on without the task would leave a
//! daemon that looks alive and is not.

use std::future::Future;

use tokio_util::sync::CancellationToken;

/// Spawns `task`. If it panics, `fatal` is cancelled.
pub(crate) fn spawn(
    name: &'static str,
    fatal: &CancellationToken,
    task: impl Future<Output = ()> + Send + 'static,
) {
    let fatal = fatal.clone();
    let task = tokio::spawn(task);
    tokio::spawn(async move {
        if task.await.is_err_and(|error| error.is_panic()) {
            tracing::error!(task = name, "an essential task has panicked; leafd stops");
            fatal.cancel();
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_fatal_and_a_normal_end_is_not() {
        let fatal = CancellationToken::new();
        spawn("ends", &fatal, async {});
        tokio::task::yield_now().await;
        assert!(!fatal.is_cancelled());
        spawn("panics", &fatal, async { panic!("as a test") });
        fatal.cancelled().await;
    }
}
