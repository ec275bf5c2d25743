//! Whoever watches the daemon: the status and the tags of this host, again and again, and the workers of
//! the fleet now and then. A rule grants it apart from administration, since it changes nothing.

use std::sync::Arc;

use leaf_client::wire::{DaemonStatus, MAX_WORKERS_PER_PAGE, WireError, WorkerStatus};
use tokio::runtime::Handle;

use super::in_flight::in_background;
use super::policy::KnownPolicy;
use super::shared::Service;
pub(crate) use crate::segment::search::{FoundTag, FoundTags, TagOrder, TagSearch};

/// Workers that a viewer sees. A layout has 1024 of them, as a rule.
const MOST_WORKERS: usize = 1024;

/// A caller that may watch, as long as the policy stays the same.
pub(crate) struct Viewer {
    service: Arc<Service>,
    known: KnownPolicy,
}

impl Viewer {
    /// `known` is the policy that allows it.
    pub(super) const fn new(service: Arc<Service>, known: KnownPolicy) -> Self {
        Self { service, known }
    }

    /// Whether the policy is still the one that allowed this. If not, the caller has to ask again.
    pub(crate) fn may_go_on(&self) -> bool {
        self.service.policy.is(&self.known)
    }

    pub(crate) async fn status(&self) -> DaemonStatus {
        self.service.status_in_turns().await
    }

    /// Tags that this host has used.
    pub(crate) async fn tags(&self, search: &TagSearch) -> FoundTags {
        self.service.segments.search(search).await
    }

    /// The workers of the fleet, as the registry lists them. One page after the other waits for its turn
    /// among the administrative calls.
    ///
    /// # Errors
    /// When the registry keeps no list, or cannot be asked.
    pub(crate) async fn workers(&self) -> Result<Vec<WorkerStatus>, WireError> {
        let service = Arc::clone(&self.service);
        let background: Handle = service.background.clone();
        let listed = in_background(&background, async move {
            let (mut all, mut from) = (Vec::new(), 0);
            while all.len() < MOST_WORKERS {
                let _turn = service.administration.store.acquire().await;
                let page = service.workers.list(from, MAX_WORKERS_PER_PAGE as usize).await?;
                let is_last = page.len() < MAX_WORKERS_PER_PAGE as usize;
                from = page.last().map_or(0, |last| last.worker.saturating_add(1));
                all.extend(page);
                if is_last {
                    break;
                }
            }
            Ok(all)
        });
        listed.await
    }
}
