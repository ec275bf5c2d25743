//! Tasks that leafd cannot do without. When one of them panics, which only a defect can cause,
//! leafd ends and is started again: nothing is lost by that but a window of IDs, whereas going on
//! without the task would be a daemon that looks alive and is not.

use std::future::Future;

use tokio_util::sync::CancellationToken;

/// Runs `task`; its panic cancels `fatal`.
pub fn spawn(
    name: &'static str,
    fatal: &CancellationToken,
    task: impl Future<Output = ()> + Send + 'static,
) {
    let fatal = fatal.clone();
    let task = tokio::spawn(task);
    tokio::spawn(async move {
        if task.await.is_err_and(|error| error.is_panic()) {
            tracing::error!(task = name, "a task that leafd cannot do without has panicked");
            fatal.cancel();
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_fatal_and_an_end_is_not() {
        let fatal = CancellationToken::new();
        spawn("ends", &fatal, async {});
        tokio::task::yield_now().await;
        assert!(!fatal.is_cancelled());
        spawn("panics", &fatal, async { panic!("as a test") });
        fatal.cancelled().await;
    }
}
