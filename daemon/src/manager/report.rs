//! Keeps the status up to date.

use std::sync::Arc;
use std::time::Duration;

use super::{Manager, words};
use crate::service::Service;

/// Between two looks at how leafd is.
const INTERVAL: Duration = Duration::from_secs(2);

/// Looking takes at most one part in so many of the time, with however many tags.
const SHARE: u32 = 100;

/// Tells the service manager how leafd is, whenever that changes.
pub(crate) async fn report(manager: Manager, service: Arc<Service>) {
    let mut pause = INTERVAL;
    loop {
        tokio::time::sleep(pause).await;
        let environment = &service.environment;
        let began = environment.now();
        manager.status(&words::status(&service.status_in_turns().await));
        pause = INTERVAL.max(environment.since(began) * SHARE);
    }
}
