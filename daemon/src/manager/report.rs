//! Keeps the status up to date.

use std::sync::Arc;
use std::time::Duration;

use super::{Manager, words};
use crate::listen::Service;

/// Between two looks at how leafd is.
const INTERVAL: Duration = Duration::from_secs(2);

/// Tells the service manager how leafd is, whenever that changes.
pub async fn report(manager: Manager, service: Arc<Service>) {
    loop {
        tokio::time::sleep(INTERVAL).await;
        manager.status(&words::status(&service.status()));
    }
}
