//! Keeps the service manager's status line up to date.

use std::sync::Arc;
use std::time::Duration;

use super::{Manager, words};
use crate::service::Service;

/// Shortest interval between two checks of the status.
const INTERVAL: Duration = Duration::from_secs(2);

/// The checks take at most one part in so many of the time, however many tags there are.
const SHARE: u32 = 100;

/// Reports the status to the service manager whenever it changes.
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
